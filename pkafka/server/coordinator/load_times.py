"""How long the last loadings of a coordinator's partitions took: Kafka's partition-load-time-avg and -max. Pure."""

from collections import deque
from typing import Final

# As Kafka's metrics look back with their defaults: two samples of 30 seconds.
_KEPT_MS: Final = 60_000


class LoadTimes:
    """Measures the loadings of the last minute."""

    def __init__(self) -> None:
        self._ended: deque[tuple[int, float]] = deque()

    def record(self, took_ms: float, now_ms: int) -> None:
        """Note that a partition was loaded; the time counts from the request to lead it."""
        self._ended.append((now_ms, took_ms))

    def figures(self, now_ms: int) -> tuple[int, float, float]:
        """Return the number of loadings, the sum of their milliseconds and the longest one's."""
        while self._ended and now_ms - self._ended[0][0] >= _KEPT_MS:
            self._ended.popleft()
        times_ms = [took_ms for _, took_ms in self._ended]
        return len(times_ms), sum(times_ms), max(times_ms, default=0.0)
