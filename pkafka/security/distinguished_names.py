"""Names in certificates as Java writes them (X500Principal.getName, RFC 2253): ACLs and rules are written for these.

Pure. It reads DER that OpenSSL has checked before.
"""

from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attributes that have a name in RFC 2253; of others, the value stands in hexadecimal digits."""
_TEXT_TAGS: Final = frozenset({12, 19, 20, 22, 27, 30})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString. Java reads them all as UTF-8."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def name_text(content: bytes) -> str:
    """A distinguished name as text.

    Args:
        content: of its sequence, in DER.

    Raises:
        IndexError: it is cut short.
    """
    parts = []
    for _, attributes, _ in elements(content):
        texts = [_attribute(attribute) for _, attribute, _ in elements(attributes)]
        if texts:
            parts.append("+".join(texts))
    return ",".join(reversed(parts))


def elements(der: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Tag, content and whole of each element in a row of them.

    Raises:
        IndexError: it is cut short.
    """
    position = 0
    while position < len(der):
        size, start = der[position + 1], position + 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(der[position + 2 : start], "big")
        end = start + size
        if end > len(der):
            raise IndexError
        yield der[position], der[start:end], der[position:end]
        position = end


def _attribute(attribute: bytes) -> str:
    (_, number, _), (tag, value, whole) = elements(attribute)
    oid = _oid(number)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _TEXT_TAGS:
        return f"{keyword or oid}=#{whole.hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(" \r")
    if not inner:
        return "".join(f"\\{each}" for each in text)
    start = text.index(inner)
    leading, trailing = text[:start], text[start + len(inner) :]
    escaped = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in inner)
    return "".join(f"\\{each}" for each in leading) + escaped + "".join(f"\\{each}" for each in trailing)


def _oid(content: bytes) -> str:
    numbers, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
