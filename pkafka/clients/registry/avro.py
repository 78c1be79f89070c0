"""Serializer and deserializer of Avro, whose bytes name a schema of a registry, as Confluent's do."""

import json
from collections.abc import Mapping
from typing import Any, Final

from pkafka.clients.registry import wire
from pkafka.clients.registry.avro_schemas import AvroSchema, complete, load, parse_json
from pkafka.clients.registry.client import AVRO, SchemaReference, SchemaRegistryClient, SchemaText
from pkafka.clients.registry.schema_ids import SchemaIds, client_of
from pkafka.clients.serialization import Deserializer, Headers, SerializationError, Serializer

_OF_SCALARS: Final[dict[type, str]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
}


class AvroSerializer(Serializer):
    """Dicts and other values of Python as Avro, by fastavro's rules.

    Its schema is the one given here, else that of ``pkafka.{key,value}.avro.schema``, else the one that
    ``use.latest.version`` or ``use.schema.id`` chooses; text, bytes and single numbers need none.

    Args:
        schema: of the values: JSON as text or as Python has it; None: see above.
        references: to schemas of the registry that it uses.
        client: of the registry; None: one that the client's configuration describes.
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | list[Any] | None = None,
        *,
        references: tuple[SchemaReference, ...] = (),
        client: SchemaRegistryClient | None = None,
    ) -> None:
        self._given = schema
        self._references = references
        self._client = client
        self._ids: SchemaIds | None = None
        self._own: tuple[SchemaText, AvroSchema] | None = None
        self._scalars: dict[type, tuple[SchemaText, AvroSchema]] = {}
        self._read: dict[int, AvroSchema] = {}

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        """Take the keys of the registry.

        Raises:
            ConfigError: one has a value that it cannot have, or the schema is none.
            PkafkaError: fastavro is not installed.
        """
        load()
        self._ids = SchemaIds(configs, is_key=is_key, client=self._client)
        given = self._given
        if given is None:
            given = configs.get(f"pkafka.{'key' if is_key else 'value'}.avro.schema")  # type: ignore[assignment]
        if given is not None:
            parsed = parse_json(given) if isinstance(given, str) else given
            text = SchemaText(json.dumps(parsed, separators=(",", ":")), AVRO, self._references)
            self._own = (text, AvroSchema(complete(text, self._ids.client)))

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        """The bytes of a value, after the id of its schema.

        Raises:
            SerializationError: the value does not fit its schema, or there is none for it.
            RegistryError: the registry does not take the schema, or does not answer.
        """
        if data is None:
            return None
        ids = self._ids
        if ids is None:
            raise SerializationError("AvroSerializer has not been configured")
        own = self._own
        subject = ids.subject(topic, None if own is None else own[1].record)
        chosen = ids.chosen(subject)
        if chosen is not None:
            schema_id, text = chosen
            schema = self._read.get(schema_id)
            if schema is None:
                schema = self._read[schema_id] = AvroSchema(complete(text, ids.client))
            return wire.head(schema_id) + schema.encode(data)
        text, schema = own or self._of_scalar(data)
        payload = schema.encode(data)  # before the schema is registered for a value that it does not have
        return wire.head(ids.id_of(subject, text)) + payload

    def _of_scalar(self, data: object) -> tuple[SchemaText, AvroSchema]:
        kind = type(data)
        known = self._scalars.get(kind)
        if known is None:
            name = _OF_SCALARS.get(kind)
            if name is None:
                raise SerializationError(
                    f"A value of class {kind.__name__} needs a schema: give AvroSerializer one, or set"
                    " use.latest.version and auto.register.schemas=false"
                )
            known = self._scalars[kind] = (SchemaText(json.dumps(name)), AvroSchema(name))
        return known


class AvroDeserializer(Deserializer):
    """The reverse of :class:`AvroSerializer`: records become dicts.

    Args:
        schema: that values are to have, by Avro's rules for readers; None: that of their bytes.
        client: of the registry; None: one that the client's configuration describes.
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | list[Any] | None = None,
        *,
        client: SchemaRegistryClient | None = None,
    ) -> None:
        self._given = schema
        self._client = client
        self._reader: AvroSchema | None = None
        self._writers: dict[int, AvroSchema] = {}

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        """Take the keys of the registry.

        Raises:
            ConfigError: one has a value that it cannot have, or the schema is none.
            PkafkaError: fastavro is not installed.
        """
        load()
        self._client = self._client or client_of(configs)
        given = self._given
        if given is None:
            given = configs.get(f"pkafka.{'key' if is_key else 'value'}.avro.schema")  # type: ignore[assignment]
        if given is not None:
            self._reader = AvroSchema(parse_json(given) if isinstance(given, str) else given)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:  # noqa: ANN401
        """The value of bytes that name their schema.

        Raises:
            SerializationError: they name none, or do not fit it.
            RegistryError: the registry does not have the schema, or does not answer.
        """
        if data is None:
            return None
        schema_id = wire.schema_id_of(data)
        return self._writer(schema_id).decode(data[wire.SIZE :], self._reader)

    def _writer(self, schema_id: int) -> AvroSchema:
        known = self._writers.get(schema_id)
        if known is None:
            if self._client is None:
                raise SerializationError("AvroDeserializer has not been configured")
            text = self._client.schema_of(schema_id)
            if text.kind != AVRO:
                raise SerializationError(f"The schema {schema_id} is of {text.kind}, not of Avro")
            known = self._writers[schema_id] = AvroSchema(complete(text, self._client))
        return known
