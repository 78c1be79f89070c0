"""Whether a value fits its schema."""

import datetime
import decimal
from collections.abc import Callable, Mapping
from typing import Final

from pkafka.connect.data.java_classes import Float32, Int8, Int16, Int32, class_name, is_struct
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError

DECIMAL_NAME: Final = "org.apache.kafka.connect.data.Decimal"
DATE_NAME: Final = "org.apache.kafka.connect.data.Date"
TIME_NAME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME: Final = "org.apache.kafka.connect.data.Timestamp"


def _is_integer(bits: int, own: type[int] | None) -> Callable[[object], bool]:
    least, end = -(1 << (bits - 1)), 1 << (bits - 1)

    def fits(value: object) -> bool:
        kind = value.__class__
        return (kind is int or kind is own) and least <= value < end  # type: ignore[operator]  # it is an int

    return fits


def _is_any(*classes: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, classes)


_FITS: Final[dict[Type, Callable[[object], bool]]] = {
    Type.INT8: _is_integer(8, Int8),
    Type.INT16: _is_integer(16, Int16),
    Type.INT32: _is_integer(32, Int32),
    Type.INT64: _is_integer(64, None),
    Type.FLOAT32: lambda value: value.__class__ in (float, Float32),
    Type.FLOAT64: lambda value: value.__class__ is float,
    Type.BOOLEAN: _is_any(bool),
    Type.STRING: _is_any(str),
    Type.BYTES: _is_any(bytes, bytearray, memoryview),
    Type.ARRAY: _is_any(list, tuple),
    Type.MAP: _is_any(Mapping),
    Type.STRUCT: is_struct,
}
_is_date: Final = _is_any(datetime.datetime)
_FITS_LOGICAL: Final[dict[str, Callable[[object], bool]]] = {
    DECIMAL_NAME: _is_any(decimal.Decimal),
    DATE_NAME: _is_date,
    TIME_NAME: _is_date,
    TIMESTAMP_NAME: _is_date,
}


def fits_class(schema: Schema, value: object) -> bool:
    """Whether the value is of a class for the schema; what is in it is not looked at."""
    fits = _FITS_LOGICAL.get(schema.name) if schema.name is not None else None
    return (fits or _FITS[schema.type])(value)


def fits_type(type: Type, value: object) -> bool:
    """Whether the value is of a class for the type, that of a logical type left aside."""
    return _FITS[type](value)


def validate_value(schema: Schema, value: Value, name: str | None = None) -> None:
    """Refuse a value that its schema does not allow.

    Args:
        name: of the field that is to have the value.

    Raises:
        DataError: it does not fit; the text is Apache Kafka Connect's.
    """
    refuse_misfit(schema, value, "value" if name is None else f'field: "{name}"')


def refuse_misfit(schema: Schema, value: Value, location: str) -> None:
    """Refuse a value that its schema does not allow.

    Args:
        location: of the value, for the error.

    Raises:
        DataError: it does not fit; the text is Apache Kafka Connect's.
    """
    if value is None:
        if not schema.optional:
            raise DataError(f"Invalid value: null used for required {location}, schema type: {schema.type}")
        return
    if not fits_class(schema, value):
        named = "" if schema.name is None else f' "{schema.name}"'
        name = class_name(value, schema.type)
        raise DataError(
            f"Invalid Java object for schema{named} with type {schema.type}: class {name} for {location}"
        )
    inner = _INNER.get(schema.type)
    if inner is not None:
        inner(schema, value, location)


def _refuse_struct(schema: Schema, value: Value, _location: str) -> None:
    if value.schema != schema:
        raise DataError("Struct schemas do not match.")
    value.validate()


def _refuse_elements(schema: Schema, value: list[Value], location: str) -> None:
    inner = f"element of array {location}"
    element = _known(schema.value_schema, inner)
    for each in value:
        refuse_misfit(element, each, inner)


def _refuse_entries(schema: Schema, value: Mapping[Value, Value], location: str) -> None:
    of_key, of_value = f"key of map {location}", f"value of map {location}"
    key_schema, value_schema = _known(schema.key_schema, of_key), _known(schema.value_schema, of_value)
    for key, each in value.items():
        refuse_misfit(key_schema, key, of_key)
        refuse_misfit(value_schema, each, of_value)


def _known(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {location}")
    return schema


_INNER: Final[dict[Type, Callable[[Schema, Value, str], None]]] = {
    Type.STRUCT: _refuse_struct,
    Type.ARRAY: _refuse_elements,
    Type.MAP: _refuse_entries,
}
