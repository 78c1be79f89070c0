"""Values of Connect as JSON, and JSON as values, by their schemas: the inside of JsonConverter."""

import base64
import datetime
import re
from collections.abc import Callable, Mapping
from decimal import Decimal as Number
from typing import Final

from pkafka.connect.converters.json_text import MISSING, shortest
from pkafka.connect.data.java_classes import class_name, schema_type
from pkafka.connect.data.java_text import to_float32
from pkafka.connect.data.logical import Date, Decimal, Time, Timestamp
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.data.validation import fits_type
from pkafka.connect.data.values import long_of_decimal, wrap
from pkafka.connect.errors import DataError

_BLANKS: Final = re.compile(r"[\x00-\x20]+")
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


class JsonValues:
    """How values are written and read.

    Args:
        replace_null: whether the default of a schema stands for null.
        numeric_decimals: whether decimals are numbers, and not base64.
    """

    def __init__(self, *, replace_null: bool = True, numeric_decimals: bool = False) -> None:
        self._replace_null = replace_null
        self._numeric_decimals = numeric_decimals
        self._composed: Final[dict[Type, Callable[[Schema | None, Value], Value]]] = {
            Type.ARRAY: self._list,
            Type.MAP: self._map,
            Type.STRUCT: self._struct,
        }
        self._read_composed: Final[dict[Type, Callable[[Schema | None, Value], Value]]] = {
            Type.ARRAY: self._read_list,
            Type.MAP: self._read_map,
            Type.STRUCT: self._read_struct,
        }

    # -- writing -------------------------------------------------------------------------------------------

    def to_json(self, schema: Schema | None, value: Value) -> Value:
        """``convertToJson``.

        Raises:
            DataError: the value does not fit its schema, or has a class of no schema.
        """
        if value is None:
            return self._null(schema)
        if schema is None:
            type = schema_type(value)
            if type is None:
                raise DataError(
                    f"Java class class {class_name(value)} does not have corresponding schema type."
                )
        else:
            logical = _TO_JSON.get(schema.name) if schema.name is not None else None
            if logical is not None:
                return logical(schema, value, self._numeric_decimals)
            type = schema.type
            if not fits_type(type, value):
                raise _misfit(type, value)
        composed = self._composed.get(type)
        return _scalar(type, value) if composed is None else composed(schema, value)

    def _null(self, schema: Schema | None) -> Value:
        if schema is None:
            return None
        if schema.default is not None and self._replace_null:
            return self.to_json(schema, schema.default)
        if schema.optional:
            return None
        raise DataError("Conversion error: null value for field that is required and has no default value")

    def _list(self, schema: Schema | None, value: Value) -> Value:
        element = None if schema is None else schema.value_schema
        return [self.to_json(element, each) for each in value]

    def _map(self, schema: Schema | None, value: Value) -> Value:
        key_schema = value_schema = None
        if schema is None:
            as_object = all(isinstance(key, str) for key in value)
        else:
            key_schema, value_schema = schema.key_schema, schema.value_schema
            as_object = key_schema is not None and key_schema.type is Type.STRING
        pairs = (
            (self.to_json(key_schema, key), self.to_json(value_schema, each)) for key, each in value.items()
        )
        if as_object:
            return {"null" if key is None else key: each for key, each in pairs}
        return [[key, each] for key, each in pairs]

    def _struct(self, schema: Schema | None, value: Value) -> Value:
        if value.schema != schema:
            raise DataError("Mismatching schema.")
        return {
            field.name: self.to_json(field.schema, value.get_without_default(field.name))
            for field in value.schema.fields
        }

    # -- reading -------------------------------------------------------------------------------------------

    def to_connect(self, schema: Schema | None, node: Value) -> Value:
        """``convertToConnect``.

        Raises:
            DataError: the JSON is not of the schema.
        """
        if schema is None:
            return self._without_schema(node)
        if node is None:
            if schema.default is not None and self._replace_null:
                return schema.default
            if schema.optional:
                return None
            raise DataError(f"Invalid null value for required {schema.type} field")
        logical = _FROM_JSON.get(schema.name) if schema.name is not None else None
        if logical is not None:
            return logical(schema, node)
        composed = self._read_composed.get(schema.type)
        return _SCALARS[schema.type](node) if composed is None else composed(schema, node)

    def _without_schema(self, node: Value) -> Value:
        kind = node.__class__
        if kind is int:
            return wrap(node, 64)
        if kind is dict:
            return {key: self._without_schema(value) for key, value in node.items()}
        if kind is list:
            return [self._without_schema(each) for each in node]
        if kind is float or kind is Number:
            return _double(node)
        return None if node is MISSING else node

    def _read_list(self, schema: Schema | None, node: Value) -> Value:
        assert schema is not None
        # Jackson has no elements in what is no list or object, and the values of an object.
        elements = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return [self.to_connect(schema.value_schema, each) for each in elements]

    def _read_map(self, schema: Schema | None, node: Value) -> Value:
        assert schema is not None
        key_schema, value_schema = schema.key_schema, schema.value_schema
        if key_schema is not None and key_schema.type is Type.STRING:
            if not isinstance(node, dict):
                raise DataError(
                    f"Maps with string fields should be encoded as JSON objects, but found {_node_type(node)}"
                )
            return {key: self.to_connect(value_schema, value) for key, value in node.items()}
        if not isinstance(node, list):
            raise DataError(
                f"Maps with non-string fields should be encoded as JSON array of tuples, but found {_node_type(node)}"
            )
        made: dict[Value, Value] = {}
        for entry in node:
            key, value = _pair(entry)
            try:
                made[self.to_connect(key_schema, key)] = self.to_connect(value_schema, value)
            except TypeError:
                raise DataError("A list or a map cannot be the key of a map here") from None
        return made

    def _read_struct(self, schema: Schema | None, node: Value) -> Value:
        assert schema is not None
        if not isinstance(node, dict):
            raise DataError(f"Structs should be encoded as JSON objects, but found {_node_type(node)}")
        made = Struct(schema)
        for field in schema.fields:
            made.put(field, self.to_connect(field.schema, node.get(field.name)))
        return made


