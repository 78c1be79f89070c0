"""Walking a ``.log`` file batch by batch, by headers only, in every message format (magic 0, 1 and 2).

Not decoding: records/ does that. What is read here is what Kafka's segments need to know: offsets, sizes, the leader
epoch, the largest timestamp and the producer's numbers. A message of magic 0 or 1 counts as a batch of its own; the
offset of a compressed one is that of its last record.
"""

import zlib
from collections.abc import Generator, Iterator
from struct import Struct
from typing import Final, NamedTuple

from pkafka.errors import ApiError, ErrorCode
from pkafka.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, MAX_TIMESTAMP_POSITION
from pkafka.records.checksum import crc32c
from pkafka.storage.files import Files

_V2: Final = Struct(">qiibIhiqqqhii")
_V2_LENGTH_MIN: Final = BATCH_OVERHEAD - LOG_OVERHEAD
_CHECKED_POSITION: Final = 21
_V0_MESSAGE_BYTES_MIN: Final = 14
_PREFIX: Final = Struct(">qi")
_PREFIX_BYTES: Final = 17  # offset, size, and the magic that all formats have at byte 16
_OLD_CRC: Final = Struct(">I")
_TIMESTAMP: Final = Struct(">q")
_V1_TIMESTAMP_POSITION: Final = 18
_DELTA_POSITION: Final = 23
_DELTA: Final = Struct(">i")

SEARCH_CHUNK_BYTES: Final = 8 << 10
SCAN_CHUNK_BYTES: Final = 1 << 20
_MAGIC_MAX: Final = 2
CONTROL: Final = 0x20
TRANSACTIONAL: Final = 0x10


class StoredBatch(NamedTuple):
    """One batch as it lies in a log; ``data`` is valid until the walk goes on."""

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_offset_delta: int
    data: memoryview

    @property
    def is_control(self) -> bool:
        """Whether it is a marker; the old formats have none."""
        return bool(self.magic == _MAGIC_MAX and self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return bool(self.magic == _MAGIC_MAX and self.attributes & TRANSACTIONAL)


class DamagedBatchError(ApiError):
    """The bytes at a position are no whole, intact batch; everything before them is good.

    Recovery cuts there. Where the log may not be cut, a reader gets its code, CORRUPT_MESSAGE.

    Args:
        position: where the damage begins.
        problem: what is wrong, for a person.
    """

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"{problem} at byte {position}")
        self.position = position


def find_batch(
    files: Files, descriptor: int, offset: int, position: int, end: int
) -> tuple[int, int, int] | None:
    """The first batch from ``position`` on whose last offset is not below ``offset``.

    Returns:
        (position, size in bytes, last offset), or None when there is none before ``end``.
    """
    chunk, chunk_start = b"", position
    while end - position >= _PREFIX_BYTES:
        at = position - chunk_start
        if len(chunk) - at < BATCH_OVERHEAD:
            chunk = files.pread(descriptor, min(SEARCH_CHUNK_BYTES, end - position), position)
            chunk_start, at = position, 0
            if len(chunk) < _PREFIX_BYTES:
                return None
        last, length = _PREFIX.unpack_from(chunk, at)
        if length < _V0_MESSAGE_BYTES_MIN:
            raise DamagedBatchError(position, f"a batch of {length} bytes")
        if chunk[at + 16] >= _MAGIC_MAX:
            if len(chunk) - at < BATCH_OVERHEAD:
                return None
            last += _DELTA.unpack_from(chunk, at + _DELTA_POSITION)[0]
        if last >= offset:
            return position, length + LOG_OVERHEAD, last
        position += length + LOG_OVERHEAD
    return None


def max_timestamp_of(header: bytes) -> int:
    """The largest timestamp that the header of a batch or old message names; -1 when it has none or is cut off."""
    magic = header[16] if len(header) >= _PREFIX_BYTES else 0
    position = {1: _V1_TIMESTAMP_POSITION, _MAGIC_MAX: MAX_TIMESTAMP_POSITION}.get(magic)
    if position is None or len(header) < position + _TIMESTAMP.size:
        return -1
    timestamp: int = _TIMESTAMP.unpack_from(header, position)[0]
    return timestamp


