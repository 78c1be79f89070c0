"""ListOffsets (key 2, v0-9): offsets by time, and the ends of the log.

v0 a list of segment starts · v1 one offset and its timestamp · v2 isolation level · v4 leader epoch · v6 flexible · v7
max timestamp (KIP-734) · v8 earliest local (KIP-405) · v9 latest tiered (KIP-1005)
"""

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_EPOCH
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pkafka.server.by_owner import Row, ask_owners
from pkafka.server.dispatch import RequestContext
from pkafka.storage.log import Log

if TYPE_CHECKING:
    from pkafka.server.partition import Partition
    from pkafka.server.worker import Worker

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

_FIRST_VERSION_OF: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_FIRST_VERSION_WITH_NOT_AVAILABLE: Final = 5
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_DEBUGGING: Final = -2
"""Tools that look at a broker's replicas, led there or not."""
_NONE_FOUND: Final = (-1, -1, NO_EPOCH)


async def handle(context: RequestContext, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
    """Ask the owners of all partitions."""
    rows: list[Row] = [
        [
            topic.name,
            partition.partition_index,
            partition.current_leader_epoch,
            partition.timestamp,
            partition.max_num_offsets,
            request.isolation_level,
            request.replica_id,
            version,
        ]
        for topic in request.topics
        for partition in topic.partitions
    ]
    _refuse_duplicates(rows)
    answers = await ask_owners(context.worker, "list_offsets", rows, local, led_only=False)
    topics = []
    paired = zip(rows, answers, strict=True)
    for name, group in groupby(paired, key=lambda pair: pair[0][0]):
        partitions = [_response(row[1], answer, version) for row, answer in group]
        topics.append(ListOffsetsTopicResponse(name=name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _refuse_duplicates(rows: list[Row]) -> None:
    # Kafka answers INVALID_REQUEST for the partitions that a request names twice.
    counts = Counter((row[0], row[1]) for row in rows)
    for row in rows:
        if counts[row[0], row[1]] > 1:
            row.append("twice")


def _response(partition: int, answer: Row, version: int) -> ListOffsetsPartitionResponse:
    if answer[0]:
        return ListOffsetsPartitionResponse(partition_index=partition, error_code=answer[0])
    if version == 0:
        return ListOffsetsPartitionResponse(partition_index=partition, old_style_offsets=answer[1])
    timestamp, offset, epoch = answer[1]
    answered = ListOffsetsPartitionResponse(partition_index=partition, timestamp=timestamp, offset=offset)
    if version >= 4:
        answered.leader_epoch = epoch
    return answered


def local(worker: "Worker", row: Row) -> Row:
    """The owner's answer: code, then (timestamp, offset, leader epoch), or a list of offsets for version 0.

    Raises:
        ApiError: the code to answer.
    """
    topic, index, leader_epoch, timestamp, max_num_offsets, isolation_level, replica_id, version, *flaws = row
    if flaws or version < _FIRST_VERSION_OF.get(timestamp, 0) or timestamp < LATEST_TIERED:
        raise ApiError(ErrorCode.INVALID_REQUEST if flaws else ErrorCode.UNSUPPORTED_VERSION)
    partition = worker.replica_at(topic, index, leader_epoch, led_only=replica_id != _DEBUGGING)
    log = partition.log
    if replica_id != _CONSUMER:
        bound = log.log_end_offset
    else:
        bound = log.last_stable_offset if isolation_level == _READ_COMMITTED else log.high_watermark
    if version == 0:
        return [0, _segment_starts(log, timestamp, max_num_offsets)]
    if timestamp == LATEST:
        if replica_id == _CONSUMER:
            _refuse_before_first_commit(partition, version)
        return [0, (-1, bound, partition.leader_epoch)]
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return [0, (-1, log.log_start_offset, log.leader_epochs.epoch_at(log.log_start_offset))]
    if timestamp == LATEST_TIERED:
        return [0, _NONE_FOUND]
    found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found[1] >= bound:
        if replica_id == _CONSUMER:
            _refuse_before_first_commit(partition, version)
        return [0, _NONE_FOUND]
    return [0, tuple(found)]


def _refuse_before_first_commit(partition: "Partition", version: int) -> None:
    """A leader that has committed nothing in its epoch does not know yet what its predecessor had committed (KIP-207).

    Raises:
        ApiError: OFFSET_NOT_AVAILABLE, or LEADER_NOT_AVAILABLE for clients that do not know that.
    """
    leadership = partition.leadership
    if leadership is not None and leadership.epoch_start_offset > partition.log.high_watermark:
        known = version >= _FIRST_VERSION_WITH_NOT_AVAILABLE
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)


def _segment_starts(log: Log, timestamp: int, count: int) -> list[int]:
    """What version 0 gives: starts of segments that were last written before ``timestamp``, newest first."""
    ends = [(log.high_watermark, 2**63 - 1)] if timestamp == LATEST else []
    starts = [
        (max(segment.base_offset, log.log_start_offset), segment.retention_timestamp)
        for segment in log.segments
    ]
    if timestamp == EARLIEST:
        starts = starts[:1]
    elif timestamp != LATEST:
        starts = [start for start in starts if start[1] <= timestamp]
    return [offset for offset, _written in [*ends, *reversed(starts)]][:count]
