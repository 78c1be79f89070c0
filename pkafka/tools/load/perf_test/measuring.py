"""What one process of a load test sees, second by second: counts and times, ready to be added up.

A window is the time of one entry of the series. Windows are numbered from the end of the warm-up on, so those of the
warm-up have negative numbers. Counts belong to the window in which something happened; times are counted only of
records that were due after the warm-up.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pkafka.tools.load.perf_test.histogram import Histogram

_ERROR_CHARACTERS: Final = 300


class Clock(NamedTuple):
    """The times of a test, in nanoseconds of the monotonic clock that all processes of a machine share."""

    start_ns: int
    measured_ns: int
    """The end of the warm-up."""

    end_ns: int | None
    interval_ns: int
    epoch_ns: int = 0
    """The beginning once more, since 1970, by the wall clock of the test's leader: no other clock counts."""

    def window_of(self, now_ns: int) -> int:
        """The number of the window of a moment."""
        return (now_ns - self.measured_ns) // self.interval_ns

    def timestamp_ms(self, moment_ns: int) -> int:
        """What a record has for a timestamp that was due at a moment."""
        return (moment_ns - self.start_ns + self.epoch_ns) // 1_000_000

    def moment_of(self, timestamp_ms: int) -> int:
        """When a record with this timestamp was due."""
        return timestamp_ms * 1_000_000 - self.epoch_ns + self.start_ns

    def shifted(self, by_ns: int) -> "Clock":
        """The same times by a clock that is so much ahead."""
        return self._replace(
            start_ns=self.start_ns + by_ns,
            measured_ns=self.measured_ns + by_ns,
            end_ns=None if self.end_ns is None else self.end_ns + by_ns,
        )


class Difference(NamedTuple):
    """How far the clock of this machine is ahead of the clock of the test's leader."""

    ahead_ns: int = 0
    error_ns: int = 0
    """By how much that may be wrong at most."""


ONE_CLOCK: Final = Difference()
"""Of processes of one machine."""


def difference(asked: Iterable[tuple[int, int, int]]) -> Difference:
    """Compare two clocks by asking for the time of the other, as NTP does.

    Args:
        asked: for each question the own time before, the other's time, the own time after, in nanoseconds. The one with
            the quickest answer counts.
    """
    before_ns, other_ns, after_ns = min(asked, key=lambda each: each[2] - each[0])
    ahead_ns = (before_ns + after_ns) // 2 - other_ns
    error_ns = (after_ns - before_ns + 1) // 2
    # Monotonic clocks begin when their machine does. So close together, they are one.
    return Difference(0 if abs(ahead_ns) <= error_ns else ahead_ns, error_ns)


class Window:
    """What one process, or all of one role, saw in one window."""

    __slots__ = (
        "aborted",
        "aborted_records",
        "committed",
        "ending",
        "failed",
        "lag",
        "latency",
        "records",
        "size_bytes",
    )

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0
        self.failed = 0
        self.committed = 0
        self.aborted = 0
        """Transactions, as ``committed``."""

        self.aborted_records = 0
        """Acknowledged, in transactions that were aborted."""

        self.latency = Histogram()
        self.lag = Histogram()
        """By how much records were handed over later than they were due: the generator's own doing."""

        self.ending = Histogram()
        """How long the calls took that committed a transaction."""

    def count(self, other: "Window") -> None:
        """Count the records that another one has counted, not their times."""
        self.records += other.records
        self.size_bytes += other.size_bytes
        self.failed += other.failed
        self.committed += other.committed
        self.aborted += other.aborted
        self.aborted_records += other.aborted_records

    def add(self, other: "Window") -> None:
        """Count what another one has counted."""
        self.count(other)
        self.latency.add(other.latency)
        self.lag.add(other.lag)
        self.ending.add(other.ending)

    def to_json(self) -> dict[str, object]:
        """What :func:`window_of_json` reads."""
        return {
            "records": self.records,
            "size_bytes": self.size_bytes,
            "failed": self.failed,
            "transactions": [self.committed, self.aborted, self.aborted_records],
            "latency": list(self.latency.counts.items()),
            "lag": list(self.lag.counts.items()),
            "ending": list(self.ending.counts.items()),
        }


def window_of_json(values: Mapping[str, Any]) -> Window:
    """What :meth:`Window.to_json` wrote."""
    window = Window()
    window.records, window.size_bytes = values["records"], values["size_bytes"]
    window.failed = values["failed"]
    window.committed, window.aborted, window.aborted_records = values["transactions"]
    window.latency = Histogram((bucket, count) for bucket, count in values["latency"])
    window.lag = Histogram((bucket, count) for bucket, count in values["lag"])
    window.ending = Histogram((bucket, count) for bucket, count in values["ending"])
    return window


class Recorder:
    """Collects windows; called by several threads.

    Args:
        clock: of the test.
    """

    def __init__(self, clock: Clock) -> None:
        self.last_ns = 0
        """When the latest record was counted."""

        self.first_error: str | None = None
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[int, Window] = {}

    def handed_over(self, now_ns: int, due_ns: int, records: int) -> None:
        """Records that were due then are handed to the producer now."""
        if due_ns >= self._clock.measured_ns:
            with self._lock:
                self._window(now_ns).lag.record((now_ns - due_ns) // 1000, records)

    def arrived(self, now_ns: int, records: int, size_bytes: int, due: Iterable[tuple[int, int]]) -> None:
        """Records are acknowledged, or read.

        Args:
            records, size_bytes: of all of them.
            due: a moment and the number of records that were due then, for as many as that is known of.
        """
        with self._lock:
            window = self._window(now_ns)
            window.records += records
            window.size_bytes += size_bytes
            for due_ns, count in due:
                if due_ns >= self._clock.measured_ns:
                    window.latency.record((now_ns - due_ns) // 1000, count)
            self.last_ns = now_ns

    def failed(self, now_ns: int, records: int, error: BaseException) -> None:
        """Records will not arrive."""
        with self._lock:
            self._window(now_ns).failed += records
            self.first_error = self.first_error or str(error)[:_ERROR_CHARACTERS]
            self.last_ns = now_ns

    def ended(self, now_ns: int, took_us: int, records: int, *, is_committed: bool) -> None:
        """A transaction of so many records ended; the call for that took so long."""
        with self._lock:
            window = self._window(now_ns)
            if is_committed:
                window.committed += 1
                window.ending.record(took_us, 1)
            else:
                window.aborted += 1
                window.aborted_records += records
            self.last_ns = now_ns

    def take(self, before_ns: int | None = None) -> dict[int, Window]:
        """The windows that are over at that moment, once; all of them without one."""
        end = None if before_ns is None else self._clock.window_of(before_ns)
        with self._lock:
            over = sorted(number for number in self._windows if end is None or number < end)
            return {number: self._windows.pop(number) for number in over}

    def _window(self, now_ns: int) -> Window:
        number = self._clock.window_of(now_ns)
        window = self._windows.get(number)
        if window is None:
            window = self._windows[number] = Window()
        return window
