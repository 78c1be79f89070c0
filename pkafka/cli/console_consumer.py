"""pk-console-consumer: print records, as kafka-console-consumer.sh.

Without a group the partitions of ``--topic`` are assigned; Kafka's tool joins a group of a random name, which waits for
the coordinator and is left behind. Topics of ``--include`` come and go, so such a group is joined for them here too.
"""

import re
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from pkafka.cli.kit import output
from pkafka.cli.kit.client_options import (
    ConsumerStop,
    config_option,
    plugin_properties,
    property_option,
    settle_consumer,
)
from pkafka.cli.kit.kafka_command import BadValueError, CommandError
from pkafka.cli.kit.options import (
    bootstrap_option,
    client_properties,
    command,
    parse_duration_ms,
    require_brokers,
    stream_output_option,
)
from pkafka.cli.kit.output import JsonList, OutputFormat, to_json
from pkafka.cli.kit.spelling import meant_by_reader
from pkafka.java.numbers import parse_long
from pkafka.model import TopicPartition
from pkafka.tools.json_bytes import value_of

if TYPE_CHECKING:
    from pkafka.clients.cluster import TopicView
    from pkafka.clients.consumer import Chunk, Consumer
    from pkafka.tools.console import ShownRecord
    from pkafka.tools.console_plugins import UserFormatter
    from pkafka.tools.coordinator_records import Formatter
    from pkafka.tools.record_filter import Condition

_EndLookup: TypeAlias = Callable[[list[TopicPartition]], dict[TopicPartition, int]]

_POLL_MS: Final = 500
_CHUNK_RECORDS: Final = 10_000
_PLAIN_FORMATTERS: Final = ("DefaultMessageFormatter", "LoggingMessageFormatter")
_SILENT_FORMATTER: Final = "NoOpMessageFormatter"
_PACKAGES: Final = ("", "org.apache.kafka.tools.consumer", "kafka.tools")
_NEW_PARTITIONS_S: Final = 5.0
_NO_END: Final = 2**63 - 1
_CONNECT_MS: Final = 10_000
_CREATION_MS: Final = 5_000
_CREATION_POLL_S: Final = 0.05


@command("pk-console-consumer", kafka_failure=0)
@bootstrap_option
@click.option("--topic", metavar="NAME", help="The topic to read.")
@click.option("--include", "--whitelist", "include", metavar="REGEX", help="Read all topics that match.")
@click.option("--partition", type=int, metavar="N", help="Read only this partition.")
@click.option("--offset", metavar="N|earliest|latest", help="Where to begin in --partition (latest).")
@click.option("--from-beginning", is_flag=True, help="Begin with the first record.")
@click.option("--group", metavar="ID", help="Join this group: start where it left off, and commit.")
@click.option("--max-messages", type=int, metavar="N", help="Stop after this many records.")
@click.option("--timeout-ms", type=int, metavar="MS", help="Stop when no record has come for so long.")
@click.option("--until-end", is_flag=True, help="Stop at the end that the partitions have now.")
@click.option(
    "--tail", type=click.IntRange(0), metavar="N", help="Begin N records before the end of each partition."
)
@click.option(
    "--from-time", metavar="TIME", help="Begin with the first record of this time: ISO, ms, or -10m."
)
@click.option("--to-time", metavar="TIME", help="Stop before the first record of this time.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="CONDITION",
    help="Only records with key=TEXT, value~REGEX, header.NAME=TEXT or value.FIELD=TEXT (of JSON); all that are given.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="Default read_uncommitted.",
)
@config_option("consumer")
@property_option("consumer")
@click.option(
    "--formatter",
    default="DefaultMessageFormatter",
    metavar="CLASS",
    help="Default, Logging or NoOp formatter; Kafka's for its internal topics; module.Class of Python.",
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

    properties = _consumer_properties(flags)
    with Consumer(properties, fail_fast=True) as consumer:
        stopper = ConsumerStop(consumer)
        try:
            _read(consumer, flags, printer, stopper)
            printer.end()
        finally:
            printer.close()
            sys.stdout.flush()
            output.note(f"Processed a total of {printer.count} messages")
    if flags["enable_systest_events"]:
        output.line("shutdown_complete")
    return stopper.status


def _check(flags: Mapping[str, object]) -> None:
    if bool(flags["topic"]) == bool(flags["include"]):
        raise click.UsageError("Exactly one of --include/--topic is required. ")
    if flags["include"]:
        _included(str(flags["include"]))
    if flags["partition"] is not None and not flags["topic"]:
        raise click.UsageError("The topic is required when partition is specified.")
    if flags["offset"] is not None:
        if flags["partition"] is None:
            raise click.UsageError("The partition is required when offset is specified.")
        if flags["from_beginning"]:
            raise click.UsageError("Options from-beginning and offset cannot be specified together.")
        _offset(str(flags["offset"]))
    begins = [
        name
        for name in ("from_beginning", "offset", "tail", "from_time")
        if flags[name] is not None and flags[name] is not False
    ]
    if len(begins) > 1:
        raise click.UsageError(
            f"Options {' and '.join(each.replace('_', '-') for each in begins)} cannot be specified together."
        )
    ours = [name for name in ("tail", "from_time", "to_time") if flags[name] is not None]
    if ours and (flags["include"] or _groups_named(flags)):
        raise click.UsageError(f"--{ours[0].replace('_', '-')} is for a topic that is read without a group")
    for name in ("from_time", "to_time"):
        if flags[name] is not None:
            _moment_ms(str(flags[name]))


def _moment_ms(text: str) -> int:
    """Milliseconds since the epoch of an ISO time (UTC without a zone), of such a number, or of so long ago.

    Raises:
        click.UsageError: it is none of them.
    """
    if text.startswith("-"):
        return time.time_ns() // 1_000_000 - parse_duration_ms(text[1:])
    if text.isdecimal():
        return int(text)
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text} is no time: ISO, milliseconds since the epoch, or -10m") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


