"""UnregisterBroker (key 64, v0): removes a broker from a KRaft cluster's metadata.

Only clients of other clusters send it.
"""

from pkafka.protocol.schema import Message, int16, int32, string


class UnregisterBrokerRequest(Message, key=64, versions="0", flexible="0+"):
    broker_id: int = int32()


class UnregisterBrokerResponse(Message, key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
