"""Messages of Protobuf as values of Connect, as Confluent's ProtobufConverter maps them: pure, but for the messages."""

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pkafka.connect.converters.protobuf_from_connect import (
    CONNECT_TYPE,
    DATE_TYPE,
    DECIMAL_TYPE,
    ENTRY,
    ENUM,
    ENUM_PREFIX,
    KEY,
    PRECISION,
    SCALE,
    TAG,
    TIME_TYPE,
    TIMESTAMP_TYPE,
    UNION_PREFIX,
    VALUE,
    Message,
    ProtobufOptions,
    is_union,
)
from pkafka.connect.data.logical import Date, Decimal, Time, Timestamp, from_millis, unscaled_decimal
from pkafka.connect.data.schema import Field, Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError

Descriptor = Any
"""What the package protobuf knows of a message, a field or a ``oneof``."""

_SCALARS: Final[dict[int, Type]] = {
    **dict.fromkeys((5, 17, 15), Type.INT32),
    **dict.fromkeys((13, 7, 3, 4, 18, 6, 16), Type.INT64),
    2: Type.FLOAT32,
    1: Type.FLOAT64,
    8: Type.BOOLEAN,
    9: Type.STRING,
    12: Type.BYTES,
}
"""By the numbers of ``FieldDescriptorProto.Type``."""
_NARROW: Final = {"int8": Type.INT8, "int16": Type.INT16}
_WRAPPED: Final[dict[str, Type]] = {
    "google.protobuf.DoubleValue": Type.FLOAT64,
    "google.protobuf.FloatValue": Type.FLOAT32,
    "google.protobuf.Int64Value": Type.INT64,
    "google.protobuf.UInt64Value": Type.INT64,
    "google.protobuf.Int32Value": Type.INT32,
    "google.protobuf.UInt32Value": Type.INT64,
    "google.protobuf.BoolValue": Type.BOOLEAN,
    "google.protobuf.StringValue": Type.STRING,
    "google.protobuf.BytesValue": Type.BYTES,
}
_TIMES: Final[dict[str, Any]] = {DATE_TYPE: Date, TIME_TYPE: Time, TIMESTAMP_TYPE: Timestamp}
_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")
_LONG_END: Final = 1 << 63


