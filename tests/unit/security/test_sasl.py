"""The client's halves of the mechanisms: examples of the RFCs, and brokers that break the rules."""

import base64
import hashlib
import hmac

import pytest

from pkafka.net.scram import ScramMechanism, keys_of, salted_password
from pkafka.security.sasl import SaslError
from pkafka.security.sasl.oauthbearer import OAuthBearerExchange
from pkafka.security.sasl.plain import PlainExchange
from pkafka.security.sasl.scram import SaltedPasswords, ScramExchange

SHA_256 = ScramMechanism.SCRAM_SHA_256
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def pencil(**more: SaltedPasswords) -> ScramExchange:
    return ScramExchange(SHA_256, "user", "pencil", NONCE, known=more.get("known"))


def test_the_example_of_rfc_7677() -> None:
    exchange = pencil()
    assert exchange.mechanism == "SCRAM-SHA-256"
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.answer(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not exchange.is_complete
    assert exchange.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert exchange.is_complete
    with pytest.raises(SaslError, match="after the end"):
        exchange.answer(b"v=")


@pytest.mark.parametrize(
    ("server_first", "problem"),
    [
        (SERVER_FIRST.replace(b"r=r", b"r=x"), "another exchange"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another exchange"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "Requested iterations 4095 is less than the minimum 4096"),
        (SERVER_FIRST.replace(b"4096", b"many"), "cannot be read"),
        (SERVER_FIRST.replace(b"s=", b"s=!"), "cannot be read"),
        (b"m=1," + SERVER_FIRST, "cannot be read"),
        (b"\xff", "not UTF-8"),
        (b"", "cannot be read"),
    ],
)
def test_a_first_token_that_breaks_the_rules(server_first: bytes, problem: str) -> None:
    with pytest.raises(SaslError, match=problem):
        pencil().answer(server_first)


@pytest.mark.parametrize(
    ("server_final", "problem"),
    [
        (b"e=other-error", "ends the SCRAM exchange: other-error"),
        (b"v=AAAA", "did not prove"),
        (b"", "did not prove"),
    ],
)
def test_a_broker_that_does_not_know_the_password(server_final: bytes, problem: str) -> None:
    exchange = pencil()
    exchange.answer(SERVER_FIRST)
    with pytest.raises(SaslError, match=problem):
        exchange.answer(server_final)
    assert not exchange.is_complete


def test_a_salted_password_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known: SaltedPasswords = {}
    first = pencil(known=known).answer(SERVER_FIRST)
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", None)
    assert pencil(known=known).answer(SERVER_FIRST) == first


def test_names_are_escaped_and_tokens_marked() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512
    exchange = ScramExchange(mechanism, "a=b,c", "secret", "N", is_token=True)
    first = exchange.first()
    assert first == b"n,,n=a=3Db=2Cc,r=N,tokenauth=true"
    salt = base64.b64encode(b"salt").decode()
    server_first = f"r=N2,s={salt},i=4096"
    answer = exchange.answer(server_first.encode())
    assert answer is not None
    without_proof, _, proof = answer.decode().rpartition(",p=")
    message = f"{first[3:].decode()},{server_first},{without_proof}".encode()
    keys = keys_of(mechanism, salted_password(mechanism, b"secret", b"salt", 4096))
    signature = hmac.digest(keys.stored_key, message, "sha512")
    client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.sha512(client_key).digest() == keys.stored_key


def test_plain() -> None:
    exchange = PlainExchange("alice", "pässword")
    assert exchange.first() == b"\0alice\0p\xc3\xa4ssword"
    exchange.answer(b"")
    assert exchange.is_complete
    with pytest.raises(SaslError, match="challenge"):
        PlainExchange("alice", "x").answer(b"more")
    for user, password in (("", "x"), ("a", ""), ("a\0b", "x"), ("a", "x\0SECRET")):
        with pytest.raises(SaslError) as caught:
            PlainExchange(user, password)
        assert "SECRET" not in str(caught.value)


def test_a_bearer_token_and_its_refusal() -> None:
    assert OAuthBearerExchange("a.b.c").first() == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    exchange = OAuthBearerExchange("a.b.c", {"traceId": "1 2"})
    assert exchange.first() == b"n,,\x01auth=Bearer a.b.c\x01traceId=1 2\x01\x01"
    assert exchange.answer(b"") is None
    assert exchange.is_complete
    refused = OAuthBearerExchange("a.b.c")
    assert refused.answer(b'{"status":"invalid_token"}') == b"\x01"
    assert refused.answer(b"") is None
    assert not refused.is_complete


@pytest.mark.parametrize(
    ("token", "extensions"),
    [("", {}), ("a b", {}), ("a\x01", {}), ("a", {"auth": "x"}), ("a", {"k1": "x"}), ("a", {"k": "\x01"})],
)
def test_what_a_bearer_token_cannot_carry(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(SaslError):
        OAuthBearerExchange(token, extensions)
