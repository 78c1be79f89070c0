"""Where two large things differ: their first difference says more about the cause than both of them, a page each."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

_SHOWN_MAX = 300


def first_difference(one: Any, other: Any) -> str:
    """Empty when the two are the same; ``assert not first_difference(found, expected)`` shows the place otherwise."""
    return next(differences(one, other), "")


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where dicts, lists and texts differ, one line each: the place, what the first has there, what the second has."""
    if isinstance(one, str) and isinstance(other, str) and "\n" in one + other:
        one, other = one.split("\n"), other.split("\n")
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                yield f"{path}[{key!r}]: only in the {'first' if key in one else 'second'}"
            else:
                yield from differences(one[key], other[key], f"{path}[{key!r}]")
    elif isinstance(one, list) and isinstance(other, list):
        for index, pair in enumerate(zip(one, other, strict=False)):
            yield from differences(*pair, f"{path}[{index}]")
        if len(one) != len(other):
            longer, which = (one, "first") if len(one) > len(other) else (other, "second")
            index = min(len(one), len(other))
            yield f"{path}[{index}]: {_short(longer[index])} only in the {which}; {len(one)} and {len(other)} in all"
    elif one != other:
        yield f"{path}: {_short(one)} != {_short(other)}"


def first_difference_of_all(things: list[Any]) -> str:
    """Empty when all are the same."""
    return next((found for pair in pairwise(things) if (found := first_difference(*pair))), "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}... ({len(text)} characters)"
