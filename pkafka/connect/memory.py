"""How a worker and its processes treat memory: when Python looks for garbage, and how many heaps there are.

Each record is a handful of objects, and none of them is in a cycle: they go with their last reference. Python counts
them nevertheless, and looks through the youngest 700 objects again and again, which took a third of a source's time.

glibc makes a heap for each thread that asks for memory, up to eight for a core, and each keeps what is free in it. A
process of tasks has three threads for a task, nearly all of which ask while they hold Python's lock, and so would not
wait for each other at one heap.
"""

import ctypes
import gc
import sys
from typing import Final

_YOUNG: Final = 10_000
"""So many objects more than at the last collection make for the next one: those of a poll of records."""
_M_ARENA_MAX: Final = -8
"""glibc's number for the most heaps there may be, see ``mallopt(3)``."""


def collect_seldom() -> None:
    """Collect young objects when there are more of them, in this process from now on."""
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


def have_one_heap() -> None:
    """Have threads that begin from now on share a heap, in this process and those that it forks; where glibc is."""
    if sys.platform.startswith("linux"):
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, 1)
