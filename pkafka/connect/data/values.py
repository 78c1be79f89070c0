"""``Values``: from one value of Connect to another, to text, and from text."""

import base64
import datetime
import decimal
import re
from collections.abc import Mapping
from decimal import Decimal as Number
from typing import Final

from pkafka.connect.data.java_classes import class_name, is_number, is_struct, schema_type
from pkafka.connect.data.java_text import decimal_text, float_text, java_text, to_float32
from pkafka.connect.data.logical import (
    MILLIS_PER_DAY,
    Date,
    Decimal,
    Time,
    Timestamp,
    is_logical,
    to_millis,
)
from pkafka.connect.data.schema import NULL, Schema, SchemaAndValue, SchemaBuilder
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError, NullError, NumberFormatError, SchemaBuilderError
from pkafka.java.date_format import SimpleDateFormat
from pkafka.java.numbers import double_text

TIME_FORMAT: Final = SimpleDateFormat("HH:mm:ss.SSS'Z'")
DATE_FORMAT: Final = SimpleDateFormat("yyyy-MM-dd")
TIMESTAMP_FORMAT: Final = SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_LONG: Final = 1 << 63
_LARGEST_EXPONENT: Final = 400
"""Of a decimal number that is a double still, and of one that ends in so many zeros that no long has."""


def parse_string(text: str | None) -> SchemaAndValue:
    """``Values.parseString``: the value that a text seems to be; without a schema for ``null``."""
    # Imported late: a list in a text is made of values that are converted by this module.
    from pkafka.connect.data.values_parsing import parse

    return parse(text)


def _seeming(text: str) -> SchemaAndValue:
    """What a text seems to be.

    Raises:
        NullError: it says ``null``, which Java stumbles over.
    """
    parsed = parse_string(text)
    if parsed is NULL:
        raise NullError(
            'Cannot invoke "org.apache.kafka.connect.data.SchemaAndValue.value()" because "parsed" is null'
        )
    return parsed


def convert(to: Schema, schema: Schema | None, value: Value) -> Value:
    """``Values.convertTo``.

    Args:
        to: what is wanted.
        schema: of the value; None: unknown.

    Raises:
        DataError: the value cannot be had so.
    """
    if value is None:
        if to.optional:
            return None
        raise DataError("Unable to convert a null value to a schema that requires a value")
    if to.type is Type.STRING:
        return to_text(value, schema)
    if to.type in _BITS:
        return _to_integer(to, schema, value)
    if to.type is Type.BOOLEAN:
        return to_boolean(schema, value)
    if to.type is Type.FLOAT32:
        return to_float32(as_double(value, schema))
    if to.type is Type.FLOAT64:
        return as_double(value, schema)
    if to.type is Type.BYTES:
        return (
            to_decimal(to, schema, value)
            if is_logical(to, Decimal.LOGICAL_NAME)
            else _to_bytes(to, schema, value)
        )
    return _to_composed(to, schema, value)


