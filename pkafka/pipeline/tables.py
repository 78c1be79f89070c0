"""Tables of Spark's for people and files: rows as JSON values, and bytes as text where a format of files has none."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, Row
from pyspark.sql.functions import base64, col, date_format, hex, lower, struct, to_json, transform
from pyspark.sql.types import ArrayType, BinaryType, StructType, TimestampType

from pkafka.tools.json_bytes import value_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_FORMATS: Final = ("json", "parquet", "csv")
"""What :func:`write` makes."""

_TIME: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
_TEXTS: Final[dict[str, Callable[[Column], Column]]] = {
    "hex": lambda data: lower(hex(data)),
    "base64": base64,
}


def json_rows(table: "DataFrame") -> Iterator[dict[str, object]]:
    """The rows as JSON values, as they come: bytes as text or ``{"base64": ...}``, times as ISO 8601 in UTC.

    Raises:
        PySparkException: the query fails.
    """
    shown = [
        date_format(_column(field.name), _TIME).alias(field.name)
        if isinstance(field.dataType, TimestampType)
        else _column(field.name)
        for field in table.schema
    ]
    columns = table.columns
    for row in table.select(shown).toLocalIterator(prefetchPartitions=True):
        yield {name: _json(row[name]) for name in columns}


def write(table: "DataFrame", path: str, form: str, *, payload: str = "text") -> None:
    """Write a table into a directory of files, which must not be there yet.

    Args:
        table: what to write.
        path: the directory.
        form: one of ``FILE_FORMATS``.
        payload: what bytes are in JSON and CSV: ``hex``, ``base64``, or text.

    Raises:
        PySparkException: the query fails, or the directory is there.
    """
    if form != "parquet":
        table = _in_text(table, _TEXTS.get(payload, lambda data: data.cast("string")), is_flat=form == "csv")
    table.write.option("header", "true").format(form).save(path)


def _in_text(table: "DataFrame", text: Callable[[Column], Column], *, is_flat: bool) -> "DataFrame":
    """A table whose bytes are text; a flat one has JSON in the place of lists and objects."""
    columns = []
    for field in table.schema:
        column = _column(field.name)
        if isinstance(field.dataType, BinaryType):
            column = text(column)
        elif field.name == "headers" and isinstance(field.dataType, ArrayType):
            column = transform(
                column, lambda each: struct(each["key"].alias("key"), text(each["value"]).alias("value"))
            )
        if is_flat and isinstance(field.dataType, ArrayType | StructType):
            column = to_json(column)
        columns.append(column.alias(field.name))
    return table.select(columns)


def _column(name: str) -> Column:
    """A column by its name as it is, whatever is in it."""
    return col(f"`{name.replace('`', '``')}`")


def _json(value: Any) -> object:  # noqa: ANN401 - of any type that Spark has
    if isinstance(value, bytes | bytearray):
        return value_of(bytes(value))
    if isinstance(value, Row):
        return {name: _json(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {str(name): _json(each) for name, each in value.items()}
    return [_json(each) for each in value] if isinstance(value, list) else value
