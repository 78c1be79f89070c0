"""Passwords among a broker's dynamic settings, as the coordination store has them (``password.encoder.*``, KIP-226).

The text is Kafka's: what was used to encrypt, then salt, vector and ciphertext, as ``name:value`` separated by commas.
Pure, but for the package ``cryptography`` (the extra ``pkafka[tls]``), which is loaded with the first password.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import PkafkaError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import CBC

CIPHER: Final = "AES/CBC/PKCS5Padding"
DERIVATIONS: Final = {
    f"PBKDF2WithHmac{name}": name.lower() for name in ("SHA1", "SHA224", "SHA256", "SHA384", "SHA512")
}
"""Ways from a secret to a key, by Java's names."""
_DERIVATION: Final = "PBKDF2WithHmacSHA512"
_SALT_BYTES: Final = 256
_BLOCK_BYTES: Final = 16


class PasswordError(PkafkaError):
    """A stored password cannot be read."""


class EncoderSettings(NamedTuple):
    """How new passwords are encrypted; old ones say it themselves."""

    derivation: str = _DERIVATION
    key_bits: int = 128
    iterations: int = 4096


class PasswordEncoder:
    """Encrypts passwords by a secret that all of a broker's starts know, and reads them again.

    Args:
        secret: of ``password.encoder.secret``.
        new_bytes: gives so many random bytes.
        old_secret: by which passwords may still be encrypted; None: by none.
        settings: for new ones.
    """

    def __init__(
        self,
        secret: str,
        new_bytes: Callable[[int], bytes],
        *,
        old_secret: str | None = None,
        settings: EncoderSettings = EncoderSettings(),  # noqa: B008 - immutable
    ) -> None:
        self._secret = secret
        self._old_secret = old_secret
        self._new_bytes = new_bytes
        self._settings = settings

    def encode(self, password: str) -> str:
        """The text for the store; another one each time."""
        derivation, key_bits, iterations = self._settings
        salt, vector = self._new_bytes(_SALT_BYTES), self._new_bytes(_BLOCK_BYTES)
        plain = password.encode()
        padding = _BLOCK_BYTES - len(plain) % _BLOCK_BYTES
        key = _key(self._secret, salt, derivation, iterations, key_bits)
        encryptor = _cipher(key, vector).encryptor()
        hidden = encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize()
        return ",".join(
            f"{name}:{value}"
            for name, value in {
                "keyFactoryAlgorithm": derivation,
                "cipherAlgorithm": CIPHER,
                "keyLength": key_bits,
                "salt": _text(salt),
                "iterations": iterations,
                "encryptedPassword": _text(hidden),
                "passwordLength": len(password.encode("utf-16-be")) // 2,
                "initializationVector": _text(vector),
            }.items()
        )

    def decode(self, text: str) -> str:
        """The password that a text of the store hides.

        Raises:
            PasswordError: another secret hid it, or it is no such text.
        """
        for secret in (self._secret, self._old_secret):
            if secret is not None:
                password = _decoded(text, secret)
                if password is not None:
                    return password
        raise PasswordError("is encrypted by another secret than password.encoder.secret")

    def is_old(self, text: str) -> bool:
        """Whether a text was made by the old secret, and not by the one that counts now."""
        return self._old_secret is not None and _decoded(text, self._secret) is None


def is_encoded(text: str) -> bool:
    """Whether a setting looks like the text of an encoder."""
    return "encryptedPassword:" in text


def _decoded(text: str, secret: str) -> str | None:
    """The password; None where another secret hid it."""
    fields = dict(part.partition(":")[::2] for part in text.split(","))
    try:
        derivation, cipher = fields["keyFactoryAlgorithm"], fields["cipherAlgorithm"]
        salt, vector, hidden = (
            base64.b64decode(fields[name], validate=True)
            for name in ("salt", "initializationVector", "encryptedPassword")
        )
        iterations, key_bits, length = (
            int(fields[name]) for name in ("iterations", "keyLength", "passwordLength")
        )
    except (KeyError, ValueError, binascii.Error):
        raise PasswordError("is no text of a password encoder") from None
    if cipher != CIPHER or derivation not in DERIVATIONS:
        raise PasswordError(f"is encrypted by {cipher} and {derivation}, which are not here")
    try:
        decryptor = _cipher(_key(secret, salt, derivation, iterations, key_bits), vector).decryptor()
        padded = decryptor.update(hidden) + decryptor.finalize()
        padding = padded[-1]
        if not 1 <= padding <= _BLOCK_BYTES or not padded.endswith(bytes([padding]) * padding):
            return None
        password = padded[:-padding].decode()
    except (ValueError, IndexError, OverflowError):
        return None
    return password if len(password.encode("utf-16-be")) // 2 == length else None


def _key(secret: str, salt: bytes, derivation: str, iterations: int, key_bits: int) -> bytes:
    return hashlib.pbkdf2_hmac(DERIVATIONS[derivation], secret.encode(), salt, iterations, key_bits // 8)


def _cipher(key: bytes, vector: bytes) -> "Cipher[CBC]":
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CBC
    except ImportError:
        raise PasswordError("needs what pip install 'pkafka[tls]' brings") from None
    return Cipher(AES(key), CBC(vector))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
