"""The types of Connect's schemas."""

from enum import Enum
from typing import Any, TypeAlias

Value: TypeAlias = Any
"""Any value of Connect; :mod:`pkafka.connect.data` says which classes of Python there are."""


class Type(Enum):
    """``Schema.Type``; a name is what Connect's errors print."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        """Whether its values are made of no other values."""
        return self not in _COMPOSED

    def __str__(self) -> str:
        return self.name

    # Members are compared by identity, and asked for as keys all the time; Enum's own hash is a call of Python.
    __hash__ = object.__hash__


_COMPOSED = frozenset({Type.ARRAY, Type.MAP, Type.STRUCT})
