"""The times of requests: how long their handlers took, and how long they waited after that.

There is no queue between a connection and its handler, or between an answer and its socket, so there are no other
times.
"""

from collections.abc import Sequence
from typing import Final

from pkafka.server.metrics.latency import Histogram

Exported = Sequence[Sequence[int]]
"""What :meth:`RequestTimes.export` gives."""


class RequestTimes:
    """Counts the times of one API's requests, in nanoseconds.

    The handlers answer most requests at once. For these the whole time is the local time, so one histogram counts both,
    and the split costs them nothing.
    """

    __slots__ = ("_local", "_remote", "_whole", "at_once")

    def __init__(self) -> None:
        self.at_once: Final = Histogram()
        """Requests that their handlers answered at once."""
        # The times of all other requests, from the first one on.
        self._whole: Histogram | None = None
        self._local: Histogram | None = None
        self._remote: Histogram | None = None

    def waited(self, local_ns: int, whole_ns: int) -> None:
        """Count a request that was answered after its handler had returned."""
        if self._whole is None or self._local is None or self._remote is None:
            self._whole, self._local, self._remote = Histogram(), Histogram(), Histogram()
        self._whole.record(whole_ns)
        self._local.record(local_ns)
        self._remote.record(whole_ns - local_ns)

    def export(self) -> Exported:
        """Return all counts as plain integers."""
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
