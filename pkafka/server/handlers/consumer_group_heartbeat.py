"""ConsumerGroupHeartbeat (key 68, v0): the groups of KIP-848 need KRaft; a broker on ZooKeeper refuses them."""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from pkafka.server.serving.context import RequestContext


def handle(
    _context: RequestContext[object], _request: ConsumerGroupHeartbeatRequest, _version: int
) -> ConsumerGroupHeartbeatResponse:
    """Refuse it, as Kafka 3.9 in ZooKeeper mode, which lists the request all the same."""
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