class SchemaFromProtobuf:
    """Makes the schema of Connect of a message.

    Args:
        options: how.
        params: what Confluent's converters have noted of a field.
        is_repeated: whether a field may have several values.
    """

    def __init__(
        self,
        options: ProtobufOptions,
        params: Callable[[Descriptor], Mapping[str, str]],
        is_repeated: Callable[[Descriptor], bool],
    ) -> None:
        self._options = options
        self._params = params
        self._is_repeated = is_repeated
        self._outer: list[str] = []

    def convert(self, descriptor: Descriptor, version: int | None = None) -> Schema:
        """The schema of Connect.

        Args:
            version: that the registry gives it.

        Raises:
            DataError: the message has itself in it, which no schema of Connect can be.
        """
        made = self._struct(descriptor)
        return Schema(Type.STRUCT, name=made.name, version=version, fields=made.fields)

    def _struct(self, descriptor: Descriptor, parameters: Mapping[str, str] | None = None) -> Schema:
        if descriptor.full_name in self._outer:
            raise DataError(
                f"The message {descriptor.full_name} has itself in it, which no schema of Connect can be"
            )
        self._outer.append(descriptor.full_name)
        try:
            fields: list[Field] = []
            for oneof in real_oneofs(descriptor):
                fields.append(Field(union_field(oneof), len(fields), self._union(oneof)))
            for each in descriptor.fields:
                if real_oneof(each) is None:
                    fields.append(Field(each.name, len(fields), self._field(each)))
        finally:
            self._outer.pop()
        name = descriptor.full_name if self._options.full_names else descriptor.name
        return Schema(Type.STRUCT, optional=True, name=name, fields=fields, parameters=parameters)

    def _union(self, oneof: Descriptor) -> Schema:
        fields = [
            Field(each.name, index, _as_optional(self._field(each)))
            for index, each in enumerate(oneof.fields)
        ]
        return Schema(Type.STRUCT, optional=True, name=UNION_PREFIX + oneof.name, fields=fields)

    def _field(self, field: Descriptor) -> Schema:
        tag = {TAG: str(field.number)}
        message = field.message_type
        if message is not None and is_entry(message):
            return self._map(message, tag)
        repeated = self._is_repeated(field)
        made = self._single(field, {} if repeated else tag)
        if repeated:
            return Schema(Type.ARRAY, optional=True, value_schema=_as_optional(made), parameters=tag)
        if self._options.optional:
            return _as_optional(made) if is_optional(field) else made
        return made if self._options.wraps else _as_optional(made)

    def _map(self, message: Descriptor, tag: Mapping[str, str]) -> Schema:
        keys, values = (self._field(message.fields_by_name[name]) for name in (KEY, VALUE))
        return Schema(
            Type.MAP,
            optional=True,
            name=_WORDS.sub("_", message.name.removesuffix(ENTRY)).lower(),
            key_schema=keys,
            value_schema=values,
            parameters=tag,
        )

    def _single(self, field: Descriptor, tag: Mapping[str, str]) -> Schema:
        parameters = tag or None
        if field.enum_type is not None:
            symbols = {f"{ENUM_PREFIX}{each.name}": str(each.number) for each in field.enum_type.values}
            name = field.enum_type.name
            return Schema(Type.STRING, optional=True, name=name, parameters={ENUM: name, **symbols, **tag})
        message = field.message_type
        if message is None:
            kind = _SCALARS[field.type]
            narrow = _NARROW.get(self._params(field).get(CONNECT_TYPE, "")) if kind is Type.INT32 else None
            return Schema(narrow or kind, parameters=parameters)
        if message.full_name == DECIMAL_TYPE:
            return self._decimal(field, tag)
        if message.full_name in _TIMES:
            of_time = _TIMES[message.full_name].builder().build()
            return Schema(
                of_time.type, optional=True, name=of_time.name, version=of_time.version, parameters=parameters
            )
        wrapped = _WRAPPED.get(message.full_name) if self._options.wraps else None
        if wrapped is not None:
            return Schema(wrapped, optional=True, parameters=parameters)
        return self._struct(message, parameters)

    def _decimal(self, field: Descriptor, tag: Mapping[str, str]) -> Schema:
        told = self._params(field)
        made = Decimal.builder(_whole(told.get("scale")) or 0).build()
        precision = _whole(told.get("precision"))
        parameters = {SCALE: (made.parameters or {})[SCALE]}
        if precision is not None:
            parameters[PRECISION] = str(precision)
        return Schema(
            made.type, optional=True, name=made.name, version=made.version, parameters={**parameters, **tag}
        )


