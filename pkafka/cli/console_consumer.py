"""pk-console-consumer: print records, as kafka-console-consumer.sh; without groups so far."""

import base64
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli import output
from pkafka.cli.exit_status import ExitStatus
from pkafka.cli.options import (
    CommandError,
    client_properties,
    command,
    parse_assignments,
    require,
    require_brokers,
    stream_output_option,
)
from pkafka.cli.output import JsonList, OutputFormat, to_json
from pkafka.cli.topic_filter import topic_pattern
from pkafka.model import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.cluster import TopicView
    from pkafka.clients.consumer import Chunk, Consumer
    from pkafka.tools.console import ShownRecord

_POLL_MS: Final = 500
_CHUNK_RECORDS: Final = 10_000
_FORMATTERS: Final = ("DefaultMessageFormatter", "LoggingMessageFormatter", "NoOpMessageFormatter")
_CONNECT_MS: Final = 10_000
_CREATION_MS: Final = 5_000
_CREATION_POLL_S: Final = 0.05


@command("pk-console-consumer", kafka_failure=0)
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to begin with.")
@click.option("--topic", metavar="NAME", help="The topic to read.")
@click.option("--include", "--whitelist", "include", metavar="REGEX", help="Read all topics that match.")
@click.option("--partition", type=int, metavar="N", help="Read only this partition.")
@click.option("--offset", metavar="N|earliest|latest", help="Where to begin in --partition (latest).")
@click.option("--from-beginning", is_flag=True, help="Begin with the first record.")
@click.option("--group", metavar="ID", help="Consumer group; not supported yet.")
@click.option("--max-messages", type=int, metavar="N", help="Stop after this many records.")
@click.option("--timeout-ms", type=int, metavar="MS", help="Stop when no record came for so long.")
@click.option("--until-end", is_flag=True, help="Stop at the end that the partitions have now.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="Default read_uncommitted.",
)
@click.option(
    "--consumer.config", "--command-config", "consumer_config", metavar="FILE", help="Properties file."
)
@click.option(
    "--consumer-property",
    "--command-property",
    multiple=True,
    metavar="KEY=VALUE",
    help="Wins over the file.",
)
@click.option(
    "--formatter",
    default="DefaultMessageFormatter",
    metavar="CLASS",
    help="Default, Logging or NoOp formatter.",
)
@click.option("--formatter-config", metavar="FILE", help="Properties file for the formatter.")
@click.option(
    "--property",
    "--formatter-property",
    "formatter_property",
    multiple=True,
    metavar="KEY=VALUE",
    help="For the formatter: print.key, print.timestamp, key.separator, ...",
)
@click.option("--key-deserializer", metavar="CLASS", help="How to show keys.")
@click.option("--value-deserializer", metavar="CLASS", help="How to show values.")
@click.option("--skip-message-on-error", is_flag=True, help="Go on after a record that cannot be shown.")
@click.option("--enable-systest-events", is_flag=True, hidden=True)
@stream_output_option
def main(**flags: object) -> int:
    """Print the records of a topic."""
    _check(flags)
    printer = _Printer(flags)
    from pkafka.clients.consumer import Consumer

    with Consumer(_consumer_properties(flags), fail_fast=True) as consumer:
        stopper = _Stopper(consumer)
        try:
            _read(consumer, flags, printer, stopper)
            printer.close()
        finally:
            sys.stdout.flush()
            output.note(f"Processed a total of {printer.count} messages")
        return stopper.status


def _check(flags: Mapping[str, object]) -> None:
    if bool(flags["topic"]) == bool(flags["include"]):
        raise click.UsageError("Exactly one of --include/--topic is required. ")
    if flags["partition"] is not None:
        require(flags, "topic")
        if flags["group"]:
            raise click.UsageError("Options group and partition cannot be specified together.")
    if flags["offset"] is not None:
        if flags["partition"] is None:
            raise click.UsageError("The partition is required when offset is specified.")
        if flags["from_beginning"]:
            raise click.UsageError("Options from-beginning and offset cannot be specified together.")
        _offset(str(flags["offset"]))
    if flags["group"]:
        raise CommandError(
            "--group is not supported by this version of pk-console-consumer; leave it out to read all partitions"
        )
    if str(flags["formatter"]).rpartition(".")[2] not in _FORMATTERS:
        raise CommandError(f"--formatter {flags['formatter']}: only {', '.join(_FORMATTERS)} exist here")


