"""Lines to records and back, as Kafka's console tools do it."""

import struct

import pytest

from pkafka.clients.serialization import SerializationError
from pkafka.errors import ConfigError
from pkafka.tools.console.lines import LineError, LineReader, RecordFormatter, ShownRecord, lines_within

RECORD = ShownRecord(3, 7, 1_000, 1, b"k", b"v", (("h", b"1"), ("g", None)))
EVERYTHING = {f"print.{part}": "true" for part in ("timestamp", "partition", "offset", "headers", "key")}


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, b"a\tb", (None, b"a\tb", ())),
        ({"parse.key": "true"}, b"a\tb\tc", (b"a", b"b\tc", ())),
        ({"parse.key": "true", "key.separator": "::"}, b"a::b", (b"a", b"b", ())),
        ({"parse.key": "true", "null.marker": "N"}, b"N\tN", (None, None, ())),
        ({"parse.headers": "true"}, b"h:1,g:\tv", (None, b"v", (("h", b"1"), ("g", b"")))),
        ({"parse.headers": "true", "parse.key": "true"}, b"h:1\tk\tv", (b"k", b"v", (("h", b"1"),))),
        ({"parse.key": "true", "ignore.error": "true"}, b"nokey", (None, b"nokey", ())),
        ({"parse.headers": "true", "null.marker": "N"}, b"h:N\tv", (None, b"v", (("h", None),))),
    ],
)
def test_lines_become_records(properties: dict[str, str], line: bytes, expected: tuple[object, ...]) -> None:
    assert tuple(LineReader(properties).read(line)) == (*expected, None, None)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"a\n", [b"a"]),
        (b"a\r\n", [b"a"]),
        (b"a\rb\r\r\n", [b"a", b"b", b""]),
        (b"a\r", [b"a"]),
        (b"a\x0b\x0c\x85\xe2\x80\xa8b", [b"a\x0b\x0c\x85\xe2\x80\xa8b"]),
        (b"\n", [b""]),
        (b"\r\n", [b""]),
    ],
)
def test_a_carriage_return_ends_a_line(text: bytes, lines: list[bytes]) -> None:
    assert lines_within(text) == lines


@pytest.mark.parametrize(
    "name", ["headers.delimiter", "headers.separator", "headers.key.separator", "key.separator"]
)
def test_an_empty_separator_is_found_at_once(name: str) -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", name: ""})
    if name == "key.separator":
        assert reader.read(b"h:1\tv").key == b""
    elif name == "headers.key.separator":
        assert reader.read(b"h:1\tk\tv").headers == (("", b"h:1"),)
    else:
        with pytest.raises(LineError, match=r"No header key separator found in pair '(h|)' on line number 1"):
            reader.read(b"h:1\tk\tv")


def test_a_line_without_its_separator_is_named_by_number() -> None:
    reader = LineReader({"parse.key": "true"})
    reader.read(b"k\tv")
    with pytest.raises(LineError, match="No key separator found on line number 2: 'nokey'"):
        reader.read(b"nokey")
    with pytest.raises(LineError, match="No header key separator found in pair 'h' on line number 1"):
        LineReader({"parse.headers": "true"}).read(b"h\tv")


def test_equal_separators_are_refused() -> None:
    with pytest.raises(ConfigError):
        LineReader({"parse.headers": "true", "headers.separator": ":"})


def test_columns_stand_in_kafkas_order() -> None:
    assert (
        RecordFormatter(EVERYTHING).format(RECORD)
        == b"LogAppendTime:1000\tPartition:3\tOffset:7\th:1,g:null\tk\tv\n"
    )
    bare = RECORD._replace(headers=(), key=None, timestamp_type=0)
    assert (
        RecordFormatter(EVERYTHING).format(bare)
        == b"CreateTime:1000\tPartition:3\tOffset:7\tNO_HEADERS\tnull\tv\n"
    )


def test_separators_and_deserializers() -> None:
    properties = {"print.key": "true", "key.separator": "|", "line.separator": ";", "null.literal": "-"}
    properties["value.deserializer"] = "org.apache.kafka.common.serialization.LongDeserializer"
    formatter = RecordFormatter(properties)
    assert formatter.format(RECORD._replace(key=None, value=struct.pack(">q", -5))) == b"-|-5;"
    with pytest.raises(SerializationError, match="is not 8"):
        formatter.format(RECORD)
    with pytest.raises(ConfigError, match="cannot be found"):
        RecordFormatter({"value.deserializer": "com.example.Avro"})


@pytest.mark.parametrize(
    "properties",
    [
        {"headers.separator": "\t"},
        {"headers.key.separator": ","},
        {"null.marker": "\t"},
        {"null.marker": ":"},
    ],
)
def test_separators_are_checked_also_where_they_are_not_used(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="may not be equal"):
        LineReader(properties)


def test_empty_headers_at_the_end_are_none() -> None:
    reader = LineReader({"parse.headers": "true"})
    assert reader.read(b"h:1,,\tv").headers == (("h", b"1"),)
    with pytest.raises(LineError, match="in pair '' on line number 2"):
        reader.read(b"\tv")