def to_boolean(schema: Schema | None, value: Value) -> bool:
    """``Values.convertToBoolean``: of a text that it is, of a number whether it is not zero.

    Raises:
        DataError: it is neither.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        parsed = _seeming(value).value
        if isinstance(parsed, bool):
            return parsed
    return as_long(value, schema) != 0


def _to_integer(to: Schema, schema: Schema | None, value: Value) -> Value:
    if is_logical(to, Date.LOGICAL_NAME):
        return _to_date(to, schema, value)
    if is_logical(to, Time.LOGICAL_NAME):
        return _to_time(to, schema, value)
    if is_logical(to, Timestamp.LOGICAL_NAME):
        return _to_timestamp(to, schema, value)
    return wrap(as_long(value, schema), _BITS[to.type])


def to_integer(bits: int, schema: Schema | None, value: Value) -> int:
    """``Values.convertToByte`` and its like: the number, cut to so many bits.

    Raises:
        DataError: it is no number.
    """
    return wrap(as_long(value, schema), bits)


def _to_date(to: Schema, schema: Schema | None, value: Value) -> datetime.datetime:
    value = _seeming(value).value if isinstance(value, str) else value
    if isinstance(value, datetime.datetime):
        if schema is None or schema.name == Date.LOGICAL_NAME:
            return value
        if schema.name == Timestamp.LOGICAL_NAME:
            return Date.to_logical(to, _toward_zero(to_millis(value), MILLIS_PER_DAY))
    return Date.to_logical(to, wrap(as_long(value, schema), 32))


def _to_time(to: Schema, schema: Schema | None, value: Value) -> datetime.datetime:
    value = _seeming(value).value if isinstance(value, str) else value
    if isinstance(value, datetime.datetime):
        if schema is None or schema.name == Time.LOGICAL_NAME:
            return value
        if schema.name == Timestamp.LOGICAL_NAME:
            return Time.to_logical(to, to_millis(value) % MILLIS_PER_DAY)
    return Time.to_logical(to, wrap(as_long(value, schema), 32))


def _to_timestamp(to: Schema, schema: Schema | None, value: Value) -> datetime.datetime:
    value = _seeming(value).value if isinstance(value, str) else value
    if isinstance(value, datetime.datetime):
        if schema is None or schema.name == Timestamp.LOGICAL_NAME:
            return value
        if schema.name == Date.LOGICAL_NAME:
            return Timestamp.to_logical(to, Date.from_logical(schema, value) * MILLIS_PER_DAY)
        if schema.name == Time.LOGICAL_NAME:
            return Timestamp.to_logical(to, Time.from_logical(schema, value))
    return Timestamp.to_logical(to, as_long(value, schema))


def to_decimal(to: Schema, schema: Schema | None, value: Value) -> Number:
    """``Values.convertToDecimal``.

    Raises:
        DataError: it is none, and no bytes of one.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return Decimal.to_logical(to, bytes(value))
    if isinstance(value, Number):
        return value
    if is_number(value):
        return parse_decimal(double_text(float(value)))
    if isinstance(value, str):
        return parse_decimal(value)
    raise _unable(value, to, schema)


def _to_bytes(to: Schema, schema: Schema | None, value: Value) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Number):
        return Decimal.from_logical(to, value)
    raise _unable(value, to, schema)


def _to_composed(to: Schema, schema: Schema | None, value: Value) -> Value:
    if to.type is Type.STRUCT:
        if is_struct(value):
            return value
        raise _unable(value, to, schema)
    if isinstance(value, str):
        schema, value = _seeming(value)
    if isinstance(value, (list, tuple) if to.type is Type.ARRAY else Mapping):
        return value
    raise _unable(value, to, schema)


def _unable(value: Value, to: object, schema: Schema | None) -> DataError:
    type = None if schema is None else schema.type
    return DataError(
        f"Unable to convert {java_text(value, schema)} (class {class_name(value, type)}) to {to}"
    )


def as_long(value: Value, schema: Schema | None) -> int:
    """``Values.asLong``: of a number with a fraction, the whole part; of a date, what its schema makes of it.

    Raises:
        DataError: it is no number.
    """
    if isinstance(value, float):
        return _long_of_float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    cause: Exception | None = None
    if isinstance(value, str):
        try:
            return long_of_decimal(parse_decimal(value))
        except NumberFormatError as error:
            cause = error
    elif isinstance(value, Number):
        return long_of_decimal(value)
    if isinstance(value, datetime.datetime) and schema is not None:
        for kind in (Date, Time, Timestamp):
            if schema.name == kind.LOGICAL_NAME:
                return kind.from_logical(schema, value)
    raise _unable(value, "a number" if schema is None else schema, schema) from cause


def as_double(value: Value, schema: Schema | None) -> float:
    """``Values.asDouble``.

    Raises:
        DataError: it is no number.
    """
    if isinstance(value, str):
        try:
            return float(parse_decimal(value))
        except NumberFormatError:
            return float(as_long(value, schema))
    return float(value) if is_number(value) else float(as_long(value, schema))


def long_of_decimal(value: Number) -> int:
    """``BigDecimal.longValue``: the whole part, cut to 64 bits."""
    if value.is_zero() or value.adjusted() < 0:
        return 0
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    # So many zeros at the end leave none of the lowest 64 bits.
    return 0 if exponent > _LARGEST_EXPONENT else wrap(int(value), 64)


def _long_of_float(value: float) -> int:
    if value != value:
        return 0
    if abs(value) >= _LONG:
        return _LONG - 1 if value > 0 else -_LONG
    return int(value)


