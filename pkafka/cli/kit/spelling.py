"""Which existing name was probably meant by one that does not exist."""

import sys
from collections.abc import Callable, Iterable

from pkafka.errors import PkafkaError


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint at the name that looks most like another one; None if none does."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, 1)
    return f"did you mean {close[0]}?" if close and close[0] != word else None


def meant_by_reader(word: str, look_up: Callable[[], Iterable[str]]) -> str | None:
    """As :func:`did_you_mean`, of names that a cluster has to be asked for.

    It asks only at a terminal, and hides errors of its own question: the user is to see the first error.
    """
    if not sys.stderr.isatty():
        return None
    try:
        return did_you_mean(word, look_up())
    except PkafkaError:
        return None
