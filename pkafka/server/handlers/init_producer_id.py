"""InitProducerId (key 22, v0-5): an identity for an idempotent or a transactional producer.

v1 throttle time · v2 flexible · v3 id and epoch of the producer's former life (KIP-360) · v4 PRODUCER_FENCED ·
v5 TRANSACTION_ABORTABLE
"""

from collections.abc import Awaitable
from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.model import NO_PRODUCER_ID
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pkafka.security.acl import CLUSTER_NAME, Operation, ResourceType
from pkafka.server.coordinator.routing import Routed
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.ports.transactions import TransactionPort
from pkafka.server.security.rights import Rights
from pkafka.server.serving.context import Caller, RequestContext
from pkafka.server.transactions.coordinator import InitResult, TransactionCoordinator
from pkafka.server.transactions.routing import Transactions
from pkafka.server.transactions.transaction import NO_PRODUCER_EPOCH, Producer

_FENCED_VERSION: Final = 4


class Port(TransactionPort, Authorized, Protocol):
    """What InitProducerId asks of its worker."""

    @property
    def transactions(self) -> TransactionCoordinator: ...


def handle(context: RequestContext[Port], request: InitProducerIdRequest, version: int) -> Routed:
    """Give an unused producer id, or take the request to the coordinator of the transactional id."""
    code = _denial(rights_in(context), request.transactional_id)
    if code is not None:
        return _failed(code)
    has_id = request.producer_id != NO_PRODUCER_ID
    if has_id != (request.producer_epoch != NO_PRODUCER_EPOCH) or request.transactional_id == "":
        return _failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        # An idempotent producer that names its former id gets a new one, as in Kafka.
        return _unused(context.worker.transactions)
    return context.worker.transaction_routing.to_owner(
        context, request.transactional_id, request, serve, refused
    )


def _denial(rights: Rights, transactional_id: str | None) -> ErrorCode | None:
    """Why the client may have no identity; None where it may."""
    if transactional_id is not None:
        may = rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return None if may else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # Whoever may write to some topic may do so once for each record (KIP-679).
    if rights.sees(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    if rights.may_any(Operation.WRITE, ResourceType.TOPIC):
        return None
    rights.denied(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def _unused(transactions: TransactionCoordinator) -> InitProducerIdResponse:
    producer_id = await transactions.new_producer_id()
    if producer_id is None:
        return _failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def serve(
    transactions: Transactions, _caller: Caller, request: InitProducerIdRequest, version: int
) -> Awaitable[InitProducerIdResponse]:
    """Serve a producer whose transactional id this worker coordinates."""

    async def answer() -> InitProducerIdResponse:
        assert request.transactional_id is not None
        expected = Producer(request.producer_id, request.producer_epoch)
        result = await transactions.coordinator.init(
            request.transactional_id,
            request.transaction_timeout_ms,
            None if expected.producer_id == NO_PRODUCER_ID else expected,
        )
        return _response(result, version)

    return answer()


def _response(result: InitResult, version: int) -> InitProducerIdResponse:
    error = result.error
    if error is ErrorCode.PRODUCER_FENCED and version < _FENCED_VERSION:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    producer_id, epoch = result.producer
    return InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch)


def refused(_request: InitProducerIdRequest, _version: int, error: ErrorCode) -> InitProducerIdResponse:
    """Make the answer for a coordinator that is out of reach."""
    return _failed(error)


def _failed(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
