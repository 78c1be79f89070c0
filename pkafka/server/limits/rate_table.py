"""Rates of clients, measured over all workers of a broker in memory that they share.

A rate has a slot, found by a digest of its name that a random key makes unpredictable. A slot lies in one of a few
places that follow each other; where all of them are taken, the one that was used longest ago is given up. The slots of
a stripe are changed under its lock, which the kernel releases when its holder dies.
"""

import fcntl
import mmap
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from pkafka.server.limits.rates import SampledRate
from pkafka.server.limits.shared_lock import lock_file

_SLOTS: Final = 16 * 1024
_PROBES: Final = 16
"""A bucket: the places in which the slot of a name may lie."""
_STRIPES: Final = 64
_HEAD: Final = 3  # two halves of the digest | when it was last used, in ms
_IDLE_MS: Final = 3_600_000
"""A rate that was not used for an hour is forgotten, as in Kafka."""
_DIGEST = Struct("<qq")


class RateKey(NamedTuple):
    """Names a rate in the table: the digest of its name, and its bucket."""

    high: int
    low: int
    bucket: int


class RateTable:
    """Holds the rates. Made before the workers are forked.

    Args:
        samples, window_ms: as for :class:`SampledRate`.
        slots: how many rates there may be, a multiple of 16.
    """

    def __init__(self, *, samples: int, window_ms: int, slots: int = _SLOTS) -> None:
        self.samples = samples
        self.window_ms = window_ms
        self._buckets = slots // _PROBES
        self._width = _HEAD + SampledRate.cells(samples)
        self._memory = memoryview(mmap.mmap(-1, 8 * (1 + slots * self._width))).cast("q")
        self._lock = lock_file("pkafka-client-rates")
        self._secret = secrets.token_bytes(16)

    def key(self, *name: str) -> RateKey:
        """Find where the rate of a name lies."""
        hashed = blake2b(digest_size=16, key=self._secret)
        for part in name:
            data = part.encode("utf-8", "surrogatepass")
            hashed.update(len(data).to_bytes(4, "big"))
            hashed.update(data)
        high, low = _DIGEST.unpack(hashed.digest())
        return RateKey(high, low or 1, (high ^ low) % self._buckets)

    @contextmanager
    def rate(self, key: RateKey, now_ms: int) -> Iterator[SampledRate]:
        """Use a rate while no other process does; one that was not used for an hour begins anew.

        Args:
            key: names it.
            now_ms: by a monotonic clock that all workers share.
        """
        stripe = key.bucket % _STRIPES
        fcntl.lockf(self._lock, fcntl.LOCK_EX, 1, stripe)
        try:
            place = self._place(key, now_ms)
            self._memory[place + 2] = now_ms
            yield SampledRate(
                self._memory[place + _HEAD : place + self._width],
                samples=self.samples,
                window_ms=self.window_ms,
            )
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, stripe)

    @property
    def given_up(self) -> int:
        """How many rates were given up for others since the start of the broker, roughly: no lock is taken."""
        return self._memory[0]

    def _place(self, key: RateKey, now_ms: int) -> int:
        memory, width = self._memory, self._width
        first = 1 + key.bucket * _PROBES * width
        oldest = first
        for place in range(first, first + _PROBES * width, width):
            if memory[place + 1] == key.low and memory[place] == key.high:
                if now_ms - memory[place + 2] >= _IDLE_MS:
                    break
                return place
            if memory[place + 2] < memory[oldest + 2]:
                oldest = place
        else:
            place = oldest
        if memory[place + 1] and now_ms - memory[place + 2] < _IDLE_MS:
            memory[0] += 1
        for cell in range(place, place + width):
            memory[cell] = 0
        memory[place], memory[place + 1] = key.high, key.low
        return place
