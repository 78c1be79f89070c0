"""The message formats before v2: v0 (before 0.10) and v1 (0.10).

A message set is messages back to back. A compressed one is a single wrapper message whose value is a compressed
message set; the wrapper's offset is that of its last inner message. Inner offsets are absolute in v0 and
relative to the first in v1. pkafka reads these formats and writes them for old consumers, its log never gets them.
"""

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import Final, NamedTuple, TypeAlias

from pkafka.model import NO_TIMESTAMP
from pkafka.records.batch import ATTRIBUTE_LOG_APPEND_TIME, LOG_OVERHEAD
from pkafka.records.compression import Codec, codec_of, compress, decompress
from pkafka.records.errors import corrupt, invalid

# Big-endian: offset i64 | size i32 (bytes behind this field) | CRC-32 u32 (of everything behind it) | magic i8 |
# attributes i8 | [timestamp i64, v1 only] | key length i32 | key | value length i32 | value; a length -1 = null
_PREFIX: Final = Struct(">qiIbb")
_OFFSET_AND_SIZE: Final = Struct(">qi")
_CRC: Final = Struct(">I")
_TIMESTAMP: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_CRC_POSITION: Final = 12
_MAGIC_POSITION: Final = 16
SMALLEST_SIZE: Final = (14, 22)
"""What a v0 and a v1 message count at least in their size field."""

OffsetRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp in ms, key, value."""


class Message(NamedTuple):
    """One message of v0 or v1; the timestamp of v0 is -1."""

    offset: int
    size_bytes: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> Codec:
        """The compression of the value, which is a message set unless this is NONE."""
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> int:
        """0 = CreateTime, 1 = LogAppendTime."""
        return self.attributes >> 3 & 1


def read_message(view: memoryview, position: int = 0, *, check_crc: bool = True) -> Message:
    """Decode the one message at ``position``; what a wrapper holds stays as its value.

    Raises:
        RecordError: CORRUPT_MESSAGE, the bytes are cut off, contradict each other or miss their checksum.
    """
    try:
        offset, size, crc, magic, attributes = _PREFIX.unpack_from(view, position)
        end = position + LOG_OVERHEAD + size
        if not 0 <= magic <= 1:
            raise corrupt(f"magic {magic} where 0 or 1 is needed")
        if size < SMALLEST_SIZE[magic] or end > len(view):
            raise corrupt(f"a message of magic {magic} cannot have a size of {size} bytes here")
        if check_crc and zlib.crc32(view[position + _MAGIC_POSITION : end]) != crc:
            raise corrupt(f"the message does not match its checksum {crc:#010x}")
        timestamp = NO_TIMESTAMP
        at = position + _PREFIX.size
        if magic == 1:
            timestamp = _TIMESTAMP.unpack_from(view, at)[0]
            at += _TIMESTAMP.size
        key, at = _read_field(view, at, end)
        value, at = _read_field(view, at, end)
    except error:
        raise corrupt("the message is cut off") from None
    if at != end:
        raise corrupt(f"{end - at} bytes are left over in a message")
    return Message(offset, end - position, crc, magic, attributes, timestamp, key, value)


def _read_field(view: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length: int = _LENGTH.unpack_from(view, position)[0]
    position += _LENGTH.size
    if length < 0:
        return None, position
    if length > end - position:
        raise corrupt(f"a field of {length} bytes where {end - position} are left")
    return bytes(view[position : position + length]), position + length


def inner_messages(wrapper: Message, *, bytes_max: int, check_crc: bool = True) -> list[Message]:
    """The messages inside a compressed one, with absolute offsets and, under LogAppendTime, the wrapper's time.

    Raises:
        RecordError: CORRUPT_MESSAGE for damaged data, INVALID_RECORD for a wrapper that holds nothing, another
            wrapper or messages of another magic.
    """
    if wrapper.value is None:
        raise invalid(f"a compressed message of magic {wrapper.magic} without a value")
    data = decompress(wrapper.codec, wrapper.value, bytes_max=bytes_max, magic=wrapper.magic)
    view = memoryview(data)
    messages: list[Message] = []
    position = 0
    while position < len(view):
        if len(view) - position > _MAGIC_POSITION and view[position + _MAGIC_POSITION] != wrapper.magic:
            raise invalid(f"a message of another magic inside a wrapper of magic {wrapper.magic}")
        message = read_message(view, position, check_crc=check_crc)
        if message.attributes & 7:
            raise invalid("a compressed message inside a compressed message")
        messages.append(message)
        position += message.size_bytes
    if not messages:
        raise invalid("a compressed message with no messages inside")
    shift = wrapper.offset - messages[-1].offset if wrapper.magic == 1 else 0
    fixed = wrapper.timestamp if wrapper.timestamp_type else None
    if shift == 0 and fixed is None:
        return messages
    return [
        message._replace(
            offset=message.offset + shift, timestamp=message.timestamp if fixed is None else fixed
        )
        for message in messages
    ]


def deep_messages(
    view: memoryview, position: int = 0, *, bytes_max: int, check_crc: bool = True
) -> Iterator[Message]:
    """The message at ``position``, or those inside it when it is compressed."""
    message = read_message(view, position, check_crc=check_crc)
    if message.attributes & 7 == 0:
        yield message
    else:
        yield from inner_messages(message, bytes_max=bytes_max, check_crc=check_crc)


def encode_message(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, *, magic: int, attributes: int = 0
) -> bytes:
    """One message of v0 or v1, checksum included; v0 drops the timestamp."""
    if not 0 <= magic <= 1:
        raise ValueError(f"magic {magic} is not an old format")
    time = _TIMESTAMP.pack(timestamp) if magic else b""
    counted = bytes((magic, attributes)) + time + _encode_field(key) + _encode_field(value)
    head = _OFFSET_AND_SIZE.pack(offset, len(counted) + _CRC.size)
    return head + _CRC.pack(zlib.crc32(counted)) + counted


def _encode_field(data: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if data is None else _LENGTH.pack(len(data)) + data


def build_message_set(
    records: Iterable[OffsetRecord],
    *,
    magic: int,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: int = 0,
) -> bytes:
    """A message set of v0 or v1: one wrapper message when ``codec`` is given.

    Raises:
        ValueError: the codec is zstd, which the old formats do not have.
    """
    rows = list(records)
    kind = ATTRIBUTE_LOG_APPEND_TIME if timestamp_type and magic else 0
    if codec is Codec.NONE or not rows:
        return b"".join(
            encode_message(offset, timestamp, key, value, magic=magic, attributes=kind)
            for offset, timestamp, key, value in rows
        )
    if codec is Codec.ZSTD:
        raise ValueError("zstd came after the old message formats")
    base = rows[0][0] if magic else 0
    inner = b"".join(
        encode_message(offset - base, timestamp, key, value, magic=magic, attributes=kind)
        for offset, timestamp, key, value in rows
    )
    packed = compress(codec, inner, level, magic=magic)
    newest = max(timestamp for _, timestamp, _, _ in rows)
    return encode_message(rows[-1][0], newest, None, packed, magic=magic, attributes=codec | kind)
