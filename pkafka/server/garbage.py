"""Python's collector of cyclic garbage, kept from standing in the way of a process that holds much and answers at once.

A full collection looks at every object there is: 50,000 groups are half a second of a worker's time, again with every
quarter that is added, and never anything is found. What is in cycles is garbage soon or never here, and all else goes
when the last reference does. So what outlives a collection that took long is not looked at by the next one.
"""

import gc
import time
from collections.abc import Callable, Mapping
from typing import Final

PAUSE_MAX_S: Final = 0.02
"""Of processor time, in one collection."""
_FULL: Final = 2


class SparedObjects:
    """Takes what a long collection left from those to come. Garbage of that is found no more if it is in cycles.

    Args:
        pause_max_s: how long a full collection may take, in seconds of processor time.
        spare: takes all objects that there are from later collections.
        clock: processor time of the thread, in seconds.
    """

    def __init__(
        self,
        *,
        pause_max_s: float = PAUSE_MAX_S,
        spare: Callable[[], None] = gc.freeze,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._pause_max_s = pause_max_s
        self._spare = spare
        self._clock = clock
        self._began_s = 0.0

    def collecting(self, phase: str, info: Mapping[str, int]) -> None:
        """What ``gc.callbacks`` is told of each collection."""
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self._began_s = self._clock()
        elif self._clock() - self._began_s > self._pause_max_s:
            self._spare()


def spare_what_lasts() -> None:
    """For a process whose long-lived objects are in no cycles when they end (tests/e2e/test_garbage.py looks).

    Five objects of asyncio's own stay of each connection to another broker that is lost, if they were spared.
    """
    gc.callbacks.append(SparedObjects().collecting)
