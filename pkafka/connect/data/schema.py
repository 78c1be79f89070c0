"""Schemas: the type of a value, whether it may be absent, and what it is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Self

from pkafka.connect.data.java_classes import equal_values
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError, SchemaBuilderError


class Schema:
    """``ConnectSchema``: immutable, equal to another that says the same.

    Made by :class:`SchemaBuilder`, or taken from the constants below, such as ``Schema.STRING``.

    Args:
        type: of the values.
        optional: whether None is a value.
        default: what stands for None, unless it is None.
        name: of a struct, or of a logical type.
        version: of what ``name`` names.
        doc: for people.
        parameters: of a logical type, as the scale of a decimal number.
        fields: of a struct.
        key_schema: of a map.
        value_schema: of a map or an array; None: all values are None.
    """

    JAVA_NAME: Final = "org.apache.kafka.connect.data.ConnectSchema"

    INT8: "Schema"
    INT16: "Schema"
    INT32: "Schema"
    INT64: "Schema"
    FLOAT32: "Schema"
    FLOAT64: "Schema"
    BOOLEAN: "Schema"
    STRING: "Schema"
    BYTES: "Schema"
    OPTIONAL_INT8: "Schema"
    OPTIONAL_INT16: "Schema"
    OPTIONAL_INT32: "Schema"
    OPTIONAL_INT64: "Schema"
    OPTIONAL_FLOAT32: "Schema"
    OPTIONAL_FLOAT64: "Schema"
    OPTIONAL_BOOLEAN: "Schema"
    OPTIONAL_STRING: "Schema"
    OPTIONAL_BYTES: "Schema"

    def __init__(
        self,
        type: Type,
        *,
        optional: bool = False,
        default: Value = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: "Sequence[Field]" = (),
        key_schema: "Schema | None" = None,
        value_schema: "Schema | None" = None,
    ) -> None:
        self.type: Final = type
        self.optional: Final = optional
        self.default: Final = default
        self.name: Final = name
        self.version: Final = version
        self.doc: Final = doc
        self.parameters: Final = None if parameters is None else dict(parameters)
        self._fields: Final = tuple(fields)
        self._key_schema: Final = key_schema
        self._value_schema: Final = value_schema
        self._by_name: Final = {field.name: field for field in self._fields}

    @property
    def fields(self) -> "tuple[Field, ...]":
        """The fields of a struct, in their order.

        Raises:
            DataError: it is no struct.
        """
        if self.type is not Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        return self._fields

    def field(self, name: str) -> "Field | None":
        """A field of a struct.

        Raises:
            DataError: it is no struct.
        """
        if self.type is not Type.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self._by_name.get(name)

    @property
    def key_schema(self) -> "Schema | None":
        """Of the keys of a map.

        Raises:
            DataError: it is no map.
        """
        if self.type is not Type.MAP:
            raise DataError("Cannot look up key schema on non-map type")
        return self._key_schema

    @property
    def value_schema(self) -> "Schema | None":
        """Of the values of a map or the elements of an array.

        Raises:
            DataError: it is neither.
        """
        if self.type is not Type.MAP and self.type is not Type.ARRAY:
            raise DataError("Cannot look up value schema on non-array and non-map type")
        return self._value_schema

    @cached_property
    def _content(self) -> tuple[object, ...]:
        parameters = None if self.parameters is None else frozenset(self.parameters.items())
        inner = (self._fields, self._key_schema, self._value_schema)
        return (self.type, self.optional, self.name, self.version, self.doc, parameters, *inner)

    @cached_property
    def _hash(self) -> int:
        return hash(self._content)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return (
            self._hash == other._hash
            and self._content == other._content
            and equal_values(self.default, other.default)
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"Schema{{{self.type}}}" if self.name is None else f"Schema{{{self.name}:{self.type}}}"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct, and its place there."""

    name: str
    index: int
    schema: Schema

    def __str__(self) -> str:
        return f"Field{{name={self.name}, index={self.index}, schema={self.schema}}}"