def _included(text: str) -> re.Pattern[str]:
    """The topics of ``--include``: one regular expression as it is, commas, blanks and all.

    Raises:
        BadValueError: it is none.
    """
    from pkafka.java.pattern import PatternError, compile_pattern

    try:
        return compile_pattern(text)
    except PatternError as error:
        raise BadValueError(f"--include {text}: {error}") from None


def _offset(text: str) -> int:
    named = {"earliest": -2, "latest": -1}
    if text.lower() in named:
        return named[text.lower()]
    try:
        offset = parse_long(text)
    except ValueError:
        offset = -1
    if offset < 0:
        raise click.UsageError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', "
            "or a non-negative long."
        )
    return offset


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
    # Bytes are read, whatever class of Java the file names, as by Kafka's tool.
    values["key.deserializer"] = values["value.deserializer"] = None
    values.setdefault("client.id", "console-consumer")
    values.setdefault("default.api.timeout.ms", _CONNECT_MS)
    _choose_group(values, flags)
    settle_consumer(values)
    return values


def _choose_group(values: dict[str, object], flags: Mapping[str, object]) -> None:
    """Agree on one group, or on none.

    Raises:
        click.UsageError: several are named, or one for a partition.
    """
    groups = _groups_named(flags)
    if len(groups) > 1:
        found = ", ".join(f"'{group}'" for group in sorted(groups))
        raise click.UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            f"or via '--consumer.config') do not match. Detected group ids: {found}"
        )
    if groups and flags["partition"] is not None:
        raise click.UsageError("Options group and partition cannot be specified together.")
    if groups:
        values["group.id"] = groups.pop()
    elif flags["include"]:
        from random import randrange

        values["group.id"] = f"console-consumer-{randrange(100_000)}"  # noqa: S311 - a name, as Kafka's tool makes it
        values.setdefault("enable.auto.commit", False)
    else:
        values["enable.auto.commit"] = False


def _groups_named(flags: Mapping[str, object]) -> set[str]:
    """The groups that the flag, the file and the properties name, each for itself: none of them wins."""
    groups = {str(flags["group"])} if flags["group"] else set()
    for file, pairs in ((flags["consumer_config"], ()), (None, flags["consumer_property"])):
        named = client_properties(file, None, pairs, option="--consumer-property").get("group.id")
        if named is not None:
            groups.add(str(named))
    return groups


