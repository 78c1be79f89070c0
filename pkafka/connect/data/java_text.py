"""How Java prints a value: ``Object.toString``.

StringConverter writes it, so do file sinks, and errors of Connect show it.
"""

import datetime
import decimal
import struct
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pkafka.connect.data.java_classes import Float32
from pkafka.connect.data.types import Type
from pkafka.java.numbers import double_text

if TYPE_CHECKING:
    from pkafka.connect.data.schema import Schema

_FLOAT: Final = struct.Struct("<f")
_FLOAT_DIGITS: Final = range(1, 10)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def java_text(value: object, schema: "Schema | None" = None) -> str:
    """The text of a value.

    A ``byte[]`` has the address of its object in Java; here, a number made of its bytes.

    Args:
        schema: of the value, where it is known: floats of 32 bits have other digits.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        is_float = isinstance(value, Float32) or (schema is not None and schema.type is Type.FLOAT32)
        return float_text(value) if is_float else double_text(value)
    return _composed_text(value, schema)


def _composed_text(value: object, schema: "Schema | None") -> str:
    # A named tuple is no list; it has a text of its own.
    if isinstance(value, list) or value.__class__ is tuple:
        inner = schema.value_schema if schema is not None and schema.type is Type.ARRAY else None
        return f"[{', '.join(java_text(each, inner) for each in value)}]"
    if isinstance(value, Mapping):
        of_map = schema if schema is not None and schema.type is Type.MAP else None
        of_key, of_value = (None, None) if of_map is None else (of_map.key_schema, of_map.value_schema)
        pairs = (f"{java_text(key, of_key)}={java_text(each, of_value)}" for key, each in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, bytes):
        return f"[B@{zlib.crc32(value):x}"
    if isinstance(value, bytearray | memoryview):
        size = len(value)
        return f"java.nio.HeapByteBuffer[pos=0 lim={size} cap={size}]"
    if isinstance(value, datetime.datetime):
        return date_text(value)
    if isinstance(value, decimal.Decimal):
        return decimal_text(value)
    return str(value)


def float_text(value: float) -> str:
    """``Float.toString``: as few digits as tell it from the other floats of 32 bits."""
    if value != value or value in (float("inf"), float("-inf")) or value == 0:
        return double_text(value)
    rounded = to_float32(value)
    if rounded in (float("inf"), float("-inf")):
        return double_text(rounded)
    for digits in _FLOAT_DIGITS:
        shorter = float(f"{value:.{digits}g}")
        if to_float32(shorter) == rounded:
            return double_text(shorter)
    return double_text(rounded)


def to_float32(value: float) -> float:
    """``(float) value``: rounded to 32 bits; what is too large becomes infinite."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def decimal_text(value: decimal.Decimal) -> str:
    """``BigDecimal.toString``; a BigDecimal knows no negative zero."""
    return str(value.copy_abs() if value.is_zero() else value)


def date_text(value: datetime.datetime) -> str:
    """``java.util.Date.toString``, in UTC."""
    utc = value.astimezone(datetime.UTC)
    clock = f"{utc.hour:02}:{utc.minute:02}:{utc.second:02}"
    return f"{_DAYS[utc.weekday()]} {_MONTHS[utc.month - 1]} {utc.day:02} {clock} UTC {utc.year}"
