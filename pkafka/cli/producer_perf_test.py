"""pk-producer-perf-test: load from one producer, as kafka-producer-perf-test.sh."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.client_options import config_option, settle_producer
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.metrics_text import metric_lines
from pkafka.cli.kit.numbers import LONG
from pkafka.cli.kit.options import bootstrap_option, client_properties, command, text_output_option
from pkafka.cli.kit.output import OutputFormat, View, line, show

if TYPE_CHECKING:
    from pkafka.tools.load.producer_perf import RunStats, WindowStats


@command(
    "pk-producer-perf-test",
    kafka_failure=0,
    argparse4j=True,
    greedy=("--producer-props", "--command-property"),
)
@click.option("--topic", metavar="NAME", required=True, help="Where the records go.")
@click.option("--num-records", type=LONG, metavar="N", required=True, help="How many to send.")
@click.option(
    "--throughput", type=float, metavar="R", required=True, help="Records per second; -1 for no limit."
)
@click.option("--record-size", type=int, metavar="BYTES", help="Size of every record.")
@click.option("--payload-file", metavar="FILE", help="Take random lines of this file.")
@click.option(
    "--payload-delimiter", default="\\n", metavar="REGEX", help="What ends a payload in the file (\\n)."
)
@click.option("--payload-monotonic", is_flag=True, help="Send counting numbers.")
@bootstrap_option
@click.option(
    "--producer-props",
    "--command-property",
    multiple=True,
    metavar="K=V K=V ...",
    help="Keys of the producer.",
)
@config_option("producer")
@click.option("--print-metrics", is_flag=True, help="Print the producer's metrics at the end.")
@click.option(
    "--transactional-id",
    default="performance-producer-default-transactional-id",
    metavar="ID",
    help="The producer's transactional.id, where --transaction-duration-ms is above 0.",
)
@click.option(
    "--transaction-duration-ms",
    type=LONG,
    default=0,
    metavar="MS",
    help="Send in transactions that are committed after so long; 0 for none.",
)
@text_output_option
def main(**flags: object) -> None:
    """Measure the throughput and latency of one producer."""
    form = OutputFormat(flags["output"]) if flags["output"] else OutputFormat.TEXT
    size, lines = _payload(flags, tells=form is OutputFormat.TEXT)
    properties = _properties(flags)
    records, throughput = flags["num_records"], flags["throughput"]
    transaction_ms = flags["transaction_duration_ms"]
    assert isinstance(records, int)
    assert isinstance(throughput, float)
    assert isinstance(transaction_ms, int)
    if transaction_ms > 0:
        properties["transactional.id"] = flags["transactional_id"]
    from pkafka.clients.cluster import Cluster
    from pkafka.clients.config import ProducerConfig
    from pkafka.clients.producer import Producer
    from pkafka.tools.load.producer_perf import payloads, run_producer

    config = ProducerConfig.from_properties(properties)
    if size is not None and size > config.max_request_size:
        raise CommandError(
            f"records of {size} bytes do not fit into requests of max.request.size={config.max_request_size}",
            hint="--producer-props max.request.size=... allows more",
            kafka_status=0,
        )
    with Cluster(config, fail_fast=True) as cluster:
        cluster.refresh(timeout_ms=10_000)
    with Producer(properties) as producer:
        stats = run_producer(
            producer,
            str(flags["topic"]),
            payloads(size, lines, monotonic=bool(flags["payload_monotonic"])),
            records=records,
            records_per_second=throughput,
            on_window=_show_window if form is OutputFormat.TEXT else _ignore_window,
            transaction_ms=transaction_ms,
        )
        metrics = metric_lines(producer.metrics()) if flags["print_metrics"] else []
    show(View("runs", [_summary(stats), *metrics], [_row(stats)]), form)
    if stats.failures:
        raise CommandError(f"{stats.failures} of {records} records could not be sent: {stats.first_error}")


def _payload(flags: Mapping[str, object], *, tells: bool) -> tuple[int | None, list[bytes] | None]:
    size = flags["record_size"]
    assert isinstance(size, int | None)
    given = [each for each in (size is not None, flags["payload_file"], flags["payload_monotonic"]) if each]
    if len(given) != 1:
        raise click.UsageError(
            "one of the arguments --record-size --payload-file --payload-monotonic is required"
        )
    if flags["payload_file"]:
        path = Path(str(flags["payload_file"]))
        lines = _pieces(path.read_bytes(), str(flags["payload_delimiter"]))
        if not lines:
            raise CommandError("File does not exist or empty file provided.", kafka_status=1)
        if tells:
            line(f"Reading payloads from: {path.absolute()}")
            line(f"Number of messages read: {len(lines)}")
        return None, lines
    if size is not None and size < 0:
        raise click.UsageError("--record-size cannot be below 0")
    return size, None


def _pieces(data: bytes, delimiter: str) -> list[bytes]:
    """What stands between the matches of a regular expression; an empty piece is an empty payload, but at the end."""
    from pkafka.java.pattern import PatternError, compile_pattern, split_by

    try:
        pattern = compile_pattern(delimiter)
    except PatternError as error:
        raise click.UsageError(f"--payload-delimiter {delimiter}: {error}") from None
    return (
        [each.encode() for each in split_by(pattern, data.decode("utf-8", errors="replace"))] if data else []
    )


def _properties(flags: Mapping[str, object]) -> dict[str, object]:
    values = client_properties(
        flags["producer_config"],
        flags["bootstrap_server"],
        flags["producer_props"],
        option="--producer-props",
    )
    if not values:
        raise click.UsageError("Either --producer-props or --producer.config must be specified.")
    values.setdefault("client.id", "perf-producer-client")
    settle_producer(values)
    return values


def _show_window(window: "WindowStats") -> None:
    line(
        f"{window.records} records sent, {window.records_per_second:.1f} records/sec "
        f"({window.mib_per_second:.2f} MB/sec), {window.latency_average_ms:.1f} ms avg latency, "
        f"{window.latency_max_ms:.1f} ms max latency."
    )


def _ignore_window(_: "WindowStats") -> None:
    return


def _summary(stats: "RunStats") -> str:
    percentiles = ", ".join(f"{value} ms {name}th" for name, value in stats.percentiles_ms.items())
    average = "NaN" if stats.records == 0 else f"{stats.latency_average_ms:.2f}"
    return (
        f"{stats.records} records sent, {stats.records_per_second:.6f} records/sec "
        f"({stats.mib_per_second:.2f} MB/sec), {average} ms avg latency, "
        f"{stats.latency_max_ms:.2f} ms max latency, {percentiles}."
    )


def _row(stats: "RunStats") -> dict[str, object]:
    return {
        "records": stats.records,
        "failed": stats.failures,
        "records_per_s": stats.records_per_second,
        "mib_per_s": stats.mib_per_second,
        "latency_mean_ms": None if stats.records == 0 else stats.latency_average_ms,
        "percentiles_ms": stats.percentiles_ms,
        "latency_max_ms": stats.latency_max_ms,
    }
