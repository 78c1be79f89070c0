"""Transforms of the shape of a value: which fields it has, how deep, and how its schema is called."""

from collections.abc import Mapping
from typing import Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.data.java_classes import class_name, schema_type
from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import ConfigError, DataError
from pkafka.connect.transforms.interface import R
from pkafka.connect.transforms.requirements import (
    REPLACE_NULL,
    SchemaCache,
    copy_basics,
    field_value,
    require_map,
    require_schema,
    require_struct,
    with_replace_null,
)
from pkafka.connect.transforms.sides import PACKAGE, OnKey, OnValue, Sided
from pkafka.java.text import split

_DEPRECATED: Final = {"include": "whitelist", "exclude": "blacklist"}


def _renames(mappings: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for mapping in mappings:
        parts = split(mapping, ":")
        if len(parts) != 2:
            raise ConfigError.of("renames", mappings, f"Invalid rename mapping: {mapping}")
        found[parts[0]] = parts[1]
    return found


def _check_renames(_name: str, value: Value) -> None:
    _renames(value)


class ReplaceField(Sided):
    """``ReplaceField``: some fields only, or under other names."""

    CONFIG = with_replace_null(
        ConfigDef()
        .define(
            "exclude",
            ConfigType.LIST,
            "",
            None,
            Importance.MEDIUM,
            "Fields to exclude. This takes precedence over the fields to include.",
        )
        .define("blacklist", ConfigType.LIST, None, None, Importance.LOW, "Deprecated. Use exclude instead.")
        .define(
            "include",
            ConfigType.LIST,
            "",
            None,
            Importance.MEDIUM,
            "Fields to include. If specified, only these fields will be used.",
        )
        .define("whitelist", ConfigType.LIST, None, None, Importance.LOW, "Deprecated. Use include instead.")
        .define("renames", ConfigType.LIST, "", _check_renames, Importance.MEDIUM, "Field rename mappings.")
    )
    _PURPOSE = "field replacement"

    def configure(self, configs: Mapping[str, Value]) -> None:
        """Take the settings; of a new name and a deprecated one, the new one counts.

        Raises:
            ConfigError: one is refused.
        """
        translated = {name: value for name, value in configs.items() if name not in _DEPRECATED.values()}
        for name, deprecated in _DEPRECATED.items():
            if deprecated in configs:
                translated.setdefault(name, configs[deprecated])
        super().configure(translated)

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._excluded, self._included = frozenset(parsed["exclude"]), frozenset(parsed["include"])
        self._renamed = _renames(parsed["renames"])
        self._original = {new: old for old, new in self._renamed.items()}
        self._replace_null: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache()

    def _keeps(self, name: str) -> bool:
        return name not in self._excluded and (not self._included or name in self._included)

    def apply(self, record: R) -> R | None:
        """The record with those fields.

        Raises:
            DataError: there are no fields, or two have the same name then.
        """
        schema, value = self._of(record)
        if value is None:
            return record
        if schema is None:
            fields = require_map(value, self._PURPOSE).items()
            kept = {self._renamed.get(name, name): each for name, each in fields if self._keeps(name)}
            return self._with(record, None, kept)
        struct = require_struct(value, self._PURPOSE, schema)
        made = self._schemas.get(struct.schema, self._reduced)
        updated = Struct(made)
        for field in made.fields:
            name = self._original.get(field.name, field.name)
            updated.put(field, struct.get(name) if self._replace_null else struct.get_without_default(name))
        return self._with(record, made, updated)

    def _reduced(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            if self._keeps(field.name):
                builder.field(self._renamed.get(field.name, field.name), field.schema)
        return builder.build()


class Flatten(Sided):
    """``Flatten``: fields of fields become fields, with names that say where they were."""

    CONFIG = ConfigDef().define(
        "delimiter",
        ConfigType.STRING,
        ".",
        None,
        Importance.MEDIUM,
        "Delimiter to insert between field names from the input record when generating field names for "
        "the output record",
    )
    _PURPOSE = "flattening"

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._delimiter: str = parsed["delimiter"]
        self._schemas = SchemaCache()

    def apply(self, record: R) -> R | None:
        """The record with all fields in one level.

        Raises:
            DataError: a value is of a type that cannot be a field, or two fields have the same name then.
        """
        schema, value = self._of(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[str, Value] = {}
            self._flatten_map(require_map(value, self._PURPOSE), "", flat)
            return self._with(record, None, flat)
        struct = require_struct(value, self._PURPOSE, schema)
        made = self._schemas.get(struct.schema, self._flattened)
        updated = Struct(made)
        self._flatten_struct(struct, "", updated)
        return self._with(record, made, updated)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _flatten_map(self, fields: Mapping[str, Value], prefix: str, flat: dict[str, Value]) -> None:
        for key, value in fields.items():
            name = self._name(prefix, key)
            if isinstance(value, Mapping):
                self._flatten_map(value, name, flat)
                continue
            type = schema_type(value)
            if value is not None and type is None:
                raise DataError(
                    f"Flatten transformation was passed a value of type class {class_name(value)} "
                    "which is not supported by Connect's data API"
                )
            if type is Type.STRUCT:
                raise DataError(
                    f"Flatten transformation does not support class {class_name(value)} for record "
                    f"without schemas "
                    f"(for field {name})."
                )
            flat[name] = value

    def _flattened(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        self._add_fields(schema, "", builder, schema.default, optional=schema.optional)
        return builder.build()

    def _add_fields(
        self, schema: Schema, prefix: str, builder: SchemaBuilder, parent: Struct | None, *, optional: bool
    ) -> None:
        """Add the fields of a struct: optional in one that is, with the default that the whole has."""
        for field in schema.fields:
            name = self._name(prefix, field.name)
            inner = field.schema
            default = inner.default
            if default is None and parent is not None:
                default = parent.get(field)
            if inner.type is Type.STRUCT:
                self._add_fields(inner, name, builder, default, optional=optional or inner.optional)
                continue
            if inner.type is Type.MAP:
                raise DataError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            flat = copy_basics(inner)
            if optional or inner.optional:
                flat.optional()
            if default is not None:
                flat.default(default)
            builder.field(name, flat)

    def _flatten_struct(self, struct: Struct | None, prefix: str, updated: Struct) -> None:
        if struct is None:
            return
        for field in struct.schema.fields:
            name = self._name(prefix, field.name)
            if field.schema.type is Type.STRUCT:
                self._flatten_struct(struct.get_of_type(field.name, Type.STRUCT), name, updated)
            else:
                updated.put(name, struct.get(field))


class SetSchemaMetadata(Sided):
    """``SetSchemaMetadata``: another name or version of the schema."""

    CONFIG = with_replace_null(
        ConfigDef()
        .define("schema.name", ConfigType.STRING, None, None, Importance.HIGH, "Schema name to set.")
        .define("schema.version", ConfigType.INT, None, None, Importance.HIGH, "Schema version to set.")
    )

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._name: str | None = parsed["schema.name"]
        self._version: int | None = parsed["schema.version"]
        self._schemas = SchemaCache()
        self._replace_null: bool = parsed[REPLACE_NULL]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")

    def apply(self, record: R) -> R | None:
        """The record with that schema.

        Raises:
            DataError: there is a value without a schema.
        """
        schema, value = self._of(record)
        if value is None and schema is None:
            return record
        made = self._schemas.get(require_schema(schema, "updating schema metadata"), self._renamed)
        return self._with(record, made, self._updated(value, made) if isinstance(value, Struct) else value)

    def _updated(self, value: Struct, schema: Schema) -> Struct:
        updated = Struct(schema)
        for field in schema.fields:
            updated.put(field, field_value(value, field, replace_null=self._replace_null))
        return updated

    def _renamed(self, schema: Schema) -> Schema:
        is_map = schema.type is Type.MAP
        return Schema(
            schema.type,
            optional=schema.optional,
            default=schema.default,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
            doc=schema.doc,
            parameters=schema.parameters,
            fields=schema.fields,  # refuses what is no struct, as in Java
            key_schema=schema.key_schema if is_map else None,
            value_schema=schema.value_schema if is_map or schema.type is Type.ARRAY else None,
        )


class ReplaceFieldKey(OnKey, ReplaceField):
    """``ReplaceField`` of keys."""

    JAVA_NAME = PACKAGE + "ReplaceField$Key"


class ReplaceFieldValue(OnValue, ReplaceField):
    """``ReplaceField`` of values."""

    JAVA_NAME = PACKAGE + "ReplaceField$Value"


class FlattenKey(OnKey, Flatten):
    """``Flatten`` of keys."""

    JAVA_NAME = PACKAGE + "Flatten$Key"


class FlattenValue(OnValue, Flatten):
    """``Flatten`` of values."""

    JAVA_NAME = PACKAGE + "Flatten$Value"


class SetSchemaMetadataKey(OnKey, SetSchemaMetadata):
    """``SetSchemaMetadata`` of keys."""

    JAVA_NAME = PACKAGE + "SetSchemaMetadata$Key"


class SetSchemaMetadataValue(OnValue, SetSchemaMetadata):
    """``SetSchemaMetadata`` of values."""

    JAVA_NAME = PACKAGE + "SetSchemaMetadata$Value"
