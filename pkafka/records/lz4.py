"""The LZ4 frame format as Kafka's Java client reads and writes it.

One frame: magic u32 0x184D2204 | FLG u8 | BD u8 | [content size u64] | header checksum u8 | blocks | end mark
u32 0 | [content checksum u32]; one block: size u32 (highest bit = stored uncompressed) | data | [checksum u32].
Little-endian throughout. Blocks must be independent of each other: Java's reader refuses linked ones, which is what
the usual libraries write unless told otherwise. In messages of magic 0 the header checksum covers the
frame's magic too, a bug of the first clients that became part of that format (KIP-57).
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct, error
from typing import Final, cast

import cramjam

from pkafka.records.errors import corrupt
from pkafka.records.room import Room

_MAGIC: Final = 0x184D2204
_FLAG_VERSION: Final = 0x40
_FLAG_INDEPENDENT: Final = 0x20
_FLAG_BLOCK_CHECKSUM: Final = 0x10
_FLAG_CONTENT_SIZE: Final = 0x08
_FLAG_CONTENT_CHECKSUM: Final = 0x04
_FLAG_RESERVED: Final = 0x03
_STORED: Final = 0x80000000
_EXPANSION_MAX: Final = 255
"""A byte of a block stands for so many at most."""
_BLOCK_64_KIB: Final = 4
_HEADER: Final = Struct("<IBB")
_WORD: Final = Struct("<I")
_word_at: Final = cast("Callable[[memoryview, int], tuple[int]]", _WORD.unpack_from)
"""Its type is said because compiled code compares numbers of unknown types as objects."""
_END_MARK: Final = bytes(4)
_SHORT_BYTES: Final = 7
_LONG_BYTES: Final = 15
"""Of a header without and with the content size."""
_LEVEL_OF_FAST: Final = 9
"""Java's client takes the fast compressor at its default level, and the dense one at all others."""
_LEVEL_OF_DENSE_MIN: Final = 3
"""Below, the library's frames are made by the fast compressor."""

_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_U32: Final = 0xFFFFFFFF


def compress(data: memoryview, level: int | None, *, broken_checksum: bool = False) -> bytes:
    """One frame of independent 64 KiB blocks.

    Args:
        data: what to compress.
        level: 1 to 17 for the slow and dense compressor; None or 9, Kafka's default, for the fast one.
        broken_checksum: write the header checksum as magic 0 needs it.
    """
    descriptor = bytes((_FLAG_VERSION | _FLAG_INDEPENDENT, _BLOCK_64_KIB << 4))
    frame_magic = _WORD.pack(_MAGIC)
    checksum = _header_checksum(frame_magic + descriptor if broken_checksum else descriptor)
    parts = [frame_magic, descriptor, bytes((checksum,))]
    block_bytes = 1 << 2 * _BLOCK_64_KIB + 8
    for start in range(0, len(data), block_bytes):
        block = bytes(data[start : start + block_bytes])
        if level is None or level == _LEVEL_OF_FAST:
            packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        else:
            packed = _dense(block, level)
        if len(packed) < len(block):
            parts += (_WORD.pack(len(packed)), packed)
        else:
            parts += (_WORD.pack(len(block) | _STORED), block)
    parts.append(_END_MARK)
    return b"".join(parts)


def _dense(block: bytes, level: int) -> bytes:
    """A block by the slow compressor, which the library offers for whole frames only (its block call has no levels)."""
    compressor = cramjam.lz4.Compressor(
        level=max(level, _LEVEL_OF_DENSE_MIN), content_checksum=False, block_linked=False
    )
    compressor.compress(block)
    frame = bytes(compressor.finish())
    assert not frame[_WORD.size] & _FLAG_CONTENT_SIZE, frame[:8]
    first = _HEADER.size + 1
    (size,) = _WORD.unpack_from(frame, first)
    return block if size & _STORED else frame[first + _WORD.size : first + _WORD.size + size]


def inflate(data: memoryview, room: Room, *, broken_checksum: bool = False) -> None:
    """Inflate one frame.

    Args:
        data: the frame, with nothing behind it.
        room: where to.
        broken_checksum: accept the header checksum of magic 0 as well as the right one.

    Raises:
        RecordError: CORRUPT_MESSAGE, the frame is damaged, uses what Kafka's clients cannot read, or holds
            more than ``room`` takes.
    """
    try:
        _inflate(data, room, broken_checksum)
    except (error, IndexError):
        raise corrupt("the lz4 frame is cut off") from None
    except cramjam.DecompressionError as problem:
        raise corrupt(f"damaged lz4 block: {problem}") from None