def _offset(text: str) -> int:
    named = {"earliest": -2, "latest": -1}
    if text.lower() in named:
        return named[text.lower()]
    if not text.isdigit():
        raise click.UsageError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', "
            "or a non-negative long."
        )
    return int(text)


def _consumer_properties(flags: Mapping[str, object]) -> dict[str, object]:
    values = client_properties(
        flags["consumer_config"],
        flags["bootstrap_server"],
        flags["consumer_property"],
        option="--consumer-property",
    )
    require_brokers(values)
    if flags["isolation_level"]:
        values["isolation.level"] = flags["isolation_level"]
    if flags["from_beginning"]:
        if values.get("auto.offset.reset", "earliest") != "earliest":
            raise click.UsageError(
                "Can't simultaneously specify --from-beginning and 'auto.offset.reset="
                f"{values['auto.offset.reset']}', please remove one option"
            )
        values["auto.offset.reset"] = "earliest"
    values.setdefault("client.id", "console-consumer")
    values.setdefault("default.api.timeout.ms", _CONNECT_MS)
    return values


class _Stopper:
    """Lets SIGINT and SIGTERM end the reading cleanly, with the status that shells expect."""

    def __init__(self, consumer: "Consumer") -> None:
        self.status = 0
        self._consumer = consumer
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.status = ExitStatus.INTERRUPTED if number == signal.SIGINT else ExitStatus.TERMINATED
        self._consumer.wakeup()


class _Printer:
    """Counts and prints records in the format asked for."""

    def __init__(self, flags: Mapping[str, object]) -> None:
        from pkafka.clients.properties import load_properties
        from pkafka.tools.console import RecordFormatter

        self.count = 0
        self._form = OutputFormat(flags["output"]) if flags["output"] else OutputFormat.TEXT
        self._skip_errors = bool(flags["skip_message_on_error"])
        self._is_silent = str(flags["formatter"]).endswith("NoOpMessageFormatter")
        properties = load_properties(str(flags["formatter_config"])) if flags["formatter_config"] else {}
        pairs = flags["formatter_property"]
        assert isinstance(pairs, tuple)
        properties.update(parse_assignments(pairs, option="--property"))
        for part in ("key", "value"):
            if flags[f"{part}_deserializer"]:
                properties[f"{part}.deserializer"] = str(flags[f"{part}_deserializer"])
        self._formatter: RecordFormatter = RecordFormatter(properties)
        self._document = JsonList("records")

    def show(self, chunk: "Chunk", records_max: int | None) -> None:
        """Print the records of a chunk, at most so many."""
        from pkafka.clients.serialization import SerializationError
        from pkafka.tools.console import ShownRecord

        records = chunk.records if records_max is None else chunk.records[:records_max]
        if self._is_silent:
            self.count += len(records)
            return
        if self._form is OutputFormat.TEXT and self._formatter.is_value_only:
            end, null = self._formatter.line_separator, self._formatter.null_literal
            output.raw(b"".join([(null if each.value is None else each.value) + end for each in records]))
            self.count += len(records)
            return
        for each in records:
            shown = ShownRecord(
                chunk.partition.partition,
                each.offset,
                each.timestamp,
                chunk.timestamp_type,
                each.key,
                each.value,
                each.headers,
            )
            try:
                self._print(chunk.partition.topic, shown)
            except SerializationError as error:
                if not self._skip_errors:
                    raise CommandError(
                        f"Error processing message, terminating consumer process: {error}", kafka_status=1
                    ) from error
                output.note(f"Error processing message, skipping this message: {error}")
            self.count += 1

    def _print(self, topic: str, record: "ShownRecord") -> None:
        if self._form is OutputFormat.TEXT:
            output.raw(self._formatter.format(record))
            return
        row = {
            "topic": topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": ("CreateTime", "LogAppendTime")[record.timestamp_type],
            "headers": [{"name": name, "value": _json_bytes(value)} for name, value in record.headers],
            "key": _json_bytes(record.key),
            "value": _json_bytes(record.value),
        }
        if self._form is OutputFormat.JSON:
            self._document.add([to_json(row)])
        else:
            output.raw(to_json(row).encode() + b"\n")

    def close(self) -> None:
        """End the JSON document."""
        if self._form is OutputFormat.JSON:
            self._document.close({})