class SchemaAndValue(NamedTuple):
    """A value and what is known of it."""

    schema: Schema | None
    value: Value

    def __str__(self) -> str:
        from pkafka.connect.data.java_text import java_text

        return (
            f"SchemaAndValue{{schema={java_text(self.schema)}, value={java_text(self.value, self.schema)}}}"
        )


NULL: Final = SchemaAndValue(None, None)


class SchemaBuilder:
    """Describes a schema step by step; what was said cannot be said again.

    Args:
        type: of the values.
    """

    def __init__(self, type: Type) -> None:
        self._type = type
        self._optional: bool | None = None
        self._default: Value = None
        self._name: str | None = None
        self._version: int | None = None
        self._doc: str | None = None
        self._parameters: dict[str, str] | None = None
        self._fields: dict[str, Field] = {}
        self._key_schema: Schema | None = None
        self._value_schema: Schema | None = None

    @classmethod
    def int8(cls) -> Self:
        """Begin a schema of 8 bits."""
        return cls(Type.INT8)

    @classmethod
    def int16(cls) -> Self:
        """Begin a schema of 16 bits."""
        return cls(Type.INT16)

    @classmethod
    def int32(cls) -> Self:
        """Begin a schema of 32 bits."""
        return cls(Type.INT32)

    @classmethod
    def int64(cls) -> Self:
        """Begin a schema of 64 bits."""
        return cls(Type.INT64)

    @classmethod
    def float32(cls) -> Self:
        """Begin a schema of floats of 32 bits."""
        return cls(Type.FLOAT32)

    @classmethod
    def float64(cls) -> Self:
        """Begin a schema of floats of 64 bits."""
        return cls(Type.FLOAT64)

    @classmethod
    def bool(cls) -> Self:
        """Begin a schema of truth values."""
        return cls(Type.BOOLEAN)

    @classmethod
    def string(cls) -> Self:
        """Begin a schema of text."""
        return cls(Type.STRING)

    @classmethod
    def bytes(cls) -> Self:
        """Begin a schema of bytes."""
        return cls(Type.BYTES)

    @classmethod
    def struct(cls) -> Self:
        """Begin a schema of structs."""
        return cls(Type.STRUCT)

    @classmethod
    def array(cls, value_schema: "Schema | SchemaBuilder") -> Self:
        """Begin a schema of lists.

        Raises:
            SchemaBuilderError: there is no schema of the elements.
        """
        if value_schema is None:
            raise SchemaBuilderError("valueSchema cannot be null.")
        return cls._inner(Type.ARRAY, None, value_schema)

    @classmethod
    def map(cls, key_schema: "Schema | SchemaBuilder", value_schema: "Schema | SchemaBuilder") -> Self:
        """Begin a schema of maps.

        Raises:
            SchemaBuilderError: there is no schema of the keys or of the values.
        """
        if key_schema is None:
            raise SchemaBuilderError("keySchema cannot be null.")
        if value_schema is None:
            raise SchemaBuilderError("valueSchema cannot be null.")
        return cls._inner(Type.MAP, key_schema, value_schema)

    @classmethod
    def array_of_null(cls) -> Self:
        """Begin a schema of lists of which nothing is known but that they have no elements but None."""
        return cls._inner(Type.ARRAY, None, None)

    @classmethod
    def map_of_null(cls) -> Self:
        """Begin a schema of maps of which nothing is known."""
        return cls._inner(Type.MAP, None, None)

    @classmethod
    def map_with_null_values(cls, key_schema: "Schema | SchemaBuilder") -> Self:
        """Begin a schema of maps whose values are all None."""
        return cls._inner(Type.MAP, key_schema, None)

    @classmethod
    def _inner(
        cls,
        type: Type,
        key_schema: "Schema | SchemaBuilder | None",
        value_schema: "Schema | SchemaBuilder | None",
    ) -> Self:
        builder = cls(type)
        builder._key_schema = _built(key_schema)
        builder._value_schema = _built(value_schema)
        return builder

    @property
    def type(self) -> Type:
        """Of the values."""
        return self._type

    def optional(self) -> Self:
        """None is a value.

        Raises:
            SchemaBuilderError: that was said before, one way or the other.
        """
        return self._set_optional(optional=True)

    def required(self) -> Self:
        """None is no value, as it is when nothing is said.

        Raises:
            SchemaBuilderError: that was said before, one way or the other.
        """
        return self._set_optional(optional=False)

    def _set_optional(self, *, optional: "bool") -> Self:  # type: ignore[valid-type]  # not the method
        _refuse_second("optional", self._optional)
        self._optional = optional
        return self

    def default(self, value: Value) -> Self:
        """What stands for None.

        Raises:
            SchemaBuilderError: the value does not fit, or there is a default already.
        """
        from pkafka.connect.data.validation import validate_value

        _refuse_second("default", self._default)
        try:
            validate_value(self.build(), value)
        except DataError as error:
            raise SchemaBuilderError("Invalid default value") from error
        self._default = value
        return self

    def name(self, name: str | None) -> Self:
        """Of a struct, or of a logical type.

        Raises:
            SchemaBuilderError: it has one already.
        """
        _refuse_second("name", self._name)
        self._name = name
        return self

    def version(self, version: int | None) -> Self:
        """Of what the name names.

        Raises:
            SchemaBuilderError: it has one already.
        """
        _refuse_second("version", self._version)
        self._version = version
        return self

    def doc(self, doc: str | None) -> Self:
        """For people.

        Raises:
            SchemaBuilderError: it has one already.
        """
        _refuse_second("doc", self._doc)
        self._doc = doc
        return self

    def parameter(self, name: str, value: str) -> Self:
        """One parameter more, or another value of it."""
        self._parameters = {**(self._parameters or {}), name: value}
        return self

    def parameters(self, parameters: Mapping[str, str]) -> Self:
        """Some parameters more."""
        if parameters:
            self._parameters = {**(self._parameters or {}), **parameters}
        return self

    def field(self, name: str, schema: "Schema | SchemaBuilder") -> Self:
        """One field more of a struct.

        Raises:
            SchemaBuilderError: it is no struct, or has such a field.
        """
        if self._type is not Type.STRUCT:
            raise SchemaBuilderError(f"Cannot create fields on type {self._type}")
        if not name:
            raise SchemaBuilderError("fieldName cannot be null.")
        if schema is None:
            raise SchemaBuilderError(f"fieldSchema for field {name} cannot be null.")
        if name in self._fields:
            raise SchemaBuilderError(f"Cannot create field because of field name duplication {name}")
        built = schema if isinstance(schema, Schema) else schema.build()
        self._fields[name] = Field(name, len(self._fields), built)
        return self

    def build(self) -> Schema:
        """The schema as it is described now."""
        return Schema(
            self._type,
            optional=bool(self._optional),
            default=self._default,
            name=self._name,
            version=self._version,
            doc=self._doc,
            parameters=self._parameters,
            fields=tuple(self._fields.values()),
            key_schema=self._key_schema,
            value_schema=self._value_schema,
        )


def _built(schema: Schema | SchemaBuilder | None) -> Schema | None:
    return schema.build() if isinstance(schema, SchemaBuilder) else schema


def _refuse_second(what: str, value: object) -> None:
    if value is not None:
        raise SchemaBuilderError(f"Invalid SchemaBuilder call: {what} has already been set.")


for _type in Type:
    if _type.is_primitive:
        setattr(Schema, _type.name, Schema(_type))
        setattr(Schema, f"OPTIONAL_{_type.name}", Schema(_type, optional=True))
