"""Rewrites record sets for consumers of old Fetch versions (log.message.downconversion.enable).

Up-conversion happens on produce, in validation.py.
"""

from pkafka.errors import ErrorCode
from pkafka.records.batch import BatchHeader, Buffer
from pkafka.records.compression import Codec, codec_of
from pkafka.records.errors import RecordError
from pkafka.records.legacy import build_message_set
from pkafka.records.reading import INFLATED_BYTES_MAX, Record, iter_entries, read_batches


def down_convert(
    data: Buffer, magic: int, *, from_offset: int = 0, inflated_bytes_max: int = INFLATED_BYTES_MAX
) -> bytes:
    """The record set in the format ``magic``: what is older already stays byte for byte.

    Old formats have no record headers, no producer ids and no control records, so those are dropped; the compression
    stays. A partial batch at the end is left out.

    Args:
        data: batches or messages back to back, as a log holds them.
        magic: 0, 1 or 2.
        from_offset: leave out the records before it where a batch is rewritten.
        inflated_bytes_max: the cap on one inflated batch.

    Raises:
        RecordError: UNSUPPORTED_COMPRESSION_TYPE for zstd below magic 2, CORRUPT_MESSAGE or INVALID_RECORD
            for a damaged batch.
    """
    view = memoryview(data)
    parts: list[bytes] = []
    for position, size, found in iter_entries(view):
        entry = view[position : position + size]
        if found <= magic:
            parts.append(bytes(entry))
            continue
        for header, records in read_batches(
            entry, check_crc=False, from_offset=from_offset, inflated_bytes_max=inflated_bytes_max
        ):
            if not header.is_control:
                parts.append(
                    _convert(header, [each for each in records if each.offset >= from_offset], magic)
                )
    return b"".join(parts)


def _convert(header: BatchHeader, records: list[Record], magic: int) -> bytes:
    codec = codec_of(header.attributes)
    if codec is Codec.ZSTD:
        raise RecordError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "zstd batches cannot be converted to an old message format",
        )
    return build_message_set(
        [(each.offset, each.timestamp, each.key, each.value) for each in records],
        magic=magic,
        codec=codec,
        timestamp_type=header.timestamp_type,
    )
