"""Schemas of Avro, and the bytes of values by them. The only module that knows fastavro.

A schema whose values are bytes and nothing else is an exception that Confluent's serializers make: the payload is the
bytes as they are, without their length.
"""

import io
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from pkafka.clients.registry.client import SchemaRegistryClient, SchemaText
from pkafka.clients.serialization import SerializationError
from pkafka.errors import ConfigError, PkafkaError

_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_HINT: Final = "Avro needs fastavro: pip install 'pkafka[registry]'"


class AvroSchema:
    """A schema that values are written and read by.

    Args:
        schema: as JSON has it.
        options: of fastavro's reader.

    Raises:
        SerializationError: it is no schema of Avro.
    """

    def __init__(self, schema: Any, **options: bool) -> None:  # noqa: ANN401 - it is JSON
        self.json: Final = schema
        self._fastavro = load()
        self._options = options
        try:
            self._parsed = self._fastavro.parse_schema(schema)
        except Exception as error:  # whatever fastavro makes of what is no schema
            raise SerializationError(f"This is no schema of Avro: {error}") from error
        self._is_bytes = schema == "bytes" or (isinstance(schema, dict) and schema.get("type") == "bytes")

    @property
    def record(self) -> str | None:
        """The full name of the record, or of what else has a name."""
        parsed = self._parsed
        return str(parsed["name"]) if isinstance(parsed, dict) and parsed.get("type") in _NAMED else None

    def encode(self, value: object) -> bytes:
        """The payload of a value.

        Raises:
            SerializationError: the schema has no such value.
        """
        if self._is_bytes and isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        out = io.BytesIO()
        try:
            self._fastavro.schemaless_writer(out, self._parsed, value)
        except Exception as error:  # ValueError, TypeError, KeyError, AttributeError, OverflowError, ...
            raise SerializationError(f"The value does not fit its schema of Avro: {error}") from error
        written = out.getvalue()
        return _without_length(written) if self._is_bytes else written

    def decode(self, payload: bytes, reader: "AvroSchema | None" = None) -> Any:  # noqa: ANN401
        """The value of a payload.

        Args:
            reader: the schema that the value is to have; None: that of the payload.

        Raises:
            SerializationError: the payload is not of this schema, or the value cannot be had by the reader's.
        """
        if self._is_bytes:
            payload = _with_length(payload)
        data = io.BytesIO(payload)
        wanted = None if reader is None else reader._parsed
        try:
            value = self._fastavro.schemaless_reader(data, self._parsed, wanted, **self._options)
        except Exception as error:  # EOFError, IndexError, SchemaResolutionError, UnicodeDecodeError, ...
            text = str(error) or type(error).__name__
            raise SerializationError(f"The bytes do not fit their schema of Avro: {text}") from error
        if data.tell() != len(payload):
            raise SerializationError("There are more bytes than the schema of Avro knows of")
        return value


def load() -> ModuleType:
    """The package fastavro.

    Raises:
        PkafkaError: it is not installed.
    """
    try:
        import fastavro
    except ImportError as error:
        raise PkafkaError(_HINT) from error
    module: ModuleType = fastavro
    return module


def parse_json(text: str) -> Any:  # noqa: ANN401 - it is JSON
    """A schema's JSON; a bare name, which registries know too, is that name.

    Raises:
        ConfigError: it is neither.
    """
    try:
        return json.loads(text)
    except ValueError:
        if text.strip().replace(".", "").replace("_", "").isalnum():
            return text.strip()
        raise ConfigError("schema", "is not JSON", text) from None


def complete(schema: SchemaText, client: SchemaRegistryClient) -> Any:  # noqa: ANN401 - it is JSON
    """A schema's JSON, with the schemas that it refers to where they are used first.

    Raises:
        SerializationError: it is no schema.
        RegistryError: the registry lacks one of them, or does not answer.
    """
    found = _parsed(schema.text)
    if not schema.references:
        return found
    definitions: dict[str, Any] = {}
    _collect(schema, client, definitions, set())
    return _filled(found, definitions, "")


def _collect(
    schema: SchemaText, client: SchemaRegistryClient, definitions: dict[str, Any], seen: set[str]
) -> None:
    for reference in schema.references:
        if reference.name not in seen:
            seen.add(reference.name)
            inner = client.version(reference.subject, reference.version).schema
            definitions[reference.name] = _parsed(inner.text)
            _collect(inner, client, definitions, seen)


def _filled(schema: Any, definitions: dict[str, Any], namespace: str) -> Any:  # noqa: ANN401
    """The schema with definitions, each in the place of the first use of its name."""
    if isinstance(schema, str):
        name = schema if schema in definitions or "." in schema else f"{namespace}.{schema}"
        definition = definitions.pop(name, None)
        return schema if definition is None else _filled(definition, definitions, "")
    if isinstance(schema, list):
        return [_filled(each, definitions, namespace) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    space = schema.get("namespace", namespace)
    if "." in str(schema.get("name", "")):
        space = schema["name"].rpartition(".")[0]
    filled = dict(schema)
    for key in ("type", "items", "values"):
        if key in schema and schema[key] not in _NAMED | {"array", "map"}:
            filled[key] = _filled(schema[key], definitions, space)
    if "fields" in schema:
        filled["fields"] = [
            {**field, "type": _filled(field["type"], definitions, space)} for field in schema["fields"]
        ]
    return filled


def _parsed(text: str) -> Any:  # noqa: ANN401
    try:
        return parse_json(text)
    except ConfigError as error:
        raise SerializationError(f"The registry's schema is not JSON: {text}") from error


def _with_length(payload: bytes) -> bytes:
    rest, length = len(payload) << 1, bytearray()
    while rest > 0x7F:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    length.append(rest)
    return bytes(length) + payload


def _without_length(written: bytes) -> bytes:
    position = 0
    while written[position] & 0x80:
        position += 1
    return written[position + 1 :]
