"""pk-consumer-perf-test: load on one consumer, as kafka-consumer-perf-test.sh.

Without ``--group`` all partitions are assigned, where Kafka's tool joins a group of a random name.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from random import randrange
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit.client_options import broker_list_option, config_option, settle_consumer
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.numbers import LONG
from pkafka.cli.kit.options import (
    bootstrap_option,
    client_properties,
    command,
    require_brokers,
    text_output_option,
)
from pkafka.cli.kit.output import OutputFormat, View, line, show
from pkafka.cli.kit.spelling import meant_by_reader

if TYPE_CHECKING:
    from pkafka.clients.consumer import Consumer
    from pkafka.tools.load.consumer_perf import ConsumerStats, Progress

_GROUPS: Final = 100_000
_COLUMNS = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, "
_COLUMNS += "fetch.MB.sec, fetch.nMsg.sec"


@command("pk-consumer-perf-test", kafka_failure=0)
@bootstrap_option
@broker_list_option
@click.option("--topic", metavar="NAME", required=True, help="The topic to read.")
@click.option("--messages", type=click.IntRange(0), metavar="N", required=True, help="How many to read.")
@click.option("--group", metavar="ID", help="Join this group; one of its own if left out.")
@click.option(
    "--fetch-size", type=int, default=1_048_576, metavar="BYTES", help="Per partition and fetch (1048576)."
)
@click.option(
    "--socket-buffer-size", type=int, default=2_097_152, metavar="BYTES", help="Receive buffer (2097152)."
)
@click.option("--from-latest", is_flag=True, help="Read what comes from now on, not what is there.")
@config_option("consumer")
@click.option(
    "--timeout",
    type=LONG,
    default=10_000,
    metavar="MS",
    help="Give up when no record has come for so long (10000).",
)
@click.option(
    "--reporting-interval",
    type=click.IntRange(1),
    default=5_000,
    metavar="MS",
    help="Of the detailed rows (5000).",
)
@click.option("--show-detailed-stats", is_flag=True, help="A row per interval instead of one at the end.")
@click.option("--hide-header", is_flag=True, help="Leave the names of the columns out.")
@click.option(
    "--date-format", default="yyyy-MM-dd HH:mm:ss:SSS", metavar="PATTERN", help="How times are written."
)
@click.option("--print-metrics", is_flag=True, help="Print the consumer's metrics at the end.")
@click.option("--threads", type=int, hidden=True)
@click.option("--num-fetch-threads", type=int, hidden=True)
@text_output_option
def main(**flags: object) -> None:
    """Measure the throughput of one consumer."""
    from pkafka.cli.kit.metrics_text import metric_lines
    from pkafka.tools.load.consumer_perf import RebalanceClock, java_date_format, run_consumer

    try:
        written = java_date_format(str(flags["date_format"]))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    properties = _properties(flags)
    records, silence_ms, interval_ms = flags["messages"], flags["timeout"], flags["reporting_interval"]
    assert isinstance(records, int)
    assert isinstance(silence_ms, int)
    assert isinstance(interval_ms, int)
    form = OutputFormat(flags["output"]) if flags["output"] else OutputFormat.TEXT
    is_detailed = bool(flags["show_detailed_stats"])
    is_text = form is OutputFormat.TEXT
    if is_text and (flags["threads"] is not None or flags["num_fetch_threads"] is not None):
        line(
            "WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the test"
        )

    def on_interval(progress: "Progress") -> None:
        if is_text and is_detailed:
            line(_interval_line(progress, written))

    from pkafka.clients.consumer import Consumer

    with Consumer(properties, fail_fast=True) as consumer:
        _check_topic(consumer, str(flags["topic"]))  # names of columns are for rows that may come
        if is_text and not flags["hide_header"]:
            line(("time, threadId, " if is_detailed else "start.time, end.time, ") + _COLUMNS)
        rebalances = RebalanceClock()
        consumer.subscribe([str(flags["topic"])], listener=rebalances)
        stats = run_consumer(
            consumer,
            records=records,
            silence_max_ms=silence_ms,
            interval_ms=interval_ms,
            on_interval=on_interval,
            rebalances=rebalances,
        )
        metrics = metric_lines(consumer.metrics()) if flags["print_metrics"] else []
    is_short = stats.records < records
    if is_text and is_short:
        line(
            f"WARNING: Exiting before consuming the expected number of messages: timeout ({silence_ms} ms) exceeded."
            " You can use the --timeout option to increase the timeout."
        )
    lines = [] if is_detailed else [_line(stats, written)]
    show(View("runs", [*lines, *metrics], [_row(stats)]), form)
    if is_short:
        raise CommandError(f"{stats.records} of {records} records came")


def _properties(flags: Mapping[str, object]) -> dict[str, object]:
    values = client_properties(flags["consumer_config"], flags["bootstrap_server"] or flags["broker_list"])
    require_brokers(values)
    values["receive.buffer.bytes"] = flags["socket_buffer_size"]
    values["max.partition.fetch.bytes"] = flags["fetch_size"]
    values["auto.offset.reset"] = "latest" if flags["from_latest"] else "earliest"
    values["check.crcs"] = False
    # As Kafka's tool, which always joins a group: what that takes is measured, too.
    values["group.id"] = flags["group"] or f"perf-consumer-{randrange(_GROUPS)}"  # noqa: S311 - a name
    # Bytes are read, whatever class of Java the file names, as by Kafka's tool.
    values["key.deserializer"] = values["value.deserializer"] = None
    values.setdefault("client.id", "perf-consumer-client")
    values.setdefault("allow.auto.create.topics", "false")  # there would be nothing to measure
    settle_consumer(values)
    return values


def _check_topic(consumer: "Consumer", topic: str) -> None:
    found = consumer.partitions_for(topic)
    if found.error:
        meant = meant_by_reader(topic, consumer.topics)
        raise CommandError(
            f"topic {topic}: {found.error.message}", hint=meant or "create it with pk-topics --create"
        )


def _line(stats: "ConsumerStats", written: Callable[[datetime], str]) -> str:
    from pkafka.tools.load.consumer_perf import per_second

    mib, records = per_second(stats.mib, stats.fetch_ms), per_second(stats.records, stats.fetch_ms)
    return ", ".join(
        [
            *(written(stats.began), written(stats.ended)),
            *(f"{stats.mib:.4f}", f"{stats.mib_per_second:.4f}"),
            *(str(stats.records), f"{stats.records_per_second:.4f}"),
            *(str(stats.rebalance_ms), str(stats.fetch_ms), f"{mib:.4f}", f"{records:.4f}"),
        ]
    )


def _interval_line(progress: "Progress", written: Callable[[datetime], str]) -> str:
    from pkafka.tools.load.consumer_perf import per_second

    def rates(passed_ms: int) -> tuple[str, str]:
        mib = per_second(progress.interval_mib, passed_ms)
        return f"{mib:.4f}", f"{per_second(progress.interval_records, passed_ms):.4f}"

    mib, records = rates(progress.interval_ms)
    # Where a rebalance took all of it, Kafka's tool says 0.
    fetched = rates(progress.fetch_ms) if progress.fetch_ms > 0 else ("0.0000", "0.0000")
    return ", ".join(
        [
            *(written(progress.at), "0"),
            *(f"{progress.mib:.4f}", mib, str(progress.records), records),
            *(str(progress.rebalance_ms), str(progress.fetch_ms), *fetched),
        ]
    )


def _row(stats: "ConsumerStats") -> dict[str, object]:
    return {
        "start_time": stats.began.astimezone().isoformat(timespec="milliseconds"),
        "end_time": stats.ended.astimezone().isoformat(timespec="milliseconds"),
        "mib": stats.mib,
        "mib_per_s": stats.mib_per_second if stats.elapsed_ms else None,
        "records": stats.records,
        "records_per_s": stats.records_per_second if stats.elapsed_ms else None,
        "elapsed_ms": stats.elapsed_ms,
        "rebalance_ms": stats.rebalance_ms,
    }
