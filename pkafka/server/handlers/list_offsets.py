"""ListOffsets (key 2, v0-9): offsets by time, and the ends of the log.

v0 a list of segment starts · v1 one offset and its timestamp · v2 isolation level · v4 leader epoch · v6 flexible · v7
max timestamp (KIP-734) · v8 earliest local (KIP-405) · v9 latest tiered (KIP-1005)
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple, Protocol

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NO_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
    LeaderEpoch,
    Millis,
    Offset,
)
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from pkafka.security.acl import Operation
from pkafka.server.ipc.peer import Handler
from pkafka.server.ports.authorized import Authorized, by_right, rights_in
from pkafka.server.replicas.partition import Partition
from pkafka.server.serving import by_owner
from pkafka.server.serving.context import RequestContext
from pkafka.storage.log import Log

_FIRST_VERSION_OF: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_FIRST_VERSION_WITH_NOT_AVAILABLE: Final = 5
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_DEBUGGING: Final = -2
"""The replica id of tools that look at all replicas of a broker, led there or not."""


class Port(by_owner.Owner, Authorized, Protocol):
    """What ListOffsets asks of its worker."""

    @property
    def clock(self) -> Clock: ...


class Wanted(NamedTuple):
    """Asks for an offset of one partition; for version 0 for several."""

    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    timestamp: Millis
    max_num_offsets: int
    isolation_level: int
    replica_id: int
    version: int
    is_named_twice: bool = False


class Found(NamedTuple):
    """Tells the offset that was found; for version 0 the starts of segments."""

    error_code: int
    timestamp: Millis = NO_TIMESTAMP
    offset: Offset = NO_OFFSET
    leader_epoch: LeaderEpoch = NO_EPOCH
    starts: Sequence[Offset] = ()


_NONE_FOUND: Final = Found(ErrorCode.NONE)


async def handle(
    context: RequestContext[Port], request: ListOffsetsRequest, version: int
) -> ListOffsetsResponse:
    """Ask the owners of all partitions."""
    described, hidden = by_right(
        rights_in(context), Operation.DESCRIBE, request.topics, lambda topic: topic.name
    )
    rows = [
        Wanted(
            topic.name,
            partition.partition_index,
            partition.current_leader_epoch,
            partition.timestamp,
            partition.max_num_offsets,
            request.isolation_level,
            request.replica_id,
            version,
        )
        for topic in described
        for partition in topic.partitions
    ]
    if version:
        rows = _with_duplicates_marked(rows)
    answers = await QUESTION.ask(context.worker, rows)
    topics = []
    paired = zip(rows, answers, strict=True)
    for name, group in groupby(paired, key=lambda pair: pair[0].topic):
        partitions = [_response(row.partition, found, version) for row, found in group]
        topics.append(ListOffsetsTopicResponse(name=name, partitions=partitions))
    return ListOffsetsResponse(topics=topics + [_refused(topic) for topic in hidden])


def _refused(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(
                partition_index=one.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            for one in topic.partitions
        ],
    )


def _with_duplicates_marked(rows: Sequence[Wanted]) -> list[Wanted]:
    # Kafka answers INVALID_REQUEST for the partitions that a request names twice.
    counts = Counter((row.topic, row.partition) for row in rows)
    return [row._replace(is_named_twice=counts[row.topic, row.partition] > 1) for row in rows]


def _response(partition: int, found: Found, version: int) -> ListOffsetsPartitionResponse:
    if found.error_code:
        return ListOffsetsPartitionResponse(partition_index=partition, error_code=found.error_code)
    if version == 0:
        return ListOffsetsPartitionResponse(partition_index=partition, old_style_offsets=[*found.starts])
    answered = ListOffsetsPartitionResponse(
        partition_index=partition, timestamp=found.timestamp, offset=found.offset
    )
    if version >= 4:
        answered.leader_epoch = found.leader_epoch
    return answered


def local(worker: Port, row: Wanted) -> Found:
    """Answer for a partition of this worker.

    Raises:
        ApiError: the code to answer.
    """
    timestamp, replica_id, version = row.timestamp, row.replica_id, row.version
    if row.is_named_twice:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if version < _FIRST_VERSION_OF.get(timestamp, 0) or timestamp < LATEST_TIERED:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    partition = worker.lookup.replica_at(
        row.topic, row.partition, row.leader_epoch, led_only=replica_id != _DEBUGGING
    )
    log = partition.log
    if version == 0:
        starts = _segment_starts(log, worker.clock.now_ms())
        visible = log.high_watermark if replica_id == _CONSUMER else None
        wanted = starts_up_to(starts, timestamp, count=row.max_num_offsets, bound=visible)
        return Found(ErrorCode.NONE, starts=wanted)
    if replica_id != _CONSUMER:
        bound = log.log_end_offset
    else:
        bound = log.last_stable_offset if row.isolation_level == _READ_COMMITTED else log.high_watermark
    if timestamp == LATEST:
        if replica_id == _CONSUMER:
            _refuse_before_first_commit(partition, version)
        return Found(ErrorCode.NONE, offset=bound, leader_epoch=partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return Found(ErrorCode.NONE, offset=start, leader_epoch=log.leader_epochs.epoch_at(start))
    if timestamp == LATEST_TIERED:
        return _NONE_FOUND
    found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found[1] >= bound:
        if replica_id == _CONSUMER:
            _refuse_before_first_commit(partition, version)
        return _NONE_FOUND
    return Found(ErrorCode.NONE, *found)


QUESTION: Final = by_owner.Question("list_offsets", Wanted, Found, local, led_only=False)


def operations(worker: Port) -> dict[str, Handler]:
    """What other workers may ask of this one."""
    return QUESTION.operations(worker)


def _refuse_before_first_commit(partition: Partition, version: int) -> None:
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
