"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) as Kafka has them, without channel binding.

Kafka's extension ``tokenauth=true`` says that the name is the id of a delegation token and the password its
HMAC (KIP-48).
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, MutableMapping
from enum import Enum
from typing import Final, NamedTuple

from pkafka.net.scram import ScramMechanism, keys_of, salted_password
from pkafka.security.sasl import LoginRefused, SaslError

_HEADER: Final = "n,,"
_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_VALUE: Final = re.compile(r"[\x01-\x2b\x2d-\x7f]+")
_NAME: Final = re.compile(r"[A-Za-z]+")
_ESCAPES: Final = (("=2C", ","), ("=3D", "="))
SaltedPasswords = MutableMapping[tuple[bytes, int], bytes]
"""Salted passwords by salt and iterations: each costs the client milliseconds to make."""


class _Step(Enum):
    FIRST = "first"
    FINAL = "final"
    OVER = "over"
    FAILED = "failed"


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


class ScramUser(NamedTuple):
    """What a broker knows of a user, or of a delegation token."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    acts_for: str
    """The user itself; of a token its owner."""
    expires_ms: int | None = None
    """When the token ends, since the epoch."""

    def __repr__(self) -> str:
        return f"ScramUser({self.acts_for!r})"


ScramUsers = Callable[[str, bool], ScramUser | None]
"""Finds a user by its name or, where the flag is set, a delegation token by its id."""


class ScramServerExchange:
    """The broker's half of one login.

    Args:
        mechanism: one of the two.
        users: finds what the broker knows.
        nonce: chance in printable ASCII without a comma, new for each exchange.
    """

    def __init__(self, mechanism: ScramMechanism, users: ScramUsers, nonce: str) -> None:
        self._mechanism = mechanism
        self._users = users
        self._nonce = nonce
        self._known: ScramUser | None = None
        self._asked = ""
        """The bare first token of the client and the broker's answer to it, as the proofs take them."""
        self._step = _Step.FIRST
        self.user = ""
        self.expires_ms: int | None = None
        self.is_token = False

    @property
    def is_complete(self) -> bool:
        """Whether the client has proved that it knows the password."""
        return self._step is _Step.OVER

    def answer(self, token: bytes) -> bytes:
        """The salt for the client's first token, and this broker's proof for its last.

        Raises:
            LoginRefused: the client would act for another user.
            SaslError: there is no such user, its proof is wrong, or the token breaks the rules.
        """
        step, self._step = self._step, _Step.FAILED
        if step is _Step.FIRST:
            answer = self._challenge(_ascii(token))
            self._step = _Step.FINAL
            return answer
        if step is _Step.FINAL:
            answer = self._verified(_ascii(token))
            self._step = _Step.OVER
            return answer
        raise SaslError("Unexpected challenge in the SCRAM exchange")

    def _challenge(self, token: str) -> bytes:
        first = _client_first(token)
        known = self._users(first.name, first.is_token)
        if known is None:
            raise SaslError("there is no such user, or it has no credential of this mechanism")
        if first.acts_for not in ("", first.name):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if known.iterations < self._mechanism.iterations_min:
            raise SaslError(f"the stored credential has {known.iterations} iterations, which is too few")
        self._known, self.is_token = known, first.is_token
        salt = base64.b64encode(known.salt).decode()
        answer = f"r={first.nonce}{self._nonce},s={salt},i={known.iterations}"
        self._asked = f"{first.bare},{answer}"
        return answer.encode()

    def _verified(self, token: str) -> bytes:
        known = self._known
        assert known is not None
        without_proof, separator, proof = token.rpartition(",p=")
        parts = without_proof.split(",")
        if not separator or len(parts) < 2 or not parts[0].startswith("c=") or not parts[1].startswith("r="):
            raise SaslError("the last SCRAM token cannot be read")
        # RFC 5802 wants the client's part before it once. librdkafka before 2.6.1 (kcat of Debian 12, confluent-kafka)
        # puts it there twice, which Apache Kafka 3.9.1 takes. This broker's part alone belongs to one exchange only.
        if not parts[1].endswith(self._nonce):
            raise SaslError("the last SCRAM token belongs to another exchange")
        message = f"{self._asked},{without_proof}".encode()
        if not self._is_proof(known.stored_key, message, _decoded(proof)):
            raise SaslError("the proof is wrong")
        self.user, self.expires_ms = known.acts_for, known.expires_ms
        signature = hmac.digest(known.server_key, message, self._mechanism.hash_name)
        return f"v={base64.b64encode(signature).decode()}".encode()

    def _is_proof(self, stored_key: bytes, message: bytes, proof: bytes) -> bool:
        hash_name = self._mechanism.hash_name
        signature = hmac.digest(stored_key, message, hash_name)
        if len(proof) != len(signature):
            return False
        client_key = bytes(one ^ other for one, other in zip(signature, proof, strict=True))
        return hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), stored_key)


class _ClientFirst(NamedTuple):
    name: str
    acts_for: str
    nonce: str
    bare: str
    """The token without its header and, as Kafka has it, without the reserved attribute."""
    is_token: bool


def _client_first(token: str) -> _ClientFirst:
    """Read a client's first token; split and not matched as a whole, since clients may send half a megabyte."""
    header, _, rest = token.partition(",")
    acts_for, _, bare = rest.partition(",")
    parts = bare.split(",")
    if header == "n" and parts[0].startswith("m="):
        del parts[0]
    if header != "n" or len(parts) < 2 or not parts[0].startswith("n=") or not parts[1].startswith("r="):
        raise SaslError("the first SCRAM token cannot be read")
    nonce, extensions = parts[1][2:], [part.partition("=") for part in parts[2:]]
    if not _NONCE.fullmatch(nonce) or not all(
        _NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, _, value in extensions
    ):
        raise SaslError("the first SCRAM token has signs that do not belong there")
    if acts_for and not acts_for.startswith("a="):
        raise SaslError("the first SCRAM token cannot be read")
    is_token = any(name == "tokenauth" and value.lower() == "true" for name, _, value in extensions)
    name = _unescaped(parts[0][2:])
    return _ClientFirst(name, _unescaped(acts_for[2:]) if acts_for else "", nonce, ",".join(parts), is_token)


def _unescaped(name: str) -> str:
    """The user that a token names."""
    if not _VALUE.fullmatch(name) or "=" in name.replace("=2C", "").replace("=3D", ""):
        raise SaslError("the first SCRAM token has a name that cannot be read")
    for escaped, sign in _ESCAPES:
        name = name.replace(escaped, sign)
    return name


def _ascii(token: bytes) -> str:
    try:
        return token.decode("ascii")
    except UnicodeDecodeError:
        raise SaslError("a SCRAM token is not ASCII") from None


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
