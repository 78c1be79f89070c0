"""The record format before 0.8, for the dump tool alone.

Offsets were byte positions in the file then, so a record knows none of its own.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

# Big-endian: length i32 (= 1 + 4 + n) | version i8 | CRC-32 of the payload u32 | payload n bytes
_HEAD: Final = Struct(">ibI")
_LENGTH_BYTES: Final = 4
_COUNTED_HEAD: Final = 5


class AncientRecord(NamedTuple):
    """One record; ``position``, its first byte in the file, is what was called its offset."""

    position: int
    version: int
    crc: int
    crc_is_valid: bool
    payload: bytes

    @property
    def size_bytes(self) -> int:
        """How many bytes it takes in the file."""
        return _HEAD.size + len(self.payload)


def iter_records(data: bytes | bytearray | memoryview) -> Iterator[AncientRecord]:
    """The records from the start of a segment, up to a partial or impossible one."""
    position = 0
    while len(data) - position >= _HEAD.size:
        length, version, crc = _HEAD.unpack_from(data, position)
        end = position + _LENGTH_BYTES + length
        if length < _COUNTED_HEAD or end > len(data):
            return
        payload = bytes(data[position + _HEAD.size : end])
        yield AncientRecord(position, version, crc, zlib.crc32(payload) == crc, payload)
        position = end


def encode_record(payload: bytes, *, version: int = 0) -> bytes:
    """One record as it stood in a segment."""
    return _HEAD.pack(len(payload) + _COUNTED_HEAD, version, zlib.crc32(payload)) + payload
