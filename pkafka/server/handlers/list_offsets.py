"""ListOffsets (key 2, v0-9): offsets by time, and the ends of the log.

v0 a list of segment starts · v1 one offset and its timestamp · v2 isolation level · v4 leader epoch · v6 flexible · v7
max timestamp (KIP-734) · v8 earliest local (KIP-405) · v9 latest tiered (KIP-1005)
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NO_EPOCH,
    Millis,
    Offset,
)
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pkafka.server.serving.by_owner import Row, ask_owners
from pkafka.server.serving.dispatch import RequestContext
from pkafka.storage.log import Log

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker
    from pkafka.server.replicas.partition import Partition

_FIRST_VERSION_OF: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_FIRST_VERSION_WITH_NOT_AVAILABLE: Final = 5
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_DEBUGGING: Final = -2
"""The replica id of tools that look at all replicas of a broker, led there or not."""
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
    if version:
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
    """Answer for a partition of this worker: code, then timestamp, offset and leader epoch, or for version 0 offsets.

    Raises:
        ApiError: the code to answer.
    """
    topic, index, leader_epoch, timestamp, max_num_offsets, isolation_level, replica_id, version, *flaws = row
    if flaws:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if version < _FIRST_VERSION_OF.get(timestamp, 0) or timestamp < LATEST_TIERED:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    partition = worker.lookup.replica_at(topic, index, leader_epoch, led_only=replica_id != _DEBUGGING)
    log = partition.log
    if version == 0:
        starts = _segment_starts(log, worker.clock.now_ms())
        visible = log.high_watermark if replica_id == _CONSUMER else None
        return [0, starts_up_to(starts, timestamp, count=max_num_offsets, bound=visible)]
    if replica_id != _CONSUMER:
        bound = log.log_end_offset
    else:
        bound = log.last_stable_offset if isolation_level == _READ_COMMITTED else log.high_watermark
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
    """Refuse while the leader has committed nothing in its epoch: it cannot know its predecessor's commits (KIP-207).

    Raises:
        ApiError: OFFSET_NOT_AVAILABLE, or LEADER_NOT_AVAILABLE for clients that do not know the former.
    """
    leadership = partition.leadership
    if leadership is not None and leadership.epoch_start_offset > partition.log.high_watermark:
        known = version >= _FIRST_VERSION_WITH_NOT_AVAILABLE
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)


def _segment_starts(log: Log, now_ms: Millis) -> list[tuple[Offset, Millis]]:
    """List the first offset of each segment and the time of its last write, oldest first.

    The end of the log counts as the start of a segment that is written now, unless the last segment is empty.
    """
    segments = log.segments
    starts = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms) for segment in segments]
    if segments[-1].size:
        starts.append((log.log_end_offset, now_ms))
    return starts


def starts_up_to(
    starts: Sequence[tuple[Offset, Millis]], timestamp: Millis, *, count: int, bound: Offset | None
) -> list[Offset]:
    """Choose what version 0 answers: starts of segments, newest first, beginning with the newest one not after a time.

    Args:
        starts: of :func:`_segment_starts`.
        timestamp: the time, or EARLIEST or LATEST.
        count: how many starts at the most.
        bound: the last offset that the client may see; it stands for all starts beyond it.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR, the count is negative.
    """
    if count < 0:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if timestamp == LATEST:
        number = len(starts)
    elif timestamp == EARLIEST:
        number = 1
    else:
        number = max((place for place, (_, time) in enumerate(starts, 1) if time <= timestamp), default=0)
    offsets = [offset for offset, _time in reversed(starts[:number])][:count]
    if bound is not None and offsets and offsets[0] > bound:
        return [bound, *(offset for offset in offsets if offset <= bound)]
    return offsets
