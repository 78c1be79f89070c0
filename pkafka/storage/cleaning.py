"""One round of compaction over one log: the file work of the cleaner process.

It only reads what the owner of the log has on the disk, and writes new segments under the suffix ``.cleaned``; it may
be killed at any moment. The owner takes the new segments over (Log.replace_segments), group by group, and decides if
they still fit. Everything here blocks and belongs in a thread.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.model import Millis, Offset
from pkafka.records.batch import Buffer
from pkafka.storage.batch_filter import BatchFilter, RecordCounts, map_batch
from pkafka.storage.batch_scan import SCAN_CHUNK_BYTES, StoredBatch, scan, scan_buffer
from pkafka.storage.compaction import (
    CleanedTransactions,
    LastRecord,
    SourceSegment,
    groups_of_segments,
)
from pkafka.storage.config import LogConfig
from pkafka.storage.files import Files, unlink_all
from pkafka.storage.offset_map import OffsetMap
from pkafka.storage.open_files import OpenFiles
from pkafka.storage.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX_SUFFIX,
    AppendedBatch,
    Segment,
    segment_path,
)
from pkafka.storage.transaction_index import AbortedTransaction

_WRITE_BYTES: Final = 1 << 20
_READ_BYTES_MIN: Final = 4096


class CleaningAbortedError(Exception):
    """The owner of the log does not want it any more, or the cleaner stops."""


class CleaningPlan(NamedTuple):
    """What the owner of a log tells of it, in values that travel between processes.

    Attributes:
        directory: of the partition.
        first_dirty: up to here it was cleaned before.
        end: the base offset of the first segment that must not be touched.
        segments: base offset and size of those before it.
        producers: id, offset of the last record (-1 without one) and epoch of the active ones.
        aborted: the aborted transactions among the records.
        segment_bytes: segment.bytes of the topic.
        segment_index_bytes: segment.index.bytes.
        index_interval_bytes: index.interval.bytes.
        delete_retention_ms: delete.retention.ms.
    """

    directory: str
    first_dirty: Offset
    end: Offset
    segments: Sequence[tuple[Offset, int]]
    producers: Sequence[tuple[int, Offset, int]]
    aborted: Sequence[tuple[int, Offset, Offset, Offset]]
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: Millis


@dataclass(slots=True)
class CleaningStats:
    """What a round has read and written."""

    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    buffer_utilization: float = 0.0
    records: RecordCounts = field(default_factory=RecordCounts)


class Replacement(NamedTuple):
    """New segments, on the disk under the suffix ``.cleaned``, and the segments whose place they take."""

    old: list[Offset]
    new: list[Offset]


class Cleaning:
    """A round over one log.

    Args:
        plan: what the owner said.
        offsets: an empty map for the keys.
        files: the file port.
        now_ms: the wall clock.
        pace: called with every number of bytes read or written; may wait, or raise CleaningAbortedError.
        read_bytes: how much to read at a time.
    """

    def __init__(
        self,
        plan: CleaningPlan,
        offsets: OffsetMap,
        *,
        files: Files,
        now_ms: Millis,
        pace: Callable[[int], None],
        read_bytes: int = SCAN_CHUNK_BYTES,
    ) -> None:
        self.plan = plan
        self.stats = CleaningStats()
        self._directory = Path(plan.directory)
        self._offsets = offsets
        self._files = files
        self._now_ms = now_ms
        self._pace = pace
        self._read_bytes = max(read_bytes, _READ_BYTES_MIN)
        self._config = LogConfig(
            segment_bytes=plan.segment_bytes,
            segment_index_bytes=plan.segment_index_bytes,
            index_interval_bytes=plan.index_interval_bytes,
        )
        self._aborted = [AbortedTransaction(*each) for each in plan.aborted]
        self._filter = BatchFilter(
            offsets,
            transactions=CleanedTransactions(self._aborted),
            last_records={pid: LastRecord(offset, epoch) for pid, offset, epoch in plan.producers},
            end=plan.end,
            now_ms=now_ms,
            delete_retention_ms=plan.delete_retention_ms,
        )
        self._old_tombstones_until_ms = 0
        self._written: list[Segment] = []
        """The new segments that the owner has not been offered yet."""

    @property
    def end_offset(self) -> Offset:
        """Where the dirty part begins when all groups have been replaced."""
        return max(self._offsets.latest_offset + 1, self.plan.first_dirty)

    def map_keys(self) -> None:
        """Read the dirty part and note its keys, as far as there is memory for them.

        Raises:
            CleaningAbortedError: see ``pace``.
            ApiError: a batch is damaged.
            OSError: the disk refused.
        """
        plan = self.plan
        transactions = CleanedTransactions(
            each for each in self._aborted if each.last_offset >= plan.first_dirty
        )
        ends = [base for base, _ in plan.segments[1:]] + [plan.end]
        for (base, size), end in zip(plan.segments, ends, strict=False):
            if end <= plan.first_dirty:
                continue
            for batch in self._batches(base, size):
                self.stats.map_bytes_read += batch.size
                if batch.last_offset < plan.first_dirty:
                    continue
                if not map_batch(batch, self._offsets, transactions, plan.first_dirty):
                    self.stats.buffer_utilization = self._offsets.utilization
                    return
                self._offsets.latest_offset = batch.last_offset
            # Compaction may have left a gap before the next segment.
            self._offsets.latest_offset = end - 1
        self.stats.buffer_utilization = self._offsets.utilization

    def groups(self) -> list[list[SourceSegment]]:
        """The segments up to the end of what was mapped, in the groups that become one segment each.

        Raises:
            OSError: a file is not there.
        """
        sources = [self._source(base, size) for base, size in self.plan.segments]
        clean = [one for one in sources if one.base_offset < self.plan.first_dirty]
        if clean:
            self._old_tombstones_until_ms = clean[-1].modified_ms - self.plan.delete_retention_ms
        return groups_of_segments(
            [one for one in sources if one.base_offset < self.end_offset],
            bytes_max=self.plan.segment_bytes,
            index_bytes_max=self.plan.segment_index_bytes,
            end=self.plan.end,
        )

    def rewrite(self, group: Sequence[SourceSegment]) -> Replacement | None:
        """Write what stays of a group into a new segment, or several where offsets are too far from each other.

        Returns:
            What is on the disk and can take the place of the group; None when nothing has changed.

        Raises:
            CleaningAbortedError: see ``pace``.
            ApiError: a batch is damaged.
            OSError: the disk refused.
        """
        self._written = []
        output = _Output(self._new_segment, group[0].base_offset, self._pace)
        is_changed = len(group) > 1
        try:
            for source in group:
                keeps_tombstones = source.modified_ms > self._old_tombstones_until_ms
                for batch in self._batches(source.base_offset, source.size):
                    left, aborted = self._filter.filter(batch, keeps_old_tombstones=keeps_tombstones)
                    is_changed = is_changed or left is not batch.data
                    if left is not None:
                        output.add(left, batch)
                        if aborted is not None:
                            output.index_transaction(aborted)
                self.stats.bytes_read += source.size
            output.end()
            self.stats.bytes_written += sum(segment.size for segment in self._written)
            self.stats.records = self._filter.counts
            if not is_changed and len(self._written) == 1:
                self.discard()
                return None
            self._make_durable(group[-1].modified_ns)
        finally:
            for segment in self._written:
                segment.release_files()
        return Replacement(
            [one.base_offset for one in group], [segment.base_offset for segment in self._written]
        )

    def discard(self) -> None:
        """Remove the new segments of the last group; the owner must not have begun to take them over.

        Raises:
            OSError: the disk refused.
        """
        for segment in self._written:
            segment.release_files()
            unlink_all(self._files, segment.paths)
        self._written = []

    def accepted(self) -> None:
        """The owner has taken the last group over; its files are not ours any more."""
        self._written = []

    def _new_segment(self, base_offset: Offset) -> Segment:
        segment = Segment.create(
            self._directory,
            base_offset,
            config=self._config,
            files=self._files,
            open_files=OpenFiles(),
            now_ms=self._now_ms,
            suffix=CLEANED_SUFFIX,
        )
        self._written.append(segment)
        return segment

    def _make_durable(self, modified_ns: int) -> None:
        """Before the old ones go; and with the time that retention looks at where records have none."""
        for segment in self._written:
            segment.finish()
            if segment.size:
                # Many a small segment is left without a record; then its name alone matters.
                segment.flush()
            os.utime(segment.path, ns=(modified_ns, modified_ns))
        self._files.fsync_directory(self._directory)

    def _source(self, base: Offset, size: int) -> SourceSegment:
        status = os.stat(segment_path(self._directory, base, LOG_SUFFIX))
        index, time_index = (
            _size_of(segment_path(self._directory, base, suffix))
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        )
        return SourceSegment(base, size, index, time_index, status.st_mtime_ns)

    def _batches(self, base: Offset, size: int) -> Iterator[StoredBatch]:
        with self._opened(segment_path(self._directory, base, LOG_SUFFIX)) as descriptor:
            paced = 0
            for batch in scan(self._files, descriptor, 0, size, check=False, chunk_bytes=self._read_bytes):
                yield batch
                end = batch.position + batch.size
                if end - paced >= self._read_bytes or end >= size:
                    self._pace(end - paced)
                    paced = end

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        descriptor = self._files.open(path, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            self._files.close(descriptor)


class _Output:
    """Gathers batches and appends them to the new segment in large pieces."""

    def __init__(
        self, create: Callable[[Offset], Segment], base_offset: Offset, pace: Callable[[int], None]
    ) -> None:
        self._create = create
        self._pace = pace
        self._segment = create(base_offset)
        self._data = bytearray()
        self._batches: list[AppendedBatch] = []

    def add(self, data: Buffer, original: StoredBatch) -> None:
        """Take a batch that may have become smaller; its offsets are those of ``original``."""
        if original.last_offset - self._segment.base_offset > RELATIVE_OFFSET_MAX:
            # Merged by an old version, or written to a gap: indexes cannot reach it from here.
            self.end()
            self._segment = self._create(original.base_offset)
        left = original if data is original.data else next(scan_buffer(memoryview(data), check=False))
        self._batches.append((len(self._data), left.size, left.last_offset, left.max_timestamp))
        self._data += data
        if len(self._data) >= _WRITE_BYTES:
            self.end()

    def index_transaction(self, aborted: AbortedTransaction) -> None:
        """The batch that came last ends an aborted transaction."""
        self._segment.transaction_index.append(aborted)

    def end(self) -> None:
        """Write what has been gathered."""
        if self._batches:
            self._segment.append(self._data, self._batches, first_timestamp=self._batches[0][3])
            self._pace(len(self._data))
            self._data = bytearray()
            self._batches = []


def _size_of(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
