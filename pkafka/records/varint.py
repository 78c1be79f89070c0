"""Zigzag varints, the integers inside a v2 record: 7 bits a byte, least significant group first.

Not the varints of the flexible protocol, which are unsigned and belong to pkafka.protocol.
"""

from typing import Final

from pkafka.errors import ErrorCode
from pkafka.records.errors import RecordError

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10

_UINT32: Final = 0xFFFFFFFF
_UINT64: Final = 0xFFFFFFFFFFFFFFFF


def encode(value: int) -> bytes:
    """The zigzag form of a signed integer.

    Raises:
        OverflowError: it has more than 64 bits.
    """
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 0x80:
        return SMALL[rest]
    if rest > _UINT64:
        raise OverflowError(f"{value} does not fit 64 bits")
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


SMALL: Final[tuple[bytes, ...]] = tuple(bytes((value,)) for value in range(0x80))
"""The one-byte varints by their zigzag value."""


def size(value: int) -> int:
    """How many bytes :func:`encode` needs."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    return (rest.bit_length() + 6) // 7 or 1


def decode(buffer: bytes | bytearray | memoryview, position: int = 0) -> tuple[int, int]:
    """Read a 32-bit varint: (value, position behind it).

    Raises:
        RecordError: INVALID_RECORD when the buffer ends inside it or it does not fit 32 bits.
    """
    return _decode(buffer, position, VARINT_BYTES_MAX, _UINT32)


def decode_long(buffer: bytes | bytearray | memoryview, position: int = 0) -> tuple[int, int]:
    """Read a 64-bit varint: (value, position behind it).

    Raises:
        RecordError: INVALID_RECORD when the buffer ends inside it or it does not fit 64 bits.
    """
    return _decode(buffer, position, VARLONG_BYTES_MAX, _UINT64)


def _decode(
    buffer: bytes | bytearray | memoryview, position: int, bytes_max: int, value_max: int
) -> tuple[int, int]:
    raw = shift = 0
    for place in range(position, min(position + bytes_max, len(buffer))):
        byte = buffer[place]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw > value_max:
                break
            return raw >> 1 ^ -(raw & 1), place + 1
        shift += 7
    raise RecordError(ErrorCode.INVALID_RECORD, f"damaged varint at byte {position}")
