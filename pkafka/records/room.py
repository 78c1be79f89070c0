"""The memory that batches are inflated into.

Each thread keeps one piece of it and uses it again for every batch. Where each batch gets fresh memory, the kernel has
to find, clear and map its pages first, which can take as long as inflating.
"""

import mmap
import sys
import threading
from typing import Final

KEPT_BYTES: Final = 8 << 20
"""So much address space a thread keeps; in memory is only what its largest batch has touched of it."""
_GROWTH: Final = 4
"""Address space costs nothing, and each step copies what is filled."""


_kept: Final = threading.local()
"""``memory`` of each thread that has needed some. No class: compiled, its attributes would be of all threads."""


class Room:
    """Where one batch is inflated: the memory that this thread keeps, or a larger piece that goes with its last view.

    What is in it is valid until the thread makes the next room.

    Args:
        bytes_max: the most that it takes.
    """

    __slots__ = ("_bytes_max", "_memory", "filled_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        memory: memoryview | None = getattr(_kept, "memory", None)
        if memory is None:
            memory = _kept.memory = _map(KEPT_BYTES)
        self._memory = memory
        self.filled_bytes = 0
        """How many bytes at its beginning belong to the batch; who writes there counts them."""

    def free(self, size_bytes: int) -> memoryview:
        """So many bytes behind those that are filled, their content undefined.

        It may be more than :attr:`left_bytes`: a codec may need room for the most that a block can hold.

        Raises:
            OSError: the system has no memory left.
        """
        filled = self.filled_bytes
        end = filled + size_bytes
        if end > len(self._memory):
            larger = _map(max(end, min(_GROWTH * len(self._memory), self._bytes_max)))
            larger[:filled] = self._memory[:filled]
            self._memory = larger
        return self._memory[filled:end]

    @property
    def left_bytes(self) -> int:
        """How many more it takes; negative when it was filled with too many."""
        return self._bytes_max - self.filled_bytes

    @property
    def filled(self) -> memoryview:
        """The bytes of the batch."""
        return self._memory[: self.filled_bytes]


def _map(size_bytes: int) -> memoryview:
    """Pages that exist once they are written to."""
    if sys.platform == "win32":
        return memoryview(mmap.mmap(-1, size_bytes))
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
