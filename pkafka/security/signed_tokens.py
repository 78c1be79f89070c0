"""JSON Web Tokens that are signed, and the keys by which a broker trusts them (RFC 7515, RFC 7517; KIP-768).

PyJWT checks the signatures; the extra ``pkafka[oauth]`` brings it, and only this module knows it. Only keys that have a
public half count: a key that is secret on both sides could not stand in a public document, and algorithms that use one
would let anybody sign with what is public.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pkafka.security.sasl.oauthbearer import BearerToken, TokenRefusedError

if TYPE_CHECKING:
    import jwt

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final[Mapping[str, tuple[str, ...]]] = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "secp256k1": ("ES256K",),
    "Ed25519": ("EdDSA",),
    "Ed448": ("EdDSA",),
}
_TOKEN_MAX: Final = 64 * 1024
"""Characters; a longer one is not looked at."""


class VerificationKey(NamedTuple):
    """A public key with what it may be used for."""

    id: str | None
    algorithms: tuple[str, ...]
    key: "jwt.PyJWK"


class UnknownKeyError(TokenRefusedError):
    """The key that a token names is not there, or not yet.

    Args:
        key_id: its name.
    """

    def __init__(self, key_id: str) -> None:
        super().__init__("the token is signed by a key that the key set does not have")
        self.key_id = key_id


class SignedRules(NamedTuple):
    """What a token has to say of itself (``sasl.oauthbearer.*``).

    Args:
        user_claim: names the user.
        scope_claim: lists what the token is for.
        audience: for whom the token may be; empty: it must not name any.
        issuer: who has to have issued it; None for anyone that has the key.
        skew_s: how far the clocks may differ.
    """

    user_claim: str = "sub"
    scope_claim: str = "scope"
    audience: tuple[str, ...] = ()
    issuer: str | None = None
    skew_s: int = 30

    def validate(self, token: str, keys: Sequence[VerificationKey]) -> BearerToken:
        """Take a token.

        Args:
            token: in its compact form.
            keys: those that are trusted.

        Raises:
            UnknownKeyError: it names a key that is not among them.
            TokenRefusedError: it is none, its signature is wrong, it is not of this time, or not for this broker.
        """
        said = self._verified(token, keys)
        user, expires_s = said.get(self.user_claim), said["exp"]
        if not isinstance(user, str) or not user.strip():
            raise TokenRefusedError(f"the claim {self.user_claim} names no user")
        _check_scope(self.scope_claim, said.get(self.scope_claim))
        return BearerToken(user.strip(), int(expires_s * 1_000))

    def _verified(self, token: str, keys: Sequence[VerificationKey]) -> Mapping[str, Any]:
        import jwt

        if len(token) > _TOKEN_MAX:
            raise TokenRefusedError(f"the token has {len(token)} characters")
        try:
            header = jwt.get_unverified_header(token)
            candidates = _candidates(header, keys)
            for number, candidate in enumerate(candidates, start=1):
                try:
                    return self._decoded(token, candidate)
                except jwt.InvalidSignatureError:
                    if number == len(candidates):
                        raise
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            # PyJWT's texts name claims and reasons, and nothing of the token.
            raise TokenRefusedError(f"{type(error).__name__}: {error}"[:200]) from None
        raise AssertionError("there is a candidate")

    def _decoded(self, token: str, candidate: VerificationKey) -> Mapping[str, Any]:
        import jwt

        said: dict[str, Any] = jwt.decode(
            token,
            candidate.key.key,
            algorithms=list(candidate.algorithms),
            audience=list(self.audience) or None,
            issuer=self.issuer,
            leeway=self.skew_s,
            # As Kafka: when a token was issued has to be said, but not to lie in the past; any claim may name the user.
            options={
                "require": ["exp", "iat"],
                "verify_iat": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
        if isinstance(said["exp"], bool) or not isinstance(said["iat"], int | float):
            raise TokenRefusedError("the claims exp and iat are to be times")
        if said["exp"] < max(said["iat"], said.get("nbf", 0)):
            raise TokenRefusedError("the token expires before it is issued, or before it counts")
        return said


def read_keys(document: str) -> tuple[VerificationKey, ...]:
    """The keys of a JSON Web Key Set that may verify tokens; what cannot be used is left out.

    Raises:
        ValueError: the text is no key set.
    """
    import jwt

    try:
        rows = json.loads(document)["keys"]
    except (TypeError, KeyError, RecursionError):
        raise ValueError("the document has no list of keys") from None
    found = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or row.get("use", "sig") != "sig":
            continue
        algorithms = _algorithms(row)
        if not algorithms:
            continue
        try:
            key = jwt.PyJWK.from_dict(row, algorithms[0])
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        key_id = row.get("kid")
        found.append(VerificationKey(key_id if isinstance(key_id, str) else None, algorithms, key))
    return tuple(found)


def _algorithms(row: Mapping[str, Any]) -> tuple[str, ...]:
    """By what a key may be used: what it says itself, as far as its kind allows it."""
    kind, curve = row.get("kty"), row.get("crv")
    possible = _RSA if kind == "RSA" else _CURVES.get(curve, ()) if isinstance(curve, str) else ()
    wanted = row.get("alg")
    return possible if wanted is None else tuple(name for name in possible if name == wanted)


def _candidates(header: Mapping[str, Any], keys: Sequence[VerificationKey]) -> Sequence[VerificationKey]:
    key_id, algorithm = header.get("kid"), header.get("alg")
    if key_id is not None and not any(key.id == key_id for key in keys):
        raise UnknownKeyError(str(key_id))
    fitting = [key for key in keys if algorithm in key.algorithms and (key_id is None or key.id == key_id)]
    if not fitting:
        raise TokenRefusedError("the token is signed by an algorithm for which there is no key")
    return fitting


def _check_scope(claim: str, scope: object) -> None:
    """Kafka refuses a scope that has an empty part, or the same part twice."""
    parts = [scope] if isinstance(scope, str) else scope
    if not isinstance(parts, list):
        return
    texts = [part.strip() if isinstance(part, str) else "" for part in parts]
    if not all(texts) or len(set(texts)) != len(texts):
        raise TokenRefusedError(f"the claim {claim} has a part that is empty or comes twice")
