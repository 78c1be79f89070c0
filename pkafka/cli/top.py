"""pk-top: a cluster at a glance, again and again, as top shows processes; Kafka has no such tool."""

import re
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from pkafka.cli.kit.columns import columns, told
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.held_partitions import row as held_row
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.metrics_config import metrics_config_option, page_reader
from pkafka.cli.kit.options import Common, command, connection_options
from pkafka.cli.kit.output import (
    JsonList,
    OutputFormat,
    Table,
    View,
    choose_format,
    csv_rows,
    line,
    live_tables,
    to_json,
)

if TYPE_CHECKING:
    from pkafka.tools.cluster.overview import Look, Overview

_ORDERS: Final = ("rate", "size", "records", "name")
_ORDER_KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "rate": lambda row: (-(row.records_per_s or 0), row.topic, row.partition or 0),
    "size": lambda row: (-(row.size_bytes or 0), row.topic, row.partition or 0),
    "records": lambda row: (-row.records, row.topic, row.partition or 0),
    "name": lambda row: (row.topic, row.partition or 0),
}
_FRAME_LINES: Final = 5
"""Of a table beside its rows."""
_REMARK_LINES: Final = 3
_HEADINGS: Final = {
    "under_replicated": "under_repl.",
    "size_bytes": "size",
    "records_per_s": "rec/s",
    "bytes_per_s": "B/s",
    "bytes_in_per_s": "B/s in",
    "bytes_out_per_s": "B/s out",
    "last_stable_offset": "stable",
    "high_watermark": "end",
    "producer_id": "producer",
    "producer_epoch": "epoch",
}
"""What is too long for a screen."""
_ROWS_MIN: Final = 3


@command("pk-top")
@connection_options
@click.option("--interval", default="2", metavar="SECONDS", help="Seconds between two looks. Default 2.")
@click.option(
    "--count",
    type=click.IntRange(1),
    metavar="N",
    help="How many looks; default: one in a pipe, without end on a terminal.",
)
@click.option("--sort", type=click.Choice(_ORDERS), default="rate", help="Order of the topics.")
@click.option("--topic", metavar="NAME", help="Show the partitions of this topic in place of all topics.")
@click.option("--internal", is_flag=True, help="Also topics whose names begin with __.")
@click.option("--group", metavar="REGEX", help="Only groups whose name matches.")
@click.option(
    "--metrics-url",
    "metrics_urls",
    multiple=True,
    metavar="URL",
    help="Where a broker serves its metrics, for bytes in and out; repeat. Others are found by the brokers' settings.",
)
@metrics_config_option
def main(
    common: Common,
    interval: str,
    count: int | None,
    sort: str,
    topic: str | None,
    internal: bool,
    group: str | None,
    metrics_urls: tuple[str, ...],
    metrics_config: str | None,
) -> None:
    """Show brokers, topics and consumer groups, what they hold and how fast it moves.

    Where a transaction holds readers of committed records back for longer than from look to look, it is shown too.

    On a terminal: q leaves, s takes the next order of topics. Rates are what was appended, and committed, between two
    looks; a pipe gets its first answer after one interval.

    Bytes in and out of a broker, without what followers copy, are what its metrics count (pkafka.metrics.port). Of one
    without them, bytes in are what the partitions that it leads grew by (~), and bytes out are not known (-).
    """
    seconds = _seconds(interval)
    groups = _pattern(group)
    urls = [_url(each) for each in metrics_urls]
    reader = page_reader(metrics_config)

    def show_of(now: "Look", before: "Look | None") -> "Overview":
        from pkafka.tools.cluster.overview import overview

        found = overview(now, before, topic=topic, internal=internal)
        return found._replace(groups=tuple(each for each in found.groups if groups.search(each.group)))

    with common.admin() as admin, _pages_answer():
        from pkafka.tools.cluster.broker_traffic import MetricsPages
        from pkafka.tools.cluster.overview import look

        pages = MetricsPages(urls, timeout_s=common.timeout_ms / 1_000, reader=reader)

        def take() -> "Look":
            return look(admin, timeout_ms=common.timeout_ms, pages=pages)

        if choose_format(common.output) is OutputFormat.TABLE and sys.stdout.isatty():
            _live(take, show_of, seconds, sort, count)
        else:
            _print(common, take, show_of, seconds, sort, count or 1)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise click.UsageError(f"Cannot parse argument '{text}' of option interval")
    return seconds


