"""How Java writes and reads a double, and in which order its ``HashMap`` is walked: what Kafka's tools print."""

import re
from collections.abc import Callable, Iterable
from math import inf, isfinite, nan
from typing import Final, TypeVar

from pkafka.coordination.znode_json import string_hash

T = TypeVar("T")

_DOUBLE: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?", re.ASCII)
_WORDS: Final = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}


def java_double(value: float) -> str:
    """As ``Double.toString`` has it: with an exponent below 1e-3 and from 1e7 on."""
    if not isfinite(value):
        return next(word for word, meaning in _WORDS.items() if meaning == value or value != value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value:e}".partition("e")
    shortest = repr(value).partition("e")[0].replace(".", "").strip("-0") or "0"
    sign = "-" if digits.startswith("-") else ""
    return f"{sign}{shortest[0]}.{shortest[1:] or '0'}E{int(exponent)}"


def parse_java_double(text: str) -> float:
    """As ``Double.parseDouble``, hexadecimal numbers left out.

    Raises:
        ValueError: it is no number.
    """
    text = text.strip()
    if text.removeprefix("+") in _WORDS:
        return _WORDS[text.removeprefix("+")]
    if not _DOUBLE.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    return float(text.rstrip("fFdD"))


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
