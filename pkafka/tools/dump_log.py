"""What is in the files of a log directory: segments, indexes, aborted transactions, producer snapshots.

Reads only, file by file, through mmap; batches are shown from their headers, and records are decoded only when
asked for. Yields rows; ``text_of`` gives the line that Kafka's DumpLogSegments prints for one.
"""

import json
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from pkafka.errors import ApiError, PkafkaError
from pkafka.records.ancient import AncientRecord, iter_records
from pkafka.records.batch import BatchHeader, crc_is_valid, read_header
from pkafka.records.checksum import crc32c
from pkafka.records.control import ControlType, decode_end_marker, decode_key
from pkafka.records.reading import Record, decode_batch, iter_entries, read_batches

# Offset relative to the base offset i32 | position in the .log i32.
_OFFSET_ENTRY: Final = Struct(">ii")
# Timestamp i64 | relative offset i32.
_TIME_ENTRY: Final = Struct(">qi")
# Version i16 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64.
_ABORTED_ENTRY: Final = Struct(">hqqqq")
# Version i16 | CRC-32C u32 of everything behind it | count i32.
_SNAPSHOT_HEAD: Final = Struct(">hIi")
# Producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32 | timestamp i64 |
# coordinator epoch i32 | first offset of the open transaction i64.
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_BEFORE_0_8: Final = ".kafka"
SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", _BEFORE_0_8)


class DumpError(PkafkaError):
    """A file cannot be dumped at all: it is not there, or its name does not say what it is."""


class BatchRow(NamedTuple):
    """One batch, or one message of an old format."""

    header: BatchHeader
    position: int
    size_bytes: int
    is_valid: bool


class RecordRow(NamedTuple):
    """One record. ``sequence`` is -1 without a producer; a control record has its meaning instead of content."""

    record: Record
    magic: int
    timestamp_type: int
    sequence: int
    control: str | None


class OffsetRow(NamedTuple):
    """One entry of an offset index."""

    offset: int
    position: int


class TimeRow(NamedTuple):
    """One entry of a time index."""

    timestamp: int
    offset: int


class AbortedRow(NamedTuple):
    """One aborted transaction."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerRow(NamedTuple):
    """One producer of a snapshot."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class AncientRow(NamedTuple):
    """One record from before 0.8; its offset is its position, counted from the first segment of the log."""

    offset: int
    record: AncientRecord


class NoteRow(NamedTuple):
    """A line of text between the rows."""

    text: str


Row: TypeAlias = BatchRow | RecordRow | OffsetRow | TimeRow | AbortedRow | ProducerRow | AncientRow | NoteRow

ContentOf: TypeAlias = Callable[[Record], tuple[str | None, str | None]]
"""What to show as key and as payload of a record, None for nothing."""


