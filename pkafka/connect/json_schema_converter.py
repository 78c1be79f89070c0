"""``JsonSchemaConverter``: values as JSON, with JSON Schemas that a Schema Registry has, as Confluent's converter."""

import json
from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

from pkafka.clients.registry import wire
from pkafka.clients.registry.client import JSON, SchemaText
from pkafka.clients.registry.errors import UnavailableError
from pkafka.clients.registry.json_schemas import JsonSchema, load
from pkafka.clients.registry.schema_ids import SchemaIds
from pkafka.clients.serialization import SerializationError
from pkafka.connect.config_def import ConfigDef, ConfigType
from pkafka.connect.converters import json_text
from pkafka.connect.converters.jsonschema_from_connect import (
    JsonSchemaOptions,
    SchemaToJsonSchema,
    ValuesOfJsonSchema,
)
from pkafka.connect.converters.jsonschema_to_connect import SchemaFromJsonSchema
from pkafka.connect.converters.settings import with_type
from pkafka.connect.data.headers import Headers
from pkafka.connect.data.schema import NULL, Schema, SchemaAndValue
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError, DataError, RetriableError
from pkafka.connect.errors import SerializationError as NoJsonError
from pkafka.connect.registry_converter import KEPT, Kept, registry_config, registry_ids, version_of

_VALIDATES: Final = "json.fail.invalid.schema"
_SETTINGS: Final = (
    (
        "object.additional.properties",
        ConfigType.BOOLEAN,
        True,
        "Let objects have more properties than the schema knows.",
    ),
    (
        "use.optional.for.nonrequired",
        ConfigType.BOOLEAN,
        False,
        "Take properties for optional that the schema does not list as required.",
    ),
    ("decimal.format", ConfigType.STRING, "BASE64", "How decimals are written: BASE64, or NUMERIC."),
    (_VALIDATES, ConfigType.BOOLEAN, False, "Refuse values that do not fit their JSON Schema."),
)


class _Writer(NamedTuple):
    text: SchemaText
    schema: JsonSchema


class _Reader(NamedTuple):
    schema: Schema
    of_json: JsonSchema


class JsonSchemaConverter:
    """Converts keys and values."""

    JAVA_NAME: ClassVar[str] = "io.confluent.connect.json.JsonSchemaConverter"
    CONFIG: ClassVar[ConfigDef] = registry_config(_SETTINGS)

    def __init__(self) -> None:
        self._ids: SchemaIds
        self._options = JsonSchemaOptions()
        self._values = ValuesOfJsonSchema()
        self._validates = False
        self._own: Kept[Schema, _Writer]
        self._chosen: Kept[int, JsonSchema]
        self._readers: Kept[tuple[str, int], _Reader]

    def configure(self, configs: Mapping[str, Value], *, is_key: bool = False) -> None:
        """Take the settings.

        Raises:
            ConfigError: one is refused.
            ConnectError: values are to be held against schemas, and jsonschema is not installed.
        """
        parsed = self.CONFIG.parse(with_type(configs, is_key=is_key))
        format_ = parsed["decimal.format"].upper()
        if format_ not in ("BASE64", "NUMERIC"):
            raise ConfigError.of("decimal.format", parsed["decimal.format"], "BASE64 or NUMERIC is expected")
        self._options = JsonSchemaOptions(
            parsed["object.additional.properties"],
            parsed["use.optional.for.nonrequired"],
            format_ == "NUMERIC",
        )
        self._values = ValuesOfJsonSchema(numeric_decimals=self._options.numeric_decimals)
        self._validates = parsed[_VALIDATES]
        kept_max = parsed[KEPT]
        self._own, self._chosen, self._readers = Kept(kept_max), Kept(kept_max), Kept(kept_max)
        self._ids = registry_ids(configs, parsed, load if self._validates else lambda: None, is_key=is_key)

    def from_connect(
        self, topic: str, _headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The bytes of a value; none for no value without a schema.

        Raises:
            DataError: the value does not fit its schema, has none, or JSON Schema has no such schema.
            RetriableError: the registry does not answer.
        """
        if schema is None and value is None:
            return None
        if schema is None:
            raise DataError(
                "JsonSchemaConverter needs values with a schema; JsonConverter writes those without"
            )
        try:
            node = self._values.to_json(schema, value)
            payload = json_text.write(node)
            return wire.head(self._id(topic, schema, payload)) + payload
        except UnavailableError as error:
            raise RetriableError(_failed(topic, error, reads=False)) from error
        except (SerializationError, NoJsonError) as error:
            raise DataError(_failed(topic, error, reads=False)) from error

    def _id(self, topic: str, schema: Schema, payload: bytes) -> int:
        """The id of the schema that a value is written by."""
        own = self._own.get(schema)
        if own is None:
            node = SchemaToJsonSchema(self._options).convert(schema)
            text = SchemaText(json_text.text_of(node), JSON)
            own = self._own.keep(schema, _Writer(text, JsonSchema(text, self._ids.client)))
        subject = self._ids.subject(topic, own.schema.title)
        chosen = self._ids.chosen(subject)
        if chosen is None:
            self._hold(
                own.schema, payload
            )  # before the schema is registered for a value that it does not have
            return self._ids.id_of(subject, own.text)
        schema_id, text = chosen
        known = self._chosen.get(schema_id)
        if known is None:
            known = self._chosen.keep(schema_id, JsonSchema(text, self._ids.client))
        self._hold(known, payload)
        return schema_id

    def _hold(self, schema: JsonSchema, payload: bytes) -> None:
        if self._validates:
            schema.validate(json.loads(payload))

    def to_connect(self, topic: str, _headers: Headers | None, data: bytes | None) -> SchemaAndValue:
        """The value of bytes that name their schema.

        Raises:
            DataError: they name none, or do not fit it.
            RetriableError: the registry does not answer.
        """
        if data is None:
            return NULL
        try:
            reader = self._reader(topic, wire.schema_id_of(data))
            payload = data[wire.SIZE :]
            self._hold(reader.of_json, payload)
            node = json_text.read(json_text.decode(payload), exactly=True)
        except UnavailableError as error:
            raise RetriableError(_failed(topic, error, reads=True)) from error
        except (SerializationError, NoJsonError, ValueError) as error:
            raise DataError(_failed(topic, error, reads=True)) from error
        if node is json_text.MISSING:
            return NULL
        return SchemaAndValue(reader.schema, self._values.to_connect(reader.schema, node))

    def _reader(self, topic: str, schema_id: int) -> _Reader:
        known = self._readers.get((topic, schema_id))
        if known is None:
            text = self._ids.client.schema_of(schema_id)
            found = JsonSchema(text, self._ids.client)
            version = version_of(self._ids, self._ids.subject(topic, found.title), text)
            schema = SchemaFromJsonSchema(found.resolve, self._options).convert(found.root.node, version)
            known = self._readers.keep((topic, schema_id), _Reader(schema, found))
        return known

    def config(self) -> ConfigDef:
        """The settings that it knows."""
        return self.CONFIG

    def close(self) -> None:
        """Nothing is held."""


def _failed(topic: str, error: Exception, *, reads: bool) -> str:
    return f"Failed to {'de' if reads else ''}serialize JSON Schema data of topic {topic} : {error}"