def _url(given: str) -> str:
    if not given.startswith(("http://", "https://")):
        raise click.UsageError(f"--metrics-url {given}: like http://localhost:9999")
    return given


@contextmanager
def _pages_answer() -> Iterator[None]:
    """Fail where a page of metrics that a flag names does not answer."""
    from pkafka.tools.cluster.jmx_page import MetricsUnavailableError

    try:
        yield
    except MetricsUnavailableError as error:
        hint = "a broker serves its metrics where pkafka.metrics.port says; without it, it does not"
        raise CommandError(str(error), hint=hint, status=ExitStatus.UNREACHABLE) from None


def _pattern(text: str | None) -> re.Pattern[str]:
    try:
        return re.compile(text or "")
    except re.error as error:
        raise click.UsageError(f"--group {text} is no regular expression: {error}") from error


# -- in a pipe ---------------------------------------------------------------------------------------------


def _print(
    common: Common,
    take: "Callable[[], Look]",
    show_of: "Callable[[Look, Look | None], Overview]",
    seconds: float,
    sort: str,
    count: int,
) -> None:
    looks = _looks(take, show_of, seconds, count)
    if common.output is OutputFormat.JSON:
        document = JsonList("looks")
        for found in looks:
            document.add([to_json(_row(found, sort))])
        document.close({})
    elif common.output is OutputFormat.CSV:
        from pkafka.tools.cluster.overview import TopicRow

        csv_rows(TopicRow._fields, (row for found in looks for row in _tables(found, sort)["topics"].rows))
    elif common.output is OutputFormat.JSONL:
        for found in looks:
            line(to_json(_row(found, sort)))
    else:
        for found in looks:
            tables = _tables(found, sort)
            text = [_summary(found), *(each for table in tables.values() for each in ("", *columns(table)))]
            common.show(View("looks", text, list(tables["topics"].rows), tables=list(tables.values())))


def _looks(
    take: "Callable[[], Look]",
    show_of: "Callable[[Look, Look | None], Overview]",
    seconds: float,
    count: int,
) -> "Iterator[Overview]":
    """One look after the other, with a pause before each."""
    before = take()
    for _ in range(count):
        time.sleep(seconds)
        now = take()
        yield show_of(now, before)
        before = now


def _row(found: "Overview", sort: str) -> dict[str, object]:
    return {**found.summary, **{name: table.rows for name, table in _tables(found, sort).items()}}


def _tables(found: "Overview", sort: str) -> dict[str, Table]:
    topics = sorted(found.topics, key=_ORDER_KEYS[sort])
    rows = {"brokers": found.brokers, "topics": topics, "groups": _by_lag(found)}
    tables = {name: Table([each._asdict() for each in some]) for name, some in rows.items()}
    return {**tables, "held": Table([held_row(each) for each in found.held])}


def _by_lag(found: "Overview") -> list[Any]:
    return sorted(found.groups, key=lambda row: (-row.lag, row.group))


def _summary(found: "Overview") -> str:
    summary = found.summary
    rate = summary["records_per_s"]
    parts = [
        f"Cluster {summary['cluster_id']}",
        f"brokers {len(found.brokers)}",
        f"topics {summary['topics']}",
        f"offline {summary['offline']}",
        f"under-replicated {summary['under_replicated']}",
        f"records/s {_short(rate)}",
        f"lag {_short(summary['lag'])}",
    ]
    return "  ".join(parts)


# -- on a terminal -----------------------------------------------------------------------------------------


