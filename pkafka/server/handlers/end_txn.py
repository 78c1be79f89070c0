"""EndTxn (key 26, v0-4): a producer commits or aborts its transaction.

v1 throttle time · v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE
"""

from collections.abc import Awaitable

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.coordinator.routing import Routed
from pkafka.server.ports.transactions import TransactionPort
from pkafka.server.serving.context import Caller, RequestContext
from pkafka.server.transactions.errors import fenced_as
from pkafka.server.transactions.routing import Transactions
from pkafka.server.transactions.transaction import Producer


def handle(context: RequestContext[TransactionPort], request: EndTxnRequest, _version: int) -> Routed:
    """Take the request to the coordinator of the transactional id."""
    return context.worker.transaction_routing.to_owner(
        context, request.transactional_id, request, serve, refused
    )


def serve(
    transactions: Transactions, caller: Caller, request: EndTxnRequest, version: int
) -> Message | Awaitable[Message]:
    """Decide a transaction that this worker coordinates."""
    if not transactions.rights(caller).may(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    ):
        return refused(request, version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    outcome = transactions.coordinator.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        is_commit=request.committed,
    )
    if isinstance(outcome, ErrorCode):
        return EndTxnResponse(error_code=fenced_as(outcome, version))

    async def later(waiting: Awaitable[ErrorCode]) -> Message:
        return EndTxnResponse(error_code=fenced_as(await waiting, version))

    return later(outcome)


def refused(_request: EndTxnRequest, _version: int, error: ErrorCode) -> EndTxnResponse:
    """Make the answer for a coordinator that is out of reach."""
    return EndTxnResponse(error_code=error)
