"""``ProtobufConverter``: structs as messages of Protobuf, with schemas that a Schema Registry has, as Confluent's."""

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

from pkafka.clients.registry import wire
from pkafka.clients.registry.client import SchemaReference, SchemaText
from pkafka.clients.registry.errors import UnavailableError
from pkafka.clients.registry.protobuf_schemas import (
    Message,
    ProtobufFile,
    file_of,
    is_repeated,
    load,
    params_of,
    place_of,
    read_file,
    text_of,
)
from pkafka.clients.registry.schema_ids import SchemaIds
from pkafka.clients.serialization import SerializationError
from pkafka.connect.config_def import ConfigDef, ConfigType
from pkafka.connect.converters.protobuf_from_connect import FileFromConnect, MessageFiller, ProtobufOptions
from pkafka.connect.converters.protobuf_to_connect import MessageReader, SchemaFromProtobuf
from pkafka.connect.converters.settings import with_type
from pkafka.connect.data.headers import Headers
from pkafka.connect.data.schema import NULL, Schema, SchemaAndValue
from pkafka.connect.data.types import Value
from pkafka.connect.data.validation import validate_value
from pkafka.connect.errors import ConfigError, DataError, RetriableError
from pkafka.connect.registry_converter import KEPT, Kept, registry_config, registry_ids, version_of

_OPTIONAL: Final = "optional.for.nullables"
_WRAPS: Final = "wrapper.for.nullables"
_SERIALIZED: Final = "serialized"
_SETTINGS: Final = (
    (
        "enhanced.protobuf.schema.support",
        ConfigType.BOOLEAN,
        False,
        "Name structs by the full names of messages, with the package.",
    ),
    ("scrub.invalid.names", ConfigType.BOOLEAN, False, "Change names so that Protobuf can have them."),
    (
        _OPTIONAL,
        ConfigType.BOOLEAN,
        False,
        "Let what may be null be an optional field, and the rest required.",
    ),
    (
        _WRAPS,
        ConfigType.BOOLEAN,
        False,
        "Let what may be null be a message of google/protobuf/wrappers.proto, and the rest required.",
    ),
)


class _Writer(NamedTuple):
    text: SchemaText
    message: Message
    place: bytes


class _Reader(NamedTuple):
    schema: Schema
    message: Message


