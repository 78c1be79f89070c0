"""The keys and values of source offsets, as Kafka Connect stores them: ``["connector",{partition}]`` to ``{offset}``.

Both are JSON without schemas. Java finds offsets by the *bytes* of the key, and writes a map in the order of its hash
table; other bytes would be another partition to it. So maps are written in that order here, and read by meaning.
"""

import json
from collections.abc import Mapping
from typing import Final

from pkafka.connect.connector import SourcePlace
from pkafka.connect.converters import JsonConverter
from pkafka.connect.data.types import Value
from pkafka.connect.errors import DataError
from pkafka.java.hashing import hash_order


def encode_key(connector: str, partition: SourcePlace) -> bytes:
    """The key of a source partition.

    Raises:
        DataError: the partition has other values than strings, numbers, booleans and None.
    """
    return _encoded([connector, in_java_order(_checked(partition, "partition"))])


def encode_offset(offset: SourcePlace | None) -> bytes | None:
    """The value of an offset; None: there is none any more.

    Raises:
        DataError: as of :func:`encode_key`.
    """
    return None if offset is None else _encoded(in_java_order(_checked(offset, "offset")))


def decode_key(key: bytes) -> tuple[str, dict[str, Value]] | None:
    """The connector and the source partition of a key; None: it is not one."""
    try:
        found = json.loads(key)
    except ValueError:
        return None
    if not (isinstance(found, list) and len(found) == 2):
        return None
    connector, partition = found
    if not isinstance(connector, str) or not isinstance(partition, dict):
        return None
    return connector, partition


def decode_offset(value: bytes | None) -> dict[str, Value] | None:
    """An offset; None: there is none.

    Raises:
        DataError: it is no JSON object.
    """
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError as error:
        raise DataError(f"An offset cannot be read: {error}") from error
    if found is not None and not isinstance(found, dict):
        raise DataError("Offsets must be specified as a Map")
    return found


def in_java_order(place: Mapping[str, Value]) -> dict[str, Value]:
    """The same entries in the order of a ``HashMap`` of Java that got them in the given order."""
    return {name: place[name] for name in hash_order(place)}


def _checked(place: SourcePlace, what: str) -> SourcePlace:
    """Refuse a place that could not be read back: ``OffsetUtils.validateFormat``."""
    if not isinstance(place, Mapping):
        raise DataError("Offsets must be specified as a Map")
    for name, value in place.items():
        if not isinstance(name, str):
            raise DataError("Offsets may only use String keys")
        if value is not None and not isinstance(value, str | bool | int | float):
            raise DataError(
                f"Offsets may only contain primitive types as values, but field {name} of the {what} contains"
                f" {type(value).__name__}"
            )
    return place


def _encoded(value: Value) -> bytes:
    encoded = _CONVERTER.from_connect("", None, None, value)
    assert encoded is not None
    return encoded


_CONVERTER: Final = JsonConverter()
_CONVERTER.configure({"schemas.enable": "false"}, is_key=False)
