"""JSON Web Tokens (RFC 7519) as a client sees them: what a token says of itself, and tokens without a signature.

A client does not check signatures: it is the broker that has to trust the token.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from pkafka.errors import PkafkaError

_UNSIGNED: Final = {"alg": "none"}


class JwtError(PkafkaError):
    """The text is no JSON Web Token; the message shows nothing of it."""


def claims(token: str) -> dict[str, Any]:
    """What a token says.

    Args:
        token: in its compact form: three parts in base64url with dots between them.

    Raises:
        JwtError: it is none.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise JwtError(f"has {len(parts)} parts with dots between them, not three")
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        raise JwtError("has claims that are not JSON in base64url") from None
    if not isinstance(found, dict):
        raise JwtError("has claims that are no JSON object")
    return found


def unsecured(said: Mapping[str, object]) -> str:
    """A token without a signature, for brokers of developers that take such.

    Args:
        said: the claims.
    """
    return f"{_part(_UNSIGNED)}.{_part(said)}."


def _part(said: Mapping[str, object]) -> str:
    text = json.dumps(dict(said), separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()
