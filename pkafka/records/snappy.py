"""Snappy as Kafka's clients write it: raw, or in the stream format of the xerial Java library.

Stream format, integers big-endian: magic 0x82 "SNAPPY" 0x00 | version i32 | oldest compatible version i32 |
then per block: length i32 | raw snappy block.
"""

from struct import Struct, error
from typing import Final

import cramjam

from pkafka.records.errors import corrupt
from pkafka.records.room import Room

MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))
_LENGTH: Final = Struct(">i")
_MAGIC_AS_LENGTH: Final = _LENGTH.unpack_from(MAGIC)[0]
BLOCK_BYTES: Final = 32 << 10  # what the Java library writes


def compress(data: memoryview) -> bytes:
    """The xerial stream of ``data``."""
    parts = [_HEADER]
    for start in range(0, len(data), BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + BLOCK_BYTES]))
        parts.append(_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def inflate(data: memoryview, room: Room) -> None:
    """Inflate a raw block or a xerial stream, several streams in a row included.

    Raises:
        RecordError: CORRUPT_MESSAGE, the data is damaged or holds more than ``room`` takes.
    """
    if bytes(data[: len(MAGIC)]) != MAGIC:
        _inflate_block(data, room)
        return
    position = len(_HEADER)
    end = len(data)
    if end < position:
        raise corrupt("the snappy stream ends inside its header")
    while position < end:
        try:
            length: int = _LENGTH.unpack_from(data, position)[0]
        except error:
            raise corrupt("the snappy stream ends inside a block's length") from None
        if length == _MAGIC_AS_LENGTH and bytes(data[position : position + len(MAGIC)]) == MAGIC:
            position += len(_HEADER)
            continue
        position += _LENGTH.size
        if length < 0 or length > end - position:
            raise corrupt(f"a snappy block of {length} bytes where {end - position} are left")
        _inflate_block(data[position : position + length], room)
        position += length


def _inflate_block(block: memoryview, room: Room) -> None:
    try:
        # The size is declared in front and would be allocated before a byte is read, so it is checked first.
        size = cramjam.snappy.decompress_raw_len(block)
        if size > room.left_bytes:
            raise corrupt(f"a snappy block inflates to {size} bytes, {room.left_bytes} are allowed")
        room.filled_bytes += cramjam.snappy.decompress_raw_into(block, room.free(size))
    except cramjam.DecompressionError as problem:
        raise corrupt(f"damaged snappy data: {problem}") from None
