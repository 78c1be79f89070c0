"""InitProducerId (key 22, v0-5): gives a producer its id and epoch.

v2 flexible · v3 bumps an epoch it has already (KIP-360) · v4 and v5 new errors only
"""

from pkafka.protocol.schema import Message, int16, int32, int64, string


class InitProducerIdRequest(Message, key=22, versions="0-5", flexible="2+"):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Message, key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
