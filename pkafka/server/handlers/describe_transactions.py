"""DescribeTransactions (key 65, v0): state and partitions of transactions (KIP-664)."""

from collections.abc import Awaitable, Sequence

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.ports.transactions import TransactionPort
from pkafka.server.security.rights import Rights
from pkafka.server.serving.context import Caller, RequestContext
from pkafka.server.transactions.routing import Transactions


def handle(
    context: RequestContext[TransactionPort], request: DescribeTransactionsRequest, _version: int
) -> Message | Awaitable[Message]:
    """Ask the coordinators of all transactional ids."""
    routing = context.worker.transaction_routing
    asked = request.transactional_ids
    places = routing.by_owner(asked)
    parts = {
        owner: DescribeTransactionsRequest(transactional_ids=[asked[place] for place in numbers])
        for owner, numbers in places.items()
    }

    def merged(responses: Sequence[DescribeTransactionsResponse]) -> DescribeTransactionsResponse:
        states: dict[int, TransactionState] = {}
        for numbers, response in zip(places.values(), responses, strict=True):
            states.update(zip(numbers, response.transaction_states, strict=True))
        return DescribeTransactionsResponse(transaction_states=[states[place] for place in range(len(asked))])

    return routing.to_owners(context, parts, serve, refused, merged)


def serve(
    transactions: Transactions, caller: Caller, request: DescribeTransactionsRequest, _version: int
) -> DescribeTransactionsResponse:
    """Describe transactional ids of this worker."""
    rights = transactions.rights(caller)
    return DescribeTransactionsResponse(
        transaction_states=[_described(transactions, rights, one) for one in request.transactional_ids]
    )


def _described(transactions: Transactions, rights: Rights, transactional_id: str) -> TransactionState:
    if not rights.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return TransactionState(error_code=denied, transactional_id=transactional_id)
    error, facts = transactions.coordinator.describe(transactional_id)
    if facts is None:
        return TransactionState(error_code=error, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, partition in facts.partitions:
        if rights.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic):
            topics.setdefault(topic, []).append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=facts.state.text,
        transaction_timeout_ms=facts.timeout_ms,
        transaction_start_time_ms=facts.start_ms,
        producer_id=facts.producer_id,
        producer_epoch=facts.producer_epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )


def refused(
    request: DescribeTransactionsRequest, _version: int, error: ErrorCode
) -> DescribeTransactionsResponse:
    """Make the answer for a coordinator that is out of reach."""
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(error_code=error, transactional_id=one) for one in request.transactional_ids
        ]
    )