def wrap(number: int, bits: int) -> int:
    """The lowest bits of a number, with a sign: what a cast in Java leaves. The result is a plain ``int``."""
    half = 1 << (bits - 1)
    return int(number) if -half <= number < half else (number + half) % (2 * half) - half


def _toward_zero(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


_DECIMAL_DIGITS: Final = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)

_DECIMAL_TEXT: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,10})?")


def parse_decimal(text: str) -> Number:
    """``new BigDecimal(text)``.

    Raises:
        NumberFormatError: it is none.
    """
    # Python takes blanks, underscores, infinities and what is no number as well.
    if _DECIMAL_TEXT.fullmatch(text) is None:
        raise NumberFormatError(f"Character array is missing \"exponent\" mark 'e' or 'E'.: {text}")
    value = _DECIMAL_DIGITS.create_decimal(text)
    at = value.as_tuple().exponent
    if not isinstance(at, int) or not -(2**31) <= -at < 2**31:
        raise NumberFormatError("Scale out of range.")
    return value.copy_abs() if value.is_zero() else value


def to_text(value: Value, schema: Schema | None = None) -> str:
    """``Values.convertToString``: as JSON within lists and maps, base64 for bytes, ISO 8601 for times.

    Args:
        schema: of the value; with it, floats of 32 bits have their own digits.

    Raises:
        DataError: the value is of no class of Connect.
    """
    return value if isinstance(value, str) else _text(value, schema)


def _text(value: Value, schema: Schema | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, bool | int):
        return java_text(value)
    if isinstance(value, float):
        is_float = schema is not None and schema.type is Type.FLOAT32
        return float_text(value) if is_float else java_text(value)
    if isinstance(value, Number):
        return decimal_text(value)
    if isinstance(value, datetime.datetime):
        return date_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return _composed_text(value, schema)


def _composed_text(value: Value, schema: Schema | None) -> str:
    if is_struct(value):
        pairs = (
            (_text(each.name, None), _inner(value.get(each), each.schema)) for each in value.schema.fields
        )
        return "{" + ",".join(f"{name}:{text}" for name, text in pairs) + "}"
    if isinstance(value, list | tuple):
        inner = schema.value_schema if schema is not None and schema.type is Type.ARRAY else None
        return f"[{','.join(_inner(each, inner) for each in value)}]"
    if isinstance(value, Mapping):
        of_map = schema if schema is not None and schema.type is Type.MAP else None
        of_key, of_value = (of_map.key_schema, of_map.value_schema) if of_map else (None, None)
        return (
            "{"
            + ",".join(f"{_inner(key, of_key)}:{_inner(each, of_value)}" for key, each in value.items())
            + "}"
        )
    raise DataError(f"Failed to serialize unexpected value type {class_name(value)}: {java_text(value)}")


def _inner(value: Value, schema: Schema | None) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f'"{base64.b64encode(value).decode()}"'
    return _text(value, schema)


def date_text(value: datetime.datetime) -> str:
    """The text of a time: of the day below one day, else a date where there is no time of the day, else both."""
    millis = to_millis(value)
    if millis < MILLIS_PER_DAY:
        return TIME_FORMAT.format(millis)
    return (DATE_FORMAT if millis % MILLIS_PER_DAY == 0 else TIMESTAMP_FORMAT).format(millis)


def infer_schema(value: Value) -> Schema | None:
    """``Values.inferSchema``: None for what has none, as an empty list.

    Raises:
        SchemaBuilderError: all elements of a list, or all values of a map, are None.
    """
    if is_struct(value):
        found: Schema = value.schema
        return found
    type = schema_type(value)
    if type in (Type.ARRAY, Type.MAP) and not value:
        return None
    if type is Type.ARRAY:
        element = _common(value)
        return None if element is None else SchemaBuilder.array(element).build()
    if type is Type.MAP:
        keys, values = _common(value.keys()), _common(value.values())
        return None if keys is None or values is None else SchemaBuilder.map(keys, values).build()
    return None if type is None else Schema(type)


def _common(values: Value) -> Schema | None:
    known: Type | None = None
    optional = False
    for each in values:
        if each is None:
            optional = True
            continue
        found = infer_schema(each)
        if found is None or (known is not None and known is not found.type):
            return None
        known = found.type
    if known is None:
        # Apache Kafka Connect begins a schema of no type here.
        raise SchemaBuilderError("type cannot be null")
    return Schema(known, optional=optional)
