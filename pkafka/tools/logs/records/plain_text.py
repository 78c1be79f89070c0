"""The lines of many plain records at once, as bytes: what ``rows.text_of`` prints, made column by column.

For records of magic 2 that are shown as Kafka shows them when no decoder is named: most of what is ever dumped.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final

from pkafka.records.batch import (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_TRANSACTIONAL,
    BatchHeader,
)
from pkafka.records.columns import RecordColumns
from pkafka.tools.logs.rows import BatchRow, batch_text, codec_name
from pkafka.tools.logs.segment_walk import Batch

_SEQUENCES: Final = 0x7FFFFFFF
_TYPES: Final = (b"CreateTime", b"LogAppendTime")
_CODECS: Final = tuple(codec_name(number).encode() for number in range(ATTRIBUTE_CODEC + 1))
_UNUSUAL: Final = ATTRIBUTE_CONTROL | ATTRIBUTE_DELETE_HORIZON
_BATCH: Final = (
    b"baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d "
    b"partitionLeaderEpoch: %d isTransactional: %b isControl: false deleteHorizonMs: OptionalLong.empty "
    b"position: %d %b: %d size: %d magic: 2 compresscodec: %b crc: %d isvalid: %b\n"
)


def batch_line(batch: Batch) -> bytes:
    """The line, with its end, of a batch."""
    _, _, position, size, header, is_valid = batch
    offset, _, leader_epoch, magic, crc, attributes, last, _, time, producer, epoch, sequence, count = header
    if magic != 2 or attributes & _UNUSUAL:
        return f"{batch_text(BatchRow(header, position, size, is_valid))}\n".encode()
    return _BATCH % (
        offset,
        offset + last,
        count,
        sequence,
        sequence if sequence < 0 else sequence + last & _SEQUENCES,
        producer,
        epoch,
        leader_epoch,
        b"true" if attributes & ATTRIBUTE_TRANSACTIONAL else b"false",
        position,
        _TYPES[attributes >> 3 & 1],
        time,
        size,
        _CODECS[attributes & ATTRIBUTE_CODEC],
        crc,
        b"true" if is_valid else b"false",
    )


def record_lines(columns: RecordColumns, header: BatchHeader, *, content: bool) -> list[bytes]:
    """The lines, with their ends, of records out of one batch.

    Args:
        columns: the records, or some of them.
        header: of their batch.
        content: show keys and payloads. Text that is no UTF-8 is replaced as :func:`valid_text` does, not here.
    """
    offsets, times, values = columns.offsets, columns.timestamps, columns.values
    sequences = sequences_of(offsets, header)
    head = (
        b"| offset: %d "
        + _TYPES[header.timestamp_type]
        + b": %d keySize: %d valueSize: %d sequence: %d headerKeys: [%b]"
    )
    if columns.has_headers or None in values:
        return _any_lines(columns, sequences, head, content)
    keys = columns.keys if columns.has_keys else None
    if keys is None:
        head = head.replace(b"keySize: %d", b"keySize: -1").replace(b"[%b]", b"[]")
        if not content:
            line = head + b"\n"
            return [
                line % (offset, time, len(value), sequence)  # type: ignore[arg-type] # none is None, as seen above
                for offset, time, value, sequence in zip(offsets, times, values, sequences, strict=False)
            ]
        line = head + b" payload: %b\n"
        return [
            line % (offset, time, len(value), sequence, value)  # type: ignore[arg-type] # as above
            for offset, time, value, sequence in zip(offsets, times, values, sequences, strict=False)
        ]
    if not content or None in keys:
        return _any_lines(columns, sequences, head, content)
    line = head.replace(b"[%b]", b"[]") + b" key: %b payload: %b\n"
    return [
        line % (offset, time, len(key), len(value), sequence, key, value)  # type: ignore[arg-type] # as above
        for offset, time, key, value, sequence in zip(offsets, times, keys, values, sequences, strict=False)
    ]


def valid_text(lines: Sequence[bytes]) -> bytes:
    """Lines as one block of UTF-8; what is none becomes U+FFFD, as in Java.

    A field is followed by a space or the end of a line, so no broken character reaches into the next one, and the whole
    block is UTF-8 exactly where each field is.
    """
    block = b"".join(lines)
    try:
        block.decode()
    except UnicodeDecodeError:
        return b"".join([line.decode(errors="replace").encode() for line in lines])
    return block


def sequences_of(offsets: Sequence[int], header: BatchHeader) -> "Sequence[int] | repeat[int]":
    """The sequence of each record, -1 without a producer; they wrap from 2^31-1 to 0."""
    first = header.base_sequence
    if first < 0:
        return repeat(-1)
    shift = first - header.base_offset
    if isinstance(offsets, range) and first + header.last_offset_delta <= _SEQUENCES:
        return range(offsets.start + shift, offsets.stop + shift)
    return [offset + shift & _SEQUENCES for offset in offsets]


def _any_lines(
    columns: RecordColumns, sequences: "Sequence[int] | repeat[int]", head: bytes, content: bool
) -> list[bytes]:
    lines: list[bytes] = []
    add: Callable[[bytes], None] = lines.append
    for (offset, time, key, value, headers), sequence in zip(columns.rows(), sequences, strict=False):
        names = ",".join([name for name, _ in headers]).encode() if headers else b""
        line = head % (
            offset,
            time,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            sequence,
            names,
        )
        if content and key is not None:
            line += b" key: " + key
        if content and value is not None:
            line += b" payload: " + value
        add(line + b"\n")
    return lines
