"""The files beside the segments of a log, as rows: indexes, aborted transactions, producers, checkpoints, ids.

The indexes are compared with their segment, entry by entry, as Kafka's DumpLogSegments does.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from pkafka.errors import PkafkaError, StorageError
from pkafka.model import topic_id_text
from pkafka.records.ancient import iter_records
from pkafka.records.checksum import crc32c
from pkafka.storage.broker_metadata import decode_broker_metadata
from pkafka.storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    decode_offsets,
)
from pkafka.storage.files import OsFiles
from pkafka.storage.leader_epochs import LEADER_EPOCH_FILE, decode_epochs
from pkafka.storage.partition_metadata import PARTITION_METADATA_FILE, read_topic_id
from pkafka.tools.logs.findings import Finding, Findings
from pkafka.tools.logs.rows import (
    AbortedRow,
    AncientRow,
    CheckpointRow,
    EpochRow,
    NoteRow,
    OffsetRow,
    ProducerRow,
    PropertyRow,
    Row,
    TimeRow,
)
from pkafka.tools.logs.segment_walk import NO_LIMIT, header_at

# Offset relative to the base offset i32 | position in the .log i32.
OFFSET_ENTRY: Final = Struct(">ii")
# Timestamp i64 | relative offset i32.
TIME_ENTRY: Final = Struct(">qi")
# Version i16 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64.
ABORTED_ENTRY: Final = Struct(">hqqqq")
# Version i16 | CRC-32C u32 of everything behind it | count i32.
_SNAPSHOT_HEAD: Final = Struct(">hIi")
_SNAPSHOT_COUNT_AT: Final = 6
_SNAPSHOT_VERSION: Final = 1
# Producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32 | timestamp i64 |
# coordinator epoch i32 | first offset of the open transaction i64.
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
META_PROPERTIES_FILE: Final = "meta.properties"
CHECKPOINT_FILES: Final = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE)
NAMED_FILES: Final = (LEADER_EPOCH_FILE, PARTITION_METADATA_FILE, META_PROPERTIES_FILE, *CHECKPOINT_FILES)
_BEFORE_0_8: Final = ".kafka"
SIDE_SUFFIXES: Final = (".index", ".timeindex", ".txnindex", ".snapshot", _BEFORE_0_8)
_ENTRIES_AT_ONCE: Final = 8_192


class DumpError(PkafkaError):
    """A file cannot be dumped at all: it is not there, or its name does not say what it is."""


class _Wanted(Protocol):
    def __call__(self, offset: int | None, timestamp: int | None = None) -> bool: ...


class SideFiles:
    """Reads one file after the other.

    Args:
        findings: gets what is wrong.
        wanted: whether something at an offset and of a time is to be shown.
        bytes_max: read at most so much of a segment from before 0.8.
        verify_only: check indexes without showing their entries.
        sanity_only: only look whether an index would survive a start.
    """

    def __init__(
        self,
        findings: Findings,
        *,
        wanted: _Wanted,
        bytes_max: int = NO_LIMIT,
        verify_only: bool = False,
        sanity_only: bool = False,
    ) -> None:
        self._findings = findings
        self._wanted = wanted
        self._bytes_max = bytes_max
        self._verify_only = verify_only
        self._sanity_only = sanity_only

    def rows(self, path: Path) -> Iterator[Row]:
        """Everything in a file; what is wrong goes to the findings.

        Raises:
            DumpError: there is no such file, or its name has no base offset.
            OSError: it cannot be read.
        """
        readers: dict[str, Callable[[Path], Iterator[Row]]] = {
            ".index": self._offset_index,
            ".timeindex": self._time_index,
            ".txnindex": self._aborted,
            ".snapshot": self._snapshot,
            _BEFORE_0_8: self._ancient,
            LEADER_EPOCH_FILE: self._epochs,
            PARTITION_METADATA_FILE: self._partition_metadata,
            META_PROPERTIES_FILE: self._meta_properties,
            **dict.fromkeys(CHECKPOINT_FILES, self._checkpoint),
        }
        reader = readers.get(path.name) or readers[path.suffix]
        try:
            yield from reader(path)
        except FileNotFoundError as error:
            raise DumpError(f"{error.filename or path} does not exist") from error

    def _ancient(self, path: Path) -> Iterator[Row]:
        base = base_offset_of(path)
        yield NoteRow(f"Log starting offset: {base}")
        view = file_content(path)[: self._bytes_max]
        end = 0
        for record in iter_records(view):
            end = record.position + record.size_bytes
            if not record.crc_is_valid:
                self._other(path, f"the record at position {record.position} is not valid")
            if self._wanted(base + record.position):
                yield AncientRow(base + record.position, record)
        if end < len(view) and self._bytes_max == NO_LIMIT:
            self._other(path, f"{len(view) - end} invalid bytes at the end")
            yield NoteRow(f"Found {len(view) - end} invalid bytes at the end of {path.name}")

    def _offset_index(self, path: Path) -> Iterator[Row]:
        base = base_offset_of(path)
        with opened(_segment_of(path)) as log, opened(path) as index:
            size = os.fstat(index).st_size
            if size < OFFSET_ENTRY.size:
                yield NoteRow(f"{path} is empty.")
                return
            if self._sanity_only:
                yield from self._sane(path, offset_index_fault(index, size, base))
                return
            for number, (relative, position) in enumerate(index_entries(index, OFFSET_ENTRY)):
                # An index is allocated in advance: behind the last entry there are zeros.
                if relative == 0 and number > 0:
                    return
                header = header_at(log, position)
                if header is None:
                    self._other(
                        path, f"no batch is at position {position}, where offset {base + relative} points"
                    )
                elif header.last_offset != base + relative:
                    # Brokers before 3.9.1 gave batches that were appended in one go, as by a follower, one entry: the
                    # last offset of all and the position of the first. Kafka's tool lists it, but nothing is wrong.
                    text = f"  Index offset: {base + relative}, log offset: {header.last_offset}"
                    damage = header.base_offset > base + relative
                    self._findings.add(Finding.INDEX_MISMATCH, path, text, damage=damage)
                if not self._verify_only and self._wanted(base + relative):
                    yield OffsetRow(base + relative, position)

    def _time_index(self, path: Path) -> Iterator[Row]:
        base = base_offset_of(path)
        offsets = path.with_suffix(".index")
        with opened(_segment_of(path)) as log, opened(offsets) as index, opened(path) as times:
            size = os.fstat(times).st_size
            if self._sanity_only:
                yield from self._sane(path, time_index_fault(times, size, base))
                return
            positions = _content_of(index)
            previous = -1
            for number, (timestamp, relative) in enumerate(index_entries(times, TIME_ENTRY)):
                if relative == 0 and number > 0:
                    return
                is_empty = relative == timestamp == 0
                found = self._check_time(
                    path, log, _lookup(positions, relative), base + relative, timestamp, is_empty
                )
                if found and previous >= timestamp:
                    text = f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
                    self._findings.add(Finding.TIME_ORDER, path, text)
                previous = timestamp
                if not self._verify_only and self._wanted(base + relative, timestamp):
                    yield TimeRow(timestamp, base + relative)

    def _check_time(
        self, path: Path, log: int, position: int, offset: int, timestamp: int, is_empty: bool
    ) -> bool:
        """Look for the batch that an entry is about.

        Returns:
            Whether it is there.
        """
        found = -1
        while (header := header_at(log, position)) is not None:
            if header.last_offset >= offset:
                found = header.last_offset
                break
            position += header.size_bytes
        if header is None or found != offset:
            text = f"Indexed offset: {offset}, found log offset: {found}"
            # An index without entries looks like one entry of zeros.
            self._findings.add(Finding.NOT_FOUND, path, text, damage=not is_empty)
            return False
        if header.max_timestamp != timestamp:
            text = f"  Index timestamp: {timestamp}, log timestamp: {header.max_timestamp}"
            self._findings.add(Finding.TIME_MISMATCH, path, text, damage=not is_empty)
        return True

    def _sane(self, path: Path, fault: str | None) -> Iterator[Row]:
        """Say whether a broker would keep an index at its start."""
        if fault is None:
            yield NoteRow(f"{path} passed sanity check.")
        else:
            self._other(path, f"{fault}; a broker would build it anew")

    # -- producers ----------------------------------------------------------------------------------------

    def _aborted(self, path: Path) -> Iterator[Row]:
        with opened(path) as index:
            for values in index_entries(index, ABORTED_ENTRY):
                row = AbortedRow(*values)
                if row.version > 0:
                    self._other(path, f"version {row.version} of an entry, where 0 is known")
                if self._wanted(row.last_offset):
                    yield row
            if os.fstat(index).st_size % ABORTED_ENTRY.size:
                self._other(path, "the last entry is cut off")

    def _snapshot(self, path: Path) -> Iterator[Row]:
        data = file_content(path)
        try:
            yield from producers_in(data)
        except StorageError as error:
            self._other(path, str(error))

    # -- texts --------------------------------------------------------------------------------------------

    def _epochs(self, path: Path) -> Iterator[Row]:
        try:
            for epoch, start in epochs_in(path):
                yield EpochRow(epoch, start)
        except StorageError as error:
            self._other(path, str(error))

    def _checkpoint(self, path: Path) -> Iterator[Row]:
        try:
            for at, offset in decode_offsets(path.read_bytes(), path.name).items():
                yield CheckpointRow(at.topic, at.partition, offset)
        except StorageError as error:
            self._other(path, str(error))

    def _partition_metadata(self, path: Path) -> Iterator[Row]:
        try:
            topic_id = read_topic_id(OsFiles(), path.parent)
        except StorageError as error:
            self._other(path, str(error))
            return
        if topic_id is not None:
            yield PropertyRow("version", "0")
            yield PropertyRow("topic_id", topic_id_text(topic_id))

    def _meta_properties(self, path: Path) -> Iterator[Row]:
        data = path.read_bytes()
        try:
            found = decode_broker_metadata(data, path.name)
        except StorageError as error:
            self._other(path, str(error))
            return
        yield PropertyRow("version", str(found.version))
        broker = "node.id" if found.is_kraft else "broker.id"
        rest = (
            (broker, found.broker_id),
            ("cluster.id", found.cluster_id),
            ("directory.id", found.directory_id),
        )
        yield from (PropertyRow(name, str(value)) for name, value in rest if value is not None)

    def _other(self, path: Path, text: str) -> None:
        self._findings.add(Finding.OTHER, path, f"{path}: {text}")


def position_before(segment: Path, offset: int) -> int:
    """A position of a segment from which on the batch with an offset can be found: by the offset index, if it is right.

    Raises:
        DumpError: the name of the segment has no base offset.
        OSError: a file cannot be read.
    """
    relative = offset - base_offset_of(segment)
    path = segment.with_suffix(".index")
    if relative <= 0 or not path.exists():
        return 0
    position = _lookup(file_content(path), relative)
    with opened(segment) as log:
        header = header_at(log, position)
    is_right = header is not None and 0 <= header.base_offset <= offset and header.magic == 2
    return position if is_right else 0


def kind_of_side_file(path: Path) -> str:
    """The kind of rows (see ``rows.FIELDS``) that a file which is no segment gives."""
    named = {
        LEADER_EPOCH_FILE: "epoch",
        PARTITION_METADATA_FILE: "property",
        META_PROPERTIES_FILE: "property",
        **dict.fromkeys(CHECKPOINT_FILES, "checkpoint"),
    }
    by_suffix = {
        ".index": "offset",
        ".timeindex": "time",
        ".txnindex": "aborted",
        ".snapshot": "producer",
        _BEFORE_0_8: "ancient",
    }
    return named.get(path.name) or by_suffix[path.suffix]


def base_offset_of(path: Path) -> int:
    """The base offset that the name of a segment's file begins with.

    Raises:
        DumpError: it begins with none.
    """
    stem = path.name.split(".")[0]
    if not stem.isdecimal():
        raise DumpError(f"{path}: the name of a segment's file begins with its base offset")
    return int(stem)


def offset_index_fault(descriptor: int, size: int, base: int) -> str | None:
    """Why a broker would not keep an offset index at its start; None where it would."""
    count, rest = divmod(size, OFFSET_ENTRY.size)
    if rest:
        return f"its size, {size}, is not a multiple of {OFFSET_ENTRY.size}"
    relative = _entry(descriptor, OFFSET_ENTRY, count - 1)[0] if count else 0
    if relative < 0:
        return f"its last offset, {base + relative}, is below the base offset {base}"
    return None


def time_index_fault(descriptor: int, size: int, base: int) -> str | None:
    """Why a broker would not keep a time index at its start; None where it would.

    That of an active segment, which is allocated in advance and trimmed at its end, is one of them.
    """
    count, rest = divmod(size, TIME_ENTRY.size)
    if count:
        first = _entry(descriptor, TIME_ENTRY, 0)[0]
        timestamp, relative = _entry(descriptor, TIME_ENTRY, count - 1)
        if timestamp < first:
            return f"its last timestamp, {timestamp}, is before its first, {first}"
        if relative < 0:
            return f"its last offset, {base + relative}, is below the base offset {base}"
    if rest:
        return f"its size, {size}, is not a multiple of {TIME_ENTRY.size}"
    return None


def epochs_in(path: Path) -> list[tuple[int, int]]:
    """Epochs and where they began, of a leader epoch checkpoint; none of an empty file, as Kafka begins one.

    Raises:
        StorageError: it is damaged.
    """
    data = path.read_bytes()
    return decode_epochs(data) if data else []


def producers_in(data: bytes) -> Iterator[ProducerRow]:
    """The entries of a producer snapshot.

    Raises:
        StorageError: it is damaged, in the words of Kafka's tool.
    """
    if len(data) < _SNAPSHOT_HEAD.size:
        raise StorageError(f"Snapshot failed schema validation: {len(data)} bytes are too few")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise StorageError(f"Snapshot contained an unknown file version {version}")
    computed = crc32c(memoryview(data)[_SNAPSHOT_COUNT_AT:])
    if computed != crc:
        raise StorageError(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}"
        )
    entries = memoryview(data)[_SNAPSHOT_HEAD.size :]
    if len(entries) != count * _SNAPSHOT_ENTRY.size:
        raise StorageError(f"Snapshot of {len(data)} bytes for {count} producers")
    return map(ProducerRow._make, _SNAPSHOT_ENTRY.iter_unpack(entries))


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def file_content(path: Path) -> bytes:
    with opened(path) as descriptor:
        return _content_of(descriptor)


def _content_of(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _entry(descriptor: int, layout: Struct, number: int) -> tuple[int, ...]:
    return layout.unpack(os.pread(descriptor, layout.size, number * layout.size))


def index_entries(descriptor: int, layout: Struct) -> Iterator[tuple[int, ...]]:
    """The whole entries of an index."""
    position = 0
    while len(chunk := os.pread(descriptor, _ENTRIES_AT_ONCE * layout.size, position)) >= layout.size:
        whole = len(chunk) - len(chunk) % layout.size
        yield from layout.iter_unpack(memoryview(chunk)[:whole])
        position += whole


def _segment_of(path: Path) -> Path:
    return path.with_name(path.name.split(".")[0] + ".log")


def _lookup(offsets: bytes, relative: int) -> int:
    """The position of the largest entry of an offset index at or below a relative offset."""
    count = len(offsets) // OFFSET_ENTRY.size
    high = len(offsets[: count * OFFSET_ENTRY.size].rstrip(b"\0")) // OFFSET_ENTRY.size + 1
    low, high = 0, min(high, count)
    while low < high:
        middle = (low + high) // 2
        if OFFSET_ENTRY.unpack_from(offsets, middle * OFFSET_ENTRY.size)[0] <= relative:
            low = middle + 1
        else:
            high = middle
    return int(OFFSET_ENTRY.unpack_from(offsets, (low - 1) * OFFSET_ENTRY.size)[1]) if low else 0
