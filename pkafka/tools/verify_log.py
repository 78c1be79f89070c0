"""Checks whole logs on disk: every batch, what the files beside the segments say of them, and each against the others.

One pass over the segments in order, memory as large as the producers that are alive. Nothing is changed. What only
looks odd (a gap in a compacted log, an index that was never trimmed) is a remark; damage is what a broker would cut
off, build anew or serve wrongly.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from pkafka.errors import StorageError
from pkafka.records.batch import BatchHeader
from pkafka.records.control import ControlType, decode_end_marker, decode_key
from pkafka.records.errors import RecordError
from pkafka.records.reading import decode_batch
from pkafka.storage.broker_metadata import decode_broker_metadata
from pkafka.storage.checkpoints import CLEANER_FILE, decode_offsets
from pkafka.storage.files import OsFiles
from pkafka.storage.leader_epochs import LEADER_EPOCH_FILE, decode_epochs
from pkafka.storage.partition_metadata import read_topic_id
from pkafka.tools.dump_log import records_of
from pkafka.tools.log_rows import ProducerRow
from pkafka.tools.log_side_files import (
    ABORTED_ENTRY,
    CHECKPOINT_FILES,
    META_PROPERTIES_FILE,
    OFFSET_ENTRY,
    TIME_ENTRY,
    base_offset_of,
    file_content,
    index_entries,
    opened,
    producers_in,
)
from pkafka.tools.segment_walk import Batch, SegmentWalk

_PROBLEMS_KEPT: Final = 1_000
_NOTHING: Final = -1


class Problem(NamedTuple):
    """Something found. ``position`` and ``size`` are bytes of the file, where it is about some; else -1."""

    file: str
    check: str
    position: int
    size: int
    message: str
    is_damage: bool


@dataclass
class LogReport:
    """What was found in one log, or in the files of a data directory itself."""

    path: Path
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    first_offset: int = _NOTHING
    next_offset: int = _NOTHING
    is_compacted: bool = False
    damage: int = 0
    remarks: int = 0
    problems: list[Problem] = field(default_factory=list)

    def add(
        self, file: Path, check: str, message: str, *, position: int = -1, size: int = -1, damage: bool = True
    ) -> None:
        """Note something; of very many, only the first are kept, but all are counted."""
        self.damage += damage
        self.remarks += not damage
        if len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(Problem(file.name, check, position, size, message, damage))


@dataclass
class _Producer:
    """What a producer snapshot says of one producer."""

    epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp: int = -1
    coordinator_epoch: int = -1
    transaction_start: int = -1

    @classmethod
    def of(cls, row: ProducerRow) -> "_Producer":
        return cls(
            row.producer_epoch,
            row.last_sequence,
            row.last_offset,
            row.offset_delta,
            row.timestamp,
            row.coordinator_epoch,
            row.current_txn_first_offset,
        )


class _Aborted(NamedTuple):
    """An aborted transaction, as the log has it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def __str__(self) -> str:
        return f"producer {self.producer_id}: offsets {self.first_offset} to {self.last_offset}"


def verify_log(
    segments: Sequence[Path],
    *,
    is_whole: bool,
    is_compacted: bool = False,
    deep: bool = False,
    on_read: Callable[[int], None] | None = None,
) -> LogReport:
    """Check the segments of one log, in order of their offsets, and the files beside them.

    Args:
        segments: the ``.log`` files.
        is_whole: whether these are all segments of the log, so that what belongs to none of them is too much.
        is_compacted: whether compaction may have left gaps; it is also taken for true where the batches show it.
        deep: decode the records too.
        on_read: called with numbers of bytes read.

    Raises:
        DumpError: the name of a file has no base offset.
        OSError: a file cannot be read.
    """
    check = _LogCheck(segments, is_whole=is_whole, deep=deep, on_read=on_read)
    check.report.is_compacted = is_compacted
    check.run()
    return check.report


