"""The check of one segment: its batches one after the other, and at each what the indexes say of it."""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Protocol

from pkafka.records.batch import BatchHeader
from pkafka.records.errors import RecordError
from pkafka.tools.logs.dump import records_of
from pkafka.tools.logs.segment_walk import Batch, SegmentWalk
from pkafka.tools.logs.side_files import (
    ABORTED_ENTRY,
    OFFSET_ENTRY,
    TIME_ENTRY,
    base_offset_of,
    index_entries,
    opened,
)
from pkafka.tools.logs.verification.producers import AbortedTransaction
from pkafka.tools.logs.verification.report import NOTHING, LogReport


class WholeLog(Protocol):
    """What the check of a segment tells, and asks, of the log that it belongs to."""

    report: LogReport

    @property
    def deep(self) -> bool:
        """Whether records are to be decoded."""

    @property
    def next_offset(self) -> int:
        """What comes next, -1 before the first batch."""

    @property
    def knows_all_transactions(self) -> bool:
        """Whether what was aborted is known from the beginning of the log, and nothing of it was compacted away."""

    def damaged(self, path: Path, position: int, size: int, reason: str) -> None:
        """Bytes of a segment that are lost."""

    def batch(self, path: Path, batch: Batch) -> None:
        """A batch with a right checksum."""

    def end_of_segment(self) -> None:
        """There are no more batches in this one."""

    def taken_aborted(self) -> list[AbortedTransaction]:
        """The transactions aborted since this was last asked."""

    def read(self, count: int) -> None:
        """So many bytes were read."""


