"""How often something happens: the mean rate and moving averages of 1, 5 and 15 minutes, as Kafka's meters keep them.

A meter looks at a counter every few seconds (:data:`TICK_S`), so it does not make counting slower. The averages are
exponentially weighted, as those of a system's load.
"""

import math
from collections.abc import Mapping
from typing import Final

TICK_S: Final = 5.0
_MINUTES: Final = (1, 5, 15)


class Meter:
    """One counter's rates, per second.

    Args:
        count: of the counter now; events before do not count for the rates.
        now_s: a monotonic clock, in seconds.
    """

    __slots__ = ("_averages", "_began_s", "_count", "_ticked_s")

    def __init__(self, count: int, now_s: float) -> None:
        self._count = count
        self._began_s = self._ticked_s = now_s
        self._averages: list[float] | None = None

    def tick(self, count: int, now_s: float) -> None:
        """Look at the counter. When its count has fallen, its process was started again and has counted from zero."""
        elapsed_s = now_s - self._ticked_s
        if elapsed_s <= 0:
            return
        happened = count - self._count if count >= self._count else count
        rate = happened / elapsed_s
        if self._averages is None:
            self._averages = [rate] * len(_MINUTES)
        else:
            for place, minutes in enumerate(_MINUTES):
                weight = 1 - math.exp(-elapsed_s / 60 / minutes)
                self._averages[place] += weight * (rate - self._averages[place])
        self._count, self._ticked_s = count, now_s

    def rates(self, count: int, now_s: float) -> dict[str, float]:
        """The rates under Kafka's names."""
        averages = self._averages or [0.0] * len(_MINUTES)
        lived_s = now_s - self._began_s
        return {
            "MeanRate": count / lived_s if lived_s > 0 else 0.0,
            "OneMinuteRate": averages[0],
            "FiveMinuteRate": averages[1],
            "FifteenMinuteRate": averages[2],
        }


class Meters:
    """Meters many counters, by any key; a counter is metered from when it is first seen."""

    def __init__(self, now_s: float) -> None:
        self._began_s = now_s
        self._meters: dict[str, Meter] = {}

    def tick(self, counts: Mapping[str, int], now_s: float) -> None:
        """Look at all counters, and forget those that are gone."""
        for name, count in counts.items():
            meter = self._meters.get(name)
            if meter is None:
                # It began to count since the last look: all of it happened lately.
                meter = self._meters[name] = Meter(0, max(self._began_s, now_s - TICK_S))
            meter.tick(count, now_s)
        for name in self._meters.keys() - counts.keys():
            del self._meters[name]

    def rates(self, name: str, count: int, now_s: float) -> dict[str, float]:
        """The rates of one counter; at the first look only its mean."""
        meter = self._meters.get(name) or Meter(0, self._began_s)
        return meter.rates(count, now_s)
