"""What compaction may touch, what it should, and in which portions: pure decisions.

A log has a clean part, which ends at the cleaner's checkpoint, and a dirty part behind it. The dirty part can be
cleaned up to the active segment, up to the last stable offset, and up to the first segment with a record that is
younger than min.compaction.lag.ms. cleaning.py does it, led by server/compaction/log_cleaner.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop
from typing import Final, NamedTuple, Protocol

from pkafka.model import Millis, Offset
from pkafka.records.control import ControlType
from pkafka.storage.batch_scan import StoredBatch
from pkafka.storage.config import LogConfig
from pkafka.storage.producer_rebuild import read_marker
from pkafka.storage.segment import RELATIVE_OFFSET_MAX
from pkafka.storage.transaction_index import AbortedTransaction

GROUP_SEGMENTS_MAX: Final = 250
"""More are not merged at once: the owner of the log renames the files of all of them in one go."""


class SegmentState(Protocol):
    """What the rules look at; reading a timestamp may cost a look at the disk."""

    @property
    def base_offset(self) -> Offset:
        """In the name of the files."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the ``.log`` file."""
        ...

    @property
    def max_timestamp(self) -> Millis:
        """The largest timestamp of a record, -1 without one."""
        ...

    @property
    def first_timestamp(self) -> Millis:
        """The largest timestamp of the first batch, -1 without one."""
        ...