class SegmentCheck:
    """The pass over one segment, with its indexes."""

    def __init__(self, log: WholeLog, path: Path, following: Path | None) -> None:
        self._log = log
        self._path = path
        self._base = base_offset_of(path)
        self._end = base_offset_of(following) if following else None
        self._report = log.report
        self._offsets = _Entries(self, ".index")
        self._times = _Entries(self, ".timeindex")
        self._largest = -1
        """The largest timestamp so far."""

    @property
    def report(self) -> LogReport:
        return self._report

    @property
    def path(self) -> Path:
        return self._path

    @property
    def is_active(self) -> bool:
        return self._end is None

    def run(self) -> None:
        log, path = self._log, self._path
        expected = log.next_offset
        if expected != NOTHING and self._base < expected:
            self._report.add(path, "offsets", f"it begins at {self._base}, but {expected} comes next")
        walk = SegmentWalk(
            path,
            resync=True,
            on_damage=lambda position, size, reason: log.damaged(path, position, size, reason),
            on_read=log.read,
        )
        offsets, times = self._offsets.entries(OFFSET_ENTRY), self._times.entries(TIME_ENTRY)
        offset_entry, time_entry = next(offsets, None), next(times, None)
        for batch in walk:
            header = batch.header
            if not batch.is_valid:
                reason = (
                    "the checksum is wrong"
                    if header.magic <= 2
                    else f"no format has the magic {header.magic}"
                )
                log.damaged(path, batch.position, batch.size, reason)
            else:
                log.batch(path, batch)
                self._batch(batch)
            while offset_entry is not None and offset_entry[1] <= batch.position:
                self._offset_entry(offset_entry, batch)
                offset_entry = next(offsets, None)
            largest = max(self._largest, header.max_timestamp) if batch.is_valid else self._largest
            while time_entry is not None and self._base + time_entry[1] <= header.last_offset:
                if batch.is_valid:  # otherwise its times are lost
                    self._time_entry(time_entry, header, largest)
                time_entry = next(times, None)
            self._largest = largest
        self._tail(walk)
        log.end_of_segment()
        for relative, position in _rest(offset_entry, offsets):
            text = f"offset {self._base + relative} at position {position}, behind the end of the log"
            self._report.add(self._offsets.path, "offset index", text)
        for timestamp, relative in _rest(time_entry, times):
            text = f"timestamp {timestamp} at offset {self._base + relative}, behind the end of the log"
            self._report.add(self._times.path, "time index", text)
        self._transactions()

    def _batch(self, batch: Batch) -> None:
        header = batch.header
        if header.last_offset < self._base or (self._end is not None and header.last_offset >= self._end):
            span = f"{self._base} to {'...' if self._end is None else self._end - 1}"
            text = f"offsets {header.base_offset} to {header.last_offset} in the segment of {span}"
            self._report.add(self._path, "offsets", text, position=batch.position, size=batch.size)
        if self._log.deep:
            try:
                records_of(batch)
            except RecordError as error:
                self._report.add(
                    self._path, "records", error.message, position=batch.position, size=batch.size
                )

    def _tail(self, walk: SegmentWalk) -> None:
        trailing = walk.size - walk.end
        if trailing <= 0:
            return
        if self.is_active and self._is_zero_from(walk.end):
            text = f"{trailing} bytes are allocated in advance"
            self._report.add(self._path, "batches", text, position=walk.end, size=trailing, damage=False)
            return
        self._log.damaged(self._path, walk.end, trailing, walk.fault or "a batch that is cut off")

    def _is_zero_from(self, position: int) -> bool:
        with self._path.open("rb") as file:
            file.seek(position)
            while chunk := file.read(1 << 20):
                if chunk.count(0) != len(chunk):
                    return False
        return True

    def _offset_entry(self, entry: tuple[int, ...], batch: Batch) -> None:
        relative, position = entry
        offset = self._base + relative
        text = None
        if position < batch.position:
            text = f"offset {offset} at position {position}, where no batch begins"
        elif offset < batch.header.base_offset:
            # Above its last offset it may be: older brokers gave what is appended in one go one entry.
            text = f"offset {offset} at position {position}, where offset {batch.header.base_offset} begins"
        if text is not None:
            self._report.add(self._offsets.path, "offset index", text)

    def _time_entry(self, entry: tuple[int, ...], header: BatchHeader, largest: int) -> None:
        timestamp, relative = entry
        offset = self._base + relative
        is_right = self._largest <= timestamp <= largest
        if header.last_offset == offset:
            is_right = timestamp == largest
        if not is_right:
            text = f"timestamp {timestamp} at offset {offset}, where the largest of the log is {largest}"
            self._report.add(self._times.path, "time index", text)

    def _transactions(self) -> None:
        path = self._path.with_suffix(".txnindex")
        expected = self._log.taken_aborted()
        found: list[AbortedTransaction] = []
        if path.exists():
            with opened(path) as index:
                found = [AbortedTransaction(*values[1:]) for values in index_entries(index, ABORTED_ENTRY)]
            if path.stat().st_size % ABORTED_ENTRY.size:
                self._report.add(path, "aborted transactions", "the last entry is cut off")
        for each in found:
            end = self._end if self._end is not None else max(self._log.next_offset, self._base)
            if not (each.first_offset <= each.last_offset and self._base <= each.last_offset < end):
                text = f"{each} are not of this segment"
                self._report.add(path, "aborted transactions", text)
        if not self._log.knows_all_transactions:
            return
        for each in expected:
            if each not in found:
                text = f"{each} are not listed"
                self._report.add(path, "aborted transactions", text)
        for each in found:
            if each not in expected and each.first_offset >= self._report.first_offset:
                text = f"{each} are not aborted so"
                self._report.add(path, "aborted transactions", text)


class _Entries:
    """The entries of an index, checked for themselves while they are read."""

    def __init__(self, segment: SegmentCheck, suffix: str) -> None:
        self._segment = segment
        self.path = segment.path.with_suffix(suffix)
        self._check = "offset index" if suffix == ".index" else "time index"

    def entries(self, layout: Struct) -> Iterator[tuple[int, ...]]:
        """The entries up to the zeros of what is allocated in advance."""
        report = self._segment.report
        if not self.path.exists():
            report.add(self.path, self._check, "it is not there", damage=False)
            return
        with opened(self.path) as index:
            size = self.path.stat().st_size
            if size % layout.size:
                report.add(self.path, self._check, f"its size, {size}, is not a multiple of {layout.size}")
            previous: tuple[int, ...] | None = None
            for number, entry in enumerate(index_entries(index, layout)):
                if not any(entry):
                    if not self._segment.is_active and size > layout.size:
                        report.add(self.path, self._check, "it was never trimmed", damage=False)
                    return
                if previous is not None and not all(
                    now > then for now, then in zip(entry, previous, strict=True)
                ):
                    report.add(self.path, self._check, f"entry {number}, {entry}, is not above {previous}")
                    return
                previous = entry
                yield entry


def _rest(entry: tuple[int, ...] | None, entries: Iterator[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    if entry is not None:
        yield entry
        yield from entries
