"""Steps over the batches of a segment's file, window by window, and past damage if asked to.

Reads with plain reads into one buffer, so memory stays the same however large the file is, and a file that is cut
meanwhile ends early instead of ending the process (as a memory map would). Knows framing and checksums; the caller
decodes records.
"""

import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from pkafka.records.batch import (
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    HEADER,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    BatchHeader,
)
from pkafka.records.checksum import crc32c
from pkafka.records.compression import Codec
from pkafka.records.errors import RecordError
from pkafka.records.legacy import SMALLEST_SIZE, read_message

WINDOW_BYTES: Final = 4 << 20
NO_LIMIT: Final = 2**31 - 1
"""Kafka's --max-bytes for all of a file."""

_CRC_FIELD: Final = BatchHeader._fields.index("crc")
_UP_TO_MAGIC: Final = Struct(">qiib")
_SEARCH_BYTES: Final = 1 << 20
_LARGE: Final = 64 << 20
"""Larger batches are looked at part by part before memory is taken for them: a damaged length may say anything."""
_OFFSET_PLAUSIBLE: Final = 1 << 48
_NO_OFFSET: Final = 1 << 63
_KNOWN_ATTRIBUTES: Final = 0x7F
_V2_LENGTH_MIN: Final = BATCH_OVERHEAD - LOG_OVERHEAD
# Magic 0 is not searched for: every zero would be one, and a file full of zeros would take forever.
_SEARCHED_MAGIC: Final = re.compile(rb"[\x01\x02]")


class Batch(NamedTuple):
    """A batch, or a message of an old format, which is a batch with a wrapper at most.

    ``view`` is valid until the next one is asked for. ``header`` of an old message: its own offset is the last one, and
    there is no producer.
    """

    view: memoryview
    at: int
    position: int
    size: int
    header: BatchHeader
    is_valid: bool


