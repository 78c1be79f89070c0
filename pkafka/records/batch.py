"""The header of a v2 record batch (since 0.11): the only part that storage and replication look at.

Not the records behind it: reading.py decodes them, validation.py checks them, builder.py writes them.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from pkafka.records.checksum import crc32c
from pkafka.records.errors import corrupt

# Big-endian: base offset i64 | batch length i32 (bytes behind this field) | partition leader epoch i32 |
# magic i8 | CRC-32C u32 (of everything behind it) | attributes i16 | last offset delta i32 |
# base timestamp i64 | max timestamp i64 | producer id i64 | producer epoch i16 | base sequence i32 |
# records count i32 | records
HEADER: Final = Struct(">qiibIhiqqqhii")
UP_TO_CRC: Final = Struct(">qiibI")
BEHIND_CRC: Final = Struct(">hiqqqhii")
BATCH_OVERHEAD: Final = HEADER.size
LOG_OVERHEAD: Final = 12
"""Base offset and length: what precedes the counted bytes in every format."""
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

ATTRIBUTE_CODEC: Final = 0x07
ATTRIBUTE_LOG_APPEND_TIME: Final = 0x08
ATTRIBUTE_TRANSACTIONAL: Final = 0x10
ATTRIBUTE_CONTROL: Final = 0x20
ATTRIBUTE_DELETE_HORIZON: Final = 0x40

NO_SEQUENCE: Final = -1

_BASE_OFFSET: Final = Struct(">q")
_PLACE: Final = Struct(">qii")
"""Base offset, length and leader epoch, with which a batch begins."""
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_UP_TO_MAGIC: Final = Struct(">qiib")
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_POSITION: Final = 43

Buffer: TypeAlias = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records of a v2 batch."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also of one that compaction has removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset behind the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        """The whole batch, base offset and length included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def codec(self) -> int:
        """The compression, as in ``compression.Codec``; 5 to 7 mean nothing."""
        return self.attributes & ATTRIBUTE_CODEC

    @property
    def timestamp_type(self) -> int:
        """0 = CreateTime, 1 = LogAppendTime."""
        return self.attributes >> 3 & 1

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker instead of data."""
        return bool(self.attributes & ATTRIBUTE_CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether base_timestamp is the time from which tombstones may go (KIP-534)."""
        return bool(self.attributes & ATTRIBUTE_DELETE_HORIZON)

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; it wraps from 2^31-1 to 0. -1 without a sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return self.base_sequence + self.last_offset_delta & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Decode the header of the v2 batch at ``position``; its CRC is not checked.

    Raises:
        RecordError: CORRUPT_MESSAGE when fewer than 61 bytes are there, the magic is not 2 or the length is
            less than a header's.
    """
    if len(buffer) - position < BATCH_OVERHEAD:
        raise corrupt(f"{len(buffer) - position} bytes are too few for the header of a batch")
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    if header.magic != 2:
        raise corrupt(f"magic {header.magic} where 2 is needed")
    if header.batch_length < BATCH_OVERHEAD - LOG_OVERHEAD:
        raise corrupt(f"a batch cannot have a length of {header.batch_length} bytes")
    return header


def iter_headers(
    buffer: Buffer, position: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Step over the v2 batches between ``position`` and ``end``: (position, header) of each whole one.

    A partial batch at the end is left out silently, as a fetch or a torn write may leave one.

    Raises:
        RecordError: CORRUPT_MESSAGE as :func:`read_header`.
    """
    end = len(buffer) if end is None else end
    while end - position >= BATCH_OVERHEAD:
        header = read_header(buffer, position)
        following = position + header.batch_length + LOG_OVERHEAD
        if following > end:
            return
        yield position, header
        position = following


def offset_range(buffer: Buffer) -> tuple[int, int, int] | None:
    """(first offset, first offset behind, bytes of whole batches) of v2 batches back to back; None without any.

    Raises:
        RecordError: CORRUPT_MESSAGE as :func:`read_header`.
    """
    first = last = None
    end = 0
    for position, header in iter_headers(buffer):
        first = first or header
        last = header
        end = position + header.size_bytes
    if first is None or last is None:
        return None
    return first.base_offset, last.next_offset, end


def peek(buffer: Buffer, position: int = 0) -> tuple[int, int, int]:
    """(base offset, size in bytes, magic) of the batch or old message at ``position``, any format.

    Needs 17 bytes; nothing is checked.
    """
    base_offset, length, _, magic = _UP_TO_MAGIC.unpack_from(buffer, position)
    return base_offset, length + LOG_OVERHEAD, magic


def producer_in(buffer: Buffer, position: int = 0) -> tuple[int, int, int]:
    """(producer id, producer epoch, base sequence) of the v2 batch at ``position``, -1 each where it has none.

    Needs the 61 bytes of a header; nothing is checked.
    """
    return _PRODUCER.unpack_from(buffer, _PRODUCER_POSITION + position)


def stamp(
    buffer: bytearray | memoryview, position: int, size: int, *, base_offset: int, leader_epoch: int
) -> None:
    """Give the batch of ``size`` bytes its place in the log. The fields lie outside the CRC, so it stays right.

    Its length, which lies between them, is written as it is: that costs less than a second call.
    """
    _PLACE.pack_into(buffer, position, base_offset, size - LOG_OVERHEAD, leader_epoch)


def stamp_times(
    buffer: bytearray | memoryview, position: int, *, timestamp_type: int, max_timestamp: int
) -> None:
    """Set the timestamp type and the maximum timestamp of a batch and put its CRC right again."""
    header = read_header(buffer, position)
    attributes = header.attributes & ~ATTRIBUTE_LOG_APPEND_TIME | timestamp_type << 3
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _BASE_OFFSET.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp)
    write_crc(buffer, position, header.size_bytes)


def write_crc(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """Compute the CRC of the batch of ``size`` bytes at ``position`` and put it in its place."""
    with memoryview(buffer) as view:
        crc = crc32c(view[position + ATTRIBUTES_POSITION : position + size])
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)


def crc_is_valid(buffer: Buffer, position: int, size: int) -> bool:
    """Whether the stored CRC of the v2 batch of ``size`` bytes at ``position`` is that of its bytes."""
    if size < BATCH_OVERHEAD or position + size > len(buffer):
        return False
    with memoryview(buffer) as view:
        stored: int = _CRC.unpack_from(view, position + CRC_POSITION)[0]
        return crc32c(view[position + ATTRIBUTES_POSITION : position + size]) == stored
