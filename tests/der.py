"""Distinguished names in DER, as certificates have them, also such that no tool would make."""

from collections.abc import Sequence
from typing import TypeAlias

Attribute: TypeAlias = tuple[str, int, bytes]
"""An object identifier, the tag of the value, and the value."""


def element(tag: int, content: bytes) -> bytes:
    """One element."""
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(length)]) + length + content


def object_identifier(text: str) -> bytes:
    """An object identifier, such as 2.5.4.3."""
    first, second, *others = map(int, text.split("."))
    content = b""
    for number in (40 * first + second, *others):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(0x80 | number & 0x7F)
        content += bytes(reversed(digits))
    return element(6, content)


def name_content(parts: Sequence[Sequence[Attribute]]) -> bytes:
    """What is in the sequence of a name: sets of attributes."""
    return b"".join(
        element(
            0x31,
            b"".join(element(0x30, object_identifier(oid) + element(tag, value)) for oid, tag, value in part),
        )
        for part in parts
    )
