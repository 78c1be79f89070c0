"""Transforms of headers."""

from collections.abc import Mapping

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import non_empty_list, not_null, one_of
from pkafka.connect.data.headers import Headers
from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Value
from pkafka.connect.data.values import parse_string
from pkafka.connect.errors import ConfigError, NullError
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
from pkafka.connect.transforms.sides import PACKAGE, OnKey, OnValue, Settings, Sided


class DropHeaders(Settings):
    """``DropHeaders``: records without some headers."""

    JAVA_NAME = PACKAGE + "DropHeaders"
    CONFIG = ConfigDef().define(
        "headers",
        ConfigType.LIST,
        validator=non_empty_list,
        importance=Importance.HIGH,
        documentation="The name of the headers to be removed.",
    )

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._names = frozenset(parsed["headers"])

    def apply(self, record: R) -> R | None:
        """The record without them."""
        return record.new_record(
            headers=Headers(header for header in record.headers if header.key not in self._names)
        )


class InsertHeader(Settings):
    """``InsertHeader``: one header more, with what a text seems to be."""

    JAVA_NAME = PACKAGE + "InsertHeader"
    CONFIG = (
        ConfigDef()
        .define(
            "header",
            ConfigType.STRING,
            validator=not_null,
            importance=Importance.HIGH,
            documentation="The name of the header.",
        )
        .define(
            "value.literal",
            ConfigType.STRING,
            validator=not_null,
            importance=Importance.HIGH,
            documentation="The literal value that is to be set as the header value on all records.",
        )
    )

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._name: str = parsed["header"]
        self._literal = parse_string(parsed["value.literal"])

    def apply(self, record: R) -> R | None:
        """The record with it."""
        headers = record.headers.duplicate()
        return record.new_record(headers=headers.add(self._name, self._literal.value, self._literal.schema))


class HeaderFrom(Sided):
    """``HeaderFrom``: fields become headers."""

    CONFIG = with_replace_null(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            validator=non_empty_list,
            importance=Importance.HIGH,
            documentation="Field names in the record whose values are to be copied or moved to headers.",
        )
        .define(
            "headers",
            ConfigType.LIST,
            validator=non_empty_list,
            importance=Importance.HIGH,
            documentation="Header names, in the same order as the field names listed in the fields "
            "configuration property.",
        )
        .define(
            "operation",
            ConfigType.STRING,
            validator=one_of("move", "copy"),
            importance=Importance.HIGH,
            documentation="Either <code>move</code> if the fields are to be moved to the headers "
            "(removed from the "
            "key/value), or <code>copy</code> if the fields are to be copied to the headers (retained in "
            "the key/value).",
        )
    )

    def _take(self, parsed: Mapping[str, Value]) -> None:
        names, headers = parsed["fields"], parsed["headers"]
        if len(names) != len(headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._pairs: list[tuple[str, str]] = list(zip(names, headers, strict=True))
        self._names = frozenset(names)
        self._moves = parsed["operation"] == "move"
        self._purpose = f"header {parsed['operation']}"
        self._replace_null: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache()

    def apply(self, record: R) -> R | None:
        """The record with headers of fields.

        Raises:
            DataError: there are no fields, or the schema lacks one.
        """
        schema, value = self._of(record)
        headers = record.headers.duplicate()
        if schema is not None:
            struct = require_struct(value, self._purpose, schema)
            return self._with_schema(record, schema, struct, headers)
        fields = require_map(value, self._purpose)
        for name, header in self._pairs:
            headers.add(header, fields.get(name))
        kept = {name: each for name, each in fields.items() if not (self._moves and name in self._names)}
        return self._with(record, None, kept).new_record(headers=headers)

    def _with_schema(self, record: R, schema: Schema, value: Struct, headers: Headers) -> R:
        updated = value
        made = schema
        if self._moves:
            made = self._schemas.get(schema, self._without_moved)
            updated = Struct(made)
            for field in made.fields:
                updated.put(field, field_value(value, field, replace_null=self._replace_null))
        for name, header in self._pairs:
            moved = schema.field(name)
            if moved is None:
                raise NullError(
                    'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return '
                    "value of "
                    '"org.apache.kafka.connect.data.Schema.field(String)" is null'
                )
            headers.add(header, field_value(value, moved, replace_null=self._replace_null), moved.schema)
        return self._with(record, made, updated).new_record(headers=headers)

    def _without_moved(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            if field.name not in self._names:
                builder.field(field.name, field.schema)
        return builder.build()


class HeaderFromKey(OnKey, HeaderFrom):
    """``HeaderFrom`` of keys."""

    JAVA_NAME = PACKAGE + "HeaderFrom$Key"


class HeaderFromValue(OnValue, HeaderFrom):
    """``HeaderFrom`` of values."""

    JAVA_NAME = PACKAGE + "HeaderFrom$Value"
