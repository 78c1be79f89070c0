"""What a broker takes for a token: without a signature, and signed by a key of a set."""

import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.security.sasl.oauthbearer import BearerToken, TokenRefusedError
from pkafka.security.signed_tokens import SignedRules, UnknownKeyError, read_keys
from pkafka.security.unsecured_tokens import UnsecuredRules
from tests.bearer_tokens import AUDIENCE, ISSUER, Keys, claims, part, signed_tokens, unsigned, unsigned_tokens

KEYS = Keys()
TRUSTED = read_keys(KEYS.document())
RULES = SignedRules(audience=(AUDIENCE,), issuer=ISSUER)
GOOD_UNSIGNED = {
    "good",
    "fractions of seconds",
    "not issued",
    "no scope",
    "scope as a list",
    "a part of the scope",
}
GOOD_SIGNED = {
    "good",
    "a user between blanks",
    "over, but hardly",
    "of the future",
    "hardly not yet",
    "several audiences",
    "no scope",
    "scope as a list",
    "on a curve",
    "by another hash",
    "by PSS",
    "by a key without its name",
}


def now_ms() -> int:
    return int(time.time() * 1_000)


@pytest.mark.parametrize("name", unsigned_tokens())
def test_tokens_without_a_signature(name: str) -> None:
    token = unsigned_tokens()[name]
    if name in GOOD_UNSIGNED:
        assert UnsecuredRules().validate(token, now_ms()).user == "carol"
        return
    with pytest.raises(TokenRefusedError) as refused:
        UnsecuredRules().validate(token, now_ms())
    assert refused.value.scope is None


def test_a_scope_that_is_required() -> None:
    rules = UnsecuredRules(required_scope=("a", "b"))
    assert rules.validate(unsigned(claims(scope=["a", " b "])), now_ms()).user == "carol"
    for scope in ("a b", ["a"], None):
        with pytest.raises(TokenRefusedError) as refused:
            rules.validate(unsigned(claims(scope=scope)), now_ms())
        assert refused.value.scope == "[a, b]"


def test_clocks_that_differ_and_claims_of_other_names() -> None:
    rules = UnsecuredRules.of(
        {"unsecuredValidatorAllowableClockSkewMs": "1500", "unsecuredValidatorPrincipalClaimName": "name"}
    )
    token = unsigned({"name": "dave", "iat": 11, "exp": 20})
    assert rules.validate(token, 9_500) == BearerToken("dave", 20_000)
    assert rules.validate(token, 21_499) == BearerToken("dave", 20_000)
    for at_ms in (9_499, 21_500):
        with pytest.raises(TokenRefusedError):
            rules.validate(token, at_ms)
    with pytest.raises(ValueError, match="less than 0"):
        UnsecuredRules.of({"unsecuredValidatorAllowableClockSkewMs": "-1"})


@pytest.mark.parametrize("name", [*signed_tokens(KEYS), "by a public secret"])
def test_tokens_that_are_signed(name: str) -> None:
    token = {**signed_tokens(KEYS), "by a public secret": KEYS.by_secret()}[name]
    if name in GOOD_SIGNED:
        assert RULES.validate(token, TRUSTED).user == "carol"
        return
    with pytest.raises(TokenRefusedError) as refused:
        RULES.validate(token, TRUSTED)
    assert isinstance(refused.value, UnknownKeyError) == (
        name in ("by a key that is not there", "by a public secret")
    )
    assert token not in str(refused.value)


def test_a_token_is_for_the_one_that_expects_it() -> None:
    said = claims(iat=int(time.time()), exp=int(time.time()) + 5, name="dave")
    assert SignedRules("name", "scope", (AUDIENCE,), ISSUER).validate(
        KEYS.signed(said), TRUSTED
    ) == BearerToken("dave", said["exp"] * 1_000)
    with pytest.raises(TokenRefusedError, match="udience"):
        SignedRules().validate(KEYS.signed(), TRUSTED)
    assert SignedRules().validate(KEYS.signed(claims(aud=None, iss="any")), TRUSTED).user == "carol"


def test_only_public_keys_for_signatures_count() -> None:
    assert [key.id for key in TRUSTED] == ["rsa", "curve"]
    rows = json.loads(KEYS.document())["keys"]
    for change in (
        {"use": "enc"},
        {"alg": "RSA-OAEP"},
        {"alg": "HS256"},
        {"kty": "EC"},
        {"kty": 5},
        {"n": "!"},
    ):
        assert read_keys(json.dumps({"keys": [{**rows[0], **change}]})) == ()
    [only] = read_keys(json.dumps({"keys": [{**rows[0], "alg": "RS384"}]}))
    assert only.algorithms == ("RS384",)
    with pytest.raises(TokenRefusedError, match="no key"):
        RULES.validate(KEYS.signed(), [only])
    assert RULES.validate(KEYS.signed(alg="RS384"), [only]).user == "carol"


@pytest.mark.parametrize("document", ["", "x", "5", "[]", "{}", '{"keys": 5}', '{"keys": [5, null, {}]}'])
def test_documents_that_are_no_key_set(document: str) -> None:
    try:
        assert read_keys(document) == ()
    except ValueError:
        return


def test_a_token_is_not_read_without_end() -> None:
    deep = f"{part(b'[' * 50_000)}.{part({})}."
    for token in (deep, "a" * 500_000, f"{part({'alg': 'RS256', 'kid': 'rsa'})}.{part(b'[' * 40_000)}.AAAA"):
        with pytest.raises(TokenRefusedError):
            UnsecuredRules().validate(token, 0)
        with pytest.raises(TokenRefusedError):
            RULES.validate(token, TRUSTED)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["sub", "exp", "iat", "nbf", "aud", "iss", "scope", "alg", "kid", "crit", "typ", "b64"]
)


@given(
    header=st.dictionaries(NAMES, JSON, max_size=4),
    said=st.dictionaries(NAMES, JSON, max_size=6),
    sign=st.booleans(),
)
def test_whatever_a_token_says_it_is_taken_or_refused(
    header: dict[str, Any], said: dict[str, Any], sign: bool
) -> None:
    if sign:
        payload = json.dumps(said).encode()
        signer = jwt.PyJWS()  # jwt.encode refuses some claims
        token = signer.encode(payload, KEYS.rsa, algorithm="RS256", headers={"kid": "rsa"})
    else:
        token = f"{part({'alg': 'none', **header})}.{part(said)}."
    checks: list[Callable[[], BearerToken]] = [
        lambda: UnsecuredRules().validate(token, 5),
        lambda: RULES.validate(token, TRUSTED),
        lambda: SignedRules().validate(token, TRUSTED),
    ]
    for validate in checks:
        try:
            validate()
        except TokenRefusedError:
            continue
