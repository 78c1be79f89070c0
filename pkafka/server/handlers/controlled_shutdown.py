"""ControlledShutdown (key 7, v0-3): a broker that wants to stop asks the controller to move its leaders away.

v0 has a request header without client id · v2 broker epoch (KIP-380) · v3 flexible
"""

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from pkafka.security.acl import Operation
from pkafka.server.ports.controller_context import ControllerContext
from pkafka.server.security.rights import may_in_cluster


async def handle(
    ctx: ControllerContext, request: ControlledShutdownRequest, version: int
) -> ControlledShutdownResponse:
    """Move what can be moved, and say which partitions the broker still leads."""
    if not may_in_cluster(ctx.rights, Operation.CLUSTER_ACTION):
        return ControlledShutdownResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        remaining = await ctx.run(
            lambda: ctx.controller.office().release_broker(request.broker_id, request.broker_epoch)
        )
    except ApiError as error:
        return ControlledShutdownResponse(error_code=error.code)
    except StoreError:
        return ControlledShutdownResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=one.topic, partition_index=one.partition) for one in remaining
        ]
    )
