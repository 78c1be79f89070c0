"""The order in which Java iterates over a ``HashMap`` of texts.

Kafka's assignors walk such maps, and the member that is looked at first may get one partition more. A leader that walks
in the same order decides the same, so that a group keeps its assignment when the leadership moves between clients.
Left out: what Java does with eight and more keys in one bucket.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pkafka.model import TopicPartition

_CAPACITY_MIN: Final = 16


def hash_order(keys: Iterable[str]) -> list[str]:
    """``keys``, given in the order in which Java would put them, as a ``HashMap`` iterates over them."""
    found = list(keys)
    return _in_buckets(found, capacity(len(found)))


def group_order(calls: Sequence[str]) -> list[str]:
    """The keys of a ``HashMap`` that was filled by ``computeIfAbsent``, called for each of ``calls``.

    That puts a key before those that share its bucket, not behind them, and grows the map when it is called with a
    full one.
    """
    found = list(dict.fromkeys(calls))
    size_at_last_call = len(found) - (calls.index(calls[-1]) == len(calls) - 1) if calls else 0
    return _in_buckets(found[::-1], capacity(size_at_last_call))


def text_hash(text: str) -> int:
    """``String.hashCode``, without a sign."""
    result = 0
    units = text.encode("ascii") if text.isascii() else _utf16(text)
    for unit in units:
        result = result * 31 + unit & 0xFFFFFFFF
    return result


def partition_bucket(partition: TopicPartition, buckets: int) -> int:
    """Where a set of partitions with so many buckets keeps ``partition``."""
    hashed = 31 * (31 + partition.partition) + text_hash(partition.topic) & 0xFFFFFFFF
    return _spread(hashed) & buckets - 1


def capacity(size: int) -> int:
    """How many buckets a ``HashMap`` has that grew to ``size`` keys."""
    buckets = _CAPACITY_MIN
    while size > buckets * 3 // 4:
        buckets *= 2
    return buckets


def _in_buckets(keys: list[str], buckets: int) -> list[str]:
    return sorted(keys, key=lambda key: _spread(text_hash(key)) & buckets - 1)


def _spread(hashed: int) -> int:
    return hashed ^ hashed >> 16


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return [high << 8 | low for high, low in zip(data[::2], data[1::2], strict=True)]