def scan(
    files: Files,
    descriptor: int,
    position: int,
    end: int,
    *,
    check: bool,
    chunk_bytes: int = SCAN_CHUNK_BYTES,
) -> Iterator[StoredBatch]:
    """All batches between ``position`` and ``end``, in big reads.

    Args:
        files: the file port.
        descriptor: of the ``.log`` file.
        position: where a batch begins.
        end: the size of the file, or a bound inside it.
        check: compare the checksums too.
        chunk_bytes: how much to read at a time; a larger batch is read whole.

    Raises:
        DamagedBatchError: what follows is no batch, damaged or torn.
        OSError: the disk refused.
    """
    # One buffer for the whole walk: small enough for the processor's cache, and no fresh pages for every read.
    buffer = memoryview(bytearray(min(chunk_bytes, max(end - position, 0))))
    while position < end:
        got = files.read_into(descriptor, buffer[: min(len(buffer), end - position)], position)
        chunk = buffer[:got]
        if got >= _PREFIX_BYTES:
            first = _PREFIX.unpack_from(chunk, 0)[1] + LOG_OVERHEAD
            if got < first <= end - position:
                chunk = memoryview(files.pread(descriptor, first, position))
        used = yield from scan_buffer(chunk, position, check=check)
        if used == 0:
            raise DamagedBatchError(position, "a torn batch")
        position += used


def scan_buffer(data: memoryview, position: int = 0, *, check: bool) -> Generator[StoredBatch, None, int]:
    """All whole batches in ``data``, which begins at ``position`` of its file; a partial last one is left out.

    Returns:
        The bytes of all of them, as the generator's own value.

    Raises:
        DamagedBatchError: a batch is impossible or, with ``check``, its checksum is wrong.
    """
    # A start after a kill spends its time here: one unpack a batch, and tuples made without the call of a class.
    unpack, new, checksum = _V2.unpack_from, tuple.__new__, crc32c
    at, end = 0, len(data)
    while end - at >= _PREFIX_BYTES:
        magic = data[at + 16]
        if magic != _MAGIC_MAX or end - at < BATCH_OVERHEAD:
            size = _size_of_other(data, at, position, magic)
            if size > end - at:
                return at
            yield _old(data[at : at + size], position + at, check)
            at += size
            continue
        base, length, epoch, _, crc, attributes, delta, _, timestamp, pid, pid_epoch, sequence, count = (
            unpack(data, at)
        )
        following = at + length + LOG_OVERHEAD
        if length < _V2_LENGTH_MIN:
            raise DamagedBatchError(position + at, f"a batch of {length} bytes")
        if following > end:
            return at
        whole = data[at:following]
        if check and checksum(whole[_CHECKED_POSITION:]) != crc:
            raise DamagedBatchError(position + at, "a wrong checksum")
        if delta < 0 or count < 0 or base < 0:
            raise DamagedBatchError(
                position + at, f"offset {base}, last offset delta {delta} and {count} records"
            )
        yield new(
            StoredBatch,
            (
                position + at,
                following - at,
                magic,
                base,
                base + delta,
                epoch,
                timestamp,
                attributes,
                pid,
                pid_epoch,
                sequence,
                delta,
                whole,
            ),
        )
        at = following
    return at


def _size_of_other(data: memoryview, at: int, position: int, magic: int) -> int:
    """The size of what is no whole modern batch: an old message, or too short for its header."""
    if magic > _MAGIC_MAX:
        raise DamagedBatchError(position + at, f"magic {magic}")
    length: int = _PREFIX.unpack_from(data, at)[1]
    if length < (_V0_MESSAGE_BYTES_MIN if magic < _MAGIC_MAX else _V2_LENGTH_MIN):
        raise DamagedBatchError(position + at, f"a batch of {length} bytes")
    return length + LOG_OVERHEAD


def _old(data: memoryview, position: int, check: bool) -> StoredBatch:
    offset, length = _PREFIX.unpack_from(data)
    if check and zlib.crc32(data[16:]) != _OLD_CRC.unpack_from(data, LOG_OVERHEAD)[0]:
        raise DamagedBatchError(position, "a wrong checksum")
    magic = data[16]
    timestamp = (
        _TIMESTAMP.unpack_from(data, _V1_TIMESTAMP_POSITION)[0] if magic == 1 and len(data) >= 26 else -1
    )
    return StoredBatch(
        position, length + LOG_OVERHEAD, magic, offset, offset, -1, timestamp, data[17], -1, -1, -1, 0, data
    )