def _inflate(data: memoryview, room: Room, broken_checksum: bool) -> None:
    position = _LONG_BYTES if data[_WORD.size] & _FLAG_CONTENT_SIZE else _SHORT_BYTES
    flags, block_bytes = _read_header(bytes(data[:position]), broken_checksum)
    bytes_max = room.left_bytes
    while True:
        (word,) = _word_at(data, position)
        position += _WORD.size
        if word == 0:
            break
        size = word & ~_STORED
        block = data[position : position + size]
        if size > block_bytes or len(block) < size:
            raise corrupt(f"an lz4 block of {size} bytes where {min(block_bytes, len(block))} are possible")
        position += size
        if flags & _FLAG_BLOCK_CHECKSUM:
            if _WORD.unpack_from(data, position)[0] != xxh32(block):
                raise corrupt("an lz4 block does not match its checksum")
            position += _WORD.size
        if word & _STORED:
            room.free(size)[:] = block
            room.filled_bytes += size
        else:
            free = room.free(min(block_bytes, _EXPANSION_MAX * size))
            room.filled_bytes += cramjam.lz4.decompress_block_into(block, free)
        if room.left_bytes < 0:
            raise corrupt(f"the lz4 frame inflates to more than {bytes_max} bytes")
    if flags & _FLAG_CONTENT_CHECKSUM:
        # Java's reader steps over it without looking: the CRC of the batch covers the same bytes.
        _WORD.unpack_from(data, position)
        position += _WORD.size
    if position != len(data):
        raise corrupt(f"{len(data) - position} bytes follow the lz4 frame")


@lru_cache(maxsize=64)
def _read_header(header: bytes, broken_checksum: bool) -> tuple[int, int]:
    """(flags, largest block in bytes). Kept, as a producer's headers are mostly all the same."""
    magic, flags, descriptor = _HEADER.unpack_from(header)
    if magic != _MAGIC:
        raise corrupt("not an lz4 frame")
    if flags & 0xC0 != _FLAG_VERSION or flags & _FLAG_RESERVED or descriptor & 0x8F:
        raise corrupt(f"unknown lz4 frame descriptor {flags:#04x} {descriptor:#04x}")
    if not flags & _FLAG_INDEPENDENT:
        raise corrupt("the lz4 frame has linked blocks, which Kafka's clients cannot read")
    if descriptor >> 4 < _BLOCK_64_KIB:
        raise corrupt(f"unknown lz4 block size {descriptor >> 4}")
    end = (_LONG_BYTES if flags & _FLAG_CONTENT_SIZE else _SHORT_BYTES) - 1
    checksum = header[end]
    if checksum != _header_checksum(header[_WORD.size : end]) and not (
        broken_checksum and checksum == _header_checksum(header[:end])
    ):
        raise corrupt("the lz4 frame header does not match its checksum")
    return flags, 1 << 2 * (descriptor >> 4) + 8


@lru_cache(maxsize=64)
def _header_checksum(covered: bytes) -> int:
    """Kept, as reckoning it takes longer than all else about a header."""
    return xxh32(covered) >> 8 & 0xFF


def xxh32(data: bytes | memoryview) -> int:
    """The xxHash of 32 bits with seed 0; meant for headers, not for speed."""
    size = len(data)
    position = 0
    if size >= 16:
        lanes = [_P1 + _P2 & _U32, _P2, 0, -_P1 & _U32]
        for position in range(0, size - 15, 16):
            for lane, word in enumerate(_LANES.unpack_from(data, position)):
                mixed = lanes[lane] + word * _P2 & _U32
                lanes[lane] = _rotate(mixed, 13) * _P1 & _U32
        position += 16
        one, two, three, four = lanes
        digest = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
    else:
        digest = _P5
    digest = digest + size & _U32
    while position + 4 <= size:
        digest = digest + _WORD.unpack_from(data, position)[0] * _P3 & _U32
        digest = _rotate(digest, 17) * _P4 & _U32
        position += 4
    for byte in data[position:]:
        digest = _rotate(digest + byte * _P5 & _U32, 11) * _P1 & _U32
    digest = (digest ^ digest >> 15) * _P2 & _U32
    digest = (digest ^ digest >> 13) * _P3 & _U32
    return digest ^ digest >> 16


_LANES: Final = Struct("<4I")


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _U32
