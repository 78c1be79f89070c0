"""How pk-console-consumer prints records."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit import output
from pkafka.cli.kit.client_options import plugin_properties
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.output import JsonList, OutputFormat, to_json
from pkafka.model import TopicPartition
from pkafka.tools.json_bytes import value_of

if TYPE_CHECKING:
    from pkafka.clients.consumer import Chunk
    from pkafka.tools.console.lines import ShownRecord
    from pkafka.tools.console.record_filter import Condition
    from pkafka.tools.console_plugins import UserFormatter
    from pkafka.tools.logs.records.internal_topics import Formatter

_PLAIN_FORMATTERS: Final = ("DefaultMessageFormatter", "LoggingMessageFormatter")
_SILENT_FORMATTER: Final = "NoOpMessageFormatter"
_MIRROR_FORMATTERS: Final = "org.apache.kafka.connect.mirror.formatters"
_PACKAGES: Final = ("", "org.apache.kafka.tools.consumer", "kafka.tools")


class Printer:
    """Counts and prints records in the format asked for."""

    def __init__(self, flags: Mapping[str, object]) -> None:
        from pkafka.tools.console.lines import RecordFormatter

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
        from pkafka.tools.console.lines import ShownRecord
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
        """Close the formatter, where it is the user's own."""
        if self._special is not None and not callable(self._special):
            self._special.close()


def _condition(filters: object) -> "Condition | None":
    """The condition that records must meet to be shown; None without ``--filter``.

    Raises:
        click.UsageError: a condition cannot be read.
    """
    assert isinstance(filters, tuple)
    if not filters:
        return None
    from pkafka.tools.console.record_filter import FilterError, all_of, condition

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
    if package == _MIRROR_FORMATTERS:
        from pkafka.tools.console.mirror_formatters import formatter
    else:
        from pkafka.tools.logs.records.internal_topics import formatter

    found = formatter(name)
    if found is not None:
        return found
    from pkafka.tools.console_plugins import UserFormatter

    return UserFormatter(name, properties)
