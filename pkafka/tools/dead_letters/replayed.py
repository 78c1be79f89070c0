"""Which letters of a partition were replayed: an offset that a group has stored, and ranges in its metadata.

Who replays some letters and not those between leaves gaps. So the stored offset is that of the first letter that was
not replayed, and the metadata lists what was, behind it: ``5-7,9``. Brokers bound metadata
(``offset.metadata.max.bytes``).
"""

import re
from bisect import bisect_right
from operator import itemgetter
from typing import Final, NamedTuple, Self

from pkafka.clients.errors import ClientError
from pkafka.clients.offsets import OffsetAndMetadata

METADATA_MAX: Final = 4096
"""The default of ``offset.metadata.max.bytes``."""
_RANGES: Final = re.compile(r"\d{1,19}(-\d{1,19})?(,\d{1,19}(-\d{1,19})?)*", re.ASCII)


class TooManyGapsError(ClientError):
    """What was replayed and what was not lie so mixed that the group's metadata cannot hold it."""


class Replayed(NamedTuple):
    """What was replayed of one partition.

    Args:
        before: every letter before this offset was.
        ranges: first and last offset of those behind it, in order, without overlap.
    """

    before: int = 0
    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, stored: OffsetAndMetadata | None) -> Self:
        """What a group has stored. Metadata of other programs, which write none such, counts for nothing."""
        if stored is None:
            return cls()
        if not _RANGES.fullmatch(stored.metadata or ""):
            return cls(stored.offset)
        pairs = (part.partition("-") for part in stored.metadata.split(","))
        return cls(stored.offset, tuple((int(first), int(last or first)) for first, _, last in pairs))

    def stored(self) -> OffsetAndMetadata:
        """The same as the group stores it.

        Raises:
            TooManyGapsError: it does not fit.
        """
        text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.ranges)
        if len(text) > METADATA_MAX:
            raise TooManyGapsError(
                f"Letters that are replayed and letters that are not would alternate {len(self.ranges)} times, more"
                " than a group can remember: choose fewer letters, or replay those between them as well"
            )
        return OffsetAndMetadata(self.before, text)

    def has(self, offset: int) -> bool:
        """Whether a letter was replayed."""
        at = bisect_right(self.ranges, offset, key=itemgetter(0)) - 1
        return offset < self.before or (at >= 0 and offset <= self.ranges[at][1])


class Replaying:
    """Follows a partition letter by letter, from the first that was not replayed.

    Args:
        known: what was replayed earlier.
    """

    def __init__(self, known: Replayed) -> None:
        self._known = known
        self._before = known.before
        self._is_waited_for = False
        """Whether the letter at ``_before`` was read, and not replayed."""
        self._ranges: list[tuple[int, int]] = []
        self._is_open = False
        """Whether the next replayed letter belongs to the last range: between the two is no other."""
        self._last = known.before - 1

    def note(self, offset: int, *, is_replayed: bool) -> None:
        """Take the next letter of the partition; one that was replayed earlier stays so."""
        self._last = offset
        if not (is_replayed or self._known.has(offset)):
            self._before = self._before if self._is_waited_for else offset
            self._is_waited_for, self._is_open = True, False
        elif not self._is_waited_for:
            self._before = offset + 1
        elif self._is_open:
            self._ranges[-1] = (self._ranges[-1][0], offset)
        else:
            self._ranges.append((offset, offset))
            self._is_open = True

    def replayed(self) -> Replayed:
        """What is replayed by now."""
        later = [each for each in self._known.ranges if each[1] > self._last]
        return Replayed(self._before, (*self._ranges, *later))