class ProtobufConverter:
    """Converts keys and values."""

    JAVA_NAME: ClassVar[str] = "io.confluent.connect.protobuf.ProtobufConverter"
    CONFIG: ClassVar[ConfigDef] = registry_config(_SETTINGS)

    def __init__(self) -> None:
        self._ids: SchemaIds
        self._options = ProtobufOptions()
        self._own: Kept[Schema, _Writer]
        self._chosen: Kept[tuple[int, str], _Writer]
        self._readers: Kept[tuple[str, int, tuple[int, ...]], _Reader]

    def configure(self, configs: Mapping[str, Value], *, is_key: bool = False) -> None:
        """Take the settings.

        Raises:
            ConfigError: one is refused.
            ConnectError: protobuf is not installed.
        """
        parsed = self.CONFIG.parse(with_type(configs, is_key=is_key))
        self._options = ProtobufOptions(
            parsed["enhanced.protobuf.schema.support"],
            parsed["scrub.invalid.names"],
            parsed[_OPTIONAL],
            parsed[_WRAPS],
        )
        if self._options.optional and self._options.wraps:
            raise ConfigError.of(_WRAPS, "true", f"it cannot be together with {_OPTIONAL}")
        kept_max = parsed[KEPT]
        self._own, self._chosen, self._readers = Kept(kept_max), Kept(kept_max), Kept(kept_max)
        self._ids = registry_ids(configs, parsed, load, is_key=is_key)

    def from_connect(
        self, topic: str, _headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The bytes of a struct; none for no value.

        Raises:
            DataError: the value does not fit its schema, has none, or Protobuf has no such schema.
            RetriableError: the registry does not answer.
        """
        if value is None and (schema is None or schema.optional):
            return None
        if schema is None:
            raise DataError("ProtobufConverter needs values with a schema")
        validate_value(schema, value)
        if value is None:
            return None  # the schema has a default, which a message need not have
        try:
            schema_id, writer = self._writer(topic, schema)
            message = writer.message()
            MessageFiller(self._options).fill(message, schema, value)
            payload: bytes = message.SerializeToString(deterministic=True)
            if schema_id is None:
                schema_id = self._ids.id_of(self._subject(topic, writer.message), writer.text)
        except UnavailableError as error:
            raise RetriableError(_failed(topic, error, reads=False)) from error
        except SerializationError as error:
            raise DataError(_failed(topic, error, reads=False)) from error
        return wire.head(schema_id) + writer.place + payload

    def _writer(self, topic: str, schema: Schema) -> tuple[int | None, _Writer]:
        """What a value is written by, and its id where the configuration chooses it."""
        own = self._own.get(schema)
        if own is None:
            described, full_name = FileFromConnect(self._options).convert(schema)
            try:
                file = file_of(described)
            except (
                TypeError,
                ValueError,
            ) as error:  # a name that is no text of Unicode, a number of a field too large
                raise DataError(f"Protobuf has no such schema: {error}") from error
            own = self._own.keep(
                schema, _written_by(text_of(file), ProtobufFile(file, {}).message(full_name))
            )
        chosen = self._ids.chosen(self._subject(topic, own.message))
        if chosen is None:
            return None, own
        schema_id, full_name = chosen[0], own.message.DESCRIPTOR.full_name
        writer = self._chosen.get((schema_id, full_name))
        if writer is None:
            found = self._file(schema_id)
            named = full_name in {each.full_name for each in found.descriptor.message_types_by_name.values()}
            message = found.message(full_name) if named else found.at([0])
            writer = self._chosen.keep((schema_id, full_name), _written_by(chosen[1], message))
        return schema_id, writer

    def _subject(self, topic: str, message: Message) -> str:
        return self._ids.subject(topic, message.DESCRIPTOR.full_name)

    def _file(self, schema_id: int) -> ProtobufFile:
        client = self._ids.client

        def referred(reference: SchemaReference) -> SchemaText:
            return client.version(reference.subject, reference.version, format=_SERIALIZED).schema

        return read_file(client.schema_of(schema_id, format=_SERIALIZED), referred)

    def to_connect(self, topic: str, _headers: Headers | None, data: bytes | None) -> SchemaAndValue:
        """The struct of bytes that name their schema.

        Raises:
            DataError: they name none, or do not fit it.
            RetriableError: the registry does not answer.
        """
        if data is None:
            return NULL
        try:
            schema_id = wire.schema_id_of(data)
            indexes, position = wire.indexes_from_bytes(data, wire.SIZE)
            reader = self._reader(topic, schema_id, tuple(indexes))
        except UnavailableError as error:
            raise RetriableError(_failed(topic, error, reads=True)) from error
        except SerializationError as error:
            raise DataError(_failed(topic, error, reads=True)) from error
        try:
            message = reader.message.FromString(data[position:])
        except Exception as error:  # DecodeError, of the package
            raise DataError(_failed(topic, error, reads=True)) from error
        return SchemaAndValue(reader.schema, MessageReader(self._options).struct(reader.schema, message))

    def _reader(self, topic: str, schema_id: int, indexes: tuple[int, ...]) -> _Reader:
        known = self._readers.get((topic, schema_id, indexes))
        if known is None:
            message = self._file(schema_id).at(indexes)
            text = self._ids.client.schema_of(schema_id)
            version = version_of(self._ids, self._subject(topic, message), text)
            convert = SchemaFromProtobuf(self._options, params_of, is_repeated).convert
            found = _Reader(convert(message.DESCRIPTOR, version), message)
            known = self._readers.keep((topic, schema_id, indexes), found)
        return known

    def config(self) -> ConfigDef:
        """The settings that it knows."""
        return self.CONFIG

    def close(self) -> None:
        """Nothing is held."""


def _written_by(text: SchemaText, message: Message) -> _Writer:
    return _Writer(text, message, wire.indexes_to_bytes(place_of(message.DESCRIPTOR)))


def _failed(topic: str, error: Exception, *, reads: bool) -> str:
    return f"Failed to {'de' if reads else ''}serialize Protobuf data of topic {topic} : {error}"
