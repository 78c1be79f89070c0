"""``Cast``: fields, or the whole, as another type."""

import base64
import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal as Number
from typing import Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.data.java_classes import Float32, Int8, Int16, Int32, class_name, schema_type
from pkafka.connect.data.java_text import java_text, to_float32
from pkafka.connect.data.logical import Date, Time, Timestamp
from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.data.values import as_long, date_text, long_of_decimal, wrap
from pkafka.connect.errors import CastError, ConfigError, DataError
from pkafka.connect.transforms.interface import R
from pkafka.connect.transforms.requirements import (
    REPLACE_NULL,
    SchemaCache,
    copy_basics,
    field_value,
    require_map,
    require_struct,
    with_replace_null,
)
from pkafka.connect.transforms.sides import PACKAGE, OnKey, OnValue, Sided
from pkafka.java.numbers import parse_double, parse_integer
from pkafka.java.text import parse_boolean, split, trim

_OUTPUTS: Final = (
    Type.INT8,
    Type.INT16,
    Type.INT32,
    Type.INT64,
    Type.FLOAT32,
    Type.FLOAT64,
    Type.BOOLEAN,
    Type.STRING,
)
_INPUTS: Final = (*_OUTPUTS, Type.BYTES)
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_WITHOUT_SCHEMA: Final[dict[Type, Callable[[Value], Value]]] = {
    Type.INT8: Int8,
    Type.INT16: Int16,
    Type.INT32: Int32,
    Type.FLOAT32: Float32,
}


def _output_type(text: str) -> Type:
    type = Type.__members__.get(trim(text).upper())
    if type is None:
        # Apache Kafka takes the exception for the value, and the text for the key.
        raise ConfigError.of(
            f"Invalid type found in casting spec: {trim(text)}",
            "java.lang.IllegalArgumentException: "
            f"No enum constant org.apache.kafka.connect.data.Schema.Type.{trim(text).upper()}",
        )
    if type not in _OUTPUTS:
        raise ConfigError(
            f"Cast transformation does not support casting to {type}; supported types are "
            f"{java_text(list(_OUTPUTS))}"
        )
    return type


def _casts(mappings: list[str]) -> dict[str | None, Type]:
    """Types by fields; by None, that of the whole."""
    found: dict[str | None, Type] = {}
    for mapping in mappings:
        parts = split(mapping, ":")
        if len(parts) > 2:
            raise ConfigError.of("renames", mappings, f"Invalid rename mapping: {mapping}")
        if len(parts) < 2:
            found[None] = _output_type(parts[0] if parts else "")
            continue
        found[trim(parts[0])] = _output_type(parts[1])
    if None in found and len(mappings) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify a "
            "single cast in their spec"
        )
    return found


def _check_spec(_name: str, value: Value) -> None:
    if not value:
        raise ConfigError("Must specify at least one field to cast.")
    _casts(value)


class Cast(Sided):
    """``Cast``."""

    CONFIG = with_replace_null(
        ConfigDef().define(
            "spec",
            ConfigType.LIST,
            validator=_check_spec,
            importance=Importance.HIGH,
            documentation="List of fields and the type to cast them to of the form "
            "field1:type,field2:type to cast fields "
            "of Maps or Structs. A single type to cast the entire value. Valid types are int8, int16, "
            "int32, int64, "
            "float32, float64, boolean, and string. Note that binary fields can only be cast to string.",
        )
    )
    _PURPOSE = "cast types"

    def _take(self, parsed: Mapping[str, Value]) -> None:
        casts = _casts(parsed["spec"])
        self._whole = casts.get(None)
        self._casts = {name: type for name, type in casts.items() if name is not None}
        self._replace_null: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache()

    def apply(self, record: R) -> R | None:
        """The record with values of those types.

        Raises:
            DataError: a value cannot be one of its type.
        """
        schema, value = self._of(record)
        if value is None:
            return record
        if schema is None:
            return self._with(record, None, self._without_schema(value))
        made = self._schemas.get(schema, self._updated)
        if self._whole is not None:
            return self._with(record, made, cast(schema, value, self._whole))
        struct = require_struct(value, self._PURPOSE, schema)
        updated = Struct(made)
        for field in struct.schema.fields:
            each = field_value(struct, field, replace_null=self._replace_null)
            target = self._casts.get(field.name)
            updated.put(field.name, each if target is None else cast(field.schema, each, target))
        return self._with(record, made, updated)

    def _without_schema(self, value: Value) -> Value:
        if self._whole is not None:
            return cast(None, value, self._whole)
        updated = {**require_map(value, self._PURPOSE)}
        for name, type in self._casts.items():
            updated[name] = cast(None, updated.get(name), type)
        return updated

    def _updated(self, schema: Schema) -> Schema:
        if self._whole is not None:
            builder = copy_basics(schema, SchemaBuilder(self._whole))
        else:
            builder = copy_basics(schema, SchemaBuilder.struct())
            for field in schema.fields:
                target = self._casts.get(field.name)
                builder.field(
                    field.name, field.schema if target is None else _field_schema(field.schema, target)
                )
        if schema.optional:
            builder.optional()
        if schema.default is not None:
            builder.default(cast(schema, schema.default, builder.type))
        return builder.build()


