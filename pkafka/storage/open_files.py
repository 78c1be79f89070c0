"""How many files of inactive segments stay open in one process: the least recently used ones are closed.

Active segments are not counted: they stay open while they are written. A pinned segment (an answer is being sent from
its descriptor) is passed over.
"""

from collections import OrderedDict
from typing import Final, Protocol

INACTIVE_OPEN_MAX: Final = 1024


class Closable(Protocol):
    """What the register can close; it opens itself again on its next use."""

    @property
    def is_pinned(self) -> bool:
        """Whether its descriptor is in use."""
        ...

    def release_files(self) -> None:
        """Close the descriptors and maps."""
        ...


class OpenFiles:
    """The register, one per process, used by the one thread that owns the logs.

    Args:
        limit: how many inactive segments may be open.
    """

    __slots__ = ("_limit", "_open")

    def __init__(self, limit: int = INACTIVE_OPEN_MAX) -> None:
        self._limit = limit
        self._open: OrderedDict[Closable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def touch(self, item: Closable) -> None:
        """Note a use, and close others when there are too many."""
        if item in self._open:
            self._open.move_to_end(item)
            return
        self._open[item] = None
        if len(self._open) > self._limit:
            for candidate in list(self._open):
                if candidate is not item and not candidate.is_pinned:
                    del self._open[candidate]
                    candidate.release_files()
                    if len(self._open) <= self._limit:
                        return

    def forget(self, item: Closable) -> None:
        """The item closed itself."""
        self._open.pop(item, None)