def _whole(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _as_optional(schema: Schema) -> Schema:
    if schema.optional:
        return schema
    return Schema(
        schema.type,
        optional=True,
        name=schema.name,
        version=schema.version,
        parameters=schema.parameters,
        fields=schema.fields if schema.type is Type.STRUCT else (),
    )


# -- descriptors --


def is_entry(message: Descriptor) -> bool:
    """Whether a message is an entry of a map."""
    names = [each.name for each in message.fields]
    return bool(message.name.endswith(ENTRY)) and names == [KEY, VALUE]


def is_optional(field: Descriptor) -> bool:
    """Whether a field of proto3 has the word ``optional``: then it is in a ``oneof`` of its own, which protoc names."""
    oneof = field.containing_oneof
    return oneof is not None and len(oneof.fields) == 1 and oneof.name == f"_{field.name}"


def real_oneof(field: Descriptor) -> Descriptor | None:
    """The ``oneof`` that somebody has written a field into."""
    return None if is_optional(field) else field.containing_oneof


def real_oneofs(message: Descriptor) -> list[Descriptor]:
    """Those of a message."""
    return [each for each in message.oneofs if not is_optional(each.fields[0])]


def union_field(oneof: Descriptor) -> str:
    """The name of the field that a ``oneof`` is in Connect."""
    return f"{oneof.name}_{oneof.index}"


# -- values --


class MessageReader:
    """Reads values out of messages.

    Args:
        options: how.
    """

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def struct(self, schema: Schema, message: Message) -> Struct:
        """A message as a struct.

        Raises:
            DataError: a date, a time or a number in it is none.
        """
        descriptor = message.DESCRIPTOR
        struct = Struct(schema)
        for oneof in real_oneofs(descriptor):
            chosen = message.WhichOneof(oneof.name)
            field = schema.field(union_field(oneof))
            assert field is not None
            inner = None if chosen is None else field.schema.field(chosen)
            if inner is not None:
                member = self._value(inner.schema, descriptor.fields_by_name[chosen], message)
                struct.put(field, Struct(field.schema).put(inner, member))
        for field in schema.fields:
            known = descriptor.fields_by_name.get(field.name)
            if (
                not is_union(field.schema)
                and known is not None
                and self._is_there(known, message, field.schema)
            ):
                struct.put(field, self._value(field.schema, known, message))
        return struct

    def _is_there(self, known: Descriptor, message: Message, schema: Schema) -> bool:
        if schema.type in (Type.ARRAY, Type.MAP):
            return True
        asks = known.message_type is not None or (self._options.optional and is_optional(known))
        return bool(message.HasField(known.name)) if asks else True

    def _value(self, schema: Schema, known: Descriptor, message: Message) -> Value:
        found = getattr(message, known.name)
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            return [self._single(schema.value_schema, known, each) for each in found]
        if schema.type is Type.MAP:
            return self._map(schema, known.message_type, found)
        return self._single(schema, known, found)

    def _map(self, schema: Schema, entry: Descriptor, found: Any) -> Value:  # noqa: ANN401
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        of_key, of_value = (entry.fields_by_name[name] for name in (KEY, VALUE))
        if entry.GetOptions().map_entry:
            return {
                self._single(schema.key_schema, of_key, key): self._single(
                    schema.value_schema, of_value, each
                )
                for key, each in found.items()
            }
        made: dict[Value, Value] = {}
        for each in found:
            key = self._value(schema.key_schema, of_key, each)
            try:
                made[key] = self._value(schema.value_schema, of_value, each)
            except TypeError:
                raise DataError("A list or a map cannot be the key of a map here") from None
        return made

    def _single(self, schema: Schema, known: Descriptor, found: Any) -> Value:  # noqa: ANN401
        if known.enum_type is not None:
            symbol = known.enum_type.values_by_number.get(found)
            return f"UNKNOWN_ENUM_VALUE_{known.enum_type.name}_{found}" if symbol is None else symbol.name
        if known.message_type is None:
            return _signed(found)
        logical = _READ.get(known.message_type.full_name)
        if logical is not None:
            return logical(found)
        if schema.type is not Type.STRUCT:
            return _signed(found.value)  # of a wrapper
        return self.struct(schema, found)


def _signed(found: Value) -> Value:
    """Java has no unsigned numbers: those of 64 bits that are larger than a long's are negative."""
    return found - 2 * _LONG_END if found.__class__ is int and found >= _LONG_END else found


def _read_decimal(message: Message) -> Value:
    return unscaled_decimal(int.from_bytes(message.value, signed=True), message.scale)


def _read_date(message: Message) -> Value:
    try:
        return datetime.datetime(message.year, message.month, message.day, tzinfo=datetime.UTC)
    except ValueError as error:
        raise DataError(f"A google.type.Date is no day: {error}") from error


def _read_time(message: Message) -> Value:
    try:
        at = datetime.time(message.hours, message.minutes, message.seconds, message.nanos // 1000)
    except ValueError as error:
        raise DataError(f"A google.type.TimeOfDay is no time: {error}") from error
    return from_millis(((at.hour * 60 + at.minute) * 60 + at.second) * 1000 + at.microsecond // 1000)


def _read_timestamp(message: Message) -> Value:
    return from_millis(message.seconds * 1000 + message.nanos // 1_000_000)


_READ: Final[Mapping[str, Callable[[Message], Value]]] = {
    DECIMAL_TYPE: _read_decimal,
    DATE_TYPE: _read_date,
    TIME_TYPE: _read_time,
    TIMESTAMP_TYPE: _read_timestamp,
}
