"""PushTelemetry (key 72, v0): metrics of a client (KIP-714)."""

from pkafka.protocol.schema import Message, binary, boolean, int8, int16, int32, uuid


class PushTelemetryRequest(Message, key=72, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = binary()


class PushTelemetryResponse(Message, key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
