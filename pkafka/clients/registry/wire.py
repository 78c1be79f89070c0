"""The format of bytes that name their schema: ``u8 0 | i32 id | payload``, as Confluent's serializers write it.

Protobuf has the place of the message in its file before the payload: a count and as many numbers, each a zigzag varint;
the first message of a file, nearly always the case, is the single byte 0.
"""

import struct
from collections.abc import Sequence
from typing import Final

from pkafka.clients.serialization import SerializationError

_HEAD: Final = struct.Struct(">bi")
_MAGIC: Final = 0
SIZE: Final = _HEAD.size
_INDEXES_MAX: Final = 1_000
"""More levels of messages in messages than there can be."""


def head(schema_id: int) -> bytes:
    """What stands before a payload."""
    return _HEAD.pack(_MAGIC, schema_id)


def schema_id_of(data: bytes) -> int:
    """The id that stands before a payload.

    Raises:
        SerializationError: there is none.
    """
    if len(data) < SIZE:
        raise SerializationError(f"Bytes that name their schema are at least {SIZE}, these are {len(data)}")
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise SerializationError(f"Unknown magic byte {data[0]}: the bytes do not name their schema")
    return int(schema_id)


def indexes_to_bytes(indexes: Sequence[int]) -> bytes:
    """The place of a message in its file: that of its outermost message first."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(_varint(each) for each in (len(indexes), *indexes))


def indexes_from_bytes(data: bytes, position: int) -> tuple[list[int], int]:
    """The place of a message, and where its payload begins.

    Raises:
        SerializationError: the bytes end too early, or the place cannot be.
    """
    count, position = _read_varint(data, position)
    if not 0 <= count <= _INDEXES_MAX:
        raise SerializationError(f"A message cannot be in {count} others")
    indexes = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        indexes.append(index)
    return indexes or [0], position


def _varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), position
    raise SerializationError("The place of the message in its file is cut off or too large")
