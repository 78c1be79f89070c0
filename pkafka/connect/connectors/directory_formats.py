"""What the files of a directory are made of: lines, lines of JSON, rows of CSV, or one thing each.

Each function reads on from a position in bytes, so that no file stays open between two reads. It tells a ``bad`` of
what it cannot read, which raises, or lets it be left out.
"""

import csv
import json
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple, NoReturn, TypeAlias

from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Value


class Part(NamedTuple):
    """What becomes one record.

    Args:
        end: the position behind it.
    """

    schema: Schema | None
    value: Value
    end: int


class Read(NamedTuple):
    """What one read has brought.

    Args:
        end: the position where the next one begins.
        is_all: whether the file ends there.
    """

    parts: list[Part]
    end: int
    is_all: bool


Bad: TypeAlias = Callable[[int, Exception], None]
"""Told the position behind what cannot be read, and why."""
ReadOn: TypeAlias = Callable[[BinaryIO, int, int, Bad], Read]
"""Reads on: file, position, how many parts at most, what is told of others."""


def read_lines(file: BinaryIO, position: int, most: int, _bad: Bad) -> Read:
    r"""Lines as text, without their ends (\n or \r\n); what is not UTF-8 is replaced."""
    file.seek(position)
    parts = []
    for line in _limited(file, most):
        position += len(line)
        parts.append(Part(Schema.STRING, _without_end(line).decode("utf-8", "replace"), position))
    return Read(parts, position, len(parts) < most)


def read_json_lines(file: BinaryIO, position: int, most: int, bad: Bad) -> Read:
    """Lines of JSON as values without a schema; blank lines count for nothing."""
    file.seek(position)
    parts = []
    count = 0
    for line in _limited(file, most):
        count += 1
        position += len(line)
        if line.isspace():
            continue
        try:
            parts.append(Part(None, json.loads(line, parse_constant=_no_constant), position))
        except (ValueError, RecursionError) as error:
            bad(position, error)
    return Read(parts, position, count < most)


def csv_reader(separator: str) -> ReadOn:
    """Reads rows of CSV as structs of optional strings, named by the header; lines of nothing are no rows."""

    def read(file: BinaryIO, position: int, most: int, bad: Bad) -> Read:
        file.seek(0)
        rows = _Rows(file, 0, separator)
        schema = _row_schema(next(rows, []))
        if position > rows.end:
            file.seek(position)
            rows = _Rows(file, position, separator)
        parts: list[Part] = []
        for _ in range(most):
            try:
                row = next(rows, None)
                if row is None:
                    return Read(parts, rows.end, True)
                if row:
                    parts.append(Part(schema, _struct(schema, row), rows.end))
            except (ValueError, csv.Error) as error:
                bad(rows.end, error)
        return Read(parts, rows.end, False)

    return read


def read_text(file: BinaryIO, position: int, _most: int, bad: Bad) -> Read:
    """A whole file as text."""
    file.seek(0)
    data = file.read()
    try:
        return Read(_once(Schema.STRING, data.decode(), position, len(data)), len(data), True)
    except UnicodeDecodeError as error:
        bad(len(data), error)
        return Read([], len(data), True)


def read_bytes(file: BinaryIO, position: int, _most: int, _bad: Bad) -> Read:
    """A whole file as bytes."""
    file.seek(0)
    data = file.read()
    return Read(_once(Schema.BYTES, data, position, len(data)), len(data), True)


FORMATS: Final = ("lines", "json", "csv", "text", "bytes")
WHOLE: Final = frozenset({"text", "bytes"})
"""Formats of which a file is one record."""


def reader_of(format: str, separator: str) -> ReadOn:
    """What reads a format."""
    if format == "csv":
        return csv_reader(separator)
    return {"lines": read_lines, "json": read_json_lines, "text": read_text, "bytes": read_bytes}[format]


def _once(schema: Schema, value: Value, position: int, size: int) -> list[Part]:
    return [Part(schema, value, size)] if position != size else []


def _limited(file: BinaryIO, most: int) -> Iterator[bytes]:
    for _ in range(most):
        line = file.readline()
        if not line:
            return
        yield line


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


class _Rows(Iterator[list[str]]):
    """The rows of a file, and the position behind the last one: a row in quotes may go over many lines."""

    def __init__(self, file: BinaryIO, position: int, separator: str) -> None:
        self._file = file
        self.end = position
        self._rows = csv.reader(self._lines(), delimiter=separator, strict=True)

    def __next__(self) -> list[str]:
        return next(self._rows)

    def _lines(self) -> Iterator[str]:
        while line := self._file.readline():
            is_first = self.end == 0
            self.end += len(line)
            # An error in here would end the rows: what is not UTF-8 is refused with its row.
            yield line.decode("utf-8-sig" if is_first else "utf-8", "surrogateescape")


def _row_schema(header: list[str]) -> Schema:
    "".join(header).encode()
    builder = SchemaBuilder.struct()
    for name in header:
        builder.field(name, Schema.OPTIONAL_STRING)
    return builder.build()


def _struct(schema: Schema, row: list[str]) -> Struct:
    if len(row) > len(schema.fields):
        raise ValueError(f"a row of {len(row)} values under a header of {len(schema.fields)}")
    "".join(row).encode()
    struct = Struct(schema)
    for field, value in zip(schema.fields, row, strict=False):
        struct.put(field, value)
    return struct
