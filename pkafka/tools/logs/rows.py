"""What the files of a log consist of, as rows, and a row as Kafka's DumpLogSegments prints it or as JSON values.

Files are read in ``dump``. ``records.plain_text`` prints the same as this module for many plain records, but faster.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from pkafka.records.ancient import AncientRecord
from pkafka.records.batch import BatchHeader
from pkafka.records.reading import Record
from pkafka.tools.json_bytes import value_of

_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
_NO_TIMESTAMP_TYPE: Final = "NoTimestampType"
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class BatchRow(NamedTuple):
    """One batch, or one message of an old format."""

    header: BatchHeader
    position: int
    size_bytes: int
    is_valid: bool


class OldMessage(NamedTuple):
    """What a record of magic 0 or 1 has of its own; one inside a wrapper too."""

    crc: int
    is_valid: bool


class RecordRow(NamedTuple):
    """One record. ``sequence`` is -1 without a producer; a control record has its meaning instead of content."""

    record: Record
    magic: int
    timestamp_type: int
    sequence: int
    control: str | None
    old: OldMessage | None = None


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


class EpochRow(NamedTuple):
    """Where a leader epoch began."""

    epoch: int
    start_offset: int


class CheckpointRow(NamedTuple):
    """One partition in an offset checkpoint."""

    topic: str
    partition: int
    offset: int


class PropertyRow(NamedTuple):
    """One line of partition.metadata or meta.properties."""

    name: str
    value: str


class DamageRow(NamedTuple):
    """Bytes of a segment that are no batch, and were passed over."""

    position: int
    size: int
    reason: str


class NoteRow(NamedTuple):
    """A line of text between the rows."""

    text: str


Row: TypeAlias = (
    BatchRow
    | RecordRow
    | OffsetRow
    | TimeRow
    | AbortedRow
    | ProducerRow
    | AncientRow
    | EpochRow
    | CheckpointRow
    | PropertyRow
    | DamageRow
    | NoteRow
)

Texts: TypeAlias = tuple[str | None, str | None]
ContentOf: TypeAlias = Callable[[Record], Texts]
"""What to show as key and as payload of a record, None for nothing."""
Documents: TypeAlias = Callable[[Record], tuple[object, object]]
"""Key and payload of a record as JSON values."""

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "batch": (
        *("base_offset", "last_offset", "records_count", "base_sequence", "last_sequence", "producer_id"),
        *("producer_epoch", "partition_leader_epoch", "is_transactional", "is_control", "delete_horizon_ms"),
        *("position", "size", "magic", "codec", "crc", "valid", "timestamp_type", "base_timestamp"),
        *("max_timestamp", "attributes", "last_offset_delta"),
    ),
    "record": (
        *("offset", "timestamp", "timestamp_type", "magic", "sequence", "control", "key", "value", "headers"),
    ),
    "offset": ("offset", "position"),
    "time": ("timestamp", "offset"),
    "aborted": ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset"),
    "producer": (
        *("producer_id", "producer_epoch", "last_sequence", "last_offset", "offset_delta", "timestamp"),
        *("coordinator_epoch", "current_txn_first_offset"),
    ),
    "ancient": ("offset", "position", "version", "crc", "valid", "value"),
    "epoch": ("epoch", "start_offset"),
    "checkpoint": ("topic", "partition", "offset"),
    "property": ("name", "value"),
    "damage": ("position", "size", "reason"),
    "note": ("text",),
}
"""The keys of a row's document by its ``kind``; frozen, as docs/log-inspection.md says."""


def timestamp_type_name(magic: int, timestamp_type: int) -> str:
    """The name of a timestamp type in Kafka; magic 0 has none."""
    return _TIMESTAMP_TYPES[timestamp_type] if magic > 0 else _NO_TIMESTAMP_TYPE


def codec_name(number: int) -> str:
    """The name of a codec in Kafka; a number that means nothing stays one."""
    return _CODECS[number] if number < len(_CODECS) else str(number)


def plain_content(record: Record) -> Texts:
    """Key and payload as text, whatever they are."""
    key, payload = (
        None if data is None else data.decode("utf-8", errors="replace")
        for data in (record.key, record.value)
    )
    return key, payload


def plain_documents(record: Record) -> tuple[object, object]:
    """Key and payload as a string, or as ``{"base64": ...}`` where they are no text."""
    return value_of(record.key), value_of(record.value)


def text_of(
    row: Row,
    *,
    content: bool,
    metadata: bool = True,
    header_values: bool = False,
    decode: ContentOf = plain_content,
) -> str:
    """The line that Kafka's tool prints for a row.

    Args:
        content: show keys and payloads of records.
        metadata: show the other fields of records.
        header_values: show the values of headers too, as JSON.
        decode: makes key and payload of a record readable.
    """
    match row:
        case BatchRow():
            return batch_text(row)
        case RecordRow():
            return _record_text(
                row, content=content, metadata=metadata, header_values=header_values, decode=decode
            )
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
        case _:
            return _small_text(row)


