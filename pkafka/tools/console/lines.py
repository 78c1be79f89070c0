"""Lines to records and records to lines, as Kafka's console tools do it. Bytes in, bytes out; no I/O."""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import ConfigError, PkafkaError
from pkafka.java.text import parse_boolean, trim
from pkafka.model import NO_TIMESTAMP
from pkafka.tools.json_bytes import bytes_of

if TYPE_CHECKING:
    from pkafka.clients.serialization import Deserializer, Headers

_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")


class LineError(PkafkaError):
    """A line of input has not the form that the reader's properties promise."""


class LineRecord(NamedTuple):
    """What one line stands for."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None = None
    timestamp_ms: int | None = None


def lines_within(text: bytes) -> list[bytes]:
    """The lines of a text that ends with a line feed, if at all: a carriage return ends a line, too."""
    if b"\r" not in text:
        return [text.removesuffix(b"\n")]
    lines = text.replace(b"\r\n", b"\r").replace(b"\n", b"\r").split(b"\r")
    return lines if lines[-1] else lines[:-1]


class JsonReader:
    """Reads what pk-console-consumer writes with ``--output jsonl``: an object a line.

    Keys of it: ``value`` and ``key`` (text, ``{"base64": ...}`` or null), ``headers`` (a list of ``name`` and
    ``value``), ``partition``, ``timestamp`` (-1 is none); all may be left out, and others are ignored.
    """

    def __init__(self) -> None:
        self._line_number = 0

    def read(self, line: bytes) -> LineRecord:
        """The record of one line.

        Raises:
            LineError: it is no such object.
        """
        import json

        self._line_number += 1
        try:
            row = json.loads(line)
            return LineRecord(
                bytes_of(row.get("key")),
                bytes_of(row.get("value")),
                tuple((str(each["name"]), bytes_of(each["value"])) for each in row.get("headers") or ()),
                _number_of(row.get("partition")),
                _number_of(None if row.get("timestamp") == NO_TIMESTAMP else row.get("timestamp")),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise LineError(f"No record found on line number {self._line_number}: {error}") from error


def _number_of(value: object) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ValueError("partition and timestamp are numbers from 0 on")
    return value


class LineReader:
    """Kafka's LineMessageReader: ``headers<TAB>key<TAB>value``, of which headers and key are optional.

    Args:
        properties: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator,
            headers.key.separator, ignore.error, null.marker.

    Raises:
        ConfigError: two separators are equal.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._parse_key = _flag(properties, "parse.key")
        self._parse_headers = _flag(properties, "parse.headers")
        self._ignore_error = _flag(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t").encode()
        self._headers_delimiter = properties.get("headers.delimiter", "\t").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._header_key_separator = properties.get("headers.key.separator", ":").encode()
        marker = properties.get("null.marker")
        self._null_marker = None if marker is None else marker.encode()
        self._line_number = 0
        self._check()

    def read(self, line: bytes) -> LineRecord:
        """The record of one line, without its end.

        Raises:
            LineError: a separator is missing and ignore.error is false.
        """
        self._line_number += 1
        headers: tuple[tuple[str, bytes | None], ...] = ()
        rest = line
        if self._parse_headers:
            found, rest = self._cut(rest, self._headers_delimiter, "headers delimiter")
            if found is not None and found != self._null_marker:
                headers = self._read_headers(found)
        key = None
        if self._parse_key:
            found, rest = self._cut(rest, self._key_separator, "key separator")
            key = None if found is None else self._or_null(found)
        return LineRecord(key, self._or_null(rest), headers)

    def _cut(self, text: bytes, separator: bytes, name: str) -> tuple[bytes | None, bytes]:
        # An empty separator is found at once, as by Java.
        head, found, tail = text.partition(separator) if separator else (b"", True, text)
        if found:
            return head, tail
        if self._ignore_error:
            return None, text
        shown = text.decode("utf-8", errors="replace")
        raise LineError(f"No {name} found on line number {self._line_number}: '{shown}'")

    def _read_headers(self, text: bytes) -> tuple[tuple[str, bytes | None], ...]:
        headers: list[tuple[str, bytes | None]] = []
        for pair in self._split_headers(text):
            separator = self._header_key_separator
            name, found, value = pair.partition(separator) if separator else (b"", b"at once", pair)
            if not found and not self._ignore_error:
                shown = pair.decode("utf-8", errors="replace")
                raise LineError(
                    f"No header key separator found in pair '{shown}' on line number {self._line_number}"
                )
            if name == self._null_marker:
                shown = name.decode("utf-8", errors="replace")
                raise LineError(
                    f"Header keys should not be equal to the null marker '{shown}' as they can't be null"
                )
            headers.append((name.decode("utf-8", errors="replace"), self._or_null(value) if found else None))
        return tuple(headers)

    def _split_headers(self, text: bytes) -> list[bytes]:
        """As Java's split: what is empty at the end is dropped, and an empty separator stands between characters."""
        if not self._headers_separator:
            return [each.encode() for each in text.decode("utf-8", errors="replace")] or [text]
        pairs = text.split(self._headers_separator)
        while pairs and not pairs[-1] and text:
            pairs.pop()
        return pairs

    def _or_null(self, text: bytes) -> bytes | None:
        return None if text == self._null_marker and self._null_marker is not None else text

    def _check(self) -> None:
        """Refuse separators that cannot be told apart; as Kafka, whether they are used or not."""
        used = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._header_key_separator,
        }
        # Key and headers may share TAB: they are cut off one after the other.
        for name, other in itertools.combinations(used, 2):
            if used[name] == used[other]:
                raise ConfigError(name, f"and {other} may not be equal")
        for name, value in {"key.separator": self._key_separator, **used}.items():
            if value == self._null_marker:
                raise ConfigError("null.marker", f"and {name} may not be equal")