def _json_bytes(data: bytes | None) -> object:
    """Text as a string; what is not UTF-8 as ``{"base64": ...}``."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _read(consumer: "Consumer", flags: Mapping[str, object], printer: _Printer, stopper: _Stopper) -> None:
    from pkafka.clients.errors import WakeupError

    wanted = flags["max_messages"]
    limit = wanted if isinstance(wanted, int) and wanted >= 0 else None
    try:
        for chunks in _polls(consumer, flags):
            for chunk in chunks:
                left = None if limit is None else limit - printer.count
                if left is not None and left <= 0:
                    return
                printer.show(chunk, left)
            sys.stdout.flush()
            if limit is not None and printer.count >= limit:
                return
    except WakeupError:
        if not stopper.status:
            raise


def _polls(consumer: "Consumer", flags: Mapping[str, object]) -> "Iterator[list[Chunk]]":
    """What each poll gives, until the records end in the way that was asked for."""
    if flags["max_messages"] == 0:
        return
    partitions = _partitions(consumer, flags)
    consumer.assign(partitions)
    if flags["partition"] is not None:
        _seek(consumer, partitions[0], "latest" if flags["offset"] is None else str(flags["offset"]), flags)
    ends = consumer.end_offsets(partitions) if flags["until_end"] else {}
    silence_ms = flags["timeout_ms"]
    quiet_ms = 0
    while True:
        if flags["until_end"] and all(consumer.position(each) >= end for each, end in ends.items()):
            return
        wait_ms = _POLL_MS
        if isinstance(silence_ms, int) and silence_ms >= 0:
            wait_ms = max(0, min(_POLL_MS, silence_ms - quiet_ms))
        chunks = consumer.poll_chunks(wait_ms, records_max=_CHUNK_RECORDS)
        quiet_ms = 0 if chunks else quiet_ms + wait_ms
        if not chunks and isinstance(silence_ms, int) and silence_ms >= 0 and quiet_ms >= silence_ms:
            return
        if chunks:
            yield chunks


def _seek(consumer: "Consumer", partition: TopicPartition, offset: str, flags: Mapping[str, object]) -> None:
    at = -2 if flags["from_beginning"] else _offset(offset)
    if at == -2:
        consumer.seek_to_beginning([partition])
    elif at == -1:
        consumer.seek_to_end([partition])
    else:
        consumer.seek(partition, at)


def _partitions(consumer: "Consumer", flags: Mapping[str, object]) -> list[TopicPartition]:
    number = flags["partition"]
    if flags["include"]:
        pattern = topic_pattern(str(flags["include"]))
        views = [
            view
            for view in consumer.topics().values()
            if pattern.fullmatch(view.name) and view.name not in INTERNAL_TOPICS
        ]
        if not views:
            raise CommandError(f"no topic matches {flags['include']}")
    else:
        views = [_topic(consumer, str(flags["topic"]), flags)]
    found = [TopicPartition(view.name, each.partition) for view in views for each in view.partitions]
    if isinstance(number, int):
        found = [each for each in found if each.partition == number]
        if not found:
            raise CommandError(f"topic {flags['topic']} has no partition {number}")
    return found


def _topic(consumer: "Consumer", name: str, flags: Mapping[str, object]) -> "TopicView":
    """The topic, which the broker may just be creating because it was asked for.

    Raises:
        CommandError: it is not there and does not come.
    """
    silence_ms = flags["timeout_ms"]
    wait_ms = (
        _CREATION_MS if not isinstance(silence_ms, int) or silence_ms < 0 else min(silence_ms, _CREATION_MS)
    )
    deadline = time.monotonic() + wait_ms / 1_000
    while True:
        view = consumer.partitions_for(name)
        if not view.error:
            return view
        if not view.error.retriable or time.monotonic() > deadline:
            raise CommandError(
                f"topic {name}: {view.error.message}", hint="create it with pk-topics --create"
            )
        time.sleep(_CREATION_POLL_S)
