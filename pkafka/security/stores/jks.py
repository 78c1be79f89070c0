"""Java's own key stores (JKS), which are made of SHA-1 alone: what Java 8 wrote by default.

A file is a list of entries, closed by a digest of password and content. A private key is its PKCS#8 form,
covered by a stream that SHA-1 makes of its password.
"""

import hashlib
import hmac
import struct
from typing import Final, NamedTuple

from pkafka.security.stores import StoreError, WrongPasswordError
from pkafka.security.stores.pem import encoded

_KEY_TAG: Final = 1
_CERTIFICATE_TAG: Final = 2
_DIGEST_BYTES: Final = 20
_SALT_BYTES: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"
_SEQUENCE: Final = 0x30
_OCTETS: Final = 0x04


class _Key(NamedTuple):
    alias: str
    protected: bytes
    chain: list[bytes]


class JavaKeyStore(NamedTuple):
    """The entries of a file."""

    keys: list[_Key]
    certificates: list[bytes]

    def trusted(self) -> list[bytes]:
        """What Java trusts in it: the certificates on their own, and that of each key."""
        return self.certificates + [key.chain[0] for key in self.keys if key.chain]

    def key_and_chain(self, password: str) -> bytes:
        """The first key by its alias and its certificates, as PEM.

        Raises:
            WrongPasswordError: the key's password is another one.
            StoreError: there is no key.
        """
        if not self.keys:
            raise StoreError("holds no private key")
        key = min(self.keys)
        private = encoded("PRIVATE KEY", _uncovered(key.protected, _utf16(password)))
        return private + b"".join(encoded("CERTIFICATE", each) for each in key.chain)


def read(data: bytes, password: str | None) -> JavaKeyStore:
    """Read a file.

    Args:
        password: of the store; None: the digest at its end is not checked, as in Java.

    Raises:
        WrongPasswordError: the digest says that the password is another one, or that the file was changed.
        StoreError: the file is cut short or has entries that are not known.
    """
    if password is not None:
        digest = hashlib.sha1(_utf16(password) + _WHITENER + data[:-_DIGEST_BYTES], usedforsecurity=False)
        if not hmac.compare_digest(digest.digest(), data[-_DIGEST_BYTES:]):
            raise WrongPasswordError("was tampered with, or the password is incorrect")
    try:
        return _entries(_Cursor(data))
    except (struct.error, IndexError, UnicodeDecodeError):
        raise StoreError("is cut short or damaged") from None


class _Cursor:
    """Reads what Java's DataOutputStream wrote."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._position)
        self._position += struct.calcsize(f">{form}")
        return int(value)

    def bytes(self, form: str) -> bytes:
        size = self.number(form)
        end = self._position + size
        if end > len(self._data):
            raise IndexError
        taken = self._data[self._position : end]
        self._position = end
        return taken


def _entries(cursor: _Cursor) -> JavaKeyStore:
    cursor.number("I")
    version = cursor.number("I")
    if version not in (1, 2):
        raise StoreError(f"is of version {version}, which is not known")
    store = JavaKeyStore([], [])
    for _ in range(cursor.number("I")):
        tag = cursor.number("I")
        alias = cursor.bytes("H").decode("utf-8", "replace")
        cursor.number("q")  # when it was made
        if tag == _KEY_TAG:
            protected = cursor.bytes("I")
            chain = [_certificate(cursor, version) for _ in range(cursor.number("I"))]
            store.keys.append(_Key(alias, protected, chain))
        elif tag == _CERTIFICATE_TAG:
            store.certificates.append(_certificate(cursor, version))
        else:
            raise StoreError("has entries that are neither keys nor certificates")
    return store


def _certificate(cursor: _Cursor, version: int) -> bytes:
    if version == 2:
        cursor.bytes("H")  # X.509
    return cursor.bytes("I")


def _uncovered(protected: bytes, password: bytes) -> bytes:
    """The PKCS#8 form of a key: salt, covered key and a check of it stand in the last field of an ASN.1 sequence."""
    field = _last_field(protected)
    salt, covered, check = (
        field[:_SALT_BYTES],
        field[_SALT_BYTES:-_DIGEST_BYTES],
        field[-_DIGEST_BYTES:],
    )
    key, block = bytearray(), salt
    for start in range(0, len(covered), _DIGEST_BYTES):
        block = hashlib.sha1(password + block, usedforsecurity=False).digest()
        key += bytes(
            one ^ other for one, other in zip(covered[start : start + _DIGEST_BYTES], block, strict=False)
        )
    if not hmac.compare_digest(hashlib.sha1(password + key, usedforsecurity=False).digest(), check):
        raise WrongPasswordError("has a key whose password is another one (ssl.key.password)")
    return bytes(key)


def _last_field(der: bytes) -> bytes:
    """The octets of EncryptedPrivateKeyInfo, behind the name of the algorithm."""
    tag, body, _ = _element(der)
    _, _, rest = _element(body)
    inner, octets, _ = _element(rest)
    if (tag, inner) != (_SEQUENCE, _OCTETS):
        raise StoreError("has a key in a form that is not known")
    return octets


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """The tag and the content of the first element, and what is behind it."""
    size, start = der[1], 2
    if size & 0x80:
        start = 2 + (size & 0x7F)
        size = int.from_bytes(der[2:start], "big")
    return der[0], der[start : start + size], der[start + size :]


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")
