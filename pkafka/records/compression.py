"""The codecs of a batch: whole buffers in, whole buffers out, with a cap on what comes out.

Nothing inflates more than the cap, whatever a stream declares or holds, so a small bomb stays small. zstd and gzip are
cramjam's, and what is wrong with gzip data is the standard library's to say; the framings of snappy and lz4 are in
their own modules. Small zstd frames are inflated by zstandard, which keeps its decoder: to make one, as cramjam does
each time, takes as long as to inflate 8 kB.
"""

import threading
import zlib
from enum import IntEnum
from typing import Final, TypeAlias

import cramjam

from pkafka.records import lz4, snappy
from pkafka.records.errors import RecordError, corrupt
from pkafka.records.room import KEPT_BYTES, Room

Buffer: TypeAlias = bytes | bytearray | memoryview

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_LEVEL: Final = 3
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE_MAGIC: Final = b"\x2a\x4d\x18"
_ZSTD_SKIPPABLE_NIBBLE: Final = 5  # the first byte of sixteen magic numbers, 0x50 to 0x5f
_ZSTD_WINDOW_LOG_MAX: Final = 27  # the largest that Kafka's clients (libzstd's default) read
_ZSTD_BLOCK_BYTES_MAX: Final = 128 * 1024
_ZSTD_RLE: Final = 1  # a block of one byte, to be repeated


