"""Rewrites record sets for consumers of old Fetch versions (log.message.downconversion.enable).

Up-conversion happens on produce, in validation.py.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.records.batch import BATCH_OVERHEAD, BatchHeader, Buffer, peek, read_header
from pkafka.records.compression import Codec, codec_of
from pkafka.records.errors import RecordError
from pkafka.records.legacy import build_message_set
from pkafka.records.reading import INFLATED_BYTES_MAX, Record, iter_entries, read_batches

_BEGIN_OF_MESSAGE: Final = Struct(">qi")
MORE_THAN_FITS: Final = _BEGIN_OF_MESSAGE.pack(-1, BATCH_OVERHEAD)
"""The beginning of a message that is longer than what follows: an old consumer takes it for a sign that it must ask for
more bytes. Kafka sends it, too, where a range has nothing that can be expressed in the old format."""
_PEEK_BYTES: Final = 17
_MAGIC_WITH_MARKERS: Final = 2


def for_old_consumer(data: Buffer, magic: int, from_offset: int) -> bytes:
    """What a consumer that knows no format above ``magic`` gets for a range of a log.

    As much as the range was allowed to have (KIP-283), and at least the first batch that leaves anything; whole
    messages only. It ends where a batch cannot be converted, so that the next fetch begins there and hears why.

    Args:
        data: the range: batches or messages back to back, the first of them that with ``from_offset``.
        magic: 0 or 1.
        from_offset: what was asked for.

    Returns:
        Messages; nothing when the range has no whole batch.

    Raises:
        RecordError: nothing precedes the batch that cannot be converted.
    """
    parts: list[bytes] = []
    size, size_max = 0, len(data)
    try:
        for part in down_convert(data, magic, from_offset=from_offset):
            if not part:
                continue
            if not parts:
                size_max = max(size_max, len(part))
            parts.append(part)
            size += len(part)
            if size >= size_max:
                break
    except RecordError:
        if not parts:
            raise
    if not parts:
        return MORE_THAN_FITS if _has_whole_entry(data) else b""
    converted = b"".join(parts)
    return converted if size <= size_max else converted[: _end_of_messages(converted, size_max)]


def _has_whole_entry(data: Buffer) -> bool:
    return len(data) >= _PEEK_BYTES and peek(data)[1] <= len(data)


def _end_of_messages(data: bytes, size_max: int) -> int:
    """Where the last message ends that lies within ``size_max`` bytes."""
    end = 0
    while True:
        following = end + _BEGIN_OF_MESSAGE.size + _BEGIN_OF_MESSAGE.unpack_from(data, end)[1]
        if following > size_max:
            return end
        end = following


def down_convert(
    data: Buffer, magic: int, *, from_offset: int = 0, inflated_bytes_max: int = INFLATED_BYTES_MAX
) -> Iterator[bytes]:
    """Every batch of a record set in the format ``magic``: what is older already stays byte for byte.

    Old formats have no record headers, no producer ids and no control records, so those are dropped; the compression
    stays. A partial batch at the end is left out.

    Args:
        data: batches or messages back to back, as a log holds them.
        magic: 0 or 1.
        from_offset: leave out the records before it where a batch is rewritten and has no compression; a
            compressed batch stays whole, as Kafka keeps it.
        inflated_bytes_max: the cap on one inflated batch.

    Yields:
        Its messages, or nothing where all of it is dropped.

    Raises:
        RecordError: UNSUPPORTED_COMPRESSION_TYPE for zstd, CORRUPT_MESSAGE or INVALID_RECORD for a damaged batch.
    """
    view = memoryview(data)
    for position, size, found in iter_entries(view):
        entry = view[position : position + size]
        if found <= magic:
            yield bytes(entry)
            continue
        if found == _MAGIC_WITH_MARKERS:
            header = read_header(entry)
            if header.is_control:
                yield b""
                continue
            if header.codec == Codec.ZSTD:
                raise RecordError(
                    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                    "zstd batches cannot be converted to an old message format",
                )
        for header, records in read_batches(entry, check_crc=False, inflated_bytes_max=inflated_bytes_max):
            yield _convert(header, records, magic, from_offset)


def _convert(header: BatchHeader, records: list[Record], magic: int, from_offset: int) -> bytes:
    codec = codec_of(header.attributes)
    return build_message_set(
        [
            (each.offset, each.timestamp, each.key, each.value)
            for each in records
            if codec is not Codec.NONE or each.offset >= from_offset
        ],
        magic=magic,
        codec=codec,
        timestamp_type=header.timestamp_type,
    )
