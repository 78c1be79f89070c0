"""Serializer and deserializer of JSON, whose bytes name a JSON Schema of a registry, as Confluent's do."""

import json
from collections.abc import Mapping
from typing import Any, Final

from pkafka.clients.registry import json_schemas, wire
from pkafka.clients.registry.client import JSON, SchemaReference, SchemaRegistryClient, SchemaText
from pkafka.clients.registry.json_schemas import JsonSchema
from pkafka.clients.registry.schema_ids import SchemaIds, client_of
from pkafka.clients.registry.settings import flag
from pkafka.clients.serialization import Deserializer, Headers, SerializationError, Serializer
from pkafka.errors import ConfigError

_VALIDATES: Final = "json.fail.invalid.schema"


class JsonSchemaSerializer(Serializer):
    """What the module json writes: dicts, lists, texts, numbers, truth values.

    Its schema is the one given here, else that of ``pkafka.{key,value}.json.schema``, else the one that
    ``use.latest.version`` or ``use.schema.id`` chooses. ``json.fail.invalid.schema`` holds values against it.

    Args:
        schema: of the values: JSON as text or as Python has it; None: see above.
        references: to schemas of the registry that it uses.
        client: of the registry; None: one that the client's configuration describes.
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | None = None,
        *,
        references: tuple[SchemaReference, ...] = (),
        client: SchemaRegistryClient | None = None,
    ) -> None:
        self._given = schema
        self._references = references
        self._client = client
        self._ids: SchemaIds | None = None
        self._validates = False
        self._own: tuple[SchemaText, JsonSchema] | None = None
        self._read: dict[int, JsonSchema] = {}

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        """Take the keys of the registry.

        Raises:
            ConfigError: one has a value that it cannot have, or the schema is none.
            PkafkaError: values are to be held against schemas, and jsonschema is not installed.
        """
        self._validates = _validates(configs)
        self._ids = SchemaIds(configs, is_key=is_key, client=self._client)
        given = self._given
        if given is None:
            given = configs.get(f"pkafka.{'key' if is_key else 'value'}.json.schema")  # type: ignore[assignment]
        if given is not None:
            parsed = _parsed(given) if isinstance(given, str) else given
            text = SchemaText(json.dumps(parsed, separators=(",", ":")), JSON, self._references)
            self._own = (text, JsonSchema(text, self._ids.client))

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        """The bytes of a value, after the id of its schema.

        Raises:
            SerializationError: JSON has no such value, it does not fit its schema, or there is none.
            RegistryError: the registry does not take the schema, or does not answer.
        """
        if data is None:
            return None
        ids = self._ids
        if ids is None:
            raise SerializationError("JsonSchemaSerializer has not been configured")
        own = self._own
        subject = ids.subject(topic, None if own is None else own[1].title)
        chosen = ids.chosen(subject)
        try:
            payload = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(f"The value cannot be written as JSON: {error}") from error
        if chosen is not None:
            self._hold(self._schema(*chosen), data)
            return wire.head(chosen[0]) + payload
        if own is None:
            raise SerializationError(
                "JsonSchemaSerializer needs a schema: give it one, or set use.latest.version and"
                " auto.register.schemas=false"
            )
        self._hold(own[1], data)  # before the schema is registered for a value that it does not have
        return wire.head(ids.id_of(subject, own[0])) + payload

    def _schema(self, schema_id: int, text: SchemaText) -> JsonSchema:
        known = self._read.get(schema_id)
        if known is None:
            assert self._ids is not None
            known = self._read[schema_id] = JsonSchema(text, self._ids.client)
        return known

    def _hold(self, schema: JsonSchema, data: object) -> None:
        if self._validates:
            schema.validate(data)


class JsonSchemaDeserializer(Deserializer):
    """The reverse of :class:`JsonSchemaSerializer`: what the module json reads.

    Args:
        client: of the registry; None: one that the client's configuration describes.
    """

    def __init__(self, *, client: SchemaRegistryClient | None = None) -> None:
        self._client = client
        self._validates = False
        self._schemas: dict[int, JsonSchema] = {}

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        """Take the keys of the registry.

        Raises:
            ConfigError: one has a value that it cannot have.
            PkafkaError: values are to be held against schemas, and jsonschema is not installed.
        """
        self._validates = _validates(configs)
        self._client = self._client or client_of(configs)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:  # noqa: ANN401
        """The value of bytes that name their schema.

        Raises:
            SerializationError: they name none, are no JSON, or do not fit it.
            RegistryError: the registry does not have the schema, or does not answer.
        """
        if data is None:
            return None
        schema = self._schema(wire.schema_id_of(data))
        try:
            value = json.loads(data[wire.SIZE :])
        except (ValueError, RecursionError) as error:
            raise SerializationError(f"The bytes are no JSON: {error}") from error
        if self._validates:
            schema.validate(value)
        return value

    def _schema(self, schema_id: int) -> JsonSchema:
        known = self._schemas.get(schema_id)
        if known is None:
            if self._client is None:
                raise SerializationError("JsonSchemaDeserializer has not been configured")
            known = self._schemas[schema_id] = JsonSchema(self._client.schema_of(schema_id), self._client)
        return known


def _validates(configs: Mapping[str, object]) -> bool:
    wanted = flag(configs, _VALIDATES, default=False)
    if wanted:
        json_schemas.load()
    return wanted


def _parsed(text: str) -> Any:  # noqa: ANN401 - it is JSON
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError("schema", "is not JSON", text) from error
