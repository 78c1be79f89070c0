"""ListClientMetricsResources (key 74, v0): names of client metrics resources (KIP-714)."""

from pkafka.protocol.schema import Message, array, int16, int32, string


class ListClientMetricsResourcesRequest(Message, key=74, versions="0", flexible="0+"):
    """Has no fields of its own."""


class ClientMetricsResource(Message):
    name: str = string()


class ListClientMetricsResourcesResponse(Message, key=74, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_metrics_resources: list[ClientMetricsResource] = array(ClientMetricsResource)
