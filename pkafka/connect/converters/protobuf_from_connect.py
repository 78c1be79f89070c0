"""Schemas and values of Connect as Confluent's ProtobufConverter has them: a file of Protobuf, and messages by it.

Pure: the file is a description of plain values, and messages are filled whose class somebody else has made.
"""

import datetime
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

from pkafka.connect.data.logical import MILLIS_PER_DAY, Date, Decimal, Time, Timestamp, to_millis
from pkafka.connect.data.schema import Field, Schema
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError

NAMESPACE: Final = "io.confluent.connect.protobuf"
ENUM: Final = f"{NAMESPACE}.Enum"
ENUM_PREFIX: Final = f"{ENUM}."
UNION_PREFIX: Final = f"{NAMESPACE}.Union."
TAG: Final = f"{NAMESPACE}.Tag"
DEFAULT_NAME: Final = "ConnectDefault"
ENTRY: Final = "Entry"
KEY: Final = "key"
VALUE: Final = "value"
CONNECT_TYPE: Final = "connect.type"
PRECISION: Final = "connect.decimal.precision"
SCALE: Final = "scale"

DECIMAL_TYPE: Final = "confluent.type.Decimal"
DATE_TYPE: Final = "google.type.Date"
TIME_TYPE: Final = "google.type.TimeOfDay"
TIMESTAMP_TYPE: Final = "google.protobuf.Timestamp"
META: Final = "confluent/meta.proto"
WRAPPERS: Final = "google/protobuf/wrappers.proto"

LOGICAL: Final[dict[str, tuple[str, str]]] = {
    Decimal.LOGICAL_NAME: (DECIMAL_TYPE, "confluent/type/decimal.proto"),
    Date.LOGICAL_NAME: (DATE_TYPE, "google/type/date.proto"),
    Time.LOGICAL_NAME: (TIME_TYPE, "google/type/timeofday.proto"),
    Timestamp.LOGICAL_NAME: (TIMESTAMP_TYPE, "google/protobuf/timestamp.proto"),
}
"""By the name of a logical type: its message, and the file that has it."""
_MESSAGE, _ENUM, _OPTIONAL, _REPEATED = 11, 14, 1, 3
_SCALARS: Final[dict[Type, tuple[int, str]]] = {
    Type.INT8: (5, "Int32Value"),
    Type.INT16: (5, "Int32Value"),
    Type.INT32: (5, "Int32Value"),
    Type.INT64: (3, "Int64Value"),
    Type.FLOAT32: (2, "FloatValue"),
    Type.FLOAT64: (1, "DoubleValue"),
    Type.BOOLEAN: (8, "BoolValue"),
    Type.STRING: (9, "StringValue"),
    Type.BYTES: (12, "BytesValue"),
}
"""Types of fields as ``FieldDescriptorProto.Type`` numbers them, and what they are wrapped in."""
_NO_LETTER_FIRST: Final = re.compile(r"[^A-Za-z]")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")

Description = dict[str, Any]
Message = Any
"""A message of the package protobuf, which this module fills."""


class ProtobufOptions(NamedTuple):
    """How schemas are converted.

    Args:
        full_names: whether structs are named by the full names of messages, with the package.
        scrubs: whether names are changed so that Protobuf can have them.
        optional: whether what may be null is an ``optional`` field, and the rest is required.
        wraps: whether it is a message of ``google/protobuf/wrappers.proto``, and the rest is required.
    """

    full_names: bool = False
    scrubs: bool = False
    optional: bool = False
    wraps: bool = False


def scrubbed(name: str) -> str:
    """A name as Protobuf can have it: one letter first, then letters, digits and underscores."""
    encoded = quote_plus(name, safe="*")
    if _NO_LETTER_FIRST.match(encoded):
        encoded = f"x{encoded}"
    return _NOT_IN_NAMES.sub("_", encoded)


class _Scope(NamedTuple):
    """A message that is being described.

    Args:
        full_name: with a dot before it.
        message: its description.
    """

    full_name: str
    message: Description


