"""A ``HashMap<byte[], byte[]>`` as Java's own serialisation writes it: the file of a standalone worker's offsets.

Java's FileOffsetBackingStore reads what is written here, and the other way round. Only this one shape is understood.
"""

import struct
from collections.abc import Mapping
from typing import Final

from pkafka.connect.errors import ConnectError

_MAGIC: Final = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY, _BLOCK, _END = 0x70, 0x71, 0x72, 0x73, 0x75, 0x77, 0x78
_HASH_MAP: Final = (
    b"\x72\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02"
    b"F\x00\nloadFactorI\x00\tthreshold\x78\x70"
)
"""The class with its version, its flags and its two fields; no parent."""
_BYTES: Final = b"\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00\x78\x70"
"""The class of byte arrays."""
_BYTES_AGAIN: Final = b"\x71\x00\x7e\x00\x02"
"""The same class, once it was written: the third thing that got a handle."""
_LOAD_FACTOR: Final = 0.75
_BUCKETS_MIN: Final = 16


def dump_map(entries: Mapping[bytes, bytes | None]) -> bytes:
    """The bytes of a map; None stands for null."""
    buckets = _BUCKETS_MIN
    while buckets * _LOAD_FACTOR < len(entries):
        buckets *= 2
    parts = [
        _MAGIC,
        bytes([_OBJECT]),
        _HASH_MAP,
        struct.pack(">fi", _LOAD_FACTOR, int(buckets * _LOAD_FACTOR)),
    ]
    parts.append(struct.pack(">BBii", _BLOCK, 8, buckets, len(entries)))
    known = False
    for pair in entries.items():
        for value in pair:
            if value is None:
                parts.append(bytes([_NULL]))
                continue
            parts += [
                bytes([_ARRAY]),
                _BYTES_AGAIN if known else _BYTES,
                struct.pack(">i", len(value)),
                value,
            ]
            known = True
    parts.append(bytes([_END]))
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._arrays: dict[int, bytes] = {}
        self._handle = 0x7E0003
        """Of the next array: before it come the map's class, the map and the class of arrays."""

    def expect(self, wanted: bytes) -> bool:
        if self._data[self._at : self._at + len(wanted)] != wanted:
            return False
        self._at += len(wanted)
        return True

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if size < 0 or len(taken) != size:
            raise ValueError("the data ends early")
        self._at += size
        return taken

    def value(self) -> bytes | None:
        (kind,) = self.take(1)
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            return self._arrays[struct.unpack(">i", self.take(4))[0]]
        if kind != _ARRAY or not (self.expect(_BYTES_AGAIN) or self.expect(_BYTES)):
            raise ValueError(f"neither bytes nor null at {self._at}")
        (size,) = struct.unpack(">i", self.take(4))
        found = self._arrays[self._handle] = self.take(size)
        self._handle += 1
        return found


def load_map(data: bytes) -> dict[bytes, bytes | None]:
    """The map of bytes.

    Raises:
        ConnectError: they are those of something else.
    """
    reader = _Reader(data)
    try:
        if not (reader.expect(_MAGIC) and reader.expect(bytes([_OBJECT]) + _HASH_MAP)):
            raise ValueError("it does not begin as a java.util.HashMap")
        reader.take(8)
        block, size, _buckets, count = struct.unpack(">BBii", reader.take(10))
        if (block, size) != (_BLOCK, 8):
            raise ValueError("the size of the map is missing")
        entries: dict[bytes, bytes | None] = {}
        for _ in range(count):
            key = reader.value()
            if key is None:
                raise ValueError("a key is null")
            entries[key] = reader.value()
        if not reader.expect(bytes([_END])):
            raise ValueError("the end is missing")
    except (ValueError, KeyError, struct.error) as error:
        raise ConnectError(f"Expected HashMap but found something else: {error}") from error
    return entries
