"""pk-get-offsets: the offsets of partitions by time, as kafka-get-offsets.sh."""

from collections.abc import Callable
from typing import Final

import click

from pkafka.cli.kit.kafka_command import CommandError, failure
from pkafka.cli.kit.options import Common, command, connection_options, exclude
from pkafka.cli.kit.output import View, note
from pkafka.cli.kit.spelling import did_you_mean
from pkafka.cli.kit.topic_filter import partition_filter, topic_pattern
from pkafka.errors import ApiError
from pkafka.java.numbers import parse_int, parse_long
from pkafka.java.text import split
from pkafka.model import INTERNAL_TOPICS, TopicPartition

_TIMES: Final = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
_UNKNOWN: Final = -1


@command("pk-get-offsets")
@connection_options
@click.option("--broker-list", metavar="HOST:PORT,...", hidden=True)
@click.option("--topic", metavar="REGEX", help="Topics to ask for; all when left out.")
@click.option("--partitions", metavar="0,1", help="Partitions to ask for; all when left out.")
@click.option("--topic-partitions", metavar="T:0,T:1-3,...", help="Topics (regex) with partitions or ranges.")
@click.option(
    "--time",
    "time_text",
    default="latest",
    metavar="MS|latest|earliest|max-timestamp|earliest-local|latest-tiered",
    help="Which offset: of the first record at or after a time, or by name.",
)
@click.option("--exclude-internal-topics", is_flag=True, help="Leave internal topics out.")
def main(
    common: Common,
    broker_list: str | None,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    time_text: str,
    exclude_internal_topics: bool,
) -> None:
    """Print offsets of partitions as topic:partition:offset."""
    if broker_list and not common.bootstrap_server:
        common = common._replace(bootstrap_server=broker_list)
    given = {"topic-partitions": topic_partitions, "topic": topic, "partitions": partitions}
    exclude(
        {key.replace("-", "_"): value for key, value in given.items()},
        "topic-partitions",
        "topic",
        "partitions",
    )
    timestamp = parse_time(time_text)
    wanted = _filter(topic, partitions, topic_partitions)
    with common.admin() as admin:
        chosen = [
            partition
            for view in admin.cluster.refresh(None).topics.values()
            if not (exclude_internal_topics and view.name in INTERNAL_TOPICS)
            for partition in (TopicPartition(view.name, each.partition) for each in view.partitions)
            if wanted(partition)
        ]
        if not chosen:
            meant = did_you_mean(topic, admin.cluster.view.topics) if topic else None
            raise CommandError("Could not match any topic-partitions with the specified filters", hint=meant)
        found = admin.list_offsets(dict.fromkeys(chosen, timestamp), timeout_ms=common.timeout_ms)
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    failures = 0
    for partition in sorted(chosen, key=str):
        outcome = found[partition]
        if isinstance(outcome, ApiError):
            failures += 1
            rows.append({**_row(partition), "offset": None, "error": failure(outcome)})
            note(f"Skip getting offsets for topic-partition {partition} due to error: {outcome.message}")
        elif outcome.offset != _UNKNOWN:
            lines.append(f"{partition.topic}:{partition.partition}:{outcome.offset}")
            rows.append({**_row(partition), "offset": outcome.offset, "error": None})
    common.show(View("offsets", lines, rows, columns=("topic", "partition", "offset")))
    if failures:
        raise CommandError(f"{failures} of {len(chosen)} partitions did not answer", kafka_status=0)


def _row(partition: TopicPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition}


def parse_time(text: str) -> int:
    """Milliseconds since the epoch, or the number that stands for a name.

    Raises:
        click.UsageError: it is neither.
    """
    if text in _TIMES:
        return _TIMES[text]
    try:
        return parse_long(text)
    except ValueError:
        raise click.UsageError(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
            "-4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        ) from None


def _filter(
    topic: str | None, partitions: str | None, topic_partitions: str | None
) -> Callable[[TopicPartition], bool]:
    if topic_partitions:
        return partition_filter(topic_partitions)
    pattern = topic_pattern(topic) if topic else None
    numbers = None
    if partitions:
        try:
            numbers = {parse_int(part) for part in split(partitions, ",")}
        except ValueError:
            text = f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
            raise click.UsageError(text) from None

    def wanted(partition: TopicPartition) -> bool:
        return (pattern is None or pattern.fullmatch(partition.topic) is not None) and (
            numbers is None or partition.partition in numbers
        )

    return wanted
