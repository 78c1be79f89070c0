"""A value of named fields, each with a schema."""

from typing import Final, Self

from pkafka.connect.data.java_classes import equal_values
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.schema import Field, Schema
from pkafka.connect.data.types import Type, Value
from pkafka.connect.data.validation import validate_value
from pkafka.connect.errors import DataError


class Struct:
    """The values of one struct; what is put into it is held against the schema.

    Args:
        schema: of the struct.

    Raises:
        DataError: it is of another type.
    """

    JAVA_NAME: Final = "org.apache.kafka.connect.data.Struct"

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema) -> None:
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema: Final = schema
        self._values: list[Value] = [None] * len(schema.fields)

    def get(self, field: str | Field) -> Value:
        """The value of a field, or the default of its schema.

        Raises:
            DataError: the struct has no such field.
        """
        if isinstance(field, str):
            field = self._field(field)
        value = self._values[field.index]
        return field.schema.default if value is None else value

    __getitem__ = get

    def get_without_default(self, name: str) -> Value:
        """The value of a field; None when nothing was put there.

        Raises:
            DataError: the struct has no such field.
        """
        return self._values[self._field(name).index]

    def get_of_type(self, name: str, type: Type) -> Value:
        """The value of a field of a certain type, without its default: ``getInt8`` and its like.

        Raises:
            DataError: the struct has no such field, or it is of another type.
        """
        field = self._field(name)
        if field.schema.type is not type:
            raise DataError(f"Field '{name}' is not of type {type}")
        return self._values[field.index]

    def put(self, field: str | Field | None, value: Value) -> Self:
        """Give a field a value.

        Raises:
            DataError: the struct has no such field, or the value does not fit.
        """
        if field is None:
            raise DataError("field cannot be null.")
        if isinstance(field, str):
            field = self._field(field)
        validate_value(field.schema, value, field.name)
        self._values[field.index] = value
        return self

    def validate(self) -> None:
        """Refuse a struct that lacks values, or has wrong ones.

        Raises:
            DataError: it does.
        """
        for field, value in zip(self.schema.fields, self._values, strict=True):
            if value is None and (field.schema.optional or field.schema.default is not None):
                continue
            validate_value(field.schema, value, field.name)

    def _field(self, name: str) -> Field:
        found = self.schema.field(name)
        if found is None:
            raise DataError(f"{name} is not a valid field name")
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self is other or (self.schema == other.schema and equal_values(self._values, other._values))

    def __hash__(self) -> int:
        return hash((self.schema, repr(self)))

    def __str__(self) -> str:
        pairs = zip(self.schema.fields, self._values, strict=True)
        shown = (f"{each.name}={java_text(value, each.schema)}" for each, value in pairs if value is not None)
        return f"Struct{{{','.join(shown)}}}"

    __repr__ = __str__
