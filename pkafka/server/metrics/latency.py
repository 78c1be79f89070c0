"""Latencies counted into buckets of 12.5 % width: constant memory, few instructions a value, percentiles on demand."""

from collections.abc import Iterable, Sequence
from typing import Final

SUB_BUCKET_BITS: Final = 3
_SUB_BUCKETS: Final = 1 << SUB_BUCKET_BITS
_BUCKETS: Final = 64 * _SUB_BUCKETS
PERCENTILES: Final[tuple[float, ...]] = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those that Kafka's histograms report."""


class Histogram:
    """Counts of values by size; values are integers from 0 up (here nanoseconds)."""

    __slots__ = ("_counts", "count", "largest", "total")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.count = 0
        self.total = 0
        self.largest = 0

    def record(self, value: int) -> None:
        """Count one value."""
        self.count += 1
        self.total += value
        if value > self.largest:
            self.largest = value
        shift = value.bit_length() - SUB_BUCKET_BITS - 1
        self._counts[(shift << SUB_BUCKET_BITS) + (value >> shift) if shift > 0 else value] += 1

    def record_zeros(self, count: int) -> None:
        """Count so many values that are 0."""
        self.count += count
        self._counts[0] += count

    def export(self) -> list[int]:
        """Everything as plain integers: count, total, largest, then (bucket, count) pairs of the buckets in use."""
        pairs = [item for bucket, count in enumerate(self._counts) if count for item in (bucket, count)]
        return [self.count, self.total, self.largest, *pairs]

    def add(self, exported: Sequence[int]) -> None:
        """Add what another histogram exported."""
        count, total, largest, *pairs = exported
        self.count += count
        self.total += total
        self.largest = max(self.largest, largest)
        for bucket, amount in zip(pairs[::2], pairs[1::2], strict=True):
            self._counts[bucket] += amount

    def spread(self) -> tuple[int, float]:
        """The smallest value and the standard deviation, each to the width of a bucket; 0 without values."""
        if not self.count:
            return 0, 0.0
        mean = self.total / self.count
        used = [(bucket, count) for bucket, count in enumerate(self._counts) if count]
        squares = sum(count * (min(_upper_edge(bucket), self.largest) - mean) ** 2 for bucket, count in used)
        return min(_upper_edge(used[0][0]), self.largest), (squares / self.count) ** 0.5

    def percentiles(self, fractions: Iterable[float] = PERCENTILES) -> list[int]:
        """The values below which these fractions of all lie, to the upper edge of their bucket; 0 without values."""
        answers = []
        seen, bucket = 0, -1
        for fraction in sorted(fractions):
            wanted = fraction * self.count
            while seen < wanted and bucket + 1 < _BUCKETS:
                bucket += 1
                seen += self._counts[bucket]
            answers.append(min(_upper_edge(bucket), self.largest) if self.count else 0)
        return answers


def _upper_edge(bucket: int) -> int:
    shift, place = divmod(bucket, _SUB_BUCKETS)
    if shift == 0 or bucket < 2 * _SUB_BUCKETS:
        return bucket
    return ((place + _SUB_BUCKETS + 1) << (shift - 1)) - 1
