"""What a worker counts of the rounds of its group (``DistributedHerder.HerderMetrics`` of Kafka 3.9).

A round counts from the moment at which this worker got its assignment to the one at which the work of it is begun.
Average and maximum are those of the last minute, Kafka's two samples.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

_SAMPLES: Final = 2
_SAMPLE_MS: Final = 30_000


class Rounds(NamedTuple):
    """Figures at one moment; times are in milliseconds."""

    completed: int
    """``completed-rebalances-total``."""
    is_under_way: bool
    """``rebalancing``."""
    avg_ms: float
    """``rebalance-avg-time-ms``; NaN: there was none lately."""
    max_ms: float
    """``rebalance-max-time-ms``; NaN: there was none lately."""
    since_last_ms: float
    """``time-since-last-rebalance-ms``; infinite: there was none yet."""


class RebalanceFigures:
    """Counts. The herder's thread tells, any thread asks.

    Args:
        now_ms: a clock that never goes back, in milliseconds.
        window_ms: how far average and maximum look back.
    """

    def __init__(
        self,
        now_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
        window_ms: float = _SAMPLES * _SAMPLE_MS,
    ) -> None:
        self._now_ms = now_ms
        self._window_ms = window_ms
        self._lock = threading.Lock()
        self._began_ms: float | None = None
        self._last_ms: float | None = None
        self._completed = 0
        self._took: deque[tuple[float, float]] = deque()
        """When a round ended, and how long it took."""

    def began(self) -> None:
        """An assignment has come. One that had come before, and whose work was never begun, does not count."""
        with self._lock:
            self._began_ms = self._now_ms()

    def ended(self) -> None:
        """The work of the assignment is begun."""
        with self._lock:
            now_ms = self._now_ms()
            began_ms = now_ms if self._began_ms is None else self._began_ms
            self._began_ms = None
            self._last_ms = now_ms
            self._completed += 1
            self._took.append((now_ms, now_ms - began_ms))
            self._forget(now_ms)

    def rounds(self) -> Rounds:
        """What there is to tell now."""
        with self._lock:
            now_ms = self._now_ms()
            self._forget(now_ms)
            took_ms = [each for _, each in self._took]
            return Rounds(
                self._completed,
                self._began_ms is not None,
                sum(took_ms) / len(took_ms) if took_ms else math.nan,
                max(took_ms, default=math.nan),
                math.inf if self._last_ms is None else now_ms - self._last_ms,
            )

    def _forget(self, now_ms: float) -> None:
        while self._took and self._took[0][0] <= now_ms - self._window_ms:
            self._took.popleft()
