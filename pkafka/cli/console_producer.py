"""pk-console-producer: lines of standard input to records, as kafka-console-producer.sh."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from pkafka.cli.kit import output
from pkafka.cli.kit.client_options import (
    broker_list_option,
    config_option,
    plugin_properties,
    property_option,
    settle_producer,
)
from pkafka.cli.kit.kafka_command import CommandError, explain
from pkafka.cli.kit.options import (
    bootstrap_option,
    client_properties,
    command,
    parse_duration_ms,
    require_brokers,
)
from pkafka.errors import PkafkaError

if TYPE_CHECKING:
    from pkafka.clients.producer import ProducerRecord, RecordMetadata
    from pkafka.clients.producer.futures import RecordFuture
    from pkafka.tools.console.lines import JsonReader, LineReader
    from pkafka.tools.console_plugins import UserReader

_T = TypeVar("_T")

# Flag: (key of the producer, default), which counts only where neither a property nor the file has the key.
_FLAGS: Final[dict[str, tuple[str, str]]] = {
    "request_required_acks": ("acks", "-1"),
    "request_timeout_ms": ("request.timeout.ms", "1500"),
    "linger": ("linger.ms", "1000"),
    "message_send_max_retries": ("retries", "3"),
    "retry_backoff_ms": ("retry.backoff.ms", "100"),
    "max_memory_bytes": ("buffer.memory", "33554432"),
    "max_block_ms": ("max.block.ms", "60000"),
    "metadata_expiry_ms": ("metadata.max.age.ms", "300000"),
    "socket_buffer_size": ("send.buffer.bytes", "102400"),
    "compression_codec": ("compression.type", "none"),
}
_BATCH_BYTES: Final = "16384"
_PROBE_MS: Final = 10_000


@command("pk-console-producer", kafka_failure=0)
@bootstrap_option
@broker_list_option
@click.option("--topic", metavar="NAME", required=True, help="Where the records go.")
@config_option("producer")
@property_option("producer")
@click.option(
    "--property",
    "--reader-property",
    "reader_property",
    multiple=True,
    metavar="KEY=VALUE",
    help="For the reader: parse.key, key.separator, parse.headers, null.marker, ...",
)
@click.option("--reader-config", metavar="FILE", help="Properties file for the reader.")
@click.option(
    "--line-reader",
    default="org.apache.kafka.tools.LineMessageReader",
    metavar="CLASS",
    help="What reads standard input: LineMessageReader, or module.Class of Python.",
)
@click.option(
    "--input",
    "input_format",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    help="What lines are: text for --line-reader, or what pk-console-consumer --output jsonl writes.",
)
@click.option("--sync", is_flag=True, help="Wait for every record.")
@click.option(
    "--compression-codec",
    is_flag=False,
    flag_value="gzip",
    metavar="CODEC",
    help="none, gzip, snappy, lz4 or zstd; gzip without a value.",
)
@click.option("--batch-size", metavar="N", help="Bytes to gather per batch (16384).")
@click.option("--max-partition-memory-bytes", metavar="N", help="As --batch-size, and counts more than it.")
@click.option("--request-required-acks", metavar="ACKS", help="-1, 0 or 1 (-1).")
@click.option("--request-timeout-ms", metavar="MS", help="For one request (1500).")
@click.option("--timeout", "linger", metavar="MS", help="How long to gather records (1000).")
@click.option("--message-send-max-retries", metavar="N", help="Retries (3).")
@click.option("--retry-backoff-ms", metavar="MS", help="Pause before a retry (100).")
@click.option("--max-memory-bytes", metavar="N", help="Buffer for unsent records (33554432).")
@click.option("--max-block-ms", metavar="MS", help="How long to wait for metadata or memory (60000).")
@click.option("--metadata-expiry-ms", metavar="MS", help="Age at which metadata is refreshed (300000).")
@click.option("--socket-buffer-size", metavar="N", help="Socket send buffer (102400).")
def main(**flags: object) -> None:
    """Send lines of standard input as records."""
    topic = str(flags["topic"])
    properties = _producer_properties(flags)
    reader = _reader(flags)
    _check_reachable(properties)

    from pkafka.clients.producer import Producer

    failures: list[Exception] = []

    def note_failure(_: "RecordMetadata | None", error: Exception | None) -> None:
        if error is not None:
            failures.append(error)
            output.note(f"Error when sending message to topic {topic}: {error}")

    with _Leaving() as leaving, Producer(properties) as producer:
        for record in _records(reader, topic, leaving):
            sent = producer.send(record, callback=None if flags["sync"] else note_failure)
            if flags["sync"]:
                _wait_for(sent)
        producer.flush()
    if failures:
        message, hint, _, status = explain(failures[0])
        raise CommandError(
            f"{len(failures)} record(s) could not be sent: {message}",
            hint=hint,
            status=status,
            kafka_status=1,
        )


def _wait_for(sent: "RecordFuture") -> None:
    try:
        sent.result()
    except PkafkaError as error:
        message, hint, _, status = explain(error)
        raise CommandError(message, hint=hint, status=status, kafka_status=1) from error


def _reader(flags: Mapping[str, object]) -> "LineReader | JsonReader | UserReader":
    """The reader that makes records of standard input.

    Raises:
        ConfigError, PluginError, click.UsageError: it cannot be made.
    """
    from pkafka.tools.console.lines import JsonReader, LineReader
    from pkafka.tools.console_plugins import UserReader, is_line_reader

    name = str(flags["line_reader"])
    properties = plugin_properties(flags["reader_config"], flags["reader_property"])
    is_jsonl = flags["input_format"] == "jsonl"
    if is_line_reader(name):
        return JsonReader() if is_jsonl else LineReader(properties)
    if is_jsonl:
        raise click.UsageError("--input jsonl has a reader of its own, and needs no --line-reader")
    return UserReader(name, {"topic": str(flags["topic"]), **properties})


def _records(
    reader: "LineReader | JsonReader | UserReader", topic: str, leaving: "_Leaving"
) -> "Iterator[ProducerRecord]":
    from pkafka.clients.producer import ProducerRecord
    from pkafka.tools.console.lines import LineReader, lines_within
    from pkafka.tools.console_plugins import UserReader

    if isinstance(reader, UserReader):
        with closing(reader):
            yield from leaving.reading(reader.read(sys.stdin.buffer))
        return
    for text in _prompted(leaving.reading(sys.stdin.buffer)):
        for line in lines_within(text) if isinstance(reader, LineReader) else (text,):
            key, value, headers, partition, timestamp_ms = reader.read(line)
            yield ProducerRecord(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )


class _Leaving:
    """Lets SIGINT and SIGTERM end the reading of lines, not the sending of one; the next signal ends that as well.

    What was read is sent before the program ends, as by the shutdown hook of Kafka's tool.
    """

    def __init__(self) -> None:
        self._status: int | None = None
        self._is_reading = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._obey)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def reading(self, source: Iterable[_T]) -> Iterator[_T]:
        """What a source gives, until a signal comes."""
        items = iter(source)
        while True:
            self._is_reading = True
            if self._status is not None:
                raise SystemExit(self._status)
            item = next(items, None)
            self._is_reading = False
            if item is None:
                return
            yield item

    def _obey(self, number: int, _frame: FrameType | None) -> None:
        again, self._status = self._status is not None, 128 + number
        if self._is_reading or again:
            # No Exception, which a reader of the user's might take for its own.
            raise SystemExit(self._status)


def _producer_properties(flags: Mapping[str, object]) -> dict[str, object]:
    values = client_properties(
        flags["producer_config"],
        flags["bootstrap_server"] or flags["broker_list"],
        flags["producer_property"],
        option="--producer-property",
    )
    require_brokers(values)
    for name, (key, default) in _FLAGS.items():
        given = flags[name]
        if given is not None:
            values[key] = _number_of(key, str(given))
        else:
            values.setdefault(key, default)
    batch = flags["max_partition_memory_bytes"] or flags["batch_size"]
    if batch is not None:
        values["batch.size"] = batch
    values.setdefault("batch.size", _BATCH_BYTES)
    values.setdefault("client.id", "console-producer")
    settle_producer(values)
    return values


def _number_of(key: str, text: str) -> str:
    return str(parse_duration_ms(text)) if key.endswith(".ms") else text


def _check_reachable(properties: Mapping[str, object]) -> None:
    """Fail at once where no broker listens, instead of at the first line and after max.block.ms."""
    from pkafka.clients.cluster import Cluster
    from pkafka.clients.config import ProducerConfig

    with Cluster(ProducerConfig.from_properties(properties), fail_fast=True) as cluster:
        cluster.refresh(timeout_ms=_PROBE_MS)


def _prompted(source: Iterable[bytes]) -> Iterable[bytes]:
    prompt: Callable[[str], None] = output.prompt
    prompt(">")
    for text in source:
        yield text
        prompt(">")