@dataclass
class Dump:
    """How to dump, and what was found wrong on the way.

    Args:
        records: decode the records too.
        bytes_max: read at most so many bytes of a segment.
        verify_only: check indexes without showing their entries.
        sanity_only: only look whether an index would survive a start.
    """

    records: bool = False
    bytes_max: int = 2**31 - 1
    verify_only: bool = False
    sanity_only: bool = False
    problems: list[str] = field(default_factory=list)

    def rows(self, path: Path) -> Iterator[Row]:
        """Everything in one file; what is wrong is added to ``problems``.

        Raises:
            DumpError: there is no such file, or its name has no base offset.
        """
        readers = {
            ".log": self._segment,
            ".index": self._offset_index,
            ".timeindex": self._time_index,
            ".txnindex": self._aborted,
            ".snapshot": self._snapshot,
            _BEFORE_0_8: self._ancient,
        }
        return readers[path.suffix](path)

    # -- segments -----------------------------------------------------------------------------------------

    def _segment(self, path: Path) -> Iterator[Row]:
        yield NoteRow(f"Log starting offset: {base_offset_of(path)}")
        with _mapped(path) as whole:
            view = whole[: self.bytes_max]
            end = 0
            previous = -1
            try:
                for position, size, magic in iter_entries(view):
                    end = position + size
                    if magic < 2:
                        rows = _old_batch(view[position:end], position, self.records)
                    else:
                        rows = _batch(view, position, size, self.records)
                    for row in rows:
                        if isinstance(row, RecordRow):
                            offset = row.record.offset
                            if previous >= 0 and offset != previous + 1:
                                self.problems.append(
                                    f"Non-consecutive offsets in {path}: {previous} is followed by {offset}"
                                )
                            previous = offset
                        elif isinstance(row, BatchRow) and not row.is_valid:
                            self.problems.append(f"{path}: the batch at position {position} is not valid")
                        yield row
            except ApiError as error:
                self.problems.append(f"{path}: at position {end}: {error.message}")
            trailing = len(view) - end
            if trailing > 0 and len(view) < self.bytes_max:
                self.problems.append(f"{path}: {trailing} invalid bytes at the end")
                yield NoteRow(f"Found {trailing} invalid bytes at the end of {path.name}")

    def _ancient(self, path: Path) -> Iterator[Row]:
        base = base_offset_of(path)
        yield NoteRow(f"Log starting offset: {base}")
        with _mapped(path) as whole:
            view = whole[: self.bytes_max]
            end = 0
            for record in iter_records(view):
                end = record.position + record.size_bytes
                if not record.crc_is_valid:
                    self.problems.append(f"{path}: the record at position {record.position} is not valid")
                yield AncientRow(base + record.position, record)
            if end < len(view) < self.bytes_max:
                self.problems.append(f"{path}: {len(view) - end} invalid bytes at the end")
                yield NoteRow(f"Found {len(view) - end} invalid bytes at the end of {path.name}")

    # -- indexes ------------------------------------------------------------------------------------------

    def _offset_index(self, path: Path) -> Iterator[Row]:
        base = base_offset_of(path)
        with _mapped(path) as view, _mapped(_segment_of(path)) as log:
            count = len(view) // _OFFSET_ENTRY.size
            if count == 0:
                yield NoteRow(f"{path} is empty.")
                return
            if self.sanity_only:
                yield from self._sanity(path, view, _OFFSET_ENTRY.size, base)
                return
            for index in range(count):
                relative, position = _OFFSET_ENTRY.unpack_from(view, index * _OFFSET_ENTRY.size)
                # An index is allocated in advance: behind the last entry there are zeros.
                if relative == 0 and index > 0:
                    return
                found = _last_offset_at(log, position)
                # An index without entries looks like one entry of zeros.
                if found != base + relative and (relative or position):
                    self.problems.append(
                        f"Mismatches in :{path}: Index offset: {base + relative}, log offset: {found}"
                    )
                if not self.verify_only:
                    yield OffsetRow(base + relative, position)

    def _time_index(self, path: Path) -> Iterator[Row]:
        base = base_offset_of(path)
        with (
            _mapped(path) as view,
            _mapped(_segment_of(path)) as log,
            _mapped(path.with_suffix(".index")) as offsets,
        ):
            count = len(view) // _TIME_ENTRY.size
            if count == 0:
                yield NoteRow(f"{path} is empty.")
                return
            if self.sanity_only:
                yield from self._sanity(path, view, _TIME_ENTRY.size, base)
                return
            previous = -1
            for index in range(count):
                timestamp, relative = _TIME_ENTRY.unpack_from(view, index * _TIME_ENTRY.size)
                if relative == 0 and index > 0:
                    return
                if relative or timestamp:
                    self._check_time(path, log, offsets, base, base + relative, timestamp)
                if previous >= timestamp:
                    self.problems.append(
                        f"Found out of order timestamp in :{path}: Index timestamp: {timestamp}, "
                        f"Previously indexed timestamp: {previous}"
                    )
                previous = timestamp
                if not self.verify_only:
                    yield TimeRow(timestamp, base + relative)

    def _check_time(
        self, path: Path, log: memoryview, offsets: memoryview, base: int, offset: int, timestamp: int
    ) -> None:
        position = _lookup(offsets, offset - base)
        try:
            for _, header, _ in _headers(log, position):
                if header.last_offset >= offset:
                    if header.last_offset != offset:
                        break
                    if header.max_timestamp != timestamp:
                        self.problems.append(
                            f"Found timestamp mismatch in :{path}: Index timestamp: {timestamp}, "
                            f"log timestamp: {header.max_timestamp}"
                        )
                    return
        except ApiError as error:
            self.problems.append(f"{path}: the log at position {position}: {error.message}")
            return
        self.problems.append(f"{path}: Indexed offset: {offset} is not found in the log")

    def _sanity(self, path: Path, view: memoryview, entry_size: int, base: int) -> Iterator[Row]:
        """The checks by which a broker decides at start whether to build an index anew."""
        at = (len(view) // entry_size - 1) * entry_size
        if len(view) % entry_size:
            self.problems.append(f"{path}: its size is not a multiple of {entry_size}")
        elif entry_size == _TIME_ENTRY.size and _TIME_ENTRY.unpack_from(view, at) < _TIME_ENTRY.unpack_from(
            view
        ):
            # Also true of the index of an active segment, which is allocated in advance and trimmed at its end.
            self.problems.append(
                f"{path}: its last timestamp is before its first; a broker would build it anew"
            )
        elif entry_size == _OFFSET_ENTRY.size and _OFFSET_ENTRY.unpack_from(view, at)[0] < 0:
            self.problems.append(f"{path}: its last offset is below the base offset {base}")
        else:
            yield NoteRow(f"{path} passed sanity check.")

    # -- producers ----------------------------------------------------------------------------------------

    def _aborted(self, path: Path) -> Iterator[Row]:
        with _mapped(path) as view:
            for position in range(0, len(view) - _ABORTED_ENTRY.size + 1, _ABORTED_ENTRY.size):
                yield AbortedRow(*_ABORTED_ENTRY.unpack_from(view, position))
            if len(view) % _ABORTED_ENTRY.size:
                self.problems.append(f"{path}: the last entry is cut off")

    def _snapshot(self, path: Path) -> Iterator[Row]:
        with _mapped(path) as view:
            if len(view) < _SNAPSHOT_HEAD.size:
                raise DumpError(f"{path} is too short for a snapshot")
            version, crc, count = _SNAPSHOT_HEAD.unpack_from(view)
            if version != 1:
                raise DumpError(f"{path} has the snapshot version {version}, not 1")
            if crc32c(view[6:]) != crc:
                self.problems.append(f"{path} is corrupt (CRC is no longer valid)")
                return
            for index in range(count):
                yield ProducerRow(
                    *_SNAPSHOT_ENTRY.unpack_from(view, _SNAPSHOT_HEAD.size + index * _SNAPSHOT_ENTRY.size)
                )


def plain_content(record: Record) -> tuple[str | None, str | None]:
    """Key and payload as text, whatever they are."""
    key, payload = (
        None if data is None else data.decode("utf-8", errors="replace")
        for data in (record.key, record.value)
    )
    return key, payload


def text_of(row: Row, *, content: bool, metadata: bool = True, decode: ContentOf = plain_content) -> str:
    """The line that Kafka's tool prints for a row.

    Args:
        content: show keys and payloads of records.
        metadata: show the other fields of records.
        decode: makes key and payload of a record readable.
    """
    match row:
        case BatchRow():
            return _batch_text(row)
        case RecordRow():
            return _record_text(row, content=content, metadata=metadata, decode=decode)
        case OffsetRow(offset, position):
            return f"offset: {offset} position: {position}"
        case TimeRow(timestamp, offset):
            return f"timestamp: {timestamp} offset: {offset}"
        case AbortedRow():
            return (
                f"version: {row.version} producerId: {row.producer_id} firstOffset: {row.first_offset} "
                f"lastOffset: {row.last_offset} lastStableOffset: {row.last_stable_offset}"
            )
        case ProducerRow():
            return _producer_text(row)
        case AncientRow(offset, record):
            text = f"offset: {offset} position: {record.position} version: {record.version} "
            text += f"payloadSize: {len(record.payload)} crc: {record.crc} isvalid: {str(record.crc_is_valid).lower()}"
            return f"{text} payload: {record.payload.decode(errors='replace')}" if content else text
        case NoteRow(text):
            return text


def document_of(row: Row, *, decode: ContentOf | None = None) -> dict[str, object]:
    """A row as JSON values, with a ``kind``; ``decode`` makes keys and payloads of records readable."""
    match row:
        case BatchRow(header, position, size, is_valid):
            values = {
                "kind": "batch",
                **header._asdict(),
                "last_offset": header.last_offset,
                "position": position,
                "size": size,
                "codec": _CODECS[header.codec] if header.codec < len(_CODECS) else str(header.codec),
                "timestamp_type": _TIMESTAMP_TYPES[header.timestamp_type],
                "is_transactional": header.is_transactional,
                "is_control": header.is_control,
                "valid": is_valid,
            }
            del values["batch_length"]
            return values
        case RecordRow(record, magic, timestamp_type, sequence, control):
            key, value = (record.key, record.value) if decode is None else decode(record)
            return {
                "kind": "record",
                "offset": record.offset,
                "timestamp": record.timestamp,
                "timestamp_type": _TIMESTAMP_TYPES[timestamp_type],
                "magic": magic,
                "sequence": sequence,
                "control": control,
                "key": _shown(key),
                "value": _shown(value),
                "headers": [{"name": name, "value": _shown(value)} for name, value in record.headers],
            }
        case AncientRow(offset, old):
            return {
                "kind": "ancient",
                "offset": offset,
                "position": old.position,
                "version": old.version,
                "crc": old.crc,
                "valid": old.crc_is_valid,
                "value": _shown(old.payload),
            }
        case _:
            kind = type(row).__name__.removesuffix("Row").lower()
            return {"kind": kind, **row._asdict()}


def base_offset_of(path: Path) -> int:
    """The base offset that the name of a segment's file begins with.

    Raises:
        DumpError: it begins with none.
    """
    stem = path.name.split(".")[0]
    if not stem.isdigit():
        raise DumpError(f"{path}: the name of a segment's file begins with its base offset")
    return int(stem)


# -- reading ----------------------------------------------------------------------------------------------


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    """The bytes of a file, without reading them all."""
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                view = memoryview(b"")
            else:
                # Not closed by hand: rows may still hold slices of it, and it goes away with the last of them.
                view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError as error:
        raise DumpError(f"{path} does not exist") from error
    yield view


def _segment_of(path: Path) -> Path:
    return path.with_name(path.name.split(".")[0] + ".log")


def _batch(view: memoryview, position: int, size: int, records: bool) -> Iterator[Row]:
    header = read_header(view, position)
    is_valid = crc_is_valid(view, position, size)
    yield BatchRow(header, position, size, is_valid)
    if not records:
        return
    base = header.base_sequence
    for record in decode_batch(view, position, header):
        sequence = -1 if base < 0 else base + record.offset - header.base_offset & 0x7FFFFFFF
        control = _control_text(record) if header.is_control else None
        yield RecordRow(record, header.magic, header.timestamp_type, sequence, control)


def _old_batch(view: memoryview, position: int, records: bool) -> Iterator[Row]:
    try:
        ((header, found),) = read_batches(view)
        is_valid = True
    except ApiError:
        ((header, found),) = read_batches(view, check_crc=False)
        is_valid = False
    yield BatchRow(header, position, len(view), is_valid)
    if records:
        for record in found:
            yield RecordRow(record, header.magic, header.timestamp_type, -1, None)


def _headers(view: memoryview, position: int) -> Iterator[tuple[int, BatchHeader, int]]:
    for at, size, magic in iter_entries(view[position:]):
        if magic == 2:
            yield position + at, read_header(view, position + at), size
        else:
            ((header, _),) = read_batches(view[position + at : position + at + size], check_crc=False)
            yield position + at, header, size


def _last_offset_at(log: memoryview, position: int) -> int:
    """The last offset of the batch at a position; -1 when there is none."""
    try:
        for _, header, _ in _headers(log, position):
            return header.last_offset
    except ApiError:
        return -1
    return -1


def _lookup(offsets: memoryview, relative: int) -> int:
    """The position of the largest entry of an offset index at or below a relative offset."""
    low, high = 0, len(offsets) // _OFFSET_ENTRY.size
    while high > 0 and _OFFSET_ENTRY.unpack_from(offsets, (high - 1) * 8)[0] == 0:
        high -= 1
    while low < high:
        middle = (low + high) // 2
        if _OFFSET_ENTRY.unpack_from(offsets, middle * 8)[0] <= relative:
            low = middle + 1
        else:
            high = middle
    return int(_OFFSET_ENTRY.unpack_from(offsets, (low - 1) * 8)[1]) if low else 0


# -- text -------------------------------------------------------------------------------------------------


def _batch_text(row: BatchRow) -> str:
    header = row.header
    codec = _CODECS[header.codec] if header.codec < len(_CODECS) else str(header.codec)
    tail = (
        f" position: {row.position} {_TIMESTAMP_TYPES[header.timestamp_type]}: {header.max_timestamp} "
        f"size: {row.size_bytes} magic: {header.magic} compresscodec: {codec} crc: {header.crc} "
        f"isvalid: {str(row.is_valid).lower()}"
    )
    if header.magic < 2:
        return f"offset: {header.last_offset}{tail}"
    horizon = f"OptionalLong[{header.base_timestamp}]" if header.has_delete_horizon else "OptionalLong.empty"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {str(header.is_transactional).lower()} isControl: {str(header.is_control).lower()} "
        f"deleteHorizonMs: {horizon}{tail}"
    )


