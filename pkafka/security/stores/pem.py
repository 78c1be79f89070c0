"""PEM texts (RFC 7468), in files and in values of settings, where line ends may have become blanks (KIP-651)."""

import base64
import binascii
import re
from typing import Final, NamedTuple

from pkafka.security.stores import StoreError

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_CERTIFICATES: Final = frozenset({b"CERTIFICATE", b"X509 CERTIFICATE", b"TRUSTED CERTIFICATE"})
_KEY_ENDING: Final = b"PRIVATE KEY"
_WIDTH: Final = 64


class _Block(NamedTuple):
    label: bytes
    body: bytes


def certificates(data: bytes) -> list[bytes]:
    """The certificates in a text, each in DER, in their order.

    Raises:
        StoreError: a block is not base64.
    """
    return [_decoded(block) for block in _blocks(data) if block.label in _CERTIFICATES]


def key_and_chain(data: bytes) -> bytes:
    """The first private key in a text and all its certificates, as PEM with ends of lines where OpenSSL wants them.

    Raises:
        StoreError: there is no key, or no certificate.
    """
    blocks = _blocks(data)
    keys = [block for block in blocks if block.label.endswith(_KEY_ENDING)]
    chain = certificates(data)
    if not keys:
        raise StoreError("has no private key (a block BEGIN PRIVATE KEY)")
    if not chain:
        raise StoreError("has a private key but no certificate for it")
    return _key(keys[0]) + b"".join(encoded("CERTIFICATE", each) for each in chain)


def encoded(label: str, der: bytes) -> bytes:
    """A block of PEM.

    Args:
        label: what it is, such as ``CERTIFICATE``.
        der: its content.
    """
    text = base64.b64encode(der).decode()
    lines = [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode()


def _blocks(data: bytes) -> list[_Block]:
    return [_Block(found[1], found[2]) for found in _BLOCK.finditer(data)]


def _key(block: _Block) -> bytes:
    if b":" in block.body:
        # OpenSSL's older form of encryption has headers, which need the lines that they have.
        return b"-----BEGIN %b-----%b-----END %b-----\n" % (block.label, block.body, block.label)
    return encoded(block.label.decode(), _decoded(block))


def _decoded(block: _Block) -> bytes:
    try:
        return base64.b64decode(b"".join(block.body.split()), validate=True)
    except (binascii.Error, ValueError):
        raise StoreError(f"has a block {block.label.decode()} that is not base64") from None