class CleanablePart(NamedTuple):
    """The part of a log that compaction may look at now.

    Attributes:
        first_dirty: from here on nothing has been cleaned.
        end: the base offset of the first segment that must not be cleaned.
        clean_bytes: of the segments that begin before ``first_dirty``.
        dirty_bytes: of those that can be cleaned.
        delay_ms: for how long a record has been over max.compaction.lag.ms.
        has_lost_checkpoint: the checkpoint is outside of the log, and everything counts as dirty.
    """

    first_dirty: Offset
    end: Offset
    clean_bytes: int
    dirty_bytes: int
    delay_ms: int
    has_lost_checkpoint: bool

    @property
    def dirty_ratio(self) -> float:
        """Which part of it is dirty."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_dirty_ratio: float) -> bool:
        """Whether it is dirty enough, or has waited for too long."""
        return (self.delay_ms > 0 and self.dirty_bytes > 0) or self.dirty_ratio > min_dirty_ratio


def cleanable_part(
    segments: Sequence[SegmentState],
    config: LogConfig,
    *,
    checkpoint: Offset | None,
    log_start_offset: Offset,
    log_end_offset: Offset,
    last_stable_offset: Offset,
    now_ms: Millis,
) -> CleanablePart:
    """What of a log can be cleaned.

    Args:
        segments: of the log, the active one last.
        config: of the topic.
        checkpoint: up to where it has been cleaned; None when it never was.
        log_start_offset: of the log.
        log_end_offset: of the log.
        last_stable_offset: transactions below it are decided; not above the high watermark.
        now_ms: the wall clock.
    """
    first_dirty = log_start_offset if checkpoint is None else checkpoint
    is_lost = not log_start_offset <= first_dirty <= log_end_offset
    if is_lost:
        first_dirty = log_start_offset
    closed = segments[:-1]
    active = segments[-1]
    dirty = covering(closed, first_dirty) if first_dirty < active.base_offset else []
    bound = min(last_stable_offset, active.base_offset)
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        young = (one.base_offset for one in dirty if one.max_timestamp > youngest_ms)
        bound = min(bound, next(young, bound))
    bound = max(bound, first_dirty)
    # The segment with the bound inside is not for now, nor is any behind it.
    end = active.base_offset
    if bound < end:
        end = next(iter(covering(closed, bound)), active).base_offset
    cleanable = [one for one in dirty if one.base_offset < end]
    return CleanablePart(
        first_dirty,
        end,
        sum(one.size for one in segments if one.base_offset < first_dirty),
        sum(one.size for one in cleanable),
        _delay_ms(dirty, config.max_compaction_lag_ms, now_ms),
        is_lost,
    )


def covering(segments: Sequence[SegmentState], offset: Offset) -> Sequence[SegmentState]:
    """The segments from the one on that holds ``offset``."""
    place = len(segments)
    while place and segments[place - 1].base_offset > offset:
        place -= 1
    return segments[max(place - 1, 0) :]


def _delay_ms(dirty: Iterable[SegmentState], lag_max_ms: int, now_ms: Millis) -> int:
    due_ms = now_ms - max(lag_max_ms, 0)
    if due_ms <= 0:
        return 0  # the usual lag has no end; so timestamps need not be looked at
    oldest = min((one.first_timestamp for one in dirty if one.first_timestamp > 0), default=due_ms)
    return max(due_ms - oldest, 0)


class SourceSegment(NamedTuple):
    """A segment that is about to be cleaned, as it lies on the disk."""

    base_offset: Offset
    size: int
    index_bytes: int
    time_index_bytes: int
    modified_ns: int

    @property
    def modified_ms(self) -> Millis:
        """When its data file was last written to."""
        return self.modified_ns // 1_000_000


def groups_of_segments(
    segments: Sequence[SourceSegment], *, bytes_max: int, index_bytes_max: int, end: Offset
) -> list[list[SourceSegment]]:
    """Neighbours that together are no larger than one segment may be; each group becomes one.

    Args:
        segments: in order.
        bytes_max: segment.bytes.
        index_bytes_max: segment.index.bytes.
        end: the base offset of the first segment that is not cleaned.
    """
    groups: list[list[SourceSegment]] = []
    size = index_size = time_index_size = 0
    for place, segment in enumerate(segments):
        size += segment.size
        index_size += segment.index_bytes
        time_index_size += segment.time_index_bytes
        following = segments[place + 1].base_offset if place + 1 < len(segments) else end
        if (
            groups
            and len(groups[-1]) < GROUP_SEGMENTS_MAX
            and size <= bytes_max
            and index_size <= index_bytes_max
            and time_index_size <= index_bytes_max
            and (segment.size == 0 or following - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, index_size, time_index_size = segment.size, segment.index_bytes, segment.time_index_bytes
    return groups


class LastRecord(NamedTuple):
    """Of an active producer: the offset of its last record (-1 when only a marker is left), and its epoch."""

    last_data_offset: Offset
    producer_epoch: int


def is_last_of_producer(batch: StoredBatch, last_records: Mapping[int, LastRecord]) -> bool:
    """Whether the state of an active producer hangs on this batch: its last sequence, or its epoch."""
    last = last_records.get(batch.producer_id)
    if last is None:
        return False
    if last.last_data_offset >= 0:
        return batch.last_offset == last.last_data_offset
    return batch.is_control and batch.producer_epoch == last.producer_epoch


class CleanedTransactions:
    """Which batches belong to aborted transactions, and which markers have outlived their records.

    Batches are shown to it in the order of the log.

    Args:
        aborted: the aborted transactions that overlap what will be shown.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = [(each.first_offset, each) for each in aborted]
        heapify(self._waiting)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_records: set[int] = set()
        """Producers whose aborted transaction still has batches."""
        self._committed: set[int] = set()

    def is_aborted(self, batch: StoredBatch) -> bool:
        """Take a batch of data; its records may go at once when its transaction was aborted."""
        if not batch.is_transactional:
            return False
        self._begin_up_to(batch.last_offset)
        if batch.producer_id in self._aborted:
            self._with_records.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def take_marker(self, batch: StoredBatch) -> tuple[bool, AbortedTransaction | None]:
        """Take a control batch.

        Returns:
            Whether nothing depends on it any more, and the transaction that the index must know because of it.
        """
        self._begin_up_to(batch.last_offset)
        if is_empty(batch):
            return True, None
        marker = read_marker(batch.data)
        if marker is None:
            return False, None
        if marker.control_type is ControlType.COMMIT:
            had_records = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not had_records, None
        aborted = self._aborted.pop(batch.producer_id, None)
        if aborted is None or batch.producer_id not in self._with_records:
            return True, None
        self._with_records.discard(batch.producer_id)
        return False, aborted

    def _begin_up_to(self, offset: Offset) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            _, aborted = heappop(self._waiting)
            self._aborted.setdefault(aborted.producer_id, aborted)


def is_empty(batch: StoredBatch) -> bool:
    """Whether only the header of a batch is left."""
    return batch.magic == 2 and int.from_bytes(batch.data[57:61], "big") == 0
