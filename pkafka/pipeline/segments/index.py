"""Finds where batches of a segment begin, by its offset index. Each place is looked at before it is believed.

Reads only. The index of a segment that is written to ends in zeros; one that a crash left behind may say anything.
"""

import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from operator import lt
from pathlib import Path
from typing import Final, Self

from pkafka.tools.logs.segment_walk import header_at, is_batch
from pkafka.tools.logs.side_files import OFFSET_ENTRY, TIME_ENTRY

_SAMPLES: Final = 8
"""Entries that are looked at to tell a right index from that of another segment."""
_TRIES: Final = 16
"""Entries that are looked at for one boundary: more would be read only where much is damaged."""


class IndexedBatches:
    """The entries of an offset index that lie within its segment; use :meth:`of`.

    Attributes:
        problem: why the index leads nowhere: it is missing, empty or wrong; None where it is right. Of single entries
            of a right index those that lead to no batch are passed over.
    """

    def __init__(self, descriptor: int, size: int, base_offset: int, data: bytes | None) -> None:
        self._descriptor = descriptor
        self._size = size
        self._base_offset = base_offset
        self._offsets, self._positions = array("i"), array("i")
        self.problem = "is missing" if data is None else self._take(data)

    @classmethod
    @contextmanager
    def of(cls, segment: str, base_offset: int) -> Iterator[Self]:
        """The index beside a segment, as long as the block lasts.

        Raises:
            OSError: a file cannot be read; FileNotFoundError: there is no such segment.
        """
        descriptor = os.open(segment, os.O_RDONLY)
        try:
            try:
                data = Path(segment).with_suffix(".index").read_bytes()
            except FileNotFoundError:
                data = None
            yield cls(descriptor, os.fstat(descriptor).st_size, base_offset, data)
        finally:
            os.close(descriptor)

    def boundaries(self, start: int, stop: int, distance: int) -> list[int]:
        """Where batches begin between two positions, ``distance`` bytes or more from each other and from ``start``."""
        found: list[int] = []
        target = start + distance
        while target < stop:
            position = self.next_batch(target, min(target + distance, stop), tries=_TRIES)
            if position is not None:
                found.append(position)
                target = position
            target += distance
        return found

    def next_batch(self, position: int, end: int, *, tries: int | None = None) -> int | None:
        """The first indexed batch that begins at a position or behind, but before ``end``; None without one.

        Args:
            tries: look at so many entries; all by default.
        """
        if self.problem is not None:
            return None
        first, last = bisect_left(self._positions, position), bisect_left(self._positions, end)
        slots = range(first, last)
        return next((self._positions[slot] for slot in slots[:tries] if self._is_right(slot)), None)

    def position_before(self, offset: int) -> int:
        """A position at which a batch begins, or 0, in front of which all offsets are below this one."""
        slot = bisect_right(self._offsets, self._relative(offset)) - 1
        while slot >= 0 and self.problem is None:
            if self._is_right(slot):
                return self._positions[slot]
            slot -= 1
        return 0

    def position_behind(self, offset: int) -> int | None:
        """A position at which a batch begins, from which on no offset is below this one; None without one.

        An entry's offset may be that of a later batch, which came in the same append: so the one behind it is taken.
        """
        slot = bisect_left(self._offsets, self._relative(offset)) + 1
        while slot < len(self._offsets) and self.problem is None:
            if self._is_right(slot):
                return self._positions[slot]
            slot += 1
        return None

    def latest_time(self, segment: str) -> int | None:
        """The latest time of any record of a segment that is written to no more, by the last entry of its time index.

        None where that index does not say so, or where its entry is not about the batch that has the offset it names.
        """
        try:
            data = Path(segment).with_suffix(".timeindex").read_bytes()
        except FileNotFoundError:
            return None
        if self.problem is not None or not data or len(data) % TIME_ENTRY.size:
            return None
        time, relative = TIME_ENTRY.unpack_from(data, len(data) - TIME_ENTRY.size)
        offset = self._base_offset + relative
        position = self.position_before(offset)
        while (header := header_at(self._descriptor, position)) is not None and header.last_offset < offset:
            position += header.size_bytes
        is_right = header is not None and header.base_offset <= offset and header.max_timestamp == time
        return int(time) if is_right else None

    def _relative(self, offset: int) -> int:
        return max(min(offset - self._base_offset, 2**31 - 1), -1)

    def _take(self, data: bytes) -> str | None:
        """Take the entries over.

        Returns:
            What is wrong with them.
        """
        used = -(-len(data.rstrip(b"\0")) // OFFSET_ENTRY.size) * OFFSET_ENTRY.size
        if used > len(data):
            return "is wrong"
        words = array("i")
        words.frombytes(data[:used])
        if sys.byteorder == "little":
            words.byteswap()
        offsets, positions = words[0::2], words[1::2]
        if not all(map(lt, offsets, offsets[1:])) or not all(map(lt, positions, positions[1:])):
            return "is wrong"
        count = bisect_left(positions, self._size)
        self._offsets, self._positions = offsets[:count], positions[:count]
        if not count:
            return "leads nowhere"
        samples = {slot * (count - 1) // (_SAMPLES - 1) for slot in range(_SAMPLES)}
        return None if any(map(self._is_right, samples)) else "is wrong"

    def _is_right(self, slot: int) -> bool:
        """Whether a batch with a right checksum stands where an entry says, none of whose offsets is above it."""
        position = self._positions[slot]
        header = header_at(self._descriptor, position)
        return (
            header is not None
            and header.magic <= 2
            and self._base_offset <= header.base_offset <= self._base_offset + self._offsets[slot]
            and position + header.size_bytes <= self._size
            and is_batch(self._descriptor, position, header.size_bytes, header.magic)
        )