def verify_data_directory(directory: Path, ends: Mapping[str, tuple[int, int]]) -> LogReport:
    """Check the files of a data directory that belong to no log of it.

    Args:
        ends: by the name of each partition's directory, the first offset and the one behind the last.
    """
    report = LogReport(directory)
    meta = directory / META_PROPERTIES_FILE
    if meta.exists():
        try:
            decode_broker_metadata(meta.read_bytes(), meta.name)
        except StorageError as error:
            report.add(meta, "meta.properties", str(error))
    for path in (directory / name for name in CHECKPOINT_FILES):
        if not path.exists():
            continue
        try:
            offsets = decode_offsets(path.read_bytes(), path.name)
        except StorageError as error:
            report.add(path, "checkpoint", str(error))
            continue
        for at, offset in offsets.items():
            name = f"{at.topic}-{at.partition}"
            if name not in ends:
                report.add(path, "checkpoint", f"{name} is at {offset}, but not here", damage=False)
            elif ends[name][1] != _NOTHING and offset > ends[name][1]:
                text = f"{name} is at {offset}, but its log ends at {ends[name][1]}"
                report.add(path, "checkpoint", text)
    return report


def compacted_partitions(directory: Path) -> set[str]:
    """The names of the partitions in a data directory that compaction has been at; none where nothing says so."""
    try:
        offsets = decode_offsets((directory / CLEANER_FILE).read_bytes(), CLEANER_FILE)
    except (OSError, StorageError):
        return set()
    return {f"{at.topic}-{at.partition}" for at in offsets}


