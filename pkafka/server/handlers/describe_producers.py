"""DescribeProducers (key 61, v0): the producers that write to partitions, with or without transactions (KIP-664)."""

from typing import TYPE_CHECKING

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
from pkafka.server.serving.by_owner import Row, ask_owners
from pkafka.server.serving.dispatch import RequestContext

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker


async def handle(
    context: RequestContext, request: DescribeProducersRequest, _version: int
) -> DescribeProducersResponse:
    """Ask the owners of the partitions; a topic that does not exist is refused here."""
    worker = context.worker
    refusals = [_refusal(worker, topic.name) for topic in request.topics]
    rows: list[Row] = [
        [topic.name, index]
        for topic, refusal in zip(request.topics, refusals, strict=True)
        if refusal is None
        for index in topic.partition_indexes
    ]
    answers = iter(await ask_owners(worker, "describe_producers", rows, local))
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


def _refusal(worker: "Worker", topic: str) -> ApiError | None:
    """Why all partitions of a topic are refused; Kafka sends a text with that, but none for a single partition."""
    problem = topic_name_problem(topic)
    if problem is not None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if worker.metadata.topic(topic) is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return None


def _refused(topic: TopicRequest, refusal: ApiError) -> list[PartitionResponse]:
    return [
        PartitionResponse(partition_index=index, error_code=refusal.code, error_message=refusal.message)
        for index in topic.partition_indexes
    ]


def _described(index: int, answer: Row) -> PartitionResponse:
    if answer[0]:
        return PartitionResponse(partition_index=index, error_code=answer[0])
    states = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_sequence=last_sequence,
            last_timestamp=last_timestamp,
            coordinator_epoch=coordinator_epoch,
            current_txn_start_offset=start_offset,
        )
        for producer_id, epoch, last_sequence, last_timestamp, coordinator_epoch, start_offset in answer[1]
    ]
    return PartitionResponse(partition_index=index, active_producers=states)


def local(worker: "Worker", row: Row) -> Row:
    """Answer for a partition of this worker: code, then a row for each producer that its log remembers."""
    log = worker.partitions.led[row[0], row[1]].log
    return [
        0,
        [
            (
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
            for entry in log.producers.entries.values()
        ],
    ]
