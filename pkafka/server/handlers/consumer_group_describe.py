"""ConsumerGroupDescribe (key 69, v0): the groups of KIP-848 need KRaft; a broker on ZooKeeper has none to describe."""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from pkafka.server.serving.context import RequestContext


def handle(
    _context: RequestContext[object], request: ConsumerGroupDescribeRequest, _version: int
) -> ConsumerGroupDescribeResponse:
    """Refuse every group; clients then describe it as a classic group."""
    return ConsumerGroupDescribeResponse(
        groups=[
            DescribedGroup(group_id=name, error_code=ErrorCode.UNSUPPORTED_VERSION)
            for name in request.group_ids
        ]
    )