class _LogCheck:
    """The pass over one log."""

    def __init__(
        self,
        segments: Sequence[Path],
        *,
        is_whole: bool,
        deep: bool,
        on_read: Callable[[int], None] | None,
    ) -> None:
        self._segments = segments
        self._directory = segments[0].parent
        self.report = LogReport(self._directory if is_whole else segments[0], segments=len(segments))
        self._is_whole = is_whole
        self._deep = deep
        self._on_read = on_read
        self._next_offset = _NOTHING
        self._gaps: list[tuple[Path, int, int, int]] = []
        self._gap_count = 0
        self._damage_before: tuple[Path, int, int, str] | None = None
        self._epoch = _NOTHING
        self._epochs: list[tuple[int, int]] = []
        self._epoch_complaints: set[int] = set()
        self._producers: dict[int, _Producer] = {}
        self._knows_all_producers = base_offset_of(segments[0]) == 0
        self._snapshots = sorted(self._directory.glob("*.snapshot"), key=base_offset_of)
        if not is_whole:
            self._snapshots = [each for each in self._snapshots if each.stem == segments[0].stem]
        self._aborted: list[_Aborted] = []

    def run(self) -> None:
        self._read_epochs()
        self._read_topic_id()
        for number, segment in enumerate(self._segments):
            following = self._segments[number + 1] if number + 1 < len(self._segments) else None
            _SegmentCheck(self, segment, following).run()
        report = self.report
        report.next_offset = self._next_offset
        self._compare_snapshots(None)
        self._judge_gaps()
        if self._is_whole:
            self._look_for_orphans()
            for epoch, start in self._epochs:
                if start > max(self._next_offset, base_offset_of(self._segments[-1])):
                    text = (
                        f"epoch {epoch} begins at {start}, behind the end of the log at {self._next_offset}"
                    )
                    report.add(self._directory / LEADER_EPOCH_FILE, "leader epochs", text)

    # -- what a segment's pass tells ----------------------------------------------------------------------

    def damaged(self, path: Path, position: int, size: int, reason: str) -> None:
        """Bytes of a segment that are lost; which offsets, the next batch shows."""
        self._tell_damage("")
        self._damage_before = (path, position, size, reason)

    def batch(self, path: Path, batch: Batch) -> None:
        """A batch with a right checksum."""
        header = batch.header
        self._continuity(path, batch)
        self.report.batches += 1
        self.report.records += max(header.records_count, 0)
        if header.magic < 2:
            return
        self._leader_epoch(path, batch)
        self._compare_snapshots(header.base_offset)
        if header.producer_id >= 0:
            self._producer(path, batch)

    def end_of_segment(self) -> None:
        self._tell_damage("")

    def read(self, count: int) -> None:
        self.report.size_bytes += count
        if self._on_read is not None:
            self._on_read(count)

    @property
    def deep(self) -> bool:
        return self._deep

    def taken_aborted(self) -> list[_Aborted]:
        """The transactions aborted since this was last asked."""
        found, self._aborted = self._aborted, []
        return found

    @property
    def knows_all_transactions(self) -> bool:
        """Whether what was aborted is known from the beginning of the log, and nothing of it was compacted away."""
        return self._knows_all_producers and not self.report.is_compacted

    @property
    def next_offset(self) -> int:
        return self._next_offset

    # -- offsets ------------------------------------------------------------------------------------------

    def _continuity(self, path: Path, batch: Batch) -> None:
        header, report = batch.header, self.report
        first = header.base_offset
        if header.magic < 2 and header.codec:
            # The offset of a wrapper is that of its last message.
            first = _first_offset(batch)
        if report.first_offset == _NOTHING:
            report.first_offset = first
        expected = self._next_offset
        lost = ""
        if expected != _NOTHING and first > expected:
            if self._damage_before is not None:
                lost = f", offsets {expected} to {first - 1} are lost"
            else:
                self._gap_count += 1
                if len(self._gaps) < _PROBLEMS_KEPT:
                    self._gaps.append((path, batch.position, expected, first))
        self._tell_damage(lost)
        if expected != _NOTHING and first < expected:
            text = f"the batch begins at offset {first}, but {expected} comes next"
            report.add(path, "offsets", text, position=batch.position, size=batch.size)
        if header.magic >= 2 and header.records_count < header.last_offset_delta + 1:
            report.is_compacted = True
        self._next_offset = max(self._next_offset, header.last_offset + 1)

    def _tell_damage(self, lost: str) -> None:
        if self._damage_before is None:
            return
        path, position, size, reason = self._damage_before
        self._damage_before = None
        text = f"bytes {position} to {position + size - 1} ({size} bytes): {reason}{lost}"
        self.report.add(path, "batches", text, position=position, size=size)

    def _judge_gaps(self) -> None:
        report = self.report
        for path, position, expected, found in self._gaps:
            text = (
                f"offsets {expected} to {found - 1} are missing in front of the batch at position {position}"
            )
            report.add(path, "offsets", text, position=position, damage=not report.is_compacted)
        unlisted = self._gap_count - len(self._gaps)
        if unlisted:
            text = f"and {unlisted} more gaps"
            report.add(self._segments[-1], "offsets", text, damage=not report.is_compacted)

    # -- leader epochs ------------------------------------------------------------------------------------

    def _read_epochs(self) -> None:
        path = self._directory / LEADER_EPOCH_FILE
        if not path.exists():
            return
        try:
            self._epochs = decode_epochs(path.read_bytes())
        except StorageError as error:
            self.report.add(path, "leader epochs", str(error))

    def _leader_epoch(self, path: Path, batch: Batch) -> None:
        epoch, report = batch.header.partition_leader_epoch, self.report
        if epoch < 0:
            return
        if epoch < self._epoch:
            text = f"leader epoch {epoch} behind epoch {self._epoch}"
            report.add(path, "leader epochs", text, position=batch.position, size=batch.size)
        self._epoch = max(epoch, self._epoch)
        if not self._epochs or epoch in self._epoch_complaints:
            return
        place = bisect_right(self._epochs, batch.header.base_offset, key=lambda entry: entry[1])
        found = self._epochs[place - 1][0] if place else _NOTHING
        if found != epoch:
            self._epoch_complaints.add(epoch)
            known = f"epoch {found}" if place else "no epoch"
            text = f"{known} at offset {batch.header.base_offset}, where the log has epoch {epoch}"
            report.add(self._directory / LEADER_EPOCH_FILE, "leader epochs", text)

    def _read_topic_id(self) -> None:
        try:
            read_topic_id(OsFiles(), self._directory)
        except StorageError as error:
            self.report.add(self._directory / "partition.metadata", "topic id", str(error))

    # -- producers and transactions -----------------------------------------------------------------------

    def _producer(self, path: Path, batch: Batch) -> None:
        header = batch.header
        state = self._producers.setdefault(header.producer_id, _Producer())
        if header.is_control:
            self._marker(path, batch, state)
            return
        if header.producer_epoch != state.epoch:
            state.last_sequence = state.last_offset = -1
            state.epoch = header.producer_epoch
        if header.is_transactional and state.transaction_start < 0:
            state.transaction_start = header.base_offset
        state.last_sequence = header.last_sequence
        state.last_offset = header.last_offset
        state.offset_delta = header.last_offset_delta
        state.timestamp = header.max_timestamp

    def _marker(self, path: Path, batch: Batch, state: _Producer) -> None:
        header = batch.header
        try:
            records = decode_batch(batch.view, batch.at, header)
            if not records:
                return
            if decode_key(records[0].key) not in (ControlType.ABORT, ControlType.COMMIT):
                return
            marker = decode_end_marker(records[0].key, records[0].value)
        except RecordError as error:
            self.report.add(path, "records", error.message, position=batch.position, size=batch.size)
            return
        if header.producer_epoch != state.epoch:
            state.last_sequence = state.last_offset = -1
            state.epoch = header.producer_epoch
        state.coordinator_epoch = marker.coordinator_epoch
        state.timestamp = header.max_timestamp
        first, state.transaction_start = state.transaction_start, -1
        if first >= 0 and marker.control_type is ControlType.ABORT:
            still_open = [
                each.transaction_start for each in self._producers.values() if each.transaction_start >= 0
            ]
            stable = min(still_open, default=header.last_offset + 1)
            self._aborted.append(_Aborted(header.producer_id, first, header.last_offset, stable))

    def _compare_snapshots(self, reached: int | None) -> None:
        """Compare the snapshots up to an offset (None: all) with what the log says so far."""
        while self._snapshots:
            offset = base_offset_of(self._snapshots[0])
            if reached is not None and offset > reached:
                return
            path = self._snapshots.pop(0)
            if reached is None and offset > max(self._next_offset, base_offset_of(self._segments[-1])):
                self.report.add(
                    path, "producers", f"it is of offset {offset}, but the log ends at {self._next_offset}"
                )
                continue
            try:
                rows = list(producers_in(file_content(path)))
            except StorageError as error:
                self.report.add(path, "producers", str(error))
                continue
            for row in rows:
                self._compare_producer(path, offset, row)
            self._knows_all_producers = True

    def _compare_producer(self, path: Path, offset: int, row: ProducerRow) -> None:
        report = self.report
        theirs = _Producer.of(row)
        ours = self._producers.get(row.producer_id)
        start = report.first_offset if report.first_offset != _NOTHING else offset
        if row.last_offset >= offset:
            text = f"producer {row.producer_id} has written offset {row.last_offset}, which is not before {offset}"
            report.add(path, "producers", text)
        elif ours is None or row.last_offset < start:
            if row.last_offset >= start and not report.is_compacted:
                text = f"producer {row.producer_id} has written offset {row.last_offset}, but not in this log"
                report.add(path, "producers", text)
            # What lies before the log's start only the snapshot knows.
            self._producers[row.producer_id] = theirs
        elif ours != theirs and not report.is_compacted:
            differences = ", ".join(
                f"{name.replace('_', ' ')} {there}, in the log {here}"
                for name, here in vars(ours).items()
                if (there := getattr(theirs, name)) != here
            )
            report.add(path, "producers", f"producer {row.producer_id}: {differences}")
            self._producers[row.producer_id] = theirs

    def _look_for_orphans(self) -> None:
        stems = {segment.stem for segment in self._segments}
        for path in sorted(self._directory.iterdir()):
            if path.suffix in (".index", ".timeindex", ".txnindex") and path.stem not in stems:
                self.report.add(path, "files", "there is no segment that it belongs to", damage=False)
            elif path.suffix in (".cleaned", ".swap", ".deleted"):
                self.report.add(path, "files", "left by compaction or deletion", damage=False)


class _SegmentCheck:
    """The pass over one segment, with its indexes."""

    def __init__(self, log: _LogCheck, path: Path, following: Path | None) -> None:
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
        if expected != _NOTHING and self._base < expected:
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
            # Above its last offset it may be: what is appended in one go has one entry.
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
        found: list[_Aborted] = []
        if path.exists():
            with opened(path) as index:
                found = [_Aborted(*values[1:]) for values in index_entries(index, ABORTED_ENTRY)]
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

    def __init__(self, segment: _SegmentCheck, suffix: str) -> None:
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


def _first_offset(batch: Batch) -> int:
    """The first offset inside a wrapper of magic 0 or 1."""
    try:
        records = records_of(batch)
    except RecordError:
        return batch.header.base_offset
    assert isinstance(records, list)
    return records[0].record.offset if records else batch.header.base_offset
