"""pk-log-dirs: log directories and the replicas in them, as kafka-log-dirs.sh.

Kafka's tool prints JSON in its text, with names and forms of its own; so does this one. ``--output json`` is another
document.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import click

from pkafka.cli.kit.java_text import java_class
from pkafka.cli.kit.kafka_command import CommandError, failure, status_of
from pkafka.cli.kit.options import Common, command, connection_options
from pkafka.cli.kit.output import OutputFormat, Table, View, choose_format, line, live_tables, note, to_json
from pkafka.cli.kit.watching import WATCHED_DOCUMENT, look_again, watch_seconds
from pkafka.java.numbers import parse_int

if TYPE_CHECKING:
    from pkafka.clients.admin.results import LogDir, ReplicaOnDisk
    from pkafka.errors import PkafkaError

Outcomes: TypeAlias = "Mapping[int, list[LogDir] | PkafkaError]"
"""What each broker answered."""
_REPLICA_KEYS: Final = ("topic", "partition", "size_bytes", "offset_lag", "future")


@command("pk-log-dirs")
@connection_options
@click.option("--describe", is_flag=True, required=True, help="Describe the log directories.")
@click.option("--broker-list", metavar="0,1", help="Brokers to ask; all when left out.")
@click.option("--topic-list", metavar="A,B", help="Topics to show; all when left out.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value="2",
    metavar="[SECONDS]",
    help="Show it again every so many seconds (2), until Ctrl-C.",
)
def main(
    common: Common, describe: bool, broker_list: str | None, topic_list: str | None, watch: str | None
) -> None:
    """Describe the log directories of brokers."""
    if not describe:
        raise click.UsageError('Missing required argument "[describe]"')
    form = choose_format(common.output)
    if watch is not None and form is OutputFormat.JSON:
        raise click.UsageError(WATCHED_DOCUMENT)
    pause_s = None if watch is None else watch_seconds(watch)
    topics = {name for name in topic_list.split(",") if name} if topic_list else None
    with common.admin() as admin:
        live = sorted(each.id for each in admin.describe_cluster().brokers)
        chosen = _parse_brokers(broker_list) if broker_list else live
        missing = sorted(set(chosen) - set(live))
        if missing:
            raise CommandError(
                f"ERROR: The given brokers do not exist from --broker-list: {_joined(missing)}. "
                f"Current existent brokers: {_joined(live)}"
            )
        if form is OutputFormat.TEXT:
            line("Querying brokers for log directories information")

        def look() -> "Outcomes":
            outcomes = admin.describe_log_dirs(chosen, timeout_ms=common.timeout_ms)
            return {broker: outcomes[broker] for broker in chosen}

        if pause_s is not None:
            _watch(common, form, look, topics, pause_s)
        found = look()
    _show(common, form, found, topics)
    failures = _failures(found)
    if failures:
        errors = [outcome for outcome in found.values() if not isinstance(outcome, list)]
        raise CommandError("; ".join(failures), status=status_of(errors))


def _show(common: Common, form: OutputFormat, found: "Outcomes", topics: set[str] | None) -> None:
    if form is OutputFormat.TEXT:
        line(f"Received log directory information from brokers {_joined(list(found))}")
        line(_kafka_json(found, topics))
    else:
        rows = _rows(found, topics)
        common.show(View("brokers", [], rows, tables=[Table(list(_flat(rows)))]))


def _watch(
    common: Common,
    form: OutputFormat,
    look: "Callable[[], Outcomes]",
    topics: set[str] | None,
    pause_s: float,
) -> NoReturn:
    """Show the same again and again: in place on a terminal, one after the other in a pipe.

    An error of the first look ends the command; a cluster that goes away later does not.
    """
    found = look()
    if form is not OutputFormat.TABLE:
        _show(common, form, found, topics)
        while True:
            for each in _failures(found):
                note(each)
            sys.stdout.flush()
            time.sleep(pause_s)
            news, excuse = look_again(look)
            if news is None:
                note(excuse)
                continue
            found = news
            _show(common, form, found, topics)
    excuse = ""
    with live_tables() as update:
        while True:
            remarks = [*_failures(found), *([excuse] if excuse else [])]
            update([Table(list(_flat(_rows(found, topics))))], remarks)
            time.sleep(pause_s)
            news, excuse = look_again(look)
            found = found if news is None else news


def _failures(found: "Outcomes") -> list[str]:
    return [
        f"broker {broker}: {outcome}" for broker, outcome in found.items() if not isinstance(outcome, list)
    ]


def _rows(found: "Outcomes", topics: set[str] | None) -> list[dict[str, Any]]:
    return [_broker_row(broker, outcome, topics) for broker, outcome in found.items()]


def _parse_brokers(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(parse_int(part) for part in text.split(",") if part))
    except ValueError:
        raise click.UsageError(f"--broker-list needs broker ids, not {text!r}") from None


def _kafka_json(found: "Outcomes", topics: set[str] | None) -> str:
    """The one line of JSON that Kafka's tool prints."""
    brokers = [
        {"broker": broker, "logDirs": [_kafka_directory(each, topics) for each in outcome]}
        for broker, outcome in found.items()
        if isinstance(outcome, list)
    ]
    return to_json({"brokers": brokers, "version": 1})


def _kafka_directory(directory: "LogDir", topics: set[str] | None) -> dict[str, object]:
    return {
        "partitions": [
            {
                "partition": str(each.partition),
                "size": each.size_bytes,
                "offsetLag": each.offset_lag,
                "isFuture": each.is_future,
            }
            for each in _chosen(directory, topics)
        ],
        "error": java_class(directory.error.code) if directory.error is not None else None,
        "logDir": directory.path,
    }


def _broker_row(
    broker: int, outcome: "list[LogDir] | PkafkaError", topics: set[str] | None
) -> dict[str, Any]:
    if not isinstance(outcome, list):
        return {"broker": broker, "error": failure(outcome), "log_dirs": []}
    return {
        "broker": broker,
        "error": None,
        "log_dirs": [_directory_row(each, topics) for each in outcome],
    }


def _directory_row(directory: "LogDir", topics: set[str] | None) -> dict[str, Any]:
    return {
        "log_dir": directory.path,
        "error": failure(directory.error),
        "total_bytes": _known(directory.total_bytes),
        "usable_bytes": _known(directory.usable_bytes),
        "replicas": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "size_bytes": each.size_bytes,
                "offset_lag": each.offset_lag,
                "future": each.is_future,
            }
            for each in _chosen(directory, topics)
        ],
    }


def _known(size_bytes: int) -> int | None:
    return None if size_bytes < 0 else size_bytes


def _chosen(directory: "LogDir", topics: set[str] | None) -> "Iterator[ReplicaOnDisk]":
    return (each for each in directory.replicas if topics is None or each.partition.topic in topics)


def _flat(brokers: list[dict[str, Any]]) -> Iterator[dict[str, object]]:
    """One row per replica, for a table; a directory that shows none has one without replica."""
    nothing: dict[str, object] = dict.fromkeys(_REPLICA_KEYS)
    for broker in brokers:
        for directory in broker["log_dirs"] or [{"log_dir": None, "error": broker["error"], "replicas": []}]:
            place = {
                "broker": broker["broker"],
                "log_dir": directory["log_dir"],
                "error": directory["error"],
            }
            for replica in directory["replicas"] or [nothing]:
                yield {**place, **replica}


def _joined(brokers: list[int]) -> str:
    return ",".join(str(broker) for broker in brokers)
