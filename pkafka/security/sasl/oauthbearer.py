"""OAUTHBEARER (RFC 7628): a token that another server gave, as Kafka has it (KIP-255).

A broker that does not take the token answers with a JSON document and waits for one byte before it says that
the login failed. The tokens themselves are :mod:`pkafka.security.jwt`.
"""

import re
from collections.abc import Mapping
from typing import Final

from pkafka.security.sasl import SaslError

_SEPARATOR: Final = "\x01"
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]*")
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


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
