"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) as Kafka has them, without channel binding.

Kafka's extension ``tokenauth=true`` says that the name is the id of a delegation token and the password its
HMAC (KIP-48).
"""

import base64
import binascii
import hmac
from collections.abc import MutableMapping
from enum import Enum
from typing import Final

from pkafka.net.scram import ScramMechanism, keys_of, salted_password
from pkafka.security.sasl import SaslError

_HEADER: Final = "n,,"
SaltedPasswords = MutableMapping[tuple[bytes, int], bytes]
"""Salted passwords by salt and iterations: each costs the client milliseconds to make."""


class _Step(Enum):
    FIRST = "first"
    FINAL = "final"
    OVER = "over"


class ScramExchange:
    """The client's half of one login.

    Args:
        mechanism: one of the two.
        username, password: the user's; of a delegation token its id and its HMAC in base64.
        nonce: chance in printable ASCII without a comma, new for each exchange.
        is_token: whether they are those of a delegation token.
        known: salted passwords of earlier logins of the same user; gets the one of this login.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        nonce: str,
        *,
        is_token: bool = False,
        known: SaltedPasswords | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce
        self._known = {} if known is None else known
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}" + (",tokenauth=true" if is_token else "")
        self._server_signature = b""
        self._step = _Step.FIRST

    @property
    def mechanism(self) -> str:
        """As in ``sasl.mechanism``."""
        return self._mechanism.mechanism_name

    @property
    def is_complete(self) -> bool:
        """Whether the broker has proved that it knows the password, too."""
        return self._step is _Step.OVER

    def first(self) -> bytes:
        """The name and the nonce."""
        return f"{_HEADER}{self._first_bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """The proof for the broker's first token; None for its last, which is looked at.

        Raises:
            SaslError: the broker's token is malformed, belongs to another exchange, asks for too few iterations,
                or does not prove that the broker knows the password.
        """
        if self._step is _Step.FIRST:
            self._step = _Step.FINAL
            return self._final(_text(challenge))
        if self._step is _Step.FINAL:
            self._check_server(_text(challenge))
            self._step = _Step.OVER
            return None
        raise SaslError("the broker sent a token after the end of the SCRAM exchange")

    def _final(self, server_first: str) -> bytes:
        parts = _parts(server_first)
        nonce, salt, iterations = parts.get("r", ""), _decoded(parts.get("s", "")), parts.get("i", "")
        if "m" in parts or not salt or not (iterations.isascii() and iterations.isdigit()):
            raise SaslError("the broker's first SCRAM token cannot be read")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError(
                "the broker's SCRAM token belongs to another exchange: its nonce is not this client's"
            )
        count = int(iterations)
        if count < self._mechanism.iterations_min:
            raise SaslError(
                f"Requested iterations {count} is less than the minimum {self._mechanism.iterations_min} for "
                f"{self.mechanism}"
            )
        without_proof = f"c={base64.b64encode(_HEADER.encode()).decode()},r={nonce}"
        message = f"{self._first_bare},{server_first},{without_proof}".encode()
        proof = self._prove(self._salted(salt, count), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _salted(self, salt: bytes, iterations: int) -> bytes:
        salted = self._known.get((salt, iterations))
        if salted is None:
            salted = salted_password(self._mechanism, self._password, salt, iterations)
            self._known.clear()  # a user has one salt at a time
            self._known[salt, iterations] = salted
        return salted

    def _prove(self, salted: bytes, message: bytes) -> bytes:
        hash_name = self._mechanism.hash_name
        keys = keys_of(self._mechanism, salted)
        self._server_signature = hmac.digest(keys.server_key, message, hash_name)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        signature = hmac.digest(keys.stored_key, message, hash_name)
        return bytes(one ^ other for one, other in zip(client_key, signature, strict=True))

    def _check_server(self, server_final: str) -> None:
        parts = _parts(server_final)
        if "e" in parts:
            raise SaslError(f"the broker ends the SCRAM exchange: {parts['e']}")
        if not hmac.compare_digest(_decoded(parts.get("v", "")), self._server_signature):
            raise SaslError(
                "the broker did not prove that it knows this user's password: it may be another's broker"
            )


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise SaslError("the broker's SCRAM token is not UTF-8") from None


def _parts(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in text.split(","))}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
