"""OAUTHBEARER (RFC 7628): a token that another server gave, as Kafka has it (KIP-255).

A broker that does not take the token answers with a JSON document and waits for one byte before it says that
the login failed. The tokens themselves are :mod:`pkafka.security.jwt`.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.security.sasl import LoginRefused, SaslError

_SEPARATOR: Final = "\x01"
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]*")
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_AUTH: Final = re.compile(r"(\w+) +([A-Za-z0-9\-._~+/]+=*)", re.ASCII)
_NAME: Final = re.compile(r"[\x01-\x2b\x2d-\x7f]+")


class OAuthBearerExchange:
    """The client's half.

    Args:
        token: as it travels: a JWT in its compact form.
        extensions: what Kafka's SASL extensions carry along (KIP-342).

    Raises:
        SaslError: the token or an extension has characters that the mechanism cannot carry.
    """

    mechanism: Final = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token):
            raise SaslError("the token has characters that a bearer token cannot have, or is empty")
        for key, value in (extensions or {}).items():
            if key == "auth" or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise SaslError(f"the SASL extension {key!r} has characters that OAUTHBEARER cannot carry")
        pairs = [f"auth=Bearer {token}", *(f"{key}={value}" for key, value in (extensions or {}).items())]
        self._token = f"n,,{_SEPARATOR}{_SEPARATOR.join(pairs)}{_SEPARATOR}{_SEPARATOR}".encode()
        self.is_complete = False
        self.refusal: bytes = b""
        """The broker's JSON document, once it refused the token."""

    def first(self) -> bytes:
        """All there is to say, unless the broker refuses."""
        return self._token

    def answer(self, challenge: bytes) -> bytes | None:
        """None when the broker takes the token; the one byte that ends a refusal otherwise."""
        if challenge:
            self.refusal = challenge
            return _SEPARATOR.encode()
        self.is_complete = not self.refusal
        return None


class BearerToken(NamedTuple):
    """What a broker knows of a token that it trusts."""

    user: str
    expires_ms: int
    """Since the epoch."""


class TokenRefusedError(PkafkaError):
    """The broker does not trust a token; the text, for its log, has nothing of the token.

    Args:
        reason: for the log.
        scope: what the token lacks, where that is the reason.
    """

    def __init__(self, reason: str, *, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope


class OAuthBearerServerExchange:
    """The broker's half.

    Args:
        validate: gives what a token says, or raises TokenRefusedError.
    """

    is_token: Final = False

    def __init__(self, validate: Callable[[str], BearerToken]) -> None:
        self._validate = validate
        self._refusal = ""
        self.is_complete = False
        self.user = ""
        self.expires_ms: int | None = None

    def answer(self, token: bytes) -> bytes:
        """An empty token for a bearer token that is trusted; a JSON document that says why it is not.

        Raises:
            LoginRefused: the client has read that document, or would act for another user.
            SaslError: the client's token breaks the rules.
        """
        if self._refusal and token == _SEPARATOR.encode():
            raise LoginRefused(self._refusal)
        acts_for, text = _client_token(token)
        try:
            trusted = self._validate(text)
        except TokenRefusedError as error:
            self._refusal = _refusal_document(error.scope)
            return self._refusal.encode()
        if acts_for not in ("", trusted.user):
            raise LoginRefused(
                f"Authentication failed: Client requested an authorization id ({acts_for}) that is different from the"
                f" token's principal name ({trusted.user})"
            )
        self.user, self.expires_ms = trusted
        self.is_complete = True
        return b""


def _refusal_document(scope: str | None) -> str:
    """In Kafka's form, with its blank before the scope alone."""
    if scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":{json.dumps(scope)}}}'


def _client_token(token: bytes) -> tuple[str, str]:
    """Whom the client would act for (empty: nobody in particular), and its bearer token."""
    header, *pairs = token.decode(errors="replace").split(_SEPARATOR)
    flag, _, acts_for = header.partition(",")
    if flag != "n" or not acts_for.endswith(",") or len(pairs) < 2 or pairs[-2:] != ["", ""]:
        raise SaslError("Invalid OAUTHBEARER client first message")
    acts_for = acts_for[:-1]
    if acts_for and not (acts_for.startswith("a=") and _NAME.fullmatch(acts_for[2:])):
        raise SaslError("Invalid OAUTHBEARER client first message")
    properties = {}
    for pair in pairs[:-2]:
        key, _, value = pair.partition("=")
        if not _KEY.fullmatch(key) or not value or not _VALUE.fullmatch(value):
            raise SaslError("Invalid OAUTHBEARER client first message")
        properties[key] = value
    found = _AUTH.fullmatch(properties.get("auth", ""))
    if found is None or found[1].lower() != "bearer":
        raise SaslError("Invalid OAUTHBEARER client first message: no bearer token in it")
    return acts_for[2:], found[2]
