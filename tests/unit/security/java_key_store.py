"""Writes Java's key stores (JKS), for tests of what reads them; Java's own are read in tests/interop."""

import hashlib
import struct
from collections.abc import Mapping, Sequence

_ALGORITHM = bytes.fromhex("300e060a2b060104012a021101010500")


def key_store(
    password: str,
    keys: Mapping[str, tuple[bytes, Sequence[bytes]]],
    trusted: Mapping[str, bytes],
    key_password: str,
) -> bytes:
    """A file with keys (PKCS#8 and certificates) and certificates by their aliases, all in DER."""
    data = struct.pack(">III", 0xFEEDFEED, 2, len(keys) + len(trusted))
    for alias, (key, chain) in keys.items():
        data += struct.pack(">I", 1) + _text(alias) + struct.pack(">q", 0)
        data += _sized(_covered(key, key_password)) + struct.pack(">I", len(chain))
        data += b"".join(_text("X.509") + _sized(each) for each in chain)
    for alias, certificate in trusted.items():
        data += struct.pack(">I", 2) + _text(alias) + struct.pack(">q", 0)
        data += _text("X.509") + _sized(certificate)
    digest = hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + data)
    return data + digest.digest()


def _covered(key: bytes, password: str) -> bytes:
    secret, block, covered = password.encode("utf-16-be"), b"\x07" * 20, b""
    salt = block
    for start in range(0, len(key), 20):
        block = hashlib.sha1(secret + block).digest()
        covered += bytes(a ^ b for a, b in zip(key[start : start + 20], block, strict=False))
    field = salt + covered + hashlib.sha1(secret + key).digest()
    body = _ALGORITHM + b"\x04\x82" + struct.pack(">H", len(field)) + field
    return b"\x30\x82" + struct.pack(">H", len(body)) + body


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
