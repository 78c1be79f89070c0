"""InitProducerId (key 22, v0-5): an identity for an idempotent producer; served by the control process.

v1 throttle time · v2 flexible · v3 id and epoch of the producer's former life (KIP-360) · v4 PRODUCER_FENCED ·
v5 TRANSACTION_ABORTABLE
"""

import logging
from typing import Protocol

from pkafka.coordination.store import StoreError
from pkafka.errors import ErrorCode
from pkafka.model import NO_PRODUCER_ID
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pkafka.server.cluster.producer_ids import ProducerIds, StoreAccess

log = logging.getLogger(__name__)

_NO_PRODUCER_EPOCH = -1


class Context(StoreAccess, Protocol):
    """The control process, as InitProducerId sees it."""

    @property
    def producer_ids(self) -> ProducerIds: ...


async def handle(ctx: Context, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
    """Give an unused producer id, at epoch 0."""
    if request.transactional_id is not None:
        # Kafka's transaction coordinator refuses an empty id, too, so the answer is the same without a coordinator.
        empty = request.transactional_id == ""
        return _failed(ErrorCode.INVALID_REQUEST if empty else ErrorCode.COORDINATOR_NOT_AVAILABLE)
    has_id = request.producer_id != NO_PRODUCER_ID
    if has_id != (request.producer_epoch != _NO_PRODUCER_EPOCH):
        return _failed(ErrorCode.INVALID_REQUEST)
    try:
        # An idempotent producer that names its former id gets a new one, as in Kafka.
        producer_id = await ctx.producer_ids.next(ctx)
    except StoreError as error:
        log.warning("no block of producer ids could be had: %s", error)
        return _failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _failed(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=_NO_PRODUCER_EPOCH
    )