class ShownRecord(NamedTuple):
    """A record as the formatter gets it; ``timestamp_type`` as in a batch."""

    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class RecordFormatter:
    """Kafka's DefaultMessageFormatter.

    Args:
        properties: print.timestamp, print.partition, print.offset, print.headers, print.key, print.value,
            key.separator, line.separator, headers.separator, null.literal, {key,value,headers}.deserializer.

    Raises:
        ConfigError: a deserializer is not known.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._timestamp = _flag(properties, "print.timestamp")
        self._partition = _flag(properties, "print.partition")
        self._offset = _flag(properties, "print.offset")
        self._headers = _flag(properties, "print.headers")
        self._key = _flag(properties, "print.key")
        self._value = _flag(properties, "print.value", default=True)
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_separator = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._readers = {
            part: _reader(part, properties)
            for part in ("key", "value", "headers")
            if properties.get(f"{part}.deserializer")
        }

    @property
    def is_value_only(self) -> bool:
        """Whether a line is nothing but the value's bytes, so that no record need be taken apart."""
        extra = self._timestamp or self._partition or self._offset or self._headers or self._key
        return self._value and not extra and "value" not in self._readers

    @property
    def line_separator(self) -> bytes:
        """What follows every record."""
        return self._line_separator

    @property
    def null_literal(self) -> bytes:
        """What stands for no value."""
        return self._null

    def format(self, record: ShownRecord, topic: str = "") -> bytes:
        """The bytes of one record, line separator included.

        Args:
            topic: for deserializers that ask where a record was.

        Raises:
            SerializationError: a part is not what its deserializer expects.
        """
        cells: list[bytes] = []
        if self._timestamp:
            cells.append(f"{_TIMESTAMP_TYPES[record.timestamp_type]}:{record.timestamp}".encode())
        if self._partition:
            cells.append(b"Partition:%d" % record.partition)
        if self._offset:
            cells.append(b"Offset:%d" % record.offset)
        if self._headers:
            cells.append(self._headers_text(record, topic))
        if self._key:
            cells.append(self._text("key", record.key, record.headers, topic))
        if self._value:
            cells.append(self._text("value", record.value, record.headers, topic))
        return self._separator.join(cells) + self._line_separator

    def _headers_text(self, record: ShownRecord, topic: str) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(
            name.encode() + b":" + self._text("headers", value, record.headers, topic)
            for name, value in record.headers
        )

    def _text(self, part: str, data: bytes | None, headers: "Headers", topic: str) -> bytes:
        if data is None:
            return self._null
        reader: Deserializer | None = self._readers.get(part)
        if reader is None:
            return data
        value = reader.deserialize(topic, data, headers)
        return value if isinstance(value, bytes) else _java_text(value).encode()


def _reader(part: str, properties: Mapping[str, str]) -> "Deserializer":
    """The deserializer of a part; its own properties have the name of its key in front, as in Kafka."""
    from pkafka.clients.serialization import load_deserializer

    key = f"{part}.deserializer"
    own = {
        name.removeprefix(f"{key}."): value
        for name, value in properties.items()
        if name.startswith(f"{key}.")
    }
    return load_deserializer(key, properties[key], own, is_key=part == "key")


def _java_text(value: object) -> str:
    """A value as Java's toString() writes it, as far as it differs from str()."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _flag(properties: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = properties.get(name)
    return default if text is None else parse_boolean(trim(text))
