"""pk-log-dirs: log directories and the replicas in them, as kafka-log-dirs.sh."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.java_text import java_class
from pkafka.cli.options import CommandError, Common, command, connection_options
from pkafka.cli.output import OutputFormat, Table, View, choose_format, line, to_json

if TYPE_CHECKING:
    from pkafka.clients.admin.results import LogDir

_REPLICA_KEYS: Final = ("topic", "partition", "size", "offset_lag", "future")


@command("pk-log-dirs")
@connection_options
@click.option("--describe", is_flag=True, required=True, help="Describe the log directories.")
@click.option("--broker-list", metavar="0,1", help="Brokers to ask; all when left out.")
@click.option("--topic-list", metavar="A,B", help="Topics to show; all when left out.")
def main(common: Common, describe: bool, broker_list: str | None, topic_list: str | None) -> None:
    """Describe the log directories of brokers."""
    if not describe:
        raise click.UsageError('Missing required argument "[describe]"')
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
        form = choose_format(common.output)
        if form is OutputFormat.TEXT:
            line("Querying brokers for log directories information")
        found = admin.describe_log_dirs(chosen, timeout_ms=common.timeout_ms)
    brokers = []
    failures = []
    for broker, outcome in found.items():
        if isinstance(outcome, list):
            brokers.append({"broker": broker, "logDirs": [_directory(each, topics) for each in outcome]})
        else:
            failures.append(f"broker {broker}: {outcome}")
    version = {"version": 1}
    if form is OutputFormat.TEXT:
        line(f"Received log directory information from brokers {_joined(chosen)}")
        line(to_json({"brokers": brokers, **version}))
    else:
        common.show(
            View(
                "brokers",
                [],
                brokers,
                {**version, "errors": failures},
                tables=[Table(_replica_rows(found, topics))],
            )
        )
    if failures:
        raise CommandError("; ".join(failures))


def _parse_brokers(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",") if part.strip()))
    except ValueError:
        raise click.UsageError(f"--broker-list needs broker ids, not {text!r}") from None


def _directory(directory: "LogDir", topics: set[str] | None) -> dict[str, object]:
    return {
        "partitions": [
            {
                "partition": str(each.partition),
                "size": each.size_bytes,
                "offsetLag": each.offset_lag,
                "isFuture": each.is_future,
            }
            for each in directory.replicas
            if topics is None or each.partition.topic in topics
        ],
        "error": java_class(directory.error.code) if directory.error is not None else None,
        "logDir": directory.path,
    }


def _replica_rows(
    found: "Mapping[int, list[LogDir] | Exception]", topics: set[str] | None
) -> list[dict[str, object]]:
    """One row per replica, for a table; a directory that shows none has one without replica."""
    rows: list[dict[str, object]] = []
    for broker, outcome in found.items():
        for directory in outcome if isinstance(outcome, list) else []:
            place: dict[str, object] = {
                "broker": broker,
                "log_dir": directory.path,
                "error": None if directory.error is None else directory.error.code.name,
            }
            replicas: list[dict[str, object]] = [
                {
                    "topic": each.partition.topic,
                    "partition": each.partition.partition,
                    "size": each.size_bytes,
                    "offset_lag": each.offset_lag,
                    "future": each.is_future,
                }
                for each in directory.replicas
                if topics is None or each.partition.topic in topics
            ]
            nothing: dict[str, object] = dict.fromkeys(_REPLICA_KEYS)
            rows += [{**place, **each} for each in replicas or [nothing]]
    return rows


def _joined(brokers: list[int]) -> str:
    return ",".join(str(broker) for broker in brokers)
