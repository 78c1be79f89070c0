"""Unsigned varints and tag sections: the parts of flexible versions (KIP-482) that are not of a fixed size.

Readers raise ProtocolError or IndexError; the codec turns the latter into the former once, at its edge.
"""

from typing import Final

from pkafka.errors import ProtocolError
from pkafka.protocol import Buffer

_UVARINT_BYTES_MAX: Final = 5
_ONE_BYTE: Final = [bytes([value]) for value in range(128)]


def uvarint(value: int) -> bytes:
    """Seven bits per byte, lowest first; the high bit says that another byte follows."""
    if value < 128:
        return _ONE_BYTE[value]
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The value at ``position`` and the position after it."""
    first = buffer[position]
    position += 1
    return (first, position) if first < 128 else rest_of_uvarint(buffer, position, first)


def rest_of_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Like :func:`read_uvarint` for a varint whose first byte, 128 or more, was read already.

    Raises:
        ProtocolError: more than five bytes, or a value over 32 bits.
    """
    byte = buffer[position]
    if byte < 128:
        return first & 127 | byte << 7, position + 1
    value = first & 127
    for shift in range(7, 7 * _UVARINT_BYTES_MAX, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                raise ProtocolError("varint is over 32 bits")
            return value, position
    raise ProtocolError("varint is longer than five bytes")


def skip_tags(buffer: Buffer, position: int, first: int, limit: int) -> int:
    """Step over a tag section of which only the first byte of its count was read.

    Returns:
        The position after the section.

    Raises:
        ProtocolError: tags that do not ascend, or a size beyond ``limit``.
    """
    count = first
    if first > 127:
        count, position = rest_of_uvarint(buffer, position, first)
    previous = -1
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if tag <= previous or position > limit:
            raise ProtocolError(f"tag {tag} is out of order or longer than its message")
        previous = tag
    return position
