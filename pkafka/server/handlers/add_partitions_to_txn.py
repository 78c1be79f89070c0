"""AddPartitionsToTxn (key 24, v0-5): a producer puts partitions into its transaction; leaders ask whether they are in.

v1 throttle time · v2 PRODUCER_FENCED · v3 flexible · v4 several transactions, for brokers that verify (KIP-890) ·
v5 TRANSACTION_ABORTABLE
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.model import INTERNAL_TOPICS
from pkafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.coordinator.routing import Routed
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.ports.transactions import TransactionPort
from pkafka.server.security.rights import UNLIMITED, Rights, may_in_cluster
from pkafka.server.serving.context import Caller, RequestContext
from pkafka.server.transactions.errors import fenced_as
from pkafka.server.transactions.routing import Transactions
from pkafka.server.transactions.transaction import PartitionKey, Producer

_BATCHED_VERSION: Final = 4


class Port(TransactionPort, Authorized, Protocol):
    """What AddPartitionsToTxn asks of its worker."""


Outcome = Mapping[PartitionKey, ErrorCode] | ErrorCode
"""What became of one transaction's partitions: an error code for each, or one for all."""


def handle(context: RequestContext[Port], request: AddPartitionsToTxnRequest, version: int) -> Routed:
    """Take the request, or each of its transactions, to the coordinator of the transactional id."""
    routing = context.worker.transaction_routing
    if version >= _BATCHED_VERSION and not may_in_cluster(rights_in(context), Operation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if version < _BATCHED_VERSION:
        return routing.to_owner(context, request.v3_and_below_transactional_id, request, serve, refused)
    asked = request.transactions
    places = routing.by_owner(one.transactional_id for one in asked)
    parts = {
        owner: AddPartitionsToTxnRequest(transactions=[asked[place] for place in numbers])
        for owner, numbers in places.items()
    }

    def merged(responses: Sequence[AddPartitionsToTxnResponse]) -> AddPartitionsToTxnResponse:
        results: dict[int, AddPartitionsToTxnResult] = {}
        for numbers, response in zip(places.values(), responses, strict=True):
            results.update(zip(numbers, response.results_by_transaction, strict=True))
        return AddPartitionsToTxnResponse(
            results_by_transaction=[results[place] for place in range(len(asked))]
        )

    return routing.to_owners(context, parts, serve, refused, merged)


def serve(
    transactions: Transactions, caller: Caller, request: AddPartitionsToTxnRequest, version: int
) -> Message | Awaitable[Message]:
    """Add partitions to transactions that this worker coordinates, or verify that they are in."""
    asked = _transactions_of(request, version)
    # Newer versions are for brokers, whose right was checked where the request came in.
    rights = transactions.rights(caller) if version < _BATCHED_VERSION else UNLIMITED
    outcomes = [_outcome(transactions, rights, one, version) for one in asked]
    there = [one for one in outcomes if not isinstance(one, Awaitable)]
    if len(there) == len(outcomes):
        return _response(asked, there, version)

    async def later() -> Message:
        came = [await one if isinstance(one, Awaitable) else one for one in outcomes]
        return _response(asked, came, version)

    return later()


def _transactions_of(
    request: AddPartitionsToTxnRequest, version: int
) -> Sequence[AddPartitionsToTxnTransaction]:
    if version >= _BATCHED_VERSION:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _outcome(
    transactions: Transactions, rights: Rights, asked: AddPartitionsToTxnTransaction, version: int
) -> Outcome | Awaitable[ErrorCode]:
    if not rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, asked.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    partitions = _partitions_of(asked)
    refused_ones = _refused_partitions(transactions.metadata, rights, partitions, version)
    if refused_ones:
        # Where one cannot be added, none is (KIP-98).
        return {one: refused_ones.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions}
    producer = Producer(asked.producer_id, asked.producer_epoch)
    coordinator = transactions.coordinator
    if asked.verify_only:
        outcome = coordinator.verify(asked.transactional_id, producer, partitions)
        return dict.fromkeys(partitions, outcome) if isinstance(outcome, ErrorCode) else outcome
    return coordinator.add(asked.transactional_id, producer, partitions)


def _partitions_of(asked: AddPartitionsToTxnTransaction) -> list[PartitionKey]:
    return [(topic.name, partition) for topic in asked.topics for partition in topic.partitions]


def _refused_partitions(
    metadata: MetadataCache, rights: Rights, partitions: Sequence[PartitionKey], version: int
) -> dict[PartitionKey, ErrorCode]:
    """Those that no client, or not this one, may write to, and those that do not exist.

    Brokers ask about internal topics, too.
    """
    codes: dict[PartitionKey, ErrorCode] = {}
    for one in partitions:
        is_closed = one[0] in INTERNAL_TOPICS and version < _BATCHED_VERSION
        if is_closed or not rights.may(Operation.WRITE, ResourceType.TOPIC, one[0]):
            codes[one] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif metadata.partition(*one) is None:
            codes[one] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return codes


def _response(
    asked: Sequence[AddPartitionsToTxnTransaction], outcomes: Sequence[Outcome], version: int
) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(
            transactional_id=one.transactional_id, topic_results=_topic_results(one, outcome, version)
        )
        for one, outcome in zip(asked, outcomes, strict=True)
    ]
    if version >= _BATCHED_VERSION:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def _topic_results(
    asked: AddPartitionsToTxnTransaction, outcome: Outcome, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    if isinstance(outcome, ErrorCode):
        # What is named twice, or without partitions, is answered so, as in Kafka.
        return [
            _topic_result(one.name, dict.fromkeys(one.partitions, outcome), one.partitions, version)
            for one in asked.topics
        ]
    topics: dict[str, dict[int, ErrorCode]] = {}
    for (topic, partition), code in outcome.items():
        topics.setdefault(topic, {})[partition] = code
    return [_topic_result(topic, codes, codes, version) for topic, codes in topics.items()]


def _topic_result(
    topic: str, codes: Mapping[int, ErrorCode], partitions: Iterable[int], version: int
) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(
                partition_index=one, partition_error_code=fenced_as(codes[one], version)
            )
            for one in partitions
        ],
    )


def refused(request: AddPartitionsToTxnRequest, version: int, error: ErrorCode) -> AddPartitionsToTxnResponse:
    """Make the answer for a coordinator that is out of reach."""
    asked = _transactions_of(request, version)
    return _response(asked, [error] * len(asked), version)