class _Printer:
    """Counts and prints records in the format asked for."""

    def __init__(self, flags: Mapping[str, object]) -> None:
        from pkafka.tools.console import RecordFormatter

        self.count = 0
        self.position: tuple[TopicPartition, int] | None = None
        """Where it is within the chunk that is being printed: what comes before this offset was shown."""
        self._form = OutputFormat(flags["output"]) if flags["output"] else OutputFormat.TEXT
        self._skip_errors = bool(flags["skip_message_on_error"])
        properties = plugin_properties(flags["formatter_config"], flags["formatter_property"])
        for part in ("key", "value"):
            if flags[f"{part}_deserializer"]:
                properties[f"{part}.deserializer"] = str(flags[f"{part}_deserializer"])
        named = str(flags["formatter"])
        self._special = _formatter(named, properties)
        self._is_silent = self._special is None and named.endswith(_SILENT_FORMATTER)
        self._formatter: RecordFormatter = RecordFormatter(properties)
        self._document = JsonList("records")
        self._wanted = _condition(flags["filters"])

    def show(self, chunk: "Chunk", records_max: int | None) -> None:
        """Print the records of a chunk, at most so many."""
        self.position = (chunk.partition, chunk.offsets[0])
        if records_max is not None and records_max < len(chunk):
            chunk = chunk.part(0, records_max)
        if self._is_silent and self._wanted is None:
            self.count += len(chunk)
            return
        is_text = self._form is OutputFormat.TEXT
        if is_text and self._special is None and self._wanted is None and self._formatter.is_value_only:
            end, null = self._formatter.line_separator, self._formatter.null_literal
            output.raw(b"".join([(null if value is None else value) + end for value in chunk.values]))
            self.count += len(chunk)
            return
        from pkafka.clients.serialization import SerializationError
        from pkafka.tools.console import ShownRecord
        from pkafka.tools.console_plugins import PluginError

        for offset, timestamp, key, value, headers in chunk.rows():
            shown = ShownRecord(
                chunk.partition.partition, offset, timestamp, chunk.timestamp_type, key, value, headers
            )
            self.position = (chunk.partition, offset + 1)
            if self._wanted is not None and not self._wanted(key, value, headers):
                continue
            self.count += 1
            if self._is_silent:
                continue
            try:
                self._print(chunk, shown)
            except (SerializationError, PluginError) as error:
                if not self._skip_errors:
                    raise CommandError(
                        f"Error processing message, terminating consumer process: {error}", kafka_status=1
                    ) from error
                output.note(f"Error processing message, skipping this message: {error}")

    def _print(self, chunk: "Chunk", record: "ShownRecord") -> None:
        topic = chunk.partition.topic
        if self._form is OutputFormat.TEXT:
            if self._special is None:
                output.raw(self._formatter.format(record, topic))
            elif callable(self._special):
                output.raw(self._special(record.key, record.value))
            else:
                from pkafka.clients.consumer import ConsumerRecord

                found = ConsumerRecord(topic, *record, leader_epoch=chunk.leader_epoch)
                self._special.write(found, sys.stdout.buffer)
            return
        row = {
            "topic": topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": ("CreateTime", "LogAppendTime")[record.timestamp_type],
            "headers": [{"name": name, "value": value_of(value)} for name, value in record.headers],
            "key": value_of(record.key),
            "value": value_of(record.value),
        }
        if self._form is OutputFormat.JSON:
            self._document.add([to_json(row)])
        else:
            output.raw(to_json(row).encode() + b"\n")

    def end(self) -> None:
        """End the JSON document."""
        if self._form is OutputFormat.JSON:
            self._document.close({})

    def close(self) -> None:
        """Close a formatter of the user's."""
        if self._special is not None and not callable(self._special):
            self._special.close()


def _condition(filters: object) -> "Condition | None":
    """What records must be like to be shown, if they must.

    Raises:
        click.UsageError: a condition cannot be read.
    """
    assert isinstance(filters, tuple)
    if not filters:
        return None
    from pkafka.tools.record_filter import FilterError, all_of, condition

    try:
        return all_of(condition(each) for each in filters)
    except FilterError as error:
        raise click.UsageError(f"--filter: {error}") from error


def _formatter(name: str, properties: Mapping[str, str]) -> "Formatter | UserFormatter | None":
    """What prints records, if it is neither the default nor the silent one: Kafka's for an internal topic, or a user's.

    Raises:
        ConfigError, PluginError: there is none of that name, or it cannot be made.
    """
    package, _, short = name.rpartition(".")
    if package in _PACKAGES and short in (*_PLAIN_FORMATTERS, _SILENT_FORMATTER):
        return None
    from pkafka.tools.coordinator_records import formatter

    found = formatter(name)
    if found is not None:
        return found
    from pkafka.tools.console_plugins import UserFormatter

    return UserFormatter(name, properties)


def _read(
    consumer: "Consumer", flags: Mapping[str, object], printer: _Printer, stopper: ConsumerStop
) -> None:
    from pkafka.clients.errors import WakeupError

    wanted = flags["max_messages"]
    limit = wanted if isinstance(wanted, int) and wanted >= 0 else None
    try:
        for chunks in _polls(consumer, flags, lambda: None if limit is None else limit - printer.count):
            _show(consumer, chunks, printer)
            sys.stdout.flush()
            if limit is not None and printer.count >= limit:
                return
    except WakeupError:
        if not stopper.status:
            raise


def _show(consumer: "Consumer", chunks: "list[Chunk]", printer: _Printer) -> None:
    """Print chunks; where that fails, what was not shown is not committed as if it had been."""
    left = list(chunks)
    try:
        while left:
            printer.show(left[0], None)
            left.pop(0)
    except BaseException:
        if left and printer.position is not None:
            consumer.seek(*printer.position)
        for chunk in left[1:]:
            consumer.seek(chunk.partition, chunk.offsets[0])
        raise


