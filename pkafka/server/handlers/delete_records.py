"""DeleteRecords (key 21, v0-2): raise the log start offset of partitions (TOPIC-12).

v2 flexible
"""

from itertools import groupby
from typing import TYPE_CHECKING, Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import INTERNAL_TOPICS
from pkafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from pkafka.server.by_owner import Row, ask_owners
from pkafka.server.dispatch import RequestContext

if TYPE_CHECKING:
    from pkafka.server.worker import Worker

HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1


async def handle(
    context: RequestContext, request: DeleteRecordsRequest, _version: int
) -> DeleteRecordsResponse:
    """Ask the owners of all partitions."""
    rows: list[Row] = [
        [topic.name, partition.partition_index, partition.offset]
        for topic in request.topics
        for partition in topic.partitions
    ]
    answers = await ask_owners(context.worker, "delete_records", rows, local)
    topics = []
    for name, group in groupby(zip(rows, answers, strict=True), key=lambda pair: pair[0][0]):
        partitions = [
            DeleteRecordsPartitionResult(
                partition_index=row[1],
                error_code=answer[0],
                low_watermark=_NO_LOW_WATERMARK if answer[0] else answer[1],
            )
            for row, answer in group
        ]
        topics.append(DeleteRecordsTopicResult(name=name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


def local(worker: "Worker", row: Row) -> Row:
    """The owner's answer: code, low watermark.

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE, POLICY_VIOLATION (the topic does not delete) or INVALID_TOPIC_EXCEPTION.
    """
    topic, index, offset = row
    if topic in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = worker.partitions.led[topic, index].log
    if not log.config.deletes:
        raise ApiError(ErrorCode.POLICY_VIOLATION)
    target = log.high_watermark if offset == HIGH_WATERMARK else offset
    if target < 0 or target > log.high_watermark:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.raise_log_start_offset(target)
    worker.fetches.check((topic, index))
    return [0, log.log_start_offset]