class Codec(IntEnum):
    """The compression of a batch: the numbers of its attribute bits."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_BY_NUMBER: Final = tuple(Codec)  # calling the enum would cost ten times as much


def codec_of(attributes: int) -> Codec:
    """The codec in the attributes of a batch or an old message.

    Raises:
        RecordError: CORRUPT_MESSAGE for 5 to 7, which mean nothing.
    """
    number = attributes & 0x07
    if number >= len(_BY_NUMBER):
        raise corrupt(f"unknown compression type {number}")
    return _BY_NUMBER[number]


def compress(codec: Codec, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """The compressed form that every Kafka client reads.

    Args:
        codec: which one; NONE copies.
        data: what to compress.
        level: the codec's own scale (gzip 1-9, lz4 1-17, zstd up to 22); None is Kafka's default.
        magic: the format that the bytes are for; 0 has its own lz4 header.
    """
    with memoryview(data) as view:
        if codec is Codec.GZIP:
            return zlib.compress(view, -1 if level is None else level, wbits=_GZIP_WINDOW)
        if codec is Codec.SNAPPY:
            return snappy.compress(view)
        if codec is Codec.LZ4:
            return lz4.compress(view, level, broken_checksum=magic == 0)
        if codec is Codec.ZSTD:
            return bytes(cramjam.zstd.compress(view, _ZSTD_LEVEL if level is None else level))
        return bytes(view)


def decompress(codec: Codec, data: Buffer, *, bytes_max: int, magic: int = 2) -> bytes:
    """Inflate ``data``.

    Args:
        codec: which one; NONE copies.
        data: the compressed bytes of one batch.
        bytes_max: the most that may come out.
        magic: the format that the bytes come from; 0 has its own lz4 header.

    Raises:
        RecordError: CORRUPT_MESSAGE, the data is damaged, cut off, followed by other bytes, or would become
            larger than ``bytes_max``.
    """
    with memoryview(data) as view:
        return bytes(inflate(codec, view, bytes_max=bytes_max, magic=magic))


def inflate(codec: Codec, data: Buffer, *, bytes_max: int, magic: int = 2) -> memoryview:
    """As :func:`decompress`, for who looks at the bytes before this thread inflates anything else, and not later."""
    view = memoryview(data)
    if codec is Codec.NONE:
        if len(view) > bytes_max:
            raise _too_large(codec, bytes_max)
        return view
    if codec is Codec.ZSTD:
        small = _inflate_zstd_block(view, bytes_max)
        if small is not None:
            return memoryview(small)
    room = Room(bytes_max)
    if codec is Codec.GZIP:
        return _inflate_gzip(view, room)
    if codec is Codec.SNAPPY:
        snappy.inflate(view, room)
    elif codec is Codec.LZ4:
        lz4.inflate(view, room, broken_checksum=magic == 0)
    else:
        _inflate_zstd(view, room)
    return room.filled


def _inflate_gzip(view: memoryview, room: Room) -> memoryview:
    try:
        room.filled_bytes = cramjam.gzip.decompress_into(view, room.free(min(KEPT_BYTES, room.left_bytes)))
        return room.filled
    except cramjam.DecompressionError:
        return memoryview(_inflate_odd_gzip(view, room.left_bytes))


def _inflate_odd_gzip(view: memoryview, bytes_max: int) -> bytes:
    """What is damaged, or larger than most."""
    parts = []
    rest: Buffer = view
    while True:  # a gzip stream may have several members
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        try:
            part = inflater.decompress(rest, bytes_max + 1)
        except zlib.error as problem:
            raise corrupt(f"damaged gzip data: {problem}") from None
        bytes_max -= len(part)
        if bytes_max < 0:
            raise _too_large(Codec.GZIP, bytes_max + len(part))
        if not inflater.eof:
            raise corrupt("the gzip stream is cut off")
        parts.append(part)
        rest = inflater.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if rest[:2] != _GZIP_MAGIC:
            raise corrupt(f"{len(rest)} bytes follow the gzip stream")


_kept: Final = threading.local()
"""``decoder`` of each thread, once it has needed one, and the ``error`` that it raises."""


def _inflate_zstd_block(view: memoryview, bytes_max: int) -> bytes | None:
    """What a frame of one block has in it, as those of most batches; None for :func:`_inflate_zstd` to look at.

    No block holds more than 128 kB, so a bomb has several.
    """
    if bytes(view[:4]) != _ZSTD_MAGIC or len(view) < 6:
        return None
    declared, position = _zstd_content(view)
    block = int.from_bytes(view[position : position + 3], "little")
    is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
    checksum_bytes = view[4] & 4
    end = position + 3 + (1 if kind == _ZSTD_RLE else size) + checksum_bytes
    largest = min(bytes_max, _ZSTD_BLOCK_BYTES_MAX)
    if not is_last or end != len(view) or (declared or 0) > largest:
        return None
    if not hasattr(_kept, "decoder"):
        from zstandard import ZstdDecompressor, ZstdError

        _kept.decoder, _kept.error = ZstdDecompressor(), ZstdError
    try:
        inflated: bytes = _kept.decoder.decompress(view, max_output_size=largest)
        return inflated
    except _kept.error:
        return None


def _inflate_zstd(view: memoryview, room: Room) -> None:
    declared = _check_zstd_frame(view)
    bytes_max = room.left_bytes
    if declared is not None and declared > bytes_max:
        raise _too_large(Codec.ZSTD, bytes_max)
    # Whatever the room, a bomb is stopped by its end. Most batches fit the first, which costs nothing.
    size = min(max(declared or 0, KEPT_BYTES), bytes_max)
    try:
        room.filled_bytes = cramjam.zstd.decompress_into(view, room.free(size))
        return
    except cramjam.DecompressionError as problem:
        first = str(
            problem
        )  # the error itself would keep this frame, and the room in it, until garbage is collected
    if size == bytes_max or "whole buffer" not in first:
        raise corrupt(f"damaged or oversized zstd data: {first}")
    try:
        room.filled_bytes = cramjam.zstd.decompress_into(view, room.free(bytes_max))
    except cramjam.DecompressionError as problem:
        raise corrupt(f"damaged or oversized zstd data: {problem}") from None


def _check_zstd_frame(view: memoryview) -> int | None:
    """Refuse windows that no client would read; the content size that the first frame declares, None without.

    Skippable frames (metadata of any kind, RFC 8878 section 3.1.2) may come before it, and even nothing else.
    """
    header = bytes(view[:18])
    while header[1:4] == _ZSTD_SKIPPABLE_MAGIC and header[0] >> 4 == _ZSTD_SKIPPABLE_NIBBLE:
        view = view[8 + int.from_bytes(header[4:8], "little") :]
        header = bytes(view[:18])
        if not header:
            return None
    if header[:4] != _ZSTD_MAGIC or len(header) < 6:
        raise corrupt("not a zstd frame")
    descriptor = header[4]
    single_segment = descriptor >> 5 & 1
    if not single_segment and 10 + (header[5] >> 3) > _ZSTD_WINDOW_LOG_MAX:
        raise corrupt(f"the zstd window of 2^{10 + (header[5] >> 3)} bytes is too large")
    return _zstd_content(header)[0]


def _zstd_content(frame: Buffer) -> tuple[int | None, int]:
    """The size that a frame declares for its content, None without, and where its first block begins."""
    descriptor = frame[4]
    single_segment = descriptor >> 5 & 1
    size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    position = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    if size_bytes == 0:
        return None, position
    field = frame[position : position + size_bytes]
    return int.from_bytes(field, "little") + (256 if size_bytes == 2 else 0), position + size_bytes


def _too_large(codec: Codec, bytes_max: int) -> RecordError:
    return corrupt(f"the {codec.name.lower()} data inflates to more than {bytes_max} bytes")
