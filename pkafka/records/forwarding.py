"""Batches that go from one log to another as the bytes that they are: only their header is written anew.

What compaction, transactions or the broker's clock have marked is encoded again instead, since a producer sends batches
without holes, with times of its own.
"""

from typing import Final

from pkafka.errors import ErrorCode
from pkafka.records.batch import (
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
    crc_is_valid,
    read_header,
)
from pkafka.records.builder import BatchBuilder, build_batch
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import Codec, codec_of
from pkafka.records.errors import RecordError, corrupt
from pkafka.records.reading import Record, read_records

_NEVER_SENT: Final = ATTRIBUTE_LOG_APPEND_TIME | ATTRIBUTE_DELETE_HORIZON


def can_be_forwarded(header: BatchHeader) -> bool:
    """Whether a batch can be sent as it is: no record is missing or a marker, and times are the records' own."""
    return (
        not header.is_control
        and not header.attributes & _NEVER_SENT
        and header.records_count == header.last_offset_delta + 1
        and header.records_count > 0
    )


def encode_again(columns: RecordColumns, codec: Codec) -> bytearray:
    """A batch without holes of these records, with the times that a reader sees.

    Args:
        columns: at least one record.
        codec: the compression.
    """
    return build_batch(
        ((timestamp, key, value, headers) for _, timestamp, key, value, headers in columns.rows()),
        codec=codec,
    )


def checked_header(data: Buffer) -> BatchHeader:
    """The header of a batch that is about to be sent as it is.

    Raises:
        RecordError: CORRUPT_MESSAGE, it is no whole v2 batch, or its checksum is wrong: with a new one the damage would
            be hidden. INVALID_RECORD, it has to be encoded again.
    """
    header = read_header(data)
    if header.size_bytes != len(data):
        raise corrupt(f"{len(data)} bytes are not one batch of {header.size_bytes} bytes")
    if not crc_is_valid(data, 0, len(data)):
        raise corrupt(f"the batch at offset {header.base_offset} does not match its checksum")
    if not can_be_forwarded(header):
        raise RecordError(
            ErrorCode.INVALID_RECORD,
            f"the batch at offset {header.base_offset} cannot be sent as it is: it has holes, is a marker, or has the "
            "broker's time",
        )
    return header


def in_pieces(data: Buffer, bytes_max: int) -> list[BatchBuilder]:
    """A batch that is to be sent, in as many parts as are needed for each to be small enough.

    Args:
        data: a whole v2 batch.
        bytes_max: a part of one record may be larger.

    Raises:
        RecordError: as :func:`checked_header`.
    """
    header = checked_header(data)
    if len(data) <= bytes_max or header.records_count == 1:
        return [BatchBuilder.of_batch(data, header)]
    records = list(read_records(data, check_crc=False))
    middle = len(records) // 2
    codec = codec_of(header.attributes)
    return [
        piece
        for half in (records[:middle], records[middle:])
        for piece in in_pieces(_encoded(half, codec), bytes_max)
    ]


def _encoded(records: list[Record], codec: Codec) -> bytearray:
    return build_batch(
        ((each.timestamp, each.key, each.value, each.headers) for each in records), codec=codec
    )