def _field_schema(schema: Schema, target: Type) -> Schema:
    builder = SchemaBuilder(target)
    if schema.optional:
        builder.optional()
    if schema.default is not None:
        builder.default(cast(schema, schema.default, target))
    return builder.build()


def cast(schema: Schema | None, value: Value, target: Type) -> Value:
    """A value as one of another type; without a schema it is of the class of that type.

    Raises:
        DataError: it cannot be.
    """
    if value is None:
        return None
    type = schema_type(value) if schema is None else schema.type
    if type is None:
        raise DataError(
            f"Cast transformation was passed a value of type class {class_name(value)} "
            "which is not supported by Connect's data API"
        )
    if type not in _INPUTS:
        raise DataError(
            f"Cast transformation does not support casting from {type}; supported types are "
            f"{java_text(list(_INPUTS))}"
        )
    if target is Type.STRING:
        return _to_string(value, schema)
    if schema is not None and schema.name is not None:
        value = _encoded(schema, value)
    try:
        made = _convert(value, target)
    except ValueError as error:
        raise DataError(
            f"Value ({java_text(value, schema)}) was out of range for requested data type"
        ) from error
    return _WITHOUT_SCHEMA.get(target, _same)(made) if schema is None else made


def _same(value: Value) -> Value:
    return value


def _encoded(schema: Schema, value: Value) -> Value:
    for logical in (Date, Time, Timestamp):
        if schema.name == logical.LOGICAL_NAME:
            if not isinstance(value, datetime.datetime):
                raise CastError(f"class {class_name(value)} cannot be cast to class java.util.Date")
            return logical.from_logical(schema, value)
    return value


def _convert(value: Value, target: Type) -> Value:
    if isinstance(value, bool):
        return value if target is Type.BOOLEAN else _BOOLEANS[target](value)
    if isinstance(value, str):
        return _from_text(value, target)
    if not isinstance(value, int | float | Number):
        raise DataError(f"Unexpected type in Cast transformation: class {class_name(value)}")
    if target is Type.BOOLEAN:
        return wrap(as_long(value, None), 64) != 0
    if target is Type.FLOAT64:
        return float(value)
    if target is Type.FLOAT32:
        return to_float32(float(value))
    return _integer_of(value, _BITS[target])


_BOOLEANS: Final[dict[Type, Callable[[bool], Value]]] = {
    **dict.fromkeys(_BITS, int),
    Type.FLOAT32: float,
    Type.FLOAT64: float,
}


def _integer_of(value: Value, bits: int) -> int:
    if isinstance(value, float):
        # A double becomes an int before it becomes a short: too large is the largest, then cut.
        whole = as_long(value, None)
        if bits < 64:
            whole = max(-(2**31), min(2**31 - 1, whole))
        return wrap(whole, bits)
    return wrap(long_of_decimal(value) if isinstance(value, Number) else value, bits)


def _from_text(text: str, target: Type) -> Value:
    if target is Type.BOOLEAN:
        return parse_boolean(text)
    if target in _BITS:
        return parse_integer(text, _BITS[target])
    number = parse_double(text)
    return to_float32(number) if target is Type.FLOAT32 else number


def _to_string(value: Value, schema: Schema | None) -> str:
    if isinstance(value, datetime.datetime):
        return date_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return java_text(value, schema)


class CastKey(OnKey, Cast):
    """``Cast`` of keys."""

    JAVA_NAME = PACKAGE + "Cast$Key"


class CastValue(OnValue, Cast):
    """``Cast`` of values."""

    JAVA_NAME = PACKAGE + "Cast$Value"
