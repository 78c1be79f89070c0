"""``AvroConverter``: values as Avro, with schemas that a Schema Registry has, as Confluent's converter writes them."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from pkafka.clients.registry import wire
from pkafka.clients.registry.avro_schemas import AvroSchema, complete, load
from pkafka.clients.registry.client import AVRO, SchemaText
from pkafka.clients.registry.errors import UnavailableError
from pkafka.clients.registry.schema_ids import SchemaIds
from pkafka.clients.serialization import SerializationError
from pkafka.connect.config_def import ConfigDef, ConfigType
from pkafka.connect.converters.avro_from_connect import AvroOptions, SchemaToAvro, value_to_avro
from pkafka.connect.converters.avro_to_connect import SchemaFromAvro, anything_from_avro, value_from_avro
from pkafka.connect.converters.avro_types import ANYTHING_NAME, AvroTypes
from pkafka.connect.converters.settings import with_type
from pkafka.connect.data.headers import Headers
from pkafka.connect.data.schema import NULL, Schema, SchemaAndValue
from pkafka.connect.data.types import Value
from pkafka.connect.data.validation import validate_value
from pkafka.connect.errors import DataError, RetriableError
from pkafka.connect.registry_converter import (
    KEPT,
    Kept,
    record_name,
    registry_config,
    registry_ids,
    version_of,
)

_SETTINGS: Final = (
    (
        "enhanced.avro.schema.support",
        ConfigType.BOOLEAN,
        False,
        "Keep enums as enums, and name members of unions by their full names.",
    ),
    (
        "connect.meta.data",
        ConfigType.BOOLEAN,
        True,
        "Let names, versions, defaults and documentation of Connect go along in the schemas.",
    ),
)


class _Writer(NamedTuple):
    text: SchemaText
    types: AvroTypes
    for_bytes: AvroSchema


class _Reader(NamedTuple):
    types: AvroTypes
    schema: Schema | None
    for_bytes: AvroSchema


class AvroConverter:
    """Converts keys and values."""

    JAVA_NAME: ClassVar[str] = "io.confluent.connect.avro.AvroConverter"
    CONFIG: ClassVar[ConfigDef] = registry_config(_SETTINGS)

    def __init__(self) -> None:
        self._ids: SchemaIds
        self._options = AvroOptions()
        self._own: Kept[Schema | None, _Writer]
        self._chosen: Kept[int, _Writer]
        self._readers: Kept[tuple[str, int], _Reader]

    def configure(self, configs: Mapping[str, Value], *, is_key: bool = False) -> None:
        """Take the settings.

        Raises:
            ConfigError: one is refused.
            ConnectError: fastavro is not installed.
        """
        parsed = self.CONFIG.parse(with_type(configs, is_key=is_key))
        self._options = AvroOptions(parsed["enhanced.avro.schema.support"], parsed["connect.meta.data"])
        kept_max = parsed[KEPT]
        self._own, self._chosen, self._readers = Kept(kept_max), Kept(kept_max), Kept(kept_max)
        self._ids = registry_ids(configs, parsed, load, is_key=is_key)

    def from_connect(
        self, topic: str, _headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The bytes of a value; none for no value.

        Raises:
            DataError: the value does not fit its schema, or Avro has no such schema.
            RetriableError: the registry does not answer.
        """
        if schema is not None:
            validate_value(schema, value)
        if value is None:
            return None
        try:
            schema_id, writer = self._writer(topic, schema)
            avro = value_to_avro(writer.types, writer.types.root, schema, value)
            payload = writer.for_bytes.encode(avro)
            if schema_id is None:
                schema_id = self._ids.id_of(self._subject(topic, writer), writer.text)
        except UnavailableError as error:
            raise RetriableError(f"Failed to serialize Avro data from topic {topic} : {error}") from error
        except SerializationError as error:
            raise DataError(f"Failed to serialize Avro data from topic {topic} : {error}") from error
        return wire.head(schema_id) + payload

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
            value = reader.for_bytes.decode(data[wire.SIZE :])
        except UnavailableError as error:
            raise RetriableError(f"Failed to deserialize data for topic {topic} to Avro: {error}") from error
        except SerializationError as error:
            raise DataError(f"Failed to deserialize data for topic {topic} to Avro: {error}") from error
        if reader.schema is None:
            return SchemaAndValue(None, anything_from_avro(value))
        if value is None:
            return NULL
        return SchemaAndValue(
            reader.schema, value_from_avro(reader.types, reader.types.root, reader.schema, value)
        )

    def _writer(self, topic: str, schema: Schema | None) -> tuple[int | None, _Writer]:
        """What a value is written by, and its id where the configuration chooses it."""
        own = self._own.get(schema)
        if own is None:
            node = SchemaToAvro(self._options).convert(schema)
            own = self._own.keep(
                schema, _writer_of(SchemaText(json.dumps(node, separators=(",", ":"))), node)
            )
        chosen = self._ids.chosen(self._subject(topic, own))
        if chosen is None:
            return None, own
        schema_id, text = chosen
        writer = self._chosen.get(schema_id)
        if writer is None:
            writer = self._chosen.keep(schema_id, _writer_of(text, complete(text, self._ids.client)))
        return schema_id, writer

    def _subject(self, topic: str, writer: _Writer) -> str:
        return self._ids.subject(topic, record_name(writer.types.definition(writer.types.root)))

    def _reader(self, topic: str, schema_id: int) -> _Reader:
        reader = self._readers.get((topic, schema_id))
        if reader is None:
            text = self._ids.client.schema_of(schema_id)
            if text.kind != AVRO:
                raise DataError(f"The schema {schema_id} is of {text.kind}, not of Avro")
            types = AvroTypes(complete(text, self._ids.client))
            root = types.definition(types.root)
            schema = None
            if not isinstance(root, Mapping) or root.get("name") != ANYTHING_NAME:
                schema = SchemaFromAvro(types, self._options).convert(self._version(topic, text, root))
            reader = _Reader(types, schema, AvroSchema(types.for_bytes(), return_named_type=True))
            self._readers.keep((topic, schema_id), reader)
        return reader

    def _version(self, topic: str, text: SchemaText, root: Any) -> int | None:  # noqa: ANN401
        """The version that the registry gives a schema which tells none itself; None: it is none of this topic's."""
        if isinstance(root, Mapping) and "connect.version" in root:
            return None
        return version_of(self._ids, self._ids.subject(topic, record_name(root)), text)

    def config(self) -> ConfigDef:
        """The settings that it knows."""
        return self.CONFIG

    def close(self) -> None:
        """Nothing is held."""


def _writer_of(text: SchemaText, node: Any) -> _Writer:  # noqa: ANN401 - it is JSON
    types = AvroTypes(node)
    return _Writer(text, types, AvroSchema(types.for_bytes()))