def batch_text(row: BatchRow) -> str:
    """The line of a batch."""
    header = row.header
    magic, is_valid = header.magic, "true" if row.is_valid else "false"
    tail = (
        f" position: {row.position} {timestamp_type_name(magic, header.timestamp_type)}: {header.max_timestamp} "
        f"size: {row.size_bytes} magic: {magic} compresscodec: {codec_name(header.codec)} crc: {header.crc} "
        f"isvalid: {is_valid}"
    )
    if magic < 2:
        return f"offset: {header.last_offset}{tail}"
    horizon = f"OptionalLong[{header.base_timestamp}]" if header.has_delete_horizon else "OptionalLong.empty"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {'true' if header.is_transactional else 'false'} "
        f"isControl: {'true' if header.is_control else 'false'} deleteHorizonMs: {horizon}{tail}"
    )


def document_of(row: Row, *, documents: Documents = plain_documents) -> dict[str, object]:
    """A row as JSON values: its ``kind`` and the fields of it; ``documents`` makes keys and payloads readable."""
    match row:
        case BatchRow():
            return _batch_document(row)
        case RecordRow(record, magic, timestamp_type, sequence, control):
            key, value = (None, None) if control is not None else documents(record)
            return {
                "kind": "record",
                "offset": record.offset,
                "timestamp": record.timestamp,
                "timestamp_type": timestamp_type_name(magic, timestamp_type),
                "magic": magic,
                "sequence": sequence,
                "control": control,
                "key": key,
                "value": value,
                "headers": [{"name": name, "value": value_of(value)} for name, value in record.headers],
            }
        case AncientRow(offset, old):
            return {
                "kind": "ancient",
                "offset": offset,
                "position": old.position,
                "version": old.version,
                "crc": old.crc,
                "valid": old.crc_is_valid,
                "value": value_of(old.payload),
            }
        case _:
            kind = type(row).__name__.removesuffix("Row").lower()
            return {"kind": kind, **row._asdict()}


def _batch_document(row: BatchRow) -> dict[str, object]:
    header = row.header
    return {
        "kind": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records_count": header.records_count,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "partition_leader_epoch": header.partition_leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.base_timestamp if header.has_delete_horizon else None,
        "position": row.position,
        "size": row.size_bytes,
        "magic": header.magic,
        "codec": codec_name(header.codec),
        "crc": header.crc,
        "valid": row.is_valid,
        "timestamp_type": timestamp_type_name(header.magic, header.timestamp_type),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "attributes": header.attributes,
        "last_offset_delta": header.last_offset_delta,
    }


def _record_text(
    row: RecordRow, *, content: bool, metadata: bool, header_values: bool, decode: ContentOf
) -> str:
    record = row.record
    key, payload = decode(record) if content and row.control is None else (None, None)
    cells: list[str] = []
    if metadata:
        type_name = timestamp_type_name(row.magic, row.timestamp_type)
        cells.append(f"offset: {record.offset} {type_name}: {record.timestamp}")
        cells.append(f"keySize: {_size(record.key)} valueSize: {_size(record.value)}")
        if row.magic >= 2:
            names = ",".join(name for name, _ in record.headers)
            cells.append(f"sequence: {row.sequence} headerKeys: [{names}]")
            if header_values:
                shown = [{"name": name, "value": value_of(value)} for name, value in record.headers]
                cells.append(f"headers: {_json(shown)}")
        elif row.old is not None:
            # The brace is Kafka's own.
            cells.append(f"isValid: {str(row.old.is_valid).lower()} crc: {row.old.crc}}}")
        if row.control is not None:
            cells.append(row.control)
    if key is not None:
        cells.append(f"key: {key}")
    text = "| " + " ".join(cells) if cells else ""
    if payload is not None:
        # Without metadata and key there is no bar in front: Kafka's tool has it so, and scripts cut by it.
        text += f" payload: {payload}"
    return text


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


def _small_text(row: Row) -> str:
    match row:
        case EpochRow(epoch, start_offset):
            return f"epoch: {epoch} startOffset: {start_offset}"
        case CheckpointRow(topic, partition, offset):
            return f"topic: {topic} partition: {partition} offset: {offset}"
        case PropertyRow(name, value):
            return f"{name}: {value}"
        case DamageRow(position, size, reason):
            return f"Passed over {size} damaged bytes at position {position}: {reason}"
        case NoteRow(text):
            return text
    raise AssertionError(row)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
