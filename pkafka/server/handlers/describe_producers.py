"""DescribeProducers (key 61, v0): the producers that write to partitions, with or without transactions (KIP-664)."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import topic_name_problem
from pkafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.ipc.peer import Handler
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.security.rights import Rights
from pkafka.server.serving import by_owner
from pkafka.server.serving.context import RequestContext


class Port(by_owner.Owner, Authorized, Protocol):
    """What DescribeProducers asks of its worker."""

    @property
    def metadata(self) -> MetadataCache: ...


class Wanted(NamedTuple):
    """Asks for the producers of one partition."""

    topic: str
    partition: int


class Producer(NamedTuple):
    """What a log remembers of a producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


class Found(NamedTuple):
    """Names the producers of one partition."""

    error_code: int
    producers: Sequence[Sequence[Any]] = ()
    """The values of :class:`Producer`."""


async def handle(
    context: RequestContext[Port], request: DescribeProducersRequest, _version: int
) -> DescribeProducersResponse:
    """Ask the owners of the partitions; a topic that does not exist is refused here."""
    worker, rights = context.worker, rights_in(context)
    refusals = [_refusal(worker, rights, topic.name) for topic in request.topics]
    rows = [
        Wanted(topic.name, index)
        for topic, refusal in zip(request.topics, refusals, strict=True)
        if refusal is None
        for index in topic.partition_indexes
    ]
    answers = iter(await QUESTION.ask(worker, rows))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=_refused(topic, refusal)
                if refusal is not None
                else [_described(index, next(answers)) for index in topic.partition_indexes],
            )
            for topic, refusal in zip(request.topics, refusals, strict=True)
        ]
    )


def _refusal(worker: Port, rights: Rights, topic: str) -> ApiError | None:
    """Why all partitions of a topic are refused; Kafka sends a text with that, but none for a single partition."""
    problem = topic_name_problem(topic)
    if problem is not None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if not rights.may(Operation.READ, ResourceType.TOPIC, topic):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if worker.metadata.topic(topic) is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return None


def _refused(topic: TopicRequest, refusal: ApiError) -> list[PartitionResponse]:
    return [
        PartitionResponse(partition_index=index, error_code=refusal.code, error_message=refusal.message)
        for index in topic.partition_indexes
    ]


def _described(index: int, found: Found) -> PartitionResponse:
    if found.error_code:
        return PartitionResponse(partition_index=index, error_code=found.error_code)
    states = [
        ProducerState(
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            last_sequence=one.last_sequence,
            last_timestamp=one.last_timestamp,
            coordinator_epoch=one.coordinator_epoch,
            current_txn_start_offset=one.transaction_first_offset,
        )
        for one in (Producer(*values) for values in found.producers)
    ]
    return PartitionResponse(partition_index=index, active_producers=states)


def local(worker: Port, row: Wanted) -> Found:
    """Answer for a partition of this worker, led or followed: the producers that its log remembers.

    Raises:
        ApiError: this broker has no replica of it.
    """
    replica = worker.partitions.hosted.get((row.topic, row.partition))
    if replica is None:
        raise worker.lookup.missing_partition(row.topic, row.partition)
    log = replica.log
    return Found(
        ErrorCode.NONE,
        [
            Producer(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
            for entry in log.producers.entries.values()
        ],
    )


QUESTION: Final = by_owner.Question("describe_producers", Wanted, Found, local, led_only=False)


def operations(worker: Port) -> dict[str, Handler]:
    """What other workers may ask of this one."""
    return QUESTION.operations(worker)
