"""Tokens without a signature, as brokers of developers take them (``OAuthBearerUnsecuredValidatorCallbackHandler``).

Whoever can write such a token may act for anybody. Pure: the time is an argument.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pkafka.security.sasl.oauthbearer import BearerToken, TokenRefusedError

_PREFIX: Final = "unsecuredValidator"


class UnsecuredRules(NamedTuple):
    """What a token has to say of itself.

    Args:
        principal_claim: names the user.
        scope_claim: lists what the token is for.
        required_scope: what of that it has to have.
        skew_ms: how far the clocks may differ.
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    skew_ms: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "UnsecuredRules":
        """The rules that the options of a login module ask for.

        Raises:
            ValueError: the difference of clocks is no number, or less than nothing.
        """
        skew_ms = int(options.get(f"{_PREFIX}AllowableClockSkewMs") or 0)
        if skew_ms < 0:
            raise ValueError(f"{_PREFIX}AllowableClockSkewMs is less than 0")
        return cls(
            options.get(f"{_PREFIX}PrincipalClaimName") or "sub",
            options.get(f"{_PREFIX}ScopeClaimName") or "scope",
            tuple(options.get(f"{_PREFIX}RequiredScope", "").split()),
            skew_ms,
        )

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Take a token.

        Raises:
            TokenRefusedError: it is none, it is signed, it is not of this time, or it lacks a scope or a user.
        """
        said = _claims(token)
        user = said.get(self.principal_claim)
        if not isinstance(user, str) or not user.strip():
            raise TokenRefusedError(f"the claim {self.principal_claim} names no user")
        expires_s, issued_s = _time(said, "exp"), _time(said, "iat")
        if expires_s is None:
            raise TokenRefusedError("the token does not say when it expires (claim exp)")
        if issued_s is not None and int(issued_s * 1_000) > now_ms + self.skew_ms:
            raise TokenRefusedError("the token was issued in the future")
        if now_ms - self.skew_ms >= expires_s * 1_000:
            raise TokenRefusedError("the token has expired")
        if issued_s is not None and expires_s <= issued_s:
            raise TokenRefusedError("the token expires before it was issued")
        self._check_scope(said.get(self.scope_claim))
        return BearerToken(user, int(expires_s * 1_000))

    def _check_scope(self, scope: object) -> None:
        if isinstance(scope, str):
            has = [scope.strip()]  # one, as Kafka has it: several are a list
        elif isinstance(scope, list) and all(isinstance(each, str) for each in scope):
            has = [each.strip() for each in scope]
        elif scope is None:
            has = []
        else:
            raise TokenRefusedError(f"the claim {self.scope_claim} is neither text nor a list of texts")
        if any(each not in has for each in self.required_scope):
            wanted = f"[{', '.join(self.required_scope)}]"
            raise TokenRefusedError(f"the token lacks a scope of {wanted}", scope=wanted)


def _claims(token: str) -> Mapping[str, Any]:
    parts = token.split(".")
    if len(parts) != 3 or not all(parts[:2]):
        raise TokenRefusedError("the token is no JSON Web Token")
    header, said = (_json(part) for part in parts[:2])
    if header.get("alg") != "none" or parts[2]:
        raise TokenRefusedError(
            "the token is signed, and this listener takes tokens without a signature alone"
            " (sasl.server.callback.handler.class)"
        )
    return said


def _json(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefusedError("the token has a part that is no JSON in base64url") from None
    if not isinstance(found, dict):
        raise TokenRefusedError("the token has a part that is no JSON object")
    return found


def _time(said: Mapping[str, Any], claim: str) -> float | None:
    """Seconds since the epoch; None where the token does not say it."""
    value = said.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        raise TokenRefusedError(f"the claim {claim} is no time")
    return value