def _polls(
    consumer: "Consumer", flags: Mapping[str, object], left: Callable[[], int | None]
) -> "Iterator[list[Chunk]]":
    """What each poll gives, until the records end in the way that was asked for."""
    if flags["max_messages"] == 0:
        return
    assigned = _begin(consumer, flags)
    ends: dict[TopicPartition, int] = {}
    ends_at = _end_lookup(consumer, flags)
    silence_ms = flags["timeout_ms"]
    limit_ms = silence_ms if isinstance(silence_ms, int) and silence_ms >= 0 else None
    heard = looked = time.monotonic()
    while True:
        if ends_at is not None and _is_at_end(consumer, ends, ends_at):
            return
        quiet_ms = int((time.monotonic() - heard) * 1_000)
        wait_ms = _POLL_MS if limit_ms is None else max(0, min(_POLL_MS, limit_ms - quiet_ms))
        room = left()
        chunks = consumer.poll_chunks(
            wait_ms, records_max=_CHUNK_RECORDS if room is None else min(room, _CHUNK_RECORDS)
        )
        if chunks:
            yield _before(chunks, ends)
            heard = time.monotonic()
        elif limit_ms is not None and (time.monotonic() - heard) * 1_000 >= limit_ms:
            return
        elif assigned is not None and time.monotonic() - looked > _NEW_PARTITIONS_S:
            assigned = _with_new_partitions(consumer, str(flags["topic"]), assigned)
            looked = time.monotonic()


def _begin(consumer: "Consumer", flags: Mapping[str, object]) -> list[TopicPartition] | None:
    """Subscribe, or assign what was asked for; partitions of a topic that may get more of them, or None."""
    if flags["include"]:
        consumer.subscribe(pattern=_included(str(flags["include"])))
        return None
    if consumer.config.group_id is not None:
        consumer.subscribe([str(flags["topic"])])
        return None
    partitions = _partitions(consumer, flags)
    consumer.assign(partitions)
    tail, since = flags["tail"], flags["from_time"]
    if isinstance(tail, int):
        first, last = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        for each in partitions:
            consumer.seek(each, max(first[each], last[each] - tail))
    elif since is not None:
        consumer.seek_to_time(_moment_ms(str(since)), partitions)
    elif flags["partition"] is not None:
        _seek(consumer, partitions[0], "latest" if flags["offset"] is None else str(flags["offset"]), flags)
    return None if flags["partition"] is not None else partitions


def _with_new_partitions(
    consumer: "Consumer", topic: str, partitions: list[TopicPartition]
) -> list[TopicPartition]:
    """Read partitions too that the topic did not have before; from their beginning, as nothing of them was seen."""
    found = consumer.partitions_for(topic)
    known = set(partitions)
    new = [
        each
        for each in (TopicPartition(topic, view.partition) for view in found.partitions)
        if each not in known
    ]
    if new:
        consumer.assign([*partitions, *new])
        consumer.seek_to_beginning(new)
    return [*partitions, *new]


def _end_lookup(consumer: "Consumer", flags: Mapping[str, object]) -> "_EndLookup | None":
    """What finds the offsets to stop at, if there are any."""
    if flags["to_time"] is None:
        return consumer.end_offsets if flags["until_end"] else None
    moment_ms = _moment_ms(str(flags["to_time"]))

    def ends_at(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        found = consumer.offsets_for_times(dict.fromkeys(partitions, moment_ms))
        later = {each: at.offset for each, at in found.items() if at is not None and at.offset >= 0}
        return consumer.end_offsets([each for each in partitions if each not in later]) | later

    return ends_at


def _is_at_end(consumer: "Consumer", ends: dict[TopicPartition, int], ends_at: "_EndLookup") -> bool:
    """Whether everything is read that was there when its partition was assigned."""
    assignment = consumer.assignment()
    new = [each for each in assignment if each not in ends]
    if new:
        ends.update(ends_at(new))
    return bool(assignment) and all(consumer.position(each) >= ends[each] for each in assignment)


def _before(chunks: "list[Chunk]", ends: Mapping[TopicPartition, int]) -> "list[Chunk]":
    """The records before the offsets to stop at."""
    kept = [(chunk, bisect_left(chunk.offsets, ends.get(chunk.partition, _NO_END))) for chunk in chunks]
    return [chunk if stop == len(chunk) else chunk.part(0, stop) for chunk, stop in kept if stop]


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
    view = _topic(consumer, str(flags["topic"]), flags)
    found = [TopicPartition(view.name, each.partition) for each in view.partitions]
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
            meant = meant_by_reader(name, consumer.topics)
            raise CommandError(
                f"topic {name}: {view.error.message}", hint=meant or "create it with pk-topics --create"
            )
        time.sleep(_CREATION_POLL_S)
