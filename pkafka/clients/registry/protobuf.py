"""Serializer and deserializer of Protobuf's generated messages, whose bytes name a schema of a registry.

The schema is registered as the file's descriptor in base64, which registries take in the place of ``.proto`` text.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from pkafka.clients import plugins
from pkafka.clients.registry import wire
from pkafka.clients.registry.client import PROTOBUF, SchemaReference, SchemaRegistryClient, SchemaText
from pkafka.clients.registry.protobuf_schemas import load, place_of
from pkafka.clients.registry.schema_ids import SchemaIds
from pkafka.clients.serialization import Deserializer, Headers, SerializationError, Serializer
from pkafka.errors import ConfigError

_KNOWN: Final = ("google/protobuf/", "google/type/", "confluent/")
"""Files that every registry has."""


class ProtobufSerializer(Serializer):
    """Generated messages as Protobuf.

    Args:
        client: of the registry; None: one that the client's configuration describes.
    """

    def __init__(self, *, client: SchemaRegistryClient | None = None) -> None:
        self._client = client
        self._ids: SchemaIds | None = None
        self._schemas: dict[str, tuple[object, SchemaText, bytes]] = {}

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        """Take the keys of the registry.

        Raises:
            ConfigError: one has a value that it cannot have.
            PkafkaError: protobuf is not installed.
        """
        load()
        self._ids = SchemaIds(configs, is_key=is_key, client=self._client)

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        """The bytes of a message, after the id of its schema and its place there.

        Raises:
            SerializationError: it is no message of Protobuf, or lacks a required field.
            RegistryError: the registry does not take the schema, or does not answer.
        """
        if data is None:
            return None
        ids = self._ids
        if ids is None:
            raise SerializationError("ProtobufSerializer has not been configured")
        descriptor = getattr(data, "DESCRIPTOR", None)
        if descriptor is None or not hasattr(data, "SerializeToString"):
            raise SerializationError(f"A value of class {type(data).__name__} is no message of Protobuf")
        try:
            payload: bytes = data.SerializeToString()
        except Exception as error:  # EncodeError, of the package
            raise SerializationError(f"The message cannot be written: {error}") from error
        subject = ids.subject(topic, descriptor.full_name)
        chosen = ids.chosen(subject)
        known = self._schemas.get(descriptor.full_name)
        if known is None or known[0] is not descriptor.file:
            place = wire.indexes_to_bytes(place_of(descriptor))
            text = self._text(ids, descriptor.file) if chosen is None else chosen[1]
            known = self._schemas[descriptor.full_name] = (descriptor.file, text, place)
        schema_id = ids.id_of(subject, known[1]) if chosen is None else chosen[0]
        return wire.head(schema_id) + known[2] + payload

    def _text(self, ids: SchemaIds, file: Any) -> SchemaText:  # noqa: ANN401 - a descriptor of protobuf
        """The schema of a file; the files that it imports are registered, each as the subject of its name."""
        references = []
        for imported in file.dependencies:
            if imported.name.startswith(_KNOWN):
                continue
            inner = self._text(ids, imported)
            ids.id_of(imported.name, inner)
            version = ids.client.lookup(imported.name, inner, normalize=ids.normalizes).version
            references.append(SchemaReference(imported.name, imported.name, version))
        text = base64.standard_b64encode(file.serialized_pb).decode("ascii")
        return SchemaText(text, PROTOBUF, tuple(references))


class ProtobufDeserializer(Deserializer):
    """The reverse of :class:`ProtobufSerializer`.

    Args:
        message: the generated class; None: the one that ``specific.protobuf.{key,value}.type`` names as
            ``package.module_pb2.Class``.
    """

    def __init__(self, message: type[Any] | None = None) -> None:
        self._message = message

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        """Take the class.

        Raises:
            ConfigError: there is none.
            PkafkaError: protobuf is not installed.
        """
        load()
        if self._message is None:
            key = f"specific.protobuf.{'key' if is_key else 'value'}.type"
            named = configs.get(key)
            if named is None:
                raise ConfigError(key, "is missing; name the generated class as package.module_pb2.Class")
            self._message = type(plugins.load(key, named, methods=("FromString",)))

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:  # noqa: ANN401
        """The message of bytes that name their schema.

        Raises:
            SerializationError: they name none, or are no such message.
        """
        if data is None:
            return None
        if self._message is None:
            raise SerializationError("ProtobufDeserializer has not been configured")
        wire.schema_id_of(data)
        indexes, position = wire.indexes_from_bytes(data, wire.SIZE)
        descriptor = self._message.DESCRIPTOR
        if indexes != place_of(descriptor):
            raise SerializationError(
                f"The bytes are message {indexes} of their file, {descriptor.full_name} is {place_of(descriptor)}"
            )
        try:
            return self._message.FromString(data[position:])
        except Exception as error:  # DecodeError, of the package
            raise SerializationError(f"The bytes are no {descriptor.full_name}: {error}") from error
