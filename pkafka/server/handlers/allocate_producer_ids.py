"""AllocateProducerIds (key 67, v0): a broker wants the next block of producer ids from the controller (KIP-730)."""

from typing import Protocol

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pkafka.security.acl import Operation
from pkafka.server.cluster.producer_ids import ProducerIdsExhaustedError, StoreAccess, claim_block
from pkafka.server.ports.controller_context import ControllerContext
from pkafka.server.security.rights import may_in_cluster


class Context(ControllerContext, StoreAccess, Protocol):
    """The control process, as AllocateProducerIds sees it."""


async def handle(
    ctx: Context, request: AllocateProducerIdsRequest, version: int
) -> AllocateProducerIdsResponse:
    """Take a block in that broker's name."""
    if not may_in_cluster(ctx.rights, Operation.CLUSTER_ACTION):
        return AllocateProducerIdsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        return await ctx.run(_allocate, ctx, request)
    except ApiError as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    except (StoreError, ProducerIdsExhaustedError):
        return AllocateProducerIdsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


def _allocate(ctx: Context, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    """Runs on the controller thread.

    Raises:
        ApiError: NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
        ProducerIdsExhaustedError: there is none left.
        StoreError: the store failed.
    """
    ctx.controller.office().check_registered(request.broker_id, request.broker_epoch)
    block = claim_block(ctx.store, request.broker_id)
    return AllocateProducerIdsResponse(
        producer_id_start=block.first, producer_id_len=block.last - block.first + 1
    )
