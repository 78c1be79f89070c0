"""In which order Java's ``HashMap`` is walked: what Kafka's tools print."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from pkafka.coordination.znode_json import string_hash

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

    def slot(item: T) -> int:
        value = hash_of(item)
        return (value ^ (value >> 16)) & (size - 1)

    return sorted(kept, key=slot)


def entries_hash(entries: Iterable[tuple[str, str | None]]) -> int:
    """``Objects.hash`` of one ``Map`` of strings: what an entity of Kafka's client quotas has for a hash."""
    total = sum(string_hash(key) ^ (0 if value is None else string_hash(value)) for key, value in entries)
    return (31 + total) & 0xFFFFFFFF