def _live(
    take: "Callable[[], Look]",
    show_of: "Callable[[Look, Look | None], Overview]",
    seconds: float,
    sort: str,
    count: int | None,
) -> None:
    """Show look after look in the same place until a key or Ctrl-C ends it; wait for a cluster that goes away."""
    from rich.console import Console

    from pkafka.clients.errors import ClientError

    console = Console()
    before: Look | None = None
    now = take()
    shown = 0
    remark = ""
    with live_tables() as update, _keys() as next_key:
        while True:
            found = show_of(now, before)
            tables = _fitting(found, sort, console.size.height)
            update(tables, [_summary(found), f"order: {sort}   q quit, s sort{remark}"])
            shown += 1
            if shown == count:
                return
            at_s = time.monotonic() + seconds
            while (left_s := at_s - time.monotonic()) > 0:
                key = next_key(left_s)
                if key == "q":
                    return
                if key == "s":
                    sort = _ORDERS[(_ORDERS.index(sort) + 1) % len(_ORDERS)]
                    update(
                        _fitting(found, sort, console.size.height),
                        [_summary(found), f"order: {sort}   q quit, s sort{remark}"],
                    )
            try:
                following = take()
            except ClientError as error:
                if not error.retriable:
                    raise
                remark = f"   no news: {error}"
            else:
                before, now, remark = now, following, ""


def _fitting(found: "Overview", sort: str, height: int) -> list[Table]:
    """The rows that fit on the screen: brokers, then the groups that lag most, then topics in what is left."""
    tables = {name: table for name, table in _tables(found, sort).items() if table.rows}
    room = height - _REMARK_LINES - _FRAME_LINES * len(tables)
    counts = {name: len(table.rows) for name, table in tables.items()}
    shares = _shares(counts, max(room, 0))
    return [
        Table(
            [
                {_HEADINGS.get(key, key): _seen(key, row) for key in told(table) if key != "bytes_from"}
                for row in table.rows[: shares[name]]
            ]
        )
        for name, table in tables.items()
    ]


def _shares(counts: Mapping[str, int], room: int) -> dict[str, int]:
    """How many rows of each table to show: all where they fit; else the large tables share what small ones leave."""
    shares: dict[str, int] = {}
    for left, (name, count) in zip(
        range(len(counts), 0, -1), sorted(counts.items(), key=lambda each: each[1]), strict=True
    ):
        shares[name] = max(min(count, room // left), min(count, _ROWS_MIN))
        room = max(0, room - shares[name])
    return shares


def _seen(key: str, row: Mapping[str, object]) -> object:
    value = row[key]
    if isinstance(value, bool):
        return "yes" if value else ""
    if key == "bytes_in_per_s" and row["bytes_from"] == "sizes":
        return f"~{_short(value, unit='B')}"
    if "bytes" in key:
        return _short(value, unit="B")
    return _short(value) if isinstance(value, float) or key in ("records", "lag") else value


def _short(value: object, *, unit: str = "") -> str:
    """A number in about four characters."""
    if not isinstance(value, int | float):
        return "-"
    number = float(value)
    for sign in ("", "k", "M", "G"):
        if abs(number) < 1000:
            digits = 0 if not sign or abs(number) >= 100 else 1
            return f"{number:.{digits}f} {sign}{unit}".rstrip()
        number /= 1000
    return f"{number:.1f} T{unit}"


@contextmanager
def _keys() -> Iterator[Callable[[float], str | None]]:
    """A function that waits some seconds for a key; keys need no line end, and the terminal does not show them."""
    if not sys.stdin.isatty():
        yield _wait
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    saved = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)

    def next_key(seconds: float) -> str | None:
        readable, _, _ = select.select([descriptor], [], [], seconds)
        if not readable:
            return None
        return sys.stdin.read(1) or "q"  # the terminal went away

    try:
        yield next_key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, saved)


def _wait(seconds: float) -> None:
    time.sleep(seconds)