class FileFromConnect:
    """Makes the file of a schema of Connect. Used once.

    Args:
        options: how.
    """

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._defaults = 0
        self._imports: dict[str, None] = {}
        self._structs: dict[str, tuple[Schema, str]] = {}
        """Structs that have a name: their schemas and messages."""

    def convert(self, schema: Schema) -> tuple[Description, str]:
        """The description of the file, and the full name of its message.

        Raises:
            DataError: the schema is no struct, or has what Protobuf has not: arrays of arrays, of maps or of unions.
        """
        if schema.type is not Type.STRUCT:
            raise DataError(
                f"Unsupported root schema of type {schema.type}: a message of Protobuf is a struct"
            )
        package, _dot, name = self._name(schema).rpartition(".")
        name = self._scrubbed(name)
        full_name = f"{package}.{name}" if package else name
        message: Description = {"name": name}
        if schema.name is not None:
            self._structs[schema.name] = (schema, f".{full_name}")
        self._fill(_Scope(f".{full_name}", message), schema)
        file: Description = {"name": f"{full_name}.proto", "message_type": [message]}
        if self._imports:
            file["dependency"] = list(self._imports)
        if package:
            file["package"] = package
        return file, full_name

    def _name(self, schema: Schema) -> str:
        if schema.name:
            return schema.name
        self._defaults += 1
        return f"{DEFAULT_NAME}{self._defaults}"

    def _scrubbed(self, name: str) -> str:
        return scrubbed(name) if self._options.scrubs else name

    def _unqualified(self, schema: Schema) -> str:
        return self._scrubbed(self._name(schema).rpartition(".")[2])

    def _fill(self, scope: _Scope, schema: Schema) -> None:
        """Describe the fields of a struct."""
        taken = {tag for each in _flat(schema) if (tag := _tag(each.schema)) is not None}
        number = 0

        def next_number(field: Field) -> int:
            nonlocal number
            told = _tag(field.schema)
            if told is not None:
                return told
            number += 1
            while number in taken:
                number += 1
            return number

        fields = scope.message.setdefault("field", [])
        for each in schema.fields:
            if not is_union(each.schema):
                fields.append(self._field(scope, each.schema, self._scrubbed(each.name), next_number(each)))
                continue
            oneofs = scope.message.setdefault("oneof_decl", [])
            oneofs.append({"name": self._scrubbed((each.schema.name or "").removeprefix(UNION_PREFIX))})
            for inner in each.schema.fields:
                made = self._field(scope, inner.schema, self._scrubbed(inner.name), next_number(inner))
                if made["label"] == _REPEATED:
                    raise DataError("A union of Protobuf has no lists and maps in it")
                fields.append({**made, "oneof_index": len(oneofs) - 1})
        self._mark_optional(scope, schema)

    def _mark_optional(self, scope: _Scope, schema: Schema) -> None:
        """Give each ``optional`` field its union of one, behind the others, as protoc does."""
        if not self._options.optional:
            return
        may_be_null = {
            self._scrubbed(each.name)
            for each in schema.fields
            if each.schema.optional and not is_union(each.schema)
        }
        oneofs = scope.message.setdefault("oneof_decl", [])
        for made in scope.message["field"]:
            if made["name"] in may_be_null and made["label"] == _OPTIONAL and "oneof_index" not in made:
                oneofs.append({"name": f"_{made['name']}"})
                made |= {"oneof_index": len(oneofs) - 1, "proto3_optional": True}

    def _field(self, scope: _Scope, schema: Schema, name: str, number: int) -> Description:
        label = _OPTIONAL
        if schema.type is Type.ARRAY:
            inner = schema.value_schema
            if inner is None or inner.type in (Type.ARRAY, Type.MAP) or is_union(inner):
                raise DataError("Array cannot be nested: Protobuf has no lists of lists, maps or unions")
            label, schema = _REPEATED, inner
        elif schema.type is Type.MAP:
            label = _REPEATED
        return {"name": name, "number": number, "label": label, **self._typed(scope, schema, name)}

    def _typed(self, scope: _Scope, schema: Schema, name: str) -> Description:
        logical = LOGICAL.get(schema.name or "")
        if logical is not None:
            return self._logical(schema, *logical)
        if schema.type is Type.STRUCT:
            return {"type": _MESSAGE, "type_name": self._struct(scope, schema, name)}
        if schema.type is Type.MAP:
            return {"type": _MESSAGE, "type_name": self._map(scope, schema)}
        if schema.type is Type.STRING and ENUM in (schema.parameters or {}):
            return {"type": _ENUM, "type_name": self._enum(scope, schema)}
        kind, wrapper = _SCALARS[schema.type]
        params: Description = {}
        if schema.type in (Type.INT8, Type.INT16):
            self._imports[META] = None
            params = {"params": {CONNECT_TYPE: schema.type.value}}
        if self._options.wraps and schema.optional:
            self._imports[WRAPPERS] = None
            return {"type": _MESSAGE, "type_name": f".google.protobuf.{wrapper}", **params}
        return {"type": kind, **params}

    def _logical(self, schema: Schema, message: str, file: str) -> Description:
        self._imports[file] = None
        made: Description = {"type": _MESSAGE, "type_name": f".{message}"}
        parameters = schema.parameters or {}
        told = {"precision": parameters.get(PRECISION), "scale": parameters.get(SCALE)}
        kept = {key: text for key, text in told.items() if text is not None}
        if message == DECIMAL_TYPE and kept:
            self._imports[META] = None
            made["params"] = kept
        return made

    def _struct(self, scope: _Scope, schema: Schema, field: str) -> str:
        """The message of a struct in another one, which is described where it is met first."""
        known = self._structs.get(schema.name or "")
        if known is not None and known[0].fields == schema.fields:
            return known[1]
        name = self._unqualified(schema)
        inner = _inner(scope, f"{name}Message" if name == field else name)
        if schema.name is not None and known is None:
            self._structs[schema.name] = (schema, inner.full_name)
        self._fill(inner, schema)
        return inner.full_name

    def _map(self, scope: _Scope, schema: Schema) -> str:
        if schema.key_schema is None or schema.value_schema is None:
            raise DataError("A map without schemas of its keys and values has none in Protobuf")
        inner = _inner(scope, entry_name(self._unqualified(schema)))
        inner.message["field"] = [
            self._field(inner, schema.key_schema, KEY, 1),
            self._field(inner, schema.value_schema, VALUE, 2),
        ]
        return inner.full_name

    def _enum(self, scope: _Scope, schema: Schema) -> str:
        parameters = schema.parameters or {}
        name = (
            self._unqualified(schema) if schema.name else self._scrubbed(parameters[ENUM].rpartition(".")[2])
        )
        values = [
            {"name": key.removeprefix(ENUM_PREFIX), "number": _whole(text)}
            for key, text in parameters.items()
            if key.startswith(ENUM_PREFIX)
        ]
        enums = scope.message.setdefault("enum_type", [])
        made = {"name": name, "value": values}
        if made not in enums:
            enums.append(made)
        return f"{scope.full_name}.{name}"


