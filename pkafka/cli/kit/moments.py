"""Times as people write them on a command line."""

import time

import click

from pkafka.cli.kit.options import parse_duration_ms


def moment_ms(text: str) -> int:
    """Milliseconds since the epoch of an ISO time (UTC without a zone), a number, or a duration before now (-10m).

    Raises:
        click.UsageError: it is none of them.
    """
    if text.startswith("-"):
        return time.time_ns() // 1_000_000 - parse_duration_ms(text[1:])
    if text.isdecimal():
        return int(text)
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text} is no time: ISO, milliseconds since the epoch, or -10m") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
