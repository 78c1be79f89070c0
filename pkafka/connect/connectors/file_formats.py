"""The formats of the files sink: lines of JSON, and Parquet by pyarrow."""

import datetime
import gzip
import io
from collections.abc import Sequence
from typing import Any, Final, Protocol

from pkafka.connect.connectors.file_buffers import Encoded, Row
from pkafka.connect.converters.json_converter import JsonConverter
from pkafka.connect.data.logical import Date, Decimal, Time, Timestamp
from pkafka.connect.data.records import SinkRecord
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import ConnectError, DataError

JSON: Final = "json"
PARQUET: Final = "parquet"
COMPRESSIONS: Final = {JSON: ("none", "gzip"), PARQUET: ("none", "snappy", "gzip", "zstd")}
"""The first one of JSON and the second one of Parquet are used unless one is named."""
_NUMBER_BYTES: Final = 8
_DIGITS: Final = 38


class Format(Protocol):
    """Makes files of records."""

    @property
    def suffix(self) -> str:
        """Of the names of files, with the full stop."""

    def encode(self, record: SinkRecord) -> Encoded:
        """A record as the format holds it.

        Raises:
            DataError: the format has no place for such a value.
        """

    def file(self, schema: Schema | None, rows: Sequence[Row]) -> bytes:
        """A whole file."""


def format_of(name: str, compression: str) -> Format:
    """The format of a name.

    Raises:
        ConnectError: what it needs is not installed.
    """
    if name == JSON:
        return JsonLines(is_compressed=compression == "gzip")
    return Parquet(compression or "snappy")


class JsonLines:
    """Each value is a line of JSON, without its schema."""

    def __init__(self, *, is_compressed: bool) -> None:
        self._is_compressed = is_compressed
        self._converter = JsonConverter()
        self._converter.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"})

    @property
    def suffix(self) -> str:
        """Of the names of files."""
        return ".json.gz" if self._is_compressed else ".json"

    def encode(self, record: SinkRecord) -> Encoded:
        """The line of a record."""
        line = self._converter.from_connect("", None, record.value_schema, record.value) or b"null"
        return Encoded(line, len(line) + 1, None)

    def file(self, _schema: Schema | None, rows: Sequence[Row]) -> bytes:
        """All lines; equal ones make equal files, also compressed."""
        data = b"".join(row + b"\n" for row in rows)
        return gzip.compress(data, mtime=0) if self._is_compressed else data


class Parquet:
    """Each value is a row, its fields are columns; a file has rows of one schema.

    Raises:
        ConnectError: pyarrow is not installed.
    """

    suffix = ".parquet"

    def __init__(self, compression: str) -> None:
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise ConnectError("Parquet needs pyarrow: pip install 'pkafka[files]'") from error
        self._arrow = pyarrow
        self._parquet = pyarrow.parquet
        self._compression = compression

    def encode(self, record: SinkRecord) -> Encoded:
        """The row of a record."""
        if not isinstance(record.value, Struct):
            raise DataError(
                f"The value at offset {record.offset} of {record.topic}-{record.partition} is no struct: Parquet needs"
                " records with a schema, as JsonConverter reads them with schemas.enable"
            )
        schema = record.value.schema
        arrow_type(schema)  # so that a schema that no column is for is the record's fault, not the file's
        row = arrow_value(schema, record.value)
        return Encoded(row, _size_of(row), schema)

    def file(self, schema: Schema | None, rows: Sequence[Row]) -> bytes:
        """A whole file."""
        assert schema is not None
        fields = [(each.name, arrow_type(each.schema)) for each in schema.fields]
        nullable = [
            self._arrow.field(name, kind, nullable=field.schema.optional)
            for (name, kind), field in zip(fields, schema.fields, strict=True)
        ]
        table = self._arrow.Table.from_pylist(list(rows), schema=self._arrow.schema(nullable))
        buffer = io.BytesIO()
        self._parquet.write_table(table, buffer, compression=self._compression)
        return buffer.getvalue()


def arrow_type(schema: Schema) -> Any:  # noqa: ANN401 - a type of pyarrow
    """The type of a column.

    Raises:
        DataError: Parquet has none for it: an empty struct.
    """
    import pyarrow as pa

    if schema.name == Decimal.LOGICAL_NAME:
        return pa.decimal128(_DIGITS, int((schema.parameters or {}).get("scale", "0")))
    logical = {
        Date.LOGICAL_NAME: pa.date32(),
        Time.LOGICAL_NAME: pa.time32("ms"),
        Timestamp.LOGICAL_NAME: pa.timestamp("ms", "UTC"),
    }.get(schema.name or "")
    if logical is not None:
        return logical
    if schema.type is Type.STRUCT:
        if not schema.fields:
            raise DataError("Parquet has no columns for a struct without fields")
        return pa.struct(
            [pa.field(each.name, arrow_type(each.schema), each.schema.optional) for each in schema.fields]
        )
    if schema.type is Type.ARRAY:
        return pa.list_(arrow_type(_inner(schema.value_schema)))
    if schema.type is Type.MAP:
        return pa.map_(arrow_type(_inner(schema.key_schema)), arrow_type(_inner(schema.value_schema)))
    return {
        Type.INT8: pa.int8(),
        Type.INT16: pa.int16(),
        Type.INT32: pa.int32(),
        Type.INT64: pa.int64(),
        Type.FLOAT32: pa.float32(),
        Type.FLOAT64: pa.float64(),
        Type.BOOLEAN: pa.bool_(),
        Type.STRING: pa.string(),
        Type.BYTES: pa.binary(),
    }[schema.type]


def arrow_value(schema: Schema, value: Value) -> Any:  # noqa: ANN401 - what pyarrow takes
    """A value as pyarrow takes it.

    Raises:
        DataError: a column cannot have it.
    """
    if value is None:
        return None
    if isinstance(value, datetime.datetime):
        if schema.name == Date.LOGICAL_NAME:
            return value.date()
        return value.time() if schema.name == Time.LOGICAL_NAME else value
    if schema.type is Type.STRUCT:
        return {each.name: arrow_value(each.schema, value.get(each)) for each in schema.fields}
    if schema.type is Type.ARRAY:
        return [arrow_value(_inner(schema.value_schema), each) for each in value]
    if schema.type is Type.MAP:
        key, inner = _inner(schema.key_schema), _inner(schema.value_schema)
        return [(arrow_value(key, name), arrow_value(inner, each)) for name, each in value.items()]
    if schema.name == Decimal.LOGICAL_NAME and len(value.as_tuple().digits) > _DIGITS:
        raise DataError(f"A decimal of Parquet has at most {_DIGITS} digits, and {value} more")
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)  # Connect's own numbers of 8 to 64 bits are plain ones here
    return float(value) if isinstance(value, float) else value


def _inner(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema


def _size_of(value: Any) -> int:  # noqa: ANN401 - what pyarrow takes
    """About how many bytes a value has."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_size_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_size_of, value))
    return _NUMBER_BYTES
