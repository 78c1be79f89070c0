"""What a broker has to know of a certificate: whom it is for, and until when. Pure; reads DER, checks nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pkafka.security.distinguished_names import elements, name_text

_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_OCTETS: Final = 0x04
_UTC_TIME: Final = 0x17
_ALTERNATIVE_NAMES: Final = b"\x55\x1d\x11"
"""2.5.29.17."""
_ADDRESS: Final = 0x87
_IPV4_BYTES: Final = 4


class Certificate(NamedTuple):
    """The facts.

    Args:
        subject: the distinguished name, as Java writes it.
        names: hosts and addresses that it is for, each with its kind in front.
        expires: when it ends.
    """

    subject: str
    names: frozenset[str]
    expires: datetime


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate.

    Raises:
        ValueError: it is none.
    """
    try:
        fields = _fields(der)
        return Certificate(
            name_text(fields[4][1]), frozenset(_alternative_names(fields)), _expires(fields[3][1])
        )
    except (IndexError, StopIteration):
        raise ValueError("no certificate in DER") from None


def subject(der: bytes) -> str:
    """The name of whom a certificate is for, the last part first.

    Raises:
        ValueError: it is none.
    """
    try:
        return name_text(_fields(der)[4][1])
    except (IndexError, StopIteration):
        raise ValueError("no certificate in DER") from None


def _fields(der: bytes) -> list[tuple[int, bytes, bytes]]:
    """Serial number, algorithm, issuer, validity, subject, key and, as they come, the others."""
    _, signed, _ = next(elements(der))
    _, body, _ = next(elements(signed))
    return [field for field in elements(body) if field[0] != _VERSION]


def _expires(validity: bytes) -> datetime:
    _, (tag, content, _) = elements(validity)
    text = content.decode("ascii")
    if tag == _UTC_TIME:  # two digits for the year, of 1950 to 2049
        text = ("20" if int(text[:2]) < 50 else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _alternative_names(fields: list[tuple[int, bytes, bytes]]) -> Iterator[str]:
    for tag, content, _ in fields:
        if tag != _EXTENSIONS:
            continue
        for _, extension, _ in elements(next(elements(content))[1]):
            parts = list(elements(extension))
            if parts[0][1] == _ALTERNATIVE_NAMES:
                octets = next(part for kind, part, _ in parts if kind == _OCTETS)
                yield from (
                    _general_name(kind, name) for kind, name, _ in elements(next(elements(octets))[1])
                )


def _general_name(kind: int, name: bytes) -> str:
    if kind == _ADDRESS and len(name) == _IPV4_BYTES:
        return f"[7, {'.'.join(map(str, name))}]"
    return f"[{kind & 0x1F}, {name.decode('latin-1')}]"
