"""Keeps Python's collector of cyclic garbage from stopping a process that holds many objects and must answer at once.

A full collection looks at every object. With 50,000 groups it takes half a second of a worker's time, again with every
quarter that is added, and never finds anything: in this code cycles become garbage soon or never, and all other objects
go with their last reference. So objects that outlive a long collection are left out of later ones.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

PAUSE_MAX_S: Final = 0.02
"""How much processor time one collection may take."""
_FULL: Final = 2


@contextlib.contextmanager
def importing_for_good() -> Iterator[None]:
    """Import modules that stay as long as the process, without looking for garbage meanwhile.

    There is hardly any among them, and with hundreds of modules the collections take a tenth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


class SparedObjects:
    """Leaves objects that outlived a long collection out of later ones. Cycles among them are never collected.

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
        """Called for each collection (``gc.callbacks``)."""
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self._began_s = self._clock()
        elif self._clock() - self._began_s > self._pause_max_s:
            self._spare()


def spare_what_lasts() -> None:
    """Begin with that, in a process whose long-lived objects are in no cycles when they end
    (tests/e2e/test_garbage.py).

    For each lost connection to another broker five objects of asyncio stay, if they were left out.
    """
    gc.callbacks.append(SparedObjects().collecting)
