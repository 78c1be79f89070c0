"""``--watch``: what commands that look again and again have in common."""

from collections.abc import Callable
from typing import Final, TypeVar

import click

WATCHED_DOCUMENT: Final = "--output json is one document, which --watch has no end for (use --output jsonl)"
_T = TypeVar("_T")


def watch_seconds(given: str) -> float:
    """The pause that ``--watch SECONDS`` asks for.

    Raises:
        click.UsageError: it is no number above 0.
    """
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < _PAUSE_MAX_S:
        raise click.UsageError(f"Cannot parse argument '{given}' of option watch")
    return seconds


_PAUSE_MAX_S: Final = 1e6


def look_again(look: Callable[[], _T]) -> tuple[_T | None, str]:
    """Look once more, and go on while a cluster is away.

    Returns:
        The result and an empty text; or None and the reason, where another look may help.

    Raises:
        ClientError: another look cannot help.
    """
    from pkafka.clients.errors import ClientError

    try:
        return look(), ""
    except ClientError as error:
        if not error.retriable:
            raise
        return None, f"no news: {error.message}"
