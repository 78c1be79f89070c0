"""pk-e2e-latency: how long records take from producer to consumer, as kafka-e2e-latency.sh.

The command takes the arguments of 3.9, which go by their place, and the flags of later versions.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from pkafka.cli.kit.client_options import settle_consumer
from pkafka.cli.kit.options import (
    bootstrap_option,
    client_properties,
    command,
    require_brokers,
    text_output_option,
)
from pkafka.cli.kit.output import OutputFormat, View, line, show
from pkafka.errors import ApiError
from pkafka.java.numbers import parse_int

if TYPE_CHECKING:
    from pkafka.tools.load.end_to_end_latency import Latencies

_REPORT_EVERY = 1_000
_DIGITS = 4
_PERCENTILES = (("50th", 0.5), ("99th", 0.99), ("99.9th", 0.999))
_USAGE = (
    "USAGE: pk-e2e-latency broker_list topic num_messages producer_acks message_size_bytes "
    "[optional] properties_file"
)


class _Asked(NamedTuple):
    """What is measured."""

    servers: str | None
    topic: str
    records: int
    acks: str
    record_bytes: int
    file: str | None


@command("pk-e2e-latency")
@click.argument("words", nargs=-1, metavar="[BROKERS TOPIC NUM_MESSAGES ACKS SIZE [PROPERTIES_FILE]]")
@bootstrap_option
@click.option(
    "--topic", metavar="NAME", help="Where the records go; made with one partition if it is not there."
)
@click.option("--num-records", type=int, metavar="N", help="How many to send, one after the other.")
@click.option("--producer-acks", metavar="1|all", help="How many replicas acknowledge (1).")
@click.option("--record-size", type=int, metavar="BYTES", help="Size of every record.")
@click.option("--command-config", metavar="FILE", help="Properties file for both clients.")
@text_output_option
def main(words: tuple[str, ...], **flags: object) -> None:
    """Measure how long records take from a producer to a consumer."""
    asked = _asked(words, flags)
    common = client_properties(asked.file, asked.servers)
    require_brokers(common)
    settle_consumer(common)
    form = OutputFormat(flags["output"]) if flags["output"] else OutputFormat.TEXT
    from pkafka.clients.consumer import Consumer
    from pkafka.clients.producer import Producer
    from pkafka.tools.load.end_to_end_latency import measure_latency

    def report(number: int, nanoseconds: int) -> None:
        if number % _REPORT_EVERY == 0 and form is OutputFormat.TEXT:
            line(f"{number}\t{nanoseconds / 1e6}")

    _make_topic(common, asked.topic, is_told=form is OutputFormat.TEXT)
    reading = {**common, "auto.offset.reset": "latest", "fetch.max.wait.ms": 0}
    sending = {**common, "linger.ms": 0, "acks": asked.acks}
    with Consumer(reading, fail_fast=True) as consumer, Producer(sending) as producer:
        found = measure_latency(
            producer,
            consumer,
            asked.topic,
            records=asked.records,
            record_bytes=asked.record_bytes,
            on_measured=report,
        )
    show(View("runs", _lines(found), [_row(found)]), form)


def _asked(words: tuple[str, ...], flags: Mapping[str, object]) -> _Asked:
    if words and len(words) not in (5, 6):
        raise click.UsageError(_USAGE)
    if words:
        servers, topic, records, acks, size, *file = words
        try:
            asked = _Asked(
                servers, topic, parse_int(records), acks, parse_int(size), file[0] if file else None
            )
        except ValueError:
            raise click.UsageError(_USAGE) from None
    else:
        for name in ("topic", "num_records", "record_size"):
            if flags[name] is None:
                raise click.UsageError(f'Missing required argument "[{name.replace("_", "-")}]"')
        records_asked, size_asked = flags["num_records"], flags["record_size"]
        assert isinstance(records_asked, int)
        assert isinstance(size_asked, int)
        asked = _Asked(
            str(flags["bootstrap_server"]) if flags["bootstrap_server"] else None,
            str(flags["topic"]),
            records_asked,
            str(flags["producer_acks"] or "1"),
            size_asked,
            str(flags["command_config"]) if flags["command_config"] else None,
        )
    if asked.acks not in ("1", "all"):
        raise click.UsageError("Latency testing requires synchronous acknowledgement. Please use 1 or all")
    if asked.records < 1 or asked.record_bytes < 1:
        raise click.UsageError("there is nothing to measure without records, or without anything in them")
    return asked


def _make_topic(common: Mapping[str, object], topic: str, *, is_told: bool) -> None:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import NewTopic

    with Admin(common, fail_fast=True) as admin:
        if any(each.name == topic for each in admin.list_topics()):
            return
        if is_told:
            line(
                f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
            )
        made = admin.create_topics([NewTopic(topic, 1, 1)])[topic]
        if isinstance(made, ApiError):
            raise made


def _lines(found: "Latencies") -> list[str]:
    # Whole milliseconds, as Kafka's tool has them; other formats tell what lies below one.
    shown = ", ".join(f"{name} = {int(found.percentile_ms(at))}" for name, at in _PERCENTILES)
    return [f"Avg latency: {found.average_ms:.4f} ms", f"Percentiles: {shown}"]


def _row(found: "Latencies") -> dict[str, object]:
    return {
        "records": len(found.sorted_ns),
        "latency_mean_ms": round(found.average_ms, _DIGITS),
        "percentiles_ms": {
            name.removesuffix("th"): round(found.percentile_ms(at), _DIGITS) for name, at in _PERCENTILES
        },
    }