def _pair(entry: Value) -> tuple[Value, Value]:
    if not isinstance(entry, list):
        raise DataError(f"Found invalid map entry instead of array tuple: {_node_type(entry)}")
    if len(entry) != 2:
        raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
    return entry[0], entry[1]


def _misfit(type: Type, value: Value) -> DataError:
    if type is Type.BYTES:
        return DataError(f"Invalid type for bytes type: class {class_name(value)}")
    return DataError(f"Invalid type for {type}: class {class_name(value)}")


def _scalar(type: Type, value: Value) -> Value:
    if type is Type.FLOAT32:
        return shortest(value)
    if type is Type.BYTES:
        return base64.b64encode(value).decode()
    return value


_NODE_TYPES: Final[dict[type, str]] = {
    bool: "BOOLEAN",
    int: "NUMBER",
    float: "NUMBER",
    Number: "NUMBER",
    str: "STRING",
    list: "ARRAY",
    dict: "OBJECT",
}


def _node_type(node: Value) -> str:
    names = {
        bool: "BOOLEAN",
        int: "NUMBER",
        float: "NUMBER",
        Number: "NUMBER",
        str: "STRING",
        list: "ARRAY",
        dict: "OBJECT",
    }
    return names.get(node.__class__, "NULL")


def _integer(bits: int) -> Callable[[Value], int]:
    least, end = -(1 << (bits - 1)), 1 << (bits - 1)

    def read(node: Value) -> int:
        # What is no number is 0 for Jackson.
        if node.__class__ is int:
            return node if least <= node < end else wrap(node, bits)
        return wrap(long_of_decimal(Number(node)), bits) if node.__class__ in (float, Number) else 0

    return read


def _double(node: Value) -> float:
    # Through a BigDecimal, which has no negative zero.
    return float(node) + 0.0 if node.__class__ in (int, float, Number) else 0.0


def _bytes(node: Value) -> bytes | None:
    if not isinstance(node, str):
        return None
    try:
        return _from_base64(node)
    except ValueError as error:
        raise DataError("Invalid bytes field") from error


def _from_base64(text: str) -> bytes:
    return base64.b64decode(_BLANKS.sub("", text), validate=True)


_SCALARS: Final[dict[Type, Callable[[Value], Value]]] = {
    Type.BOOLEAN: lambda node: node is True,
    **{type: _integer(bits) for type, bits in _BITS.items()},
    Type.FLOAT32: lambda node: to_float32(_double(node)),
    Type.FLOAT64: _double,
    Type.BYTES: _bytes,
    Type.STRING: lambda node: node if isinstance(node, str) else None,
}


def _decimal_to_json(schema: Schema, value: Value, numeric: bool) -> Value:
    if not isinstance(value, Number):
        raise DataError(f"Invalid type for Decimal, expected BigDecimal but was class {class_name(value)}")
    return value if numeric else base64.b64encode(Decimal.from_logical(schema, value)).decode()


def _time_to_json(
    name: str, from_logical: Callable[[Schema, datetime.datetime], int]
) -> Callable[[Schema, Value, bool], Value]:
    def convert(schema: Schema, value: Value, _numeric: bool) -> Value:
        if not isinstance(value, datetime.datetime):
            raise DataError(f"Invalid type for {name}, expected Date but was class {class_name(value)}")
        return from_logical(schema, value)

    return convert


def _decimal_from_json(schema: Schema, node: Value) -> Value:
    if isinstance(node, Number):
        return node
    if isinstance(node, int | float) and not isinstance(node, bool):
        return Number(node) if isinstance(node, int) else Number(repr(node))
    if isinstance(node, str):
        try:
            return Decimal.to_logical(schema, _from_base64(node))
        except (ValueError, DataError) as error:
            raise DataError("Invalid bytes for Decimal field") from error
    raise DataError(
        f"Invalid type for Decimal, underlying representation should be numeric or bytes but was {_node_type(node)}"
    )


def _time_from_json(
    name: str, to_logical: Callable[[Schema, int], datetime.datetime], bits: int, expected: str
) -> Callable[[Schema, Value], Value]:
    def convert(schema: Schema, node: Value) -> Value:
        if node.__class__ is not int or (bits == 32 and wrap(node, 32) != node):
            raise DataError(
                f"Invalid type for {name}, underlying representation should be {expected} but was {_node_type(node)}"
            )
        return to_logical(schema, wrap(node, bits))

    return convert


_TO_JSON: Final[Mapping[str, Callable[[Schema, Value, bool], Value]]] = {
    Decimal.LOGICAL_NAME: _decimal_to_json,
    Date.LOGICAL_NAME: _time_to_json("Date", Date.from_logical),
    Time.LOGICAL_NAME: _time_to_json("Time", Time.from_logical),
    Timestamp.LOGICAL_NAME: _time_to_json("Timestamp", Timestamp.from_logical),
}
_FROM_JSON: Final[Mapping[str, Callable[[Schema, Value], Value]]] = {
    Decimal.LOGICAL_NAME: _decimal_from_json,
    Date.LOGICAL_NAME: _time_from_json("Date", Date.to_logical, 32, "integer"),
    Time.LOGICAL_NAME: _time_from_json("Time", Time.to_logical, 32, "integer"),
    Timestamp.LOGICAL_NAME: _time_from_json("Timestamp", Timestamp.to_logical, 64, "integral"),
}
