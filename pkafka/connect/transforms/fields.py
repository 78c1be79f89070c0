"""Transforms that take fields out, put them in, and move them about."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import non_empty_list
from pkafka.connect.data.java_classes import Int32
from pkafka.connect.data.logical import Timestamp, from_millis
from pkafka.connect.data.records import ConnectRecord
from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ArgumentError, ConfigError, DataError
from pkafka.connect.transforms.field_path import VERSION, FieldPath, with_version
from pkafka.connect.transforms.interface import R
from pkafka.connect.transforms.requirements import (
    REPLACE_NULL,
    SchemaCache,
    copy_basics,
    field_value,
    require_map,
    require_map_or_none,
    require_sink_record,
    require_struct,
    require_struct_or_none,
    with_replace_null,
)
from pkafka.connect.transforms.sides import PACKAGE, OnKey, OnValue, Settings, Sided

_SUFFIX: Final = (
    "Suffix with <code>!</code> to make this a required field, or <code>?</code> to keep it optional "
    "(the default)."
)
_INSERTIONS: Final = {
    "topic.field": f"Field name for Kafka topic. {_SUFFIX}",
    "partition.field": f"Field name for Kafka partition. {_SUFFIX}",
    "offset.field": f"Field name for Kafka offset - only applicable to sink connectors.<br/>{_SUFFIX}",
    "timestamp.field": f"Field name for record timestamp. {_SUFFIX}",
    "static.field": f"Field name for static data field. {_SUFFIX}",
    "static.value": "Static field value, if field name configured.",
}
_OPTIONAL_TIMESTAMP: Final = Timestamp.builder().optional().build()


class ExtractField(Sided):
    """``ExtractField``: one field stands for the whole."""

    CONFIG = with_version(
        with_replace_null(
            ConfigDef().define(
                "field",
                ConfigType.STRING,
                importance=Importance.MEDIUM,
                documentation="Field name to extract.",
            )
        )
    )
    _PURPOSE = "field extraction"

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._name: str = parsed["field"]
        self._path = FieldPath(self._name, parsed[VERSION])
        self._replace_null: bool = parsed[REPLACE_NULL]

    def apply(self, record: R) -> R | None:
        """The record with one field for the whole.

        Raises:
            DataError: the schema has no such field, or there are no fields.
        """
        schema, value = self._of(record)
        if schema is None:
            return self._with(
                record, None, self._path.value_in_map(require_map_or_none(value, self._PURPOSE))
            )
        struct = require_struct_or_none(value, self._PURPOSE, schema)
        field = self._path.field_of(schema)
        if field is None:
            raise ArgumentError(f"Unknown field: {self._name}")
        found = self._path.value_in_struct(struct, replace_null=self._replace_null)
        return self._with(record, field.schema, found)


class HoistField(Sided):
    """``HoistField``: the whole becomes one field."""

    CONFIG = ConfigDef().define(
        "field",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="Field name for the single field that will be created in the resulting Struct or Map.",
    )

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._name: str = parsed["field"]
        self._schemas = SchemaCache()

    def apply(self, record: R) -> R | None:
        """The record with the whole in one field.

        Raises:
            DataError: the value does not fit its schema.
        """
        schema, value = self._of(record)
        if schema is None:
            return self._with(record, None, {self._name: value})
        made = self._schemas.get(
            schema, lambda inner: SchemaBuilder.struct().field(self._name, inner).build()
        )
        return self._with(record, made, Struct(made).put(self._name, value))


class _Insertion(NamedTuple):
    name: str
    optional: bool

    @classmethod
    def of(cls, text: str | None) -> "_Insertion | None":
        if text is None:
            return None
        if text.endswith(("?", "!")):
            return cls(text[:-1], optional=text.endswith("?"))
        return cls(text, optional=True)


class InsertField(Sided):
    """``InsertField``: fields with what is known of the record, or with a fixed text."""

    CONFIG = with_replace_null(
        ConfigDef()
        .define("topic.field", ConfigType.STRING, None, None, Importance.MEDIUM, _INSERTIONS["topic.field"])
        .define(
            "partition.field",
            ConfigType.STRING,
            None,
            None,
            Importance.MEDIUM,
            _INSERTIONS["partition.field"],
        )
        .define("offset.field", ConfigType.STRING, None, None, Importance.MEDIUM, _INSERTIONS["offset.field"])
        .define(
            "timestamp.field",
            ConfigType.STRING,
            None,
            None,
            Importance.MEDIUM,
            _INSERTIONS["timestamp.field"],
        )
        .define("static.field", ConfigType.STRING, None, None, Importance.MEDIUM, _INSERTIONS["static.field"])
        .define("static.value", ConfigType.STRING, None, None, Importance.MEDIUM, _INSERTIONS["static.value"])
    )
    _PURPOSE = "field insertion"

    def _take(self, parsed: Mapping[str, Value]) -> None:
        names = ("topic", "partition", "offset", "timestamp", "static")
        specs = [_Insertion.of(parsed[f"{name}.field"]) for name in names]
        self._topic, self._partition, self._offset, self._timestamp, self._static = specs
        self._literal: str | None = parsed["static.value"]
        self._replace_null: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache()
        if not any(specs):
            raise ConfigError("No field insertion configured")
        if self._static is not None and self._literal is None:
            raise ConfigError.of(
                "static.value", None, f"No value specified for static field: {self._static.name}"
            )

    def apply(self, record: R) -> R | None:
        """The record with more fields; without fields it stays as it is.

        Raises:
            DataError: there are no fields to add to, or an offset is asked of a record that has none.
        """
        schema, value = self._of(record)
        if value is None:
            return record
        if schema is None:
            fields = require_map(value, self._PURPOSE)
            return self._with(record, None, {**fields, **dict(self._insertions(record))})
        return self._with_schema(record, schema, require_struct(value, self._PURPOSE, schema))

    def _with_schema(self, record: R, schema: Schema, value: Struct) -> R:
        made = self._schemas.get(value.schema, self._extended)
        updated = Struct(made)
        for field in value.schema.fields:
            updated.put(field.name, field_value(value, field, replace_null=self._replace_null))
        for name, each in self._insertions(record, times=from_millis):
            updated.put(name, each)
        return self._with(record, made, updated)

    def _insertions(
        self, record: ConnectRecord, *, times: Callable[[int], Value] = int
    ) -> list[tuple[str, Value]]:
        """Names and values to insert; a topic even when there is none.

        Args:
            times: makes the value of a timestamp.
        """
        offset = None if self._offset is None else require_sink_record(record, self._PURPOSE).offset
        pairs = [
            (self._topic, record.topic),
            (self._partition, None if record.partition is None else Int32(record.partition)),
            (self._offset, offset),
            (self._timestamp, None if record.timestamp is None else times(record.timestamp)),
            (self._static, self._literal),
        ]
        return [
            (spec.name, value)
            for spec, value in pairs
            if spec is not None and (value is not None or spec is self._topic)
        ]

    def _extended(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            builder.field(field.name, field.schema)
        for spec, required, optional in (
            (self._topic, Schema.STRING, Schema.OPTIONAL_STRING),
            (self._partition, Schema.INT32, Schema.OPTIONAL_INT32),
            (self._offset, Schema.INT64, Schema.OPTIONAL_INT64),
            (self._timestamp, Timestamp.SCHEMA, _OPTIONAL_TIMESTAMP),
            (self._static, Schema.STRING, Schema.OPTIONAL_STRING),
        ):
            if spec is not None:
                builder.field(spec.name, optional if spec.optional else required)
        return builder.build()


class ValueToKey(Settings):
    """``ValueToKey``: some fields of the value become the key."""

    JAVA_NAME = PACKAGE + "ValueToKey"
    CONFIG = with_replace_null(
        ConfigDef().define(
            "fields",
            ConfigType.LIST,
            validator=non_empty_list,
            importance=Importance.HIGH,
            documentation="Field names on the record value to extract as the record key.",
        )
    )
    _PURPOSE = "copying fields from value to key"

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._names: list[str] = parsed["fields"]
        self._replace_null: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache()

    def apply(self, record: R) -> R | None:
        """The record with a key of those fields.

        Raises:
            DataError: the value has no fields, or lacks one.
        """
        if record.value_schema is None:
            fields = require_map(record.value, self._PURPOSE)
            return record.new_record(key_schema=None, key={name: fields.get(name) for name in self._names})
        value = require_struct(record.value, self._PURPOSE, record.value_schema)
        schema = self._schemas.get(value.schema, self._key_schema)
        key = Struct(schema)
        for name in self._names:
            field = value.schema.field(name)
            assert field is not None
            key.put(name, field_value(value, field, replace_null=self._replace_null))
        return record.new_record(key_schema=schema, key=key)

    def _key_schema(self, schema: Schema) -> Schema:
        builder = SchemaBuilder.struct()
        for name in self._names:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            builder.field(name, field.schema)
        return builder.build()


class ExtractFieldKey(OnKey, ExtractField):
    """``ExtractField`` of keys."""

    JAVA_NAME = PACKAGE + "ExtractField$Key"


class ExtractFieldValue(OnValue, ExtractField):
    """``ExtractField`` of values."""

    JAVA_NAME = PACKAGE + "ExtractField$Value"


class HoistFieldKey(OnKey, HoistField):
    """``HoistField`` of keys."""

    JAVA_NAME = PACKAGE + "HoistField$Key"


class HoistFieldValue(OnValue, HoistField):
    """``HoistField`` of values."""

    JAVA_NAME = PACKAGE + "HoistField$Value"


class InsertFieldKey(OnKey, InsertField):
    """``InsertField`` of keys."""

    JAVA_NAME = PACKAGE + "InsertField$Key"


class InsertFieldValue(OnValue, InsertField):
    """``InsertField`` of values."""

    JAVA_NAME = PACKAGE + "InsertField$Value"