def _inner(scope: _Scope, name: str) -> _Scope:
    message: Description = {"name": name}
    scope.message.setdefault("nested_type", []).append(message)
    return _Scope(f"{scope.full_name}.{name}", message)


def entry_name(name: str) -> str:
    """The name of the message of a map's entries."""
    if "_" in name:
        name = "".join(each[:1].upper() + each[1:].lower() for each in name.split("_"))
    return name + ENTRY


def is_union(schema: Schema) -> bool:
    """Whether a struct stands for a ``oneof``."""
    return schema.type is Type.STRUCT and (schema.name or "").startswith(UNION_PREFIX)


def _flat(schema: Schema) -> list[Field]:
    return [
        inner
        for each in schema.fields
        for inner in (each.schema.fields if is_union(each.schema) else (each,))
    ]


def _tag(schema: Schema) -> int | None:
    found = (schema.parameters or {}).get(TAG)
    return None if found is None else _whole(found)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise DataError(f"{text} is no number of a field or of a symbol in Protobuf") from error


class MessageFiller:
    """Puts values into messages.

    Args:
        options: how.
    """

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def fill(self, message: Message, schema: Schema, struct: Value) -> None:
        """Put a struct into a message.

        Raises:
            DataError: the message has no such field, or the value is not of its schema.
        """
        if struct.schema.fields != schema.fields:
            raise DataError("Mismatching struct schema")
        for each in schema.fields:
            value = struct.get(each)
            if value is None:
                continue
            if not is_union(each.schema):
                self._put(message, each, value)
                continue
            for inner in each.schema.fields:
                member = value.get(inner)
                if member is not None:
                    self._put(message, inner, member)
                    break

    def _put(self, message: Message, field: Field, value: Value) -> None:
        name = scrubbed(field.name) if self._options.scrubs else field.name
        known = message.DESCRIPTOR.fields_by_name.get(name)
        if known is None:
            raise DataError(f"Cannot find field with name {name} in {message.DESCRIPTOR.full_name}")
        schema = field.schema
        try:
            if schema.type is Type.MAP:
                self._put_map(getattr(message, name), known.message_type, schema, value)
            elif schema.type is Type.ARRAY:
                self._put_list(getattr(message, name), known, schema.value_schema, value)
            elif known.message_type is not None:
                self._put_message(getattr(message, name), schema, value)
            else:
                setattr(message, name, _scalar(known, schema, value))
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"{name} of {message.DESCRIPTOR.full_name} cannot be {schema}: {error}"
            ) from error

    def _put_list(self, target: Any, known: Any, schema: Schema | None, value: Value) -> None:  # noqa: ANN401
        assert schema is not None
        for each in value:
            if each is None:
                raise DataError(f"A list of Protobuf has no null in it, {known.name} has")
            if known.message_type is not None:
                self._put_message(target.add(), schema, each)
            else:
                target.append(_scalar(known, schema, each))

    def _put_map(self, target: Any, entry: Any, schema: Schema, value: Value) -> None:  # noqa: ANN401
        of_key, of_value = (Field(name, 0, each) for name, each in _entry(schema))
        known = entry.fields_by_name[VALUE]
        is_map = entry.GetOptions().map_entry
        for key, each in value.items():
            if key is None or each is None:
                raise DataError("A map of Protobuf has no null in it")
            if not is_map:
                made = target.add()
                self._put(made, of_key, key)
                self._put(made, of_value, each)
            elif known.message_type is not None:
                self._put_message(target[key], of_value.schema, each)
            else:
                target[key] = _scalar(known, of_value.schema, each)

    def _put_message(self, message: Message, schema: Schema, value: Value) -> None:
        message.SetInParent()
        logical = _WRITTEN.get(schema.name or "")
        if logical is not None:
            logical(message, schema, value)
        elif schema.type is Type.STRUCT:
            self.fill(message, schema, value)
        else:
            message.value = bytes(value) if schema.type is Type.BYTES else value


