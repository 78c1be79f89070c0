"""The order in which a hash table of Java gives what was put into it: some texts and bytes of Kafka depend on it."""

from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

T = TypeVar("T", bound=Hashable)

_BUCKETS_MIN: Final = 16
_LOAD: Final = 0.75


def hash_order(names: Iterable[str], *, is_copy: bool = False) -> list[str]:
    """The names as a ``HashMap`` or ``HashSet`` that got them in the given order goes through them.

    Holds for tables that have no bucket of more than eight names.

    Args:
        is_copy: the table is the copy of another one, which has just as many buckets as it needs; else it has grown by
            itself.
    """
    given = list(dict.fromkeys(names))
    buckets = 1 if is_copy else _BUCKETS_MIN
    while (int(len(given) / _LOAD + 1) > buckets) if is_copy else (len(given) > buckets * _LOAD):
        buckets *= 2
    return sorted(given, key=lambda name: _spread(string_hash(name)) & (buckets - 1))


def copied_order(items: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """The items as ``new HashSet<>(items)`` goes through them: a table that was made for so many.

    Args:
        hash_of: ``hashCode`` of an item, an unsigned 32-bit number.
    """
    given = list(items)
    buckets = _BUCKETS_MIN
    while buckets < int(len(given) / _LOAD) + 1:
        buckets *= 2
    return sorted(dict.fromkeys(given), key=lambda item: _spread(hash_of(item)) & (buckets - 1))


def string_hash(text: str) -> int:
    """``String.hashCode`` without its sign; it counts UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for index in range(0, len(units), 2):
        found = (found * 31 + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return found


def _spread(number: int) -> int:
    return number ^ number >> 16
