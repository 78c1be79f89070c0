"""Which class of Java a value of Python stands for.

It decides what a value without a schema is, and errors of Connect name it. Subclasses of ``int`` and ``float``
stand for the classes that have no counterpart in Python; with a schema they are not needed.
"""

import datetime
import decimal
from math import copysign
from typing import Final

from pkafka.connect.data.types import Type, Value

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1


class Int8(int):
    """A ``java.lang.Byte``."""

    __slots__ = ()


class Int16(int):
    """A ``java.lang.Short``."""

    __slots__ = ()


class Int32(int):
    """A ``java.lang.Integer``."""

    __slots__ = ()


class Float32(float):
    """A ``java.lang.Float``; the code that makes one has rounded it to 32 bits."""

    __slots__ = ()


_NAMES: Final[dict[type, str]] = {
    bool: "java.lang.Boolean",
    Int8: "java.lang.Byte",
    Int16: "java.lang.Short",
    Int32: "java.lang.Integer",
    Float32: "java.lang.Float",
    float: "java.lang.Double",
    str: "java.lang.String",
    bytes: "[B",
    bytearray: "java.nio.HeapByteBuffer",
    memoryview: "java.nio.HeapByteBuffer",
    list: "java.util.ArrayList",
    tuple: "java.util.ArrayList",
    dict: "java.util.HashMap",
    decimal.Decimal: "java.math.BigDecimal",
    datetime.datetime: "java.util.Date",
}
_TYPES: Final[dict[type, Type]] = {
    bool: Type.BOOLEAN,
    int: Type.INT64,
    Int8: Type.INT8,
    Int16: Type.INT16,
    Int32: Type.INT32,
    float: Type.FLOAT64,
    Float32: Type.FLOAT32,
    str: Type.STRING,
    bytes: Type.BYTES,
    bytearray: Type.BYTES,
    memoryview: Type.BYTES,
    list: Type.ARRAY,
    tuple: Type.ARRAY,
    dict: Type.MAP,
}
_OF_SCHEMA: Final[dict[Type | None, str]] = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
    Type.FLOAT32: "java.lang.Float",
}
_BITS: Final[dict[Type | None, int]] = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


def class_name(value: object, type: Type | None = None) -> str:
    """``value.getClass().getName()``.

    Args:
        type: that of the value's schema, where it is known: a plain ``int`` or ``float`` is of its class.
    """
    kind = value.__class__
    if kind is int:
        return _integer_name(value, type)  # type: ignore[arg-type]  # it is one
    if kind is float and type is Type.FLOAT32:
        return "java.lang.Float"
    name = _NAMES.get(kind)
    if name is not None:
        return name
    if value is None:
        return "null"
    named: str | None = getattr(kind, "JAVA_NAME", None)
    return named or next(
        (_NAMES[each] for each in kind.__mro__ if each in _NAMES), f"{kind.__module__}.{kind.__qualname__}"
    )


def _integer_name(value: int, type: Type | None) -> str:
    bits = _BITS.get(type)
    if bits is not None and -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        return _OF_SCHEMA.get(type, "java.lang.Long")
    return "java.lang.Long" if LONG_MIN <= value <= LONG_MAX else "java.math.BigInteger"


def schema_type(value: object) -> Type | None:
    """The type of a value that has no schema; None: Connect knows no type for its class, such as a date's."""
    kind = value.__class__
    found = _TYPES.get(kind)
    if found is not None:
        return found if kind is not int or LONG_MIN <= value <= LONG_MAX else None  # type: ignore[operator]
    if is_struct(value):
        return Type.STRUCT
    return next((_TYPES[each] for each in kind.__mro__ if each in _TYPES), None)


def is_struct(value: object) -> bool:
    """Whether it is a ``Struct``, whose module stands above this one."""
    return getattr(value.__class__, "JAVA_NAME", None) == "org.apache.kafka.connect.data.Struct"


def equal_values(one: Value, other: Value) -> bool:
    """``Objects.deepEquals``: NaN equals itself, 0.0 is not -0.0, and ``True`` is not 1."""
    if one is other:
        return True
    if isinstance(one, float) and isinstance(other, float):
        return one == other and copysign(1.0, one) == copysign(1.0, other) if one == one else other != other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal_values, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal_values(each, other[key]) for key, each in one.items())
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def is_number(value: object) -> bool:
    """Whether it is a ``Number``."""
    return isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)
