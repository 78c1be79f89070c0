"""In which order the hash tables of Java and of Scala are walked: what Kafka's tools print."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from pkafka.coordination.znode_json import string_hash
from pkafka.model import TopicPartition

T = TypeVar("T")


def in_hash_map_order(items: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """The items as a ``HashMap`` is walked that was made for exactly so many of them as keys.

    Args:
        hash_of: ``hashCode`` of an item, an unsigned 32-bit number.
    """
    kept = list(items)
    size = 1
    while size < len(kept):
        size *= 2
    if len(kept) > size * 3 // 4:
        size *= 2

    return sorted(kept, key=lambda item: _spread(hash_of(item)) & (size - 1))


def in_grown_hash_order(items: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """The items as a ``HashMap`` or ``HashSet`` is walked to which they were added one by one.

    Args:
        hash_of: ``hashCode`` of an item, an unsigned 32-bit number.
    """
    kept = list(items)
    size = 16
    while len(kept) > size * 3 // 4:
        size *= 2
    return sorted(kept, key=lambda item: _spread(hash_of(item)) & (size - 1))


def in_scala_hash_order(items: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """The items as a mutable ``HashMap`` or ``HashSet`` of Scala 2.13 is walked to which they were added one by one.

    Args:
        hash_of: ``hashCode`` of an item, an unsigned 32-bit number.
    """
    kept = list(items)
    size = 16
    while len(kept) >= size * 3 // 4:
        size *= 2

    def place(item: T) -> tuple[int, int]:
        spread = _spread(hash_of(item))
        # Those of one slot stand in the order of their hashes, as signed numbers.
        return spread & (size - 1), (spread ^ 0x8000_0000)

    return sorted(kept, key=place)


def topic_partition_hash(partition: TopicPartition) -> int:
    """``TopicPartition.hashCode``, as an unsigned number."""
    return (31 * (31 + partition.partition) + string_hash(partition.topic)) & 0xFFFFFFFF


def entries_hash(entries: Iterable[tuple[str, str | None]]) -> int:
    """``Objects.hash`` of one ``Map`` of strings: what an entity of Kafka's client quotas has for a hash."""
    total = sum(string_hash(key) ^ (0 if value is None else string_hash(value)) for key, value in entries)
    return (31 + total) & 0xFFFFFFFF


def _spread(hashed: int) -> int:
    return hashed ^ (hashed >> 16)