class SegmentWalk:
    """The batches of one file in order; afterwards, how far it came and why no farther.

    Args:
        path: the file.
        bytes_max: read at most so many bytes; a batch that reaches beyond is left out.
        start: where the first batch begins.
        stop_offset: end in front of the first batch that begins here or behind; the rest is not looked at.
        wanted: asked about each batch's header; of one that is not, no checksum is computed and it does not come.
        resync: search the next plausible batch behind damage, and tell ``on_damage`` what was left out.
        after_offset: the last offset in front of ``start``; a search for batches finds none below it.
        on_damage: called with (position, size, what is wrong) of bytes that are no batch.
        on_read: called with the number of bytes read, for showing progress.

    Attributes:
        end: the position behind the last batch.
        size: the bytes to be read.
        fault: what is wrong with the bytes at ``end``; None where they are but too few for a batch.
    """

    def __init__(
        self,
        path: Path,
        *,
        bytes_max: int = NO_LIMIT,
        start: int = 0,
        stop_offset: int | None = None,
        wanted: Callable[[BatchHeader], bool] | None = None,
        resync: bool = False,
        after_offset: int = -1,
        on_damage: Callable[[int, int, str], None] | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        self.end = start
        self.size = 0
        self.fault: str | None = None
        self._path = path
        self._bytes_max = bytes_max
        self._stop_offset = stop_offset
        self._wanted = wanted
        self._resync = resync
        self._after_offset = after_offset
        self._on_damage = on_damage
        self._on_read = on_read

    def __iter__(self) -> Iterator[Batch]:
        """The batches, once.

        Raises:
            OSError: the file cannot be read.
        """
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            self.size = size if self._bytes_max == NO_LIMIT else min(size, self._bytes_max)
            yield from self._walk(descriptor) if self._resync else self._framed(descriptor)
        finally:
            os.close(descriptor)

    def _walk(self, descriptor: int) -> Iterator[Batch]:
        """Past damage."""
        last_offset = self._after_offset
        while True:
            broken: Batch | None = None
            for batch in self._framed(descriptor):
                if not batch.is_valid and not self._goes_on(descriptor, batch):
                    broken = batch
                    break
                yield batch
                if batch.is_valid:
                    last_offset = batch.header.last_offset
            if broken is None and self.end >= self.size:
                return
            begin = self.end if broken is None else broken.position
            found = next_plausible(descriptor, begin + 1, self.size, after_offset=last_offset)
            reason = self.fault or ("a checksum that is wrong" if broken else "too few bytes for a batch")
            # Without one the tail is the caller's to judge: a write that a crash cut off looks so.
            if found is None:
                self.end = begin
                self.fault = reason if broken is not None else self.fault
                return
            if self._on_damage is not None:
                self._on_damage(begin, found - begin, reason)
            self.end = found
            self.fault = None

    def _framed(self, descriptor: int) -> Iterator[Batch]:
        unpack, wanted, stop_offset = HEADER.unpack_from, self._wanted, self._stop_offset
        window = _Window(descriptor, self.end, self.size, self._on_read)
        while True:
            yield from self._in_window(window)
            left = self.size - window.position
            if left <= MAGIC_POSITION:
                return
            if window.rest <= MAGIC_POSITION and not window.fill(MAGIC_POSITION + 1):
                return
            _, length, _, magic = _UP_TO_MAGIC.unpack_from(window.view, window.at)
            if length < SMALLEST_SIZE[0] or magic < 0 or (magic >= 2 and length < _V2_LENGTH_MIN):
                self.fault = _fault(length, magic)
                return
            size = length + LOG_OVERHEAD
            if size > left or not window.fill(_needed(descriptor, window.position, size, magic)):
                return
            view, at, position = window.view, window.at, window.position
            if magic >= 2:
                header = BatchHeader._make(unpack(view, at))
                if stop_offset is not None and header.base_offset >= stop_offset:
                    self.size = self.end
                    return
                # An unknown byte of magic is damage, as no checksum covers it.
                is_valid = magic == 2 and window.rest >= size
            else:
                try:
                    header, is_valid = _old_header(view, at, size)
                except RecordError as error:
                    self.fault = error.message
                    return
            self.end = position + size
            if wanted is None or wanted(header):
                if is_valid and magic == 2:
                    is_valid = crc32c(view[at + ATTRIBUTES_POSITION : at + size]) == header.crc
                yield Batch(view, at, position, size, header, is_valid)
            window.at = at + size

    def _in_window(self, window: "_Window") -> Iterator[Batch]:
        """The batches of magic 2 that are whole in memory, in few steps each: nearly all batches that there are."""
        unpack, wanted = HEADER.unpack_from, self._wanted
        view, at, filled = window.view, window.at, window.filled
        base = window.position - at
        stop_offset = _NO_OFFSET if self._stop_offset is None else self._stop_offset
        make = tuple.__new__
        while filled - at >= BATCH_OVERHEAD:
            fields = unpack(view, at)
            size = fields[1] + LOG_OVERHEAD
            following = at + size
            if fields[3] != 2 or size < BATCH_OVERHEAD or following > filled or fields[0] >= stop_offset:
                break
            header = make(BatchHeader, fields)
            if wanted is None or wanted(header):
                self.end = base + following
                is_valid = crc32c(view[at + ATTRIBUTES_POSITION : following]) == fields[4]
                yield make(Batch, (view, at, base + at, size, header, is_valid))
            at = following
        window.at = at
        self.end = base + at

    def _goes_on(self, descriptor: int, batch: Batch) -> bool:
        """Whether a batch is where a damaged one says that it ends, so that its length at least is right."""
        position = batch.position + batch.size
        if position == self.size:
            return True
        head = os.pread(descriptor, BATCH_OVERHEAD, position)
        if len(head) <= MAGIC_POSITION:
            return False
        offset: int
        length: int
        magic: int
        offset, length, _, magic = _UP_TO_MAGIC.unpack_from(head)
        least = _V2_LENGTH_MIN if magic == 2 else SMALLEST_SIZE[0]
        return (
            0 <= magic <= 2
            and length >= least
            and position + length + LOG_OVERHEAD <= self.size
            and offset >= 0
        )


def _needed(descriptor: int, position: int, size: int, magic: int) -> int:
    """How much of a batch has to be in memory: all of it, or the header of one that only says that it is so large."""
    if size <= _LARGE or magic < 2:
        return size
    head = os.pread(descriptor, BATCH_OVERHEAD, position)
    is_right = (
        len(head) == BATCH_OVERHEAD and _crc_of(descriptor, position, size) == HEADER.unpack(head)[_CRC_FIELD]
    )
    return size if is_right else BATCH_OVERHEAD


def _crc_of(descriptor: int, position: int, size: int) -> int:
    """The checksum that the v2 batch at a position should have, read part by part."""
    crc, at, end = 0, position + ATTRIBUTES_POSITION, position + size
    while at < end:
        chunk = os.pread(descriptor, min(_SEARCH_BYTES, end - at), at)
        if not chunk:
            break
        crc = crc32c(chunk, crc)
        at += len(chunk)
    return crc


class _Window:
    """A part of a file in memory: ``rest`` bytes from ``at`` to ``filled``, which stand at ``position`` of the file."""

    __slots__ = ("_base", "_descriptor", "_on_read", "_size", "at", "filled", "view")

    def __init__(
        self, descriptor: int, position: int, size: int, on_read: Callable[[int], None] | None
    ) -> None:
        self._descriptor = descriptor
        self._base = position
        self._size = size
        self.filled = 0
        self._on_read = on_read
        self.at = 0
        self.view = memoryview(bytearray(max(min(WINDOW_BYTES, size - position), 0)))

    @property
    def position(self) -> int:
        return self._base + self.at

    @property
    def rest(self) -> int:
        return self.filled - self.at

    def fill(self, needed: int) -> bool:
        """Have ``needed`` bytes there; False when the file has become shorter."""
        rest = max(self.rest, 0)  # less than nothing behind a batch that was passed over
        if rest >= needed:
            return True
        view = self.view if needed <= len(self.view) else memoryview(bytearray(needed))
        view[:rest] = bytes(self.view[self.at : self.filled])
        self._base += self.at
        self.at, self.filled, self.view = 0, rest, view
        room = min(len(view), self._size - self._base)
        while self.filled < needed:
            count = os.preadv(self._descriptor, [view[self.filled : room]], self._base + self.filled)
            if count == 0:
                return False
            self.filled += count
            if self._on_read is not None:
                self._on_read(count)
        return True


def next_plausible(descriptor: int, start: int, end: int, *, after_offset: int) -> int | None:
    """Where the first batch with a right checksum begins at or behind ``start``; None without one before ``end``.

    Args:
        after_offset: it begins above this offset.
    """
    at = start
    while end - at > MAGIC_POSITION:
        chunk = os.pread(descriptor, min(_SEARCH_BYTES, end - at), at)
        for match in _SEARCHED_MAGIC.finditer(chunk, MAGIC_POSITION):
            begin = match.start() - MAGIC_POSITION
            offset, length, _, magic = _UP_TO_MAGIC.unpack_from(chunk, begin)
            size = length + LOG_OVERHEAD
            least = _V2_LENGTH_MIN if magic == 2 else SMALLEST_SIZE[1]
            if (
                after_offset < offset < _OFFSET_PLAUSIBLE
                and length >= least
                and at + begin + size <= end
                and is_batch(descriptor, at + begin, size, magic)
            ):
                return at + begin
        if len(chunk) <= MAGIC_POSITION:
            return None
        at += len(chunk) - MAGIC_POSITION
    return None


def is_batch(descriptor: int, position: int, size: int, magic: int) -> bool:
    """Whether a batch of so many bytes stands somewhere: first by what its header can hold, which is cheap, then by
    its checksum.
    """
    if magic < 2:
        if size > _LARGE:
            return False
        data = os.pread(descriptor, size, position)
        return len(data) == size and zlib.crc32(memoryview(data)[MAGIC_POSITION:]) == int.from_bytes(
            data[12:16], "big"
        )
    head = os.pread(descriptor, BATCH_OVERHEAD, position)
    if len(head) < BATCH_OVERHEAD:
        return False
    header = BatchHeader._make(HEADER.unpack_from(head))
    return (
        header.attributes & ~_KNOWN_ATTRIBUTES == 0
        and header.codec <= Codec.ZSTD
        and 0 <= header.records_count <= header.last_offset_delta + 1
        and _crc_of(descriptor, position, size) == header.crc
    )


def header_at(descriptor: int, position: int) -> BatchHeader | None:
    """The header of the batch or old message at a position of a file; None where there is none."""
    if position < 0:
        return None
    head = os.pread(descriptor, BATCH_OVERHEAD, position)
    if len(head) <= MAGIC_POSITION:
        return None
    _, length, _, magic = _UP_TO_MAGIC.unpack_from(head)
    if magic >= 2:
        whole = len(head) == BATCH_OVERHEAD and length >= _V2_LENGTH_MIN
        return BatchHeader._make(HEADER.unpack_from(head)) if whole else None
    if length < SMALLEST_SIZE[0] or magic < 0:
        return None
    data = os.pread(descriptor, length + LOG_OVERHEAD, position)
    try:
        return _old_header(memoryview(data), 0, len(data))[0]
    except RecordError:
        return None


def _old_header(view: memoryview, at: int, size: int) -> tuple[BatchHeader, bool]:
    """What a header would say of an old message, and whether its checksum is right."""
    message = read_message(view[at : at + size], check_crc=False)
    header = BatchHeader(
        base_offset=message.offset,
        batch_length=size - LOG_OVERHEAD,
        partition_leader_epoch=-1,
        magic=message.magic,
        crc=message.crc,
        attributes=message.attributes & 0x0F,
        last_offset_delta=0,
        base_timestamp=message.timestamp,
        max_timestamp=message.timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=1,
    )
    return header, zlib.crc32(view[at + MAGIC_POSITION : at + size]) == message.crc


def _fault(length: int, magic: int) -> str:
    if magic < 0:
        return f"no message format has the magic {magic}"
    return f"a batch cannot have a length of {length} bytes"