def _entry(schema: Schema) -> tuple[tuple[str, Schema], tuple[str, Schema]]:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    return (KEY, schema.key_schema), (VALUE, schema.value_schema)


def _scalar(known: Any, schema: Schema, value: Value) -> Value:  # noqa: ANN401 - a descriptor of protobuf
    if known.enum_type is not None:
        told = (schema.parameters or {}).get(f"{ENUM_PREFIX}{value}")
        symbol = known.enum_type.values_by_name.get(value)
        if told is None and symbol is None:
            raise DataError(f"{known.enum_type.full_name} has no symbol {value}")
        return _whole(told) if told is not None else symbol.number
    return bytes(value) if schema.type is Type.BYTES else value


def _write_decimal(message: Message, _schema: Schema, value: Value) -> None:
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    message.value = unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, signed=True)
    message.precision = max(len(str(abs(unscaled))), 1)
    message.scale = -exponent


def _write_date(message: Message, _schema: Schema, value: Value) -> None:
    at = value.astimezone(datetime.UTC)
    if (at.hour, at.minute, at.second, at.microsecond) != (0, 0, 0, 0):
        raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
    message.year, message.month, message.day = at.year, at.month, at.day


def _write_time(message: Message, _schema: Schema, value: Value) -> None:
    millis = to_millis(value)
    if not 0 <= millis < MILLIS_PER_DAY:
        raise DataError("Time values must use number of millis greater than 0 and less than 86400000")
    seconds, rest = divmod(millis, 1000)
    message.hours, message.minutes, message.seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    message.nanos = rest * 1_000_000


def _write_timestamp(message: Message, _schema: Schema, value: Value) -> None:
    message.seconds, rest = divmod(to_millis(value), 1000)
    message.nanos = rest * 1_000_000


_WRITTEN: Final[Mapping[str, Any]] = {
    Decimal.LOGICAL_NAME: _write_decimal,
    Date.LOGICAL_NAME: _write_date,
    Time.LOGICAL_NAME: _write_time,
    Timestamp.LOGICAL_NAME: _write_timestamp,
}
