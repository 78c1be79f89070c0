"""Where the time of requests goes: how long their handlers took, and how long they waited for something else.

Nothing lies in a queue between a connection and its handler, or between an answer and its socket, so these two are all.
"""

from collections.abc import Sequence
from typing import Final

from pkafka.server.latency import Histogram

Exported = Sequence[Sequence[int]]
"""What :meth:`RequestTimes.export` gives."""


class RequestTimes:
    """The times of one API's requests, in nanoseconds.

    Most requests are answered by their handlers at once: one histogram serves as their whole and as their local time,
    so that counting costs them no more for being split.
    """

    __slots__ = ("_local", "_remote", "_whole", "at_once")

    def __init__(self) -> None:
        self.at_once: Final = Histogram()
        """Requests that waited for nothing."""
        # The others', from the first on that comes.
        self._whole: Histogram | None = None
        self._local: Histogram | None = None
        self._remote: Histogram | None = None

    def waited(self, local_ns: int, whole_ns: int) -> None:
        """Count a request that was answered later than its handler returned."""
        if self._whole is None or self._local is None or self._remote is None:
            self._whole, self._local, self._remote = Histogram(), Histogram(), Histogram()
        self._whole.record(whole_ns)
        self._local.record(local_ns)
        self._remote.record(whole_ns - local_ns)

    def export(self) -> Exported:
        """Everything as plain integers."""
        later = [histogram.export() for histogram in (self._whole, self._local, self._remote) if histogram]
        return [self.at_once.export(), *later]


class RequestTimeSums:
    """The times of one API's requests in all workers."""

    __slots__ = ("local", "remote", "total")

    def __init__(self) -> None:
        self.total: Final = Histogram()
        """TotalTimeMs: from the whole frame to its answer."""
        self.local: Final = Histogram()
        """LocalTimeMs: in the handler."""
        self.remote: Final = Histogram()
        """RemoteTimeMs: after that, for records to come, other workers, the control process or another broker."""

    def add(self, exported: Exported) -> None:
        """Add the requests of one worker."""
        at_once, *later = exported
        self.total.add(at_once)
        self.local.add(at_once)
        self.remote.record_zeros(at_once[0])
        for histogram, part in zip((self.total, self.local, self.remote), later, strict=False):
            histogram.add(part)

    def by_name(self) -> dict[str, Histogram]:
        """All three under Kafka's names."""
        return {"TotalTimeMs": self.total, "LocalTimeMs": self.local, "RemoteTimeMs": self.remote}
