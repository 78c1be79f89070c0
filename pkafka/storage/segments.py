"""The segments of a log in order, found by offset."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from pkafka.model import Offset
from pkafka.storage.retention import SegmentFacts
from pkafka.storage.segment import Segment


class Segments:
    """A sorted map from base offset to segment; the last one is the active one."""

    __slots__ = ("_bases", "_by_base")

    def __init__(self) -> None:
        self._bases: list[Offset] = []
        self._by_base: dict[Offset, Segment] = {}

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[Segment]:
        """The oldest first; a snapshot, so that segments may go meanwhile."""
        return iter([self._by_base[base] for base in self._bases])

    def __contains__(self, base_offset: object) -> bool:
        return base_offset in self._by_base

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._by_base[self._bases[0]]

    @property
    def last(self) -> Segment:
        """The newest segment."""
        return self._by_base[self._bases[-1]]

    @property
    def base_offsets(self) -> list[Offset]:
        """All base offsets, increasing."""
        return list(self._bases)

    def add(self, segment: Segment) -> None:
        """Put a segment in, in place of one with the same base offset."""
        if segment.base_offset not in self._by_base:
            insort(self._bases, segment.base_offset)
        self._by_base[segment.base_offset] = segment

    def remove(self, segment: Segment) -> None:
        """Take a segment out."""
        del self._by_base[segment.base_offset]
        del self._bases[bisect_left(self._bases, segment.base_offset)]

    def floor(self, offset: Offset) -> Segment | None:
        """The last segment that begins at or below ``offset``."""
        place = bisect_right(self._bases, offset)
        return self._by_base[self._bases[place - 1]] if place else None

    def higher(self, offset: Offset) -> Segment | None:
        """The first segment that begins above ``offset``."""
        place = bisect_right(self._bases, offset)
        return self._by_base[self._bases[place]] if place < len(self._bases) else None

    def facts(self, end_offset: Offset) -> list[SegmentFacts]:
        """What retention looks at; ``end_offset`` is the log's.

        Raises:
            OSError: the disk refused.
        """
        segments = list(self)
        ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
        return [
            SegmentFacts(segment.base_offset, end, segment.size, segment.retention_timestamp)
            for segment, end in zip(segments, ends, strict=True)
        ]

    def within(self, start: Offset, end: Offset) -> list[Segment]:
        """The segments that may hold offsets of [start, end): from the one that covers ``start`` on."""
        if end <= start and start not in self._by_base:
            return []
        first = max(bisect_right(self._bases, start) - 1, 0)
        return [
            self._by_base[base] for base in self._bases[first : max(bisect_left(self._bases, end), first)]
        ]
