"""ListTransactions (key 66, v0-1): the transactional ids that this broker coordinates (KIP-664).

v1 by duration (KIP-994)
"""

from collections.abc import Awaitable, Sequence

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.ports.transactions import TransactionPort
from pkafka.server.serving.context import Caller, RequestContext
from pkafka.server.transactions.routing import Transactions
from pkafka.server.transactions.states import BY_TEXT
from pkafka.server.transactions.transaction import Facts


def handle(
    context: RequestContext[TransactionPort], request: ListTransactionsRequest, _version: int
) -> Message | Awaitable[Message]:
    """Ask all workers."""

    def merged(responses: Sequence[ListTransactionsResponse]) -> ListTransactionsResponse:
        error = next(filter(None, (one.error_code for one in responses)), ErrorCode.NONE)
        return ListTransactionsResponse(
            error_code=error,
            unknown_state_filters=[] if error else _unknown(request),
            transaction_states=[]
            if error
            else [state for one in responses for state in one.transaction_states],
        )

    return context.worker.transaction_routing.to_all(context, request, serve, refused, merged)


def serve(
    transactions: Transactions, caller: Caller, request: ListTransactionsRequest, _version: int
) -> ListTransactionsResponse:
    """List the transactional ids of this worker that the client may describe."""
    rights = transactions.rights(caller)
    error, entries = transactions.coordinator.overview()
    if error:
        return ListTransactionsResponse(error_code=error)
    now_ms = transactions.clock.now_ms()
    return ListTransactionsResponse(
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=facts.producer_id,
                transaction_state=facts.state.text,
            )
            for one in entries
            if _is_wanted(request, facts := one.transaction.facts, now_ms)
            and rights.sees(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, one.transactional_id)
        ]
    )


def _is_wanted(request: ListTransactionsRequest, facts: Facts, now_ms: int) -> bool:
    if request.producer_id_filters and facts.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and facts.state.text not in request.state_filters:
        return False
    # An id without a transaction began it at -1, so it passes.
    return request.duration_filter < 0 or now_ms - facts.start_ms > request.duration_filter


def _unknown(request: ListTransactionsRequest) -> list[str]:
    return [one for one in dict.fromkeys(request.state_filters) if one not in BY_TEXT]


def refused(_request: ListTransactionsRequest, _version: int, error: ErrorCode) -> ListTransactionsResponse:
    """Make the answer for a worker that is out of reach: an error, as the list is not complete."""
    return ListTransactionsResponse(error_code=error)