def _record_text(row: RecordRow, *, content: bool, metadata: bool, decode: ContentOf) -> str:
    record = row.record
    key, payload = decode(record) if content and row.control is None else (None, None)
    cells: list[str] = []
    if metadata:
        cells.append(f"offset: {record.offset} {_TIMESTAMP_TYPES[row.timestamp_type]}: {record.timestamp}")
        cells.append(f"keySize: {_size(record.key)} valueSize: {_size(record.value)}")
        if row.magic >= 2:
            names = ",".join(name for name, _ in record.headers)
            cells.append(f"sequence: {row.sequence} headerKeys: [{names}]")
        if row.control is not None:
            cells.append(row.control)
    if key is not None:
        cells.append(f"key: {key}")
    text = "| " + " ".join(cells) if cells else ""
    if payload is not None:
        # Without metadata and key there is no bar in front: Kafka's tool has it so, and scripts cut by it.
        text += f" payload: {payload}"
    return text


def _control_text(record: Record) -> str:
    kind = decode_key(record.key)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        marker = decode_end_marker(record.key, record.value)
        return f"endTxnMarker: {kind.name} coordinatorEpoch: {marker.coordinator_epoch}"
    return f"controlType: {kind.name}({int(kind)})"


def _producer_text(row: ProducerRow) -> str:
    first = row.current_txn_first_offset
    open_from = "OptionalLong.empty" if first < 0 else f"OptionalLong[{first}]"
    text = (
        f"producerId: {row.producer_id} producerEpoch: {row.producer_epoch} "
        f"coordinatorEpoch: {row.coordinator_epoch} currentTxnFirstOffset: {open_from} "
        f"lastTimestamp: {row.timestamp} "
    )
    if row.last_offset < 0:
        return text
    first_sequence = row.last_sequence - row.offset_delta
    if first_sequence < 0:
        first_sequence += 2**31
    return (
        f"{text}firstSequence: {first_sequence} lastSequence: {row.last_sequence} "
        f"lastOffset: {row.last_offset} offsetDelta: {row.offset_delta} timestamp: {row.timestamp}"
    )


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _shown(data: bytes | str | None) -> object:
    if data is None:
        return None
    if isinstance(data, str):
        # A decoder's text: JSON, or a sentence why there is none.
        return json.loads(data) if data.startswith("{") else data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": data.hex()}
