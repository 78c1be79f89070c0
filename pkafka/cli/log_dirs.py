"""pk-log-dirs: log directories and the replicas in them, as kafka-log-dirs.sh."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pkafka.cli.java_text import java_class
from pkafka.cli.options import CommandError, Common, command, connection_options
from pkafka.cli.output import OutputFormat, View, line, to_json

if TYPE_CHECKING:
    from pkafka.clients.admin.results import LogDir


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
        if common.output in (None, OutputFormat.TEXT, OutputFormat.TABLE):
            line("Querying brokers for log directories information")
        found = admin.describe_log_dirs(chosen, timeout_ms=common.timeout_ms)
    brokers = []
    failures = []
    for broker, outcome in found.items():
        if isinstance(outcome, list):
            brokers.append({"broker": broker, "logDirs": [_directory(each, topics) for each in outcome]})
        else:
            failures.append(f"broker {broker}: {outcome}")
    document = {"brokers": brokers, "version": 1}
    if common.output in (None, OutputFormat.TEXT):
        line(f"Received log directory information from brokers {_joined(chosen)}")
        line(to_json(document))
    else:
        common.show(View("brokers", [], _rows(found, topics, common.output), {"version": 1}))
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


def _rows(
    found: "Mapping[int, list[LogDir] | Exception]",
    topics: set[str] | None,
    form: OutputFormat | None,
) -> list[dict[str, object]]:
    """JSON keeps Kafka's nesting; a table and CSV have one row per replica."""
    directories = [
        (broker, each) for broker, outcome in found.items() if isinstance(outcome, list) for each in outcome
    ]
    if form in (OutputFormat.JSON, OutputFormat.JSONL):
        return [
            {"broker": broker, "logDirs": [_directory(each, topics) for each in outcome]}
            for broker, outcome in found.items()
            if isinstance(outcome, list)
        ]
    return [
        {
            "broker": broker,
            "log_dir": directory.path,
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "size": each.size_bytes,
            "offset_lag": each.offset_lag,
            "future": each.is_future,
        }
        for broker, directory in directories
        for each in directory.replicas
        if topics is None or each.partition.topic in topics
    ]


def _joined(brokers: list[int]) -> str:
    return ",".join(str(broker) for broker in brokers)
