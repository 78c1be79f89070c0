"""Kafka's built-in deserializers, by class name, as far as tools need them to show bytes to a person (PROD-9)."""

import struct
import uuid
from collections.abc import Callable
from typing import Final, TypeAlias

from pkafka.errors import ConfigError, PkafkaError

Deserializer: TypeAlias = Callable[[bytes], object]


class SerializationError(PkafkaError):
    """Bytes are not what a deserializer expects."""


def _number(code: str, name: str) -> Deserializer:
    layout = struct.Struct(">" + code)

    def read(data: bytes) -> object:
        if len(data) != layout.size:
            raise SerializationError(f"Size of data received by {name} is not {layout.size}")
        return layout.unpack(data)[0]

    return read


def _string(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _boolean(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise SerializationError("Unexpected byte received by BooleanDeserializer")
    return data == b"\x01"


def _uuid(data: bytes) -> uuid.UUID:
    try:
        return uuid.UUID(data.decode("utf-8"))
    except ValueError as error:
        raise SerializationError("Error parsing data into UUID") from error


def _bytes(data: bytes) -> bytes:
    return data


def _void(data: bytes) -> None:
    raise SerializationError("Data should be null for a VoidDeserializer.")


_BY_NAME: Final[dict[str, Deserializer]] = {
    "StringDeserializer": _string,
    "ByteArrayDeserializer": _bytes,
    "BytesDeserializer": _bytes,
    "ByteBufferDeserializer": _bytes,
    "IntegerDeserializer": _number("i", "IntegerDeserializer"),
    "LongDeserializer": _number("q", "LongDeserializer"),
    "ShortDeserializer": _number("h", "ShortDeserializer"),
    "FloatDeserializer": _number("f", "FloatDeserializer"),
    "DoubleDeserializer": _number("d", "DoubleDeserializer"),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "VoidDeserializer": _void,
}


def deserializer(class_name: str) -> Deserializer:
    """The built-in deserializer of this name, with or without its Java package.

    Raises:
        ConfigError: there is none of that name.
    """
    found = _BY_NAME.get(class_name.rpartition(".")[2])
    if found is None:
        raise ConfigError("deserializer", f"must be one of {', '.join(_BY_NAME)}", class_name)
    return found
