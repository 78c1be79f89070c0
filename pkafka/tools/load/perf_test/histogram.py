"""A histogram of times with HdrHistogram's buckets: three significant digits from a microsecond to an hour.

Sparse, so that what a second saw fits a line of JSON and adds up with what others saw. ``encode()`` writes the text
that HdrHistogram's own tools read (version 2, compressed). PyPI's ``hdrhistogram`` does that too; it brings two build
tools and a C extension along, for what is a loop over a few hundred numbers here.
"""

import base64
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pkafka.errors import PkafkaError
from pkafka.records import varint
from pkafka.records.errors import RecordError

HIGHEST_US: Final = 3_600_000_000
"""Longer times count as this."""

_DIGITS: Final = 3
_HALF_BITS: Final = 10  # half as many linear buckets as three digits need: 2048 / 2
_HALF: Final = 1 << _HALF_BITS
_FULL: Final = 2 * _HALF

# Compressed form: cookie, length | the rest, deflated: cookie, length of the counts, offset of normalizing, digits,
# lowest and highest value, ratio of conversion | counts as zigzag varints, where -n stands for n zeros.
_OUTER: Final = struct.Struct(">ii")
_INNER: Final = struct.Struct(">iiiiqqd")
_COOKIE: Final = 0x1C849303 | 0x10
_COMPRESSED_COOKIE: Final = 0x1C849304 | 0x10


class HistogramError(PkafkaError):
    """A text is no histogram."""


class Histogram:
    """Counts of microseconds.

    Args:
        counts: by number of bucket, as :attr:`counts` of another one.
    """

    __slots__ = ("counts", "total")

    def __init__(self, counts: Mapping[int, int] | Iterable[tuple[int, int]] = ()) -> None:
        self.counts: dict[int, int] = dict(counts)
        self.total = sum(self.counts.values())

    def record(self, microseconds: int, count: int = 1) -> None:
        """Count a time, ``count`` times; what is negative counts as 0."""
        bucket = bucket_of(min(max(microseconds, 0), HIGHEST_US))
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += count

    def add(self, other: "Histogram") -> None:
        """Count what another one has counted."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += other.total

    def mean_us(self) -> float:
        """The mean, every time taken for the middle of its bucket; NaN without any."""
        if not self.total:
            return float("nan")
        return sum(count * middle_of(bucket) for bucket, count in self.counts.items()) / self.total

    def max_us(self) -> int:
        """The highest time of the highest bucket that has one; 0 without any."""
        return highest_of(max(self.counts)) if self.counts else 0

    def percentile_us(self, percent: float) -> int:
        """What that share of all times does not exceed, to three digits; 0 without any."""
        return next(iter(self.percentiles_us((percent,))), 0)

    def percentiles_us(self, percents: Iterable[float]) -> list[int]:
        """As :meth:`percentile_us`, of several in growing order at once."""
        wanted = [(percent, max(1, int(percent / 100 * self.total + 0.5))) for percent in percents]
        found: list[int] = []
        seen = 0
        for bucket, count in sorted(self.counts.items()):
            seen += count
            while len(found) < len(wanted) and seen >= wanted[len(found)][1]:
                found.append(highest_of(bucket))
        return found + [self.max_us()] * (len(wanted) - len(found))

    def encode(self) -> str:
        """The text that HdrHistogram's tools read."""
        counts = b"".join(map(varint.encode, self._runs()))
        inner = _INNER.pack(_COOKIE, len(counts), 0, _DIGITS, 1, HIGHEST_US, 1.0) + counts
        packed = zlib.compress(inner)
        return base64.b64encode(_OUTER.pack(_COMPRESSED_COOKIE, len(packed)) + packed).decode()

    def _runs(self) -> Iterator[int]:
        expected = 0
        for bucket, count in sorted(self.counts.items()):
            if bucket > expected:
                yield expected - bucket
            yield count
            expected = bucket + 1


def decode(text: str) -> Histogram:
    """Read what :meth:`Histogram.encode`, or HdrHistogram with the same digits, wrote.

    Raises:
        HistogramError: it is something else.
    """
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, _ = _OUTER.unpack_from(packed)
        inner = zlib.decompress(packed[_OUTER.size :]) if cookie == _COMPRESSED_COOKIE else b""
        kind, length, _, digits, lowest, _, _ = _INNER.unpack_from(inner)
    except (ValueError, zlib.error, struct.error) as error:
        raise HistogramError(f"this is no histogram: {error}") from None
    if (kind, digits, lowest) != (_COOKIE, _DIGITS, 1):
        raise HistogramError(f"this is no histogram of {_DIGITS} digits")
    counts: dict[int, int] = {}
    position, end, bucket = _INNER.size, _INNER.size + length, 0
    while position < end:
        try:
            value, position = varint.decode_long(inner, position)
        except RecordError as error:
            raise HistogramError(f"this is no histogram: {error}") from None
        if value < 0:
            bucket -= value
            continue
        if value:
            counts[bucket] = value
        bucket += 1
    if max(counts, default=0) > bucket_of(HIGHEST_US):
        raise HistogramError("this histogram has times beyond its end")
    return Histogram(counts)


def bucket_of(microseconds: int) -> int:
    """The number of the bucket of a time."""
    power = (microseconds | (_FULL - 1)).bit_length() - _HALF_BITS - 1
    return (power << _HALF_BITS) + (microseconds >> power)


def lowest_of(bucket: int) -> int:
    """The lowest time of a bucket."""
    power = max(0, (bucket >> _HALF_BITS) - 1)
    return (bucket - (power << _HALF_BITS)) << power


def highest_of(bucket: int) -> int:
    """The highest time of a bucket."""
    return lowest_of(bucket + 1) - 1


def middle_of(bucket: int) -> int:
    """The time in the middle of a bucket."""
    return (lowest_of(bucket) + lowest_of(bucket + 1)) // 2
