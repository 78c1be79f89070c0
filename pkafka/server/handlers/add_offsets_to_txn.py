"""AddOffsetsToTxn (key 25, v0-4): a producer puts the offsets of a group into its transaction.

v1 throttle time · v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE
"""

from collections.abc import Awaitable

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.coordinator.routing import Routed
from pkafka.server.ports.transactions import TransactionPort
from pkafka.server.serving.context import Caller, RequestContext
from pkafka.server.transactions.errors import fenced_as
from pkafka.server.transactions.routing import Transactions
from pkafka.server.transactions.transaction import Producer


def handle(
    context: RequestContext[TransactionPort], request: AddOffsetsToTxnRequest, _version: int
) -> Routed:
    """Take the request to the coordinator of the transactional id."""
    return context.worker.transaction_routing.to_owner(
        context, request.transactional_id, request, serve, refused
    )


def serve(
    transactions: Transactions, caller: Caller, request: AddOffsetsToTxnRequest, version: int
) -> Message | Awaitable[Message]:
    """Add the partition of __consumer_offsets that has the group to a transaction that this worker coordinates."""
    rights = transactions.rights(caller)
    if not rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return refused(request, version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not rights.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topic = transactions.offsets_topic
    outcome = transactions.coordinator.add(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        [(topic.topic, topic.partition_of(request.group_id))],
    )
    if isinstance(outcome, ErrorCode):
        return AddOffsetsToTxnResponse(error_code=fenced_as(outcome, version))

    async def later(waiting: Awaitable[ErrorCode]) -> Message:
        return AddOffsetsToTxnResponse(error_code=fenced_as(await waiting, version))

    return later(outcome)


def refused(_request: AddOffsetsToTxnRequest, _version: int, error: ErrorCode) -> AddOffsetsToTxnResponse:
    """Make the answer for a coordinator that is out of reach."""
    return AddOffsetsToTxnResponse(error_code=error)
