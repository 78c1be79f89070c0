"""How often something happens, measured and limited as Kafka's metrics do it (Rate and SimpleRate over WindowedSum).

Events are counted in samples of a window each. The rate is the sum of the last samples divided by the time since the
oldest of them began, at least ``samples - 1`` windows: so a burst of that many windows passes before a rate limit acts.
The counts lie in memory that processes may share; a process that shares it has to hold a lock during each call.
"""

import mmap
from typing import Final

from pkafka.server.limits.shared_lock import SharedLock

_HEAD: Final = 2  # place of the present sample | number of samples that were begun
_LONGEST_MS: Final = 2**31 - 1
"""What an answer can say (throttle_time_ms)."""
_SAMPLE: Final = 3  # begin in ms | last event in ms | amount


class SampledRate:
    """Measures one rate.

    Args:
        memory: :meth:`cells` signed 64-bit numbers, zeroed at first.
        samples: quota.window.num.
        window_ms: quota.window.size.seconds, in milliseconds.
    """

    def __init__(self, memory: "memoryview[int]", *, samples: int, window_ms: int) -> None:
        self._memory = memory
        self._samples = samples
        self._window_ms = window_ms

    @staticmethod
    def cells(samples: int) -> int:
        """How many numbers a rate takes in memory."""
        # One sample more than counts: the oldest stays as long as a part of it lies within the measured time.
        return _HEAD + _SAMPLE * (samples + 1)

    def record(self, now_ms: int, amount: int = 1) -> None:
        """Something happened."""
        memory = self._memory
        if not memory[1]:
            self._begin(0, now_ms)
        elif now_ms - memory[self._cell(memory[0])] >= self._window_ms:
            self._begin((memory[0] + 1) % (self._samples + 1), now_ms)
        cell = self._cell(memory[0])
        memory[cell + 1] = now_ms
        memory[cell + 2] += amount

    def throttle_ms(self, limit: float, now_ms: int, *, windows_max: float = 1) -> int:
        """How long to wait until the rate is back at ``limit`` a second; so many windows at most."""
        longest_ms = windows_max * self._window_ms
        if not self._memory[1]:
            return 0
        begun = self._forget_old(now_ms)
        elapsed_ms = now_ms - min(self._memory[cell] for cell in begun)
        missing = self._samples - 1 - elapsed_ms // self._window_ms
        elapsed_ms += max(missing, 0) * self._window_ms
        amount = sum(self._memory[cell + 2] for cell in begun)
        # Not by a division: when the only sample has just begun, no time has passed.
        if amount * 1000 <= limit * elapsed_ms:
            return 0
        if not limit or not elapsed_ms:
            return int(min(longest_ms, _LONGEST_MS))
        excess = amount * 1000 / elapsed_ms - limit
        return int(min(excess / limit * elapsed_ms + 0.5, longest_ms, _LONGEST_MS))

    def per_second(self, now_ms: int) -> float:
        """The amount a second since the oldest sample began, one window at least (SimpleRate)."""
        if not self._memory[1]:
            self._begin(0, now_ms)  # the first look at a rate begins to measure it
        begun = self._forget_old(now_ms)
        elapsed_ms = now_ms - min(self._memory[cell] for cell in begun)
        return sum(self._memory[cell + 2] for cell in begun) * 1000 / max(elapsed_ms, self._window_ms)

    @property
    def has_begun(self) -> bool:
        """Whether the rate has been recorded or looked at."""
        return self._memory[1] > 0

    def _forget_old(self, now_ms: int) -> list[int]:
        """Empty the samples without an event in the measured time; returns the cells of all samples."""
        memory = self._memory
        begun = [self._cell(place) for place in range(memory[1])]
        for cell in begun:
            if now_ms - memory[cell + 1] >= self._samples * self._window_ms:
                memory[cell], memory[cell + 1], memory[cell + 2] = now_ms, now_ms, 0
        return begun

    def _begin(self, place: int, now_ms: int) -> None:
        memory = self._memory
        memory[0], memory[1] = place, max(memory[1], place + 1)
        cell = self._cell(place)
        memory[cell], memory[cell + 1], memory[cell + 2] = now_ms, now_ms, 0

    @staticmethod
    def _cell(place: int) -> int:
        return _HEAD + _SAMPLE * place


class SharedRate:
    """Measures a rate over all processes of a broker. Made before they are forked.

    Args:
        name: of its lock.
        samples, window_ms: as for :class:`SampledRate`.
    """

    def __init__(self, name: str, *, samples: int, window_ms: int) -> None:
        memory = memoryview(mmap.mmap(-1, 8 * SampledRate.cells(samples))).cast("q")
        self._rate = SampledRate(memory, samples=samples, window_ms=window_ms)
        self._lock = SharedLock(name)

    def record(self, now_ms: int, amount: int) -> None:
        """Something happened in this process."""
        with self._lock:
            self._rate.record(now_ms, amount)

    def per_second(self, now_ms: int) -> float:
        """The rate of all processes together."""
        with self._lock:
            return self._rate.per_second(now_ms)

    @property
    def has_begun(self) -> bool:
        """Whether the rate has been recorded or looked at."""
        return self._rate.has_begun
