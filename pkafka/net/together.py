"""Sends that wait for the end of the read which causes them, so that many share one call to the kernel."""

from collections.abc import Callable


class Together:
    """Gathers what is to be sent while a read is served. Belongs to one event loop."""

    __slots__ = ("_depth", "_flushes", "is_open")

    def __init__(self) -> None:
        self._depth = 0
        self._flushes: list[Callable[[], None]] = []
        self.is_open = False
        """Whether a read is being served: what is gathered now is sent at its end. To be read only."""

    def begin(self) -> None:
        """A read is about to be served."""
        self._depth += 1
        self.is_open = True

    def add(self, flush: Callable[[], None]) -> None:
        """Have ``flush`` called once, when the read is served."""
        self._flushes.append(flush)

    def end(self) -> None:
        """The read is served; everything gathered goes out."""
        self._depth -= 1
        if self._depth:
            return
        self.is_open = False
        while self._flushes and not self._depth:
            flushes, self._flushes = self._flushes, []
            for flush in flushes:
                flush()
