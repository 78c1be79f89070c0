"""What transforms ask of records, schemas that differ in little, and the settings that many transforms "
"have."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.data.java_classes import class_name
from pkafka.connect.data.records import ConnectRecord, SinkRecord
from pkafka.connect.data.schema import Field, Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError

REPLACE_NULL: Final = "replace.null.with.default"
_CACHED: Final = 16


def require_schema(schema: Schema | None, purpose: str) -> Schema:
    """A schema that is known.

    Raises:
        DataError: it is not.
    """
    if schema is None:
        raise DataError(f"Schema required for [{purpose}]")
    return schema


def require_map(value: Value, purpose: str) -> Mapping[str, Value]:
    """A map.

    Raises:
        DataError: it is something else.
    """
    if not isinstance(value, Mapping):
        raise DataError(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {class_name(value)}"
        )
    return value


def require_map_or_none(value: Value, purpose: str) -> Mapping[str, Value] | None:
    """A map, or None.

    Raises:
        DataError: it is something else.
    """
    return None if value is None else require_map(value, purpose)


def require_struct(value: Value, purpose: str, schema: Schema | None = None) -> Struct:
    """A struct.

    Args:
        schema: of the value, for the name of its class.

    Raises:
        DataError: it is something else.
    """
    if not isinstance(value, Struct):
        name = class_name(value, None if schema is None else schema.type)
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {name}")
    return value


def require_struct_or_none(value: Value, purpose: str, schema: Schema | None = None) -> Struct | None:
    """A struct, or None.

    Raises:
        DataError: it is something else.
    """
    return None if value is None else require_struct(value, purpose, schema)


def require_sink_record(record: ConnectRecord, purpose: str) -> SinkRecord:
    """A record of a sink.

    Raises:
        DataError: it is one of a source.
    """
    if not isinstance(record, SinkRecord):
        raise DataError(f"Only SinkRecord supported for [{purpose}], found: {class_name(record)}")
    return record


def copy_basics(source: Schema, builder: SchemaBuilder | None = None) -> SchemaBuilder:
    """``SchemaUtil.copySchemaBasics``: name, version, doc and parameters of a schema.

    Args:
        builder: of the copy; None: one of the same type.
    """
    if builder is None:
        builder = _of_same_type(source)
    builder.name(source.name).version(source.version).doc(source.doc)
    return builder if source.parameters is None else builder.parameters(source.parameters)


def _of_same_type(source: Schema) -> SchemaBuilder:
    if source.type is Type.ARRAY:
        return SchemaBuilder.array(source.value_schema)  # type: ignore[arg-type]  # the builder refuses None
    if source.type is Type.MAP:
        return SchemaBuilder.map(source.key_schema, source.value_schema)  # type: ignore[arg-type]  # as above
    return SchemaBuilder(source.type)


def field_value(struct: Struct, field: Field, *, replace_null: bool) -> Value:
    """The value of the field of that name.

    Args:
        field: of the struct, or of a schema made of the struct's.
        replace_null: whether its default stands for None.
    """
    return struct.get(field.name) if replace_null else struct.get_without_default(field.name)


def with_replace_null(config: ConfigDef) -> ConfigDef:
    """The same settings, and whether defaults stand for None (KIP-1040)."""
    return config.define(
        REPLACE_NULL,
        ConfigType.BOOLEAN,
        True,
        importance=Importance.MEDIUM,
        documentation="Whether to replace fields that have a default value and that are null to the "
        "default value. "
        "When set to true, the default value is used, otherwise null is used.",
    )


class SchemaCache:
    """Schemas that were made of others, the latest sixteen."""

    def __init__(self) -> None:
        self._made: OrderedDict[Schema, Schema] = OrderedDict()

    def get(self, schema: Schema, make: Callable[[Schema], Schema]) -> Schema:
        """What is made of a schema."""
        made = self._made.get(schema)
        if made is None:
            made = self._made[schema] = make(schema)
            if len(self._made) > _CACHED:
                self._made.popitem(last=False)
        return made
