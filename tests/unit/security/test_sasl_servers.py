"""The broker's halves of the mechanisms: against the client's halves, and against clients that break the rules."""

import base64
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.net.scram import ScramMechanism, keys_of, salted_password
from pkafka.security.sasl import ClientExchange, LoginRefused, SaslError, ServerExchange
from pkafka.security.sasl.oauthbearer import (
    BearerToken,
    OAuthBearerExchange,
    OAuthBearerServerExchange,
    TokenRefusedError,
)
from pkafka.security.sasl.plain import PlainExchange, PlainServerExchange
from pkafka.security.sasl.scram import ScramExchange, ScramServerExchange, ScramUser

SHA_256 = ScramMechanism.SCRAM_SHA_256
PASSWORD = 'se"c\\ret=,é'
SALT = bytes(range(16))


def stored(
    name: str, password: str, mechanism: ScramMechanism = SHA_256, iterations: int = 4096
) -> ScramUser:
    keys = keys_of(mechanism, salted_password(mechanism, password.encode(), SALT, iterations))
    return ScramUser(SALT, keys.stored_key, keys.server_key, iterations, name)


ALICE = stored("alice", PASSWORD)
COMMAS = stored("a=b,c", PASSWORD, ScramMechanism.SCRAM_SHA_512)
TOKEN = ALICE._replace(acts_for="owner", expires_ms=77)


def scram(mechanism: ScramMechanism = SHA_256, nonce: str = "NONCE") -> ScramServerExchange:
    users = {("alice", False): ALICE, ("a=b,c", False): COMMAS, ("T1", True): TOKEN}
    return ScramServerExchange(mechanism, lambda name, is_token: users.get((name, is_token)), nonce)


def plain() -> PlainServerExchange:
    return PlainServerExchange({"alice": PASSWORD, "bob": "bobs", "empty": ""}.get)


def trusting(token: str) -> BearerToken:
    if token == "good.token.x":
        return BearerToken("carol", 99)
    raise TokenRefusedError("for the log", scope="[a]" if token == "small" else None)


def log_in(client: ClientExchange, server: ServerExchange) -> None:
    token: bytes | None = client.first()
    while token is not None:
        token = client.answer(server.answer(token))
    assert client.is_complete
    assert server.is_complete


@pytest.mark.parametrize(
    ("client", "server", "user"),
    [
        (PlainExchange("alice", PASSWORD), plain(), "alice"),
        (ScramExchange(SHA_256, "alice", PASSWORD, "C"), scram(), "alice"),
        (
            ScramExchange(ScramMechanism.SCRAM_SHA_512, "a=b,c", PASSWORD, "C"),
            scram(ScramMechanism.SCRAM_SHA_512),
            "a=b,c",
        ),
        (ScramExchange(SHA_256, "T1", PASSWORD, "C", is_token=True), scram(), "owner"),
        (OAuthBearerExchange("good.token.x", {"traceId": "1"}), OAuthBearerServerExchange(trusting), "carol"),
    ],
)
def test_both_ends_agree(client: ClientExchange, server: ServerExchange, user: str) -> None:
    log_in(client, server)
    assert server.user == user
    assert server.is_token == (user == "owner")
    assert server.expires_ms == {"owner": 77, "carol": 99}.get(user)


def test_the_example_of_rfc_7677() -> None:
    salt = bytes.fromhex("5b6d99689d12358eec a04b141236fa81".replace(" ", ""))
    keys = keys_of(SHA_256, salted_password(SHA_256, b"pencil", salt, 4096))
    user = ScramUser(salt, keys.stored_key, keys.server_key, 4096, "user")
    server = ScramServerExchange(SHA_256, lambda _name, _is_token: user, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = server.answer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert server.answer(final + proof) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.user == "user"


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0", "Authentication failed: password not specified"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0empty\0\0", "expected 3 tokens, got 4"),
        (b"a\0b\0c\0d\0e\0f", "expected 3 tokens, got 4"),
        (b"", "expected 3 tokens, got 1"),
        (b"alice\0x", "expected 3 tokens, got 2"),
        (b"bob\0alice\0" + PASSWORD.encode(), "authorization id that is different from username"),
        (b"\0alice\0\xff\xfe", "Authentication failed: Invalid username or password"),
    ],
)
def test_what_plain_refuses(token: bytes, text: str) -> None:
    server = plain()
    with pytest.raises(LoginRefused, match=text):
        server.answer(token)
    assert not server.is_complete


def test_plain_takes_a_client_that_would_act_for_itself() -> None:
    server = plain()
    assert server.answer(b"bob\0bob\0bobs") == b""
    assert server.user == "bob"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"n,,n=alice",
        b"n,,r=C,n=alice",
        b"n,,n=,r=C",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=C\x7f",
        b"n,,n=alice,r=C,=x",
        b"n,,n=alice,r=C,x=",
        b"n,,n=al=ice,r=C",
        b"n,,n=al=2ice,r=C",
        b"n,b=x,n=alice,r=C",
        b"y,,n=alice,r=C",
        b"p=tls-unique,,n=alice,r=C",
        "n,,n=älice,r=C".encode(),
        b"\xff\xfe",
        b"n,,n=nobody,r=C",
        b"n,,n=alice,r=C,tokenauth=true",
        b"n,,n=T1,r=C",
    ],
)
def test_first_scram_tokens_that_are_refused(token: bytes) -> None:
    server = scram()
    with pytest.raises(SaslError):
        server.answer(token)
    with pytest.raises(SaslError, match="Unexpected challenge"):
        server.answer(b"n,,n=alice,r=C")


def test_scram_extensions_and_reserved_attributes_are_read_over() -> None:
    assert scram().answer(b"n,,m=x,n=alice,r=C,ext=1=2,other=x").startswith(b"r=CNONCE,s=")
    assert scram().answer(b"n,a=alice,n=alice,r=C").startswith(b"r=CNONCE,s=")
    with pytest.raises(LoginRefused, match="different from username"):
        scram().answer(b"n,a=bob,n=alice,r=C")


def test_a_stored_credential_of_too_few_iterations_lets_nobody_in() -> None:
    weak = ScramServerExchange(SHA_256, lambda _name, _is_token: ALICE._replace(iterations=4095), "N")
    with pytest.raises(SaslError, match="too few"):
        weak.answer(b"n,,n=alice,r=C")


def proof_of(client: ScramExchange, server: ScramServerExchange) -> bytes:
    final = client.answer(server.answer(client.first()))
    assert final is not None
    return final


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final[:-8] + b"AAAAAAA=",
        lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final.replace(b"r=CN", b"r=XCN"),
        lambda final: final.replace(b"r=CN", b"r=N"),
        lambda final: final.partition(b",p=")[0],
        lambda final: final + b"====",
        lambda final: final[:60],
        lambda final: b"",
        lambda final: b"c=biws,p=AAAA",
        lambda final: b"\xff" * 10,
    ],
)
def test_proofs_that_are_refused(change: Callable[[bytes], bytes]) -> None:
    server = scram()
    final = proof_of(ScramExchange(SHA_256, "alice", PASSWORD, "C"), server)
    with pytest.raises(SaslError):
        server.answer(change(final))
    assert not server.is_complete
    with pytest.raises(SaslError, match="Unexpected challenge"):
        server.answer(final)


def test_what_was_overheard_of_one_login_is_of_no_use_in_another() -> None:
    overheard = proof_of(ScramExchange(SHA_256, "alice", PASSWORD, "C"), scram(nonce="FIRST"))
    server = scram(nonce="SECOND")
    server.answer(b"n,,n=alice,r=C")
    with pytest.raises(SaslError, match="another exchange"):
        server.answer(overheard)


@pytest.mark.parametrize("own_nonce", ["CCNONCE", "CNONCE", "NONCE"])
def test_a_nonce_counts_by_its_end_as_librdkafka_needs_it(own_nonce: str) -> None:
    server = scram()
    asked = server.answer(b"n,,n=alice,r=C").decode()
    without_proof = f"c=biws,r={own_nonce}"
    salted = salted_password(SHA_256, PASSWORD.encode(), SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(ALICE.stored_key, f"n=alice,r=C,{asked},{without_proof}".encode(), "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    server.answer(f"{without_proof},p={base64.b64encode(proof).decode()}".encode())
    assert server.is_complete


def test_a_wrong_password_is_no_proof() -> None:
    server = scram()
    with pytest.raises(SaslError, match="proof"):
        server.answer(proof_of(ScramExchange(SHA_256, "alice", "wrong", "C"), server))


def test_a_bearer_token_is_refused_in_two_rounds() -> None:
    for token, document in (
        ("bad", '{"status":"invalid_token"}'),
        ("small", '{"status":"insufficient_scope", "scope":"[a]"}'),
    ):
        client, server = OAuthBearerExchange(token), OAuthBearerServerExchange(trusting)
        assert server.answer(client.first()).decode() == document
        end = client.answer(document.encode())
        assert end is not None
        with pytest.raises(LoginRefused) as refused:
            server.answer(end)
        assert str(refused.value) == document
        assert not server.is_complete


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\x01",
        b"n,,\x01auth=Bearer good.token.x\x01",
        b"n,\x01auth=Bearer good.token.x\x01\x01",
        b"y,,\x01auth=Bearer good.token.x\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01k=v\x01\x01",
        b"n,,\x01auth=Basic good.token.x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer good token\x01\x01",
        b"n,,\x01auth=Bearer good.token.x\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer good.token.x\x01k=\x01\x01",
        b"n,b=carol,\x01auth=Bearer good.token.x\x01\x01",
        b"\xff\xfe",
    ],
)
def test_bearer_tokens_that_cannot_be_read(token: bytes) -> None:
    server = OAuthBearerServerExchange(trusting)
    with pytest.raises(SaslError):
        server.answer(token)
    assert not server.is_complete


def test_a_bearer_token_and_whom_its_client_would_act_for() -> None:
    server = OAuthBearerServerExchange(trusting)
    assert server.answer(b"n,a=carol,\x01auth=bearer  good.token.x\x01\x01") == b""
    with pytest.raises(
        LoginRefused, match=r"\(bob\) that is different from the token's principal name \(carol\)"
    ):
        OAuthBearerServerExchange(trusting).answer(b"n,a=bob,\x01auth=Bearer good.token.x\x01\x01")


@pytest.mark.parametrize("make", [plain, scram, lambda: OAuthBearerServerExchange(trusting)])
@given(tokens=st.lists(st.binary(max_size=60) | st.text("n,a=r1\x01\x00 pcv", max_size=40).map(str.encode)))
def test_whatever_a_client_sends_it_is_answered_or_refused(
    make: Callable[[], ServerExchange], tokens: list[bytes]
) -> None:
    server = make()
    for token in tokens:
        try:
            assert isinstance(server.answer(token), bytes)
        except SaslError:
            break
        assert not server.is_complete


def test_half_a_megabyte_of_signs_is_read_in_a_moment() -> None:
    with pytest.raises(SaslError):
        scram().answer(b"n,,n=" + b"=2C" * 170_000 + b"=,r=C")
    with pytest.raises(SaslError):
        scram().answer(b"n,,n=alice,r=C" + b",a=b" * 130_000 + b",")
    with pytest.raises(SaslError):
        OAuthBearerServerExchange(trusting).answer(b"n,,\x01" + b"k=v\x01" * 130_000)


def test_no_repr_shows_keys() -> None:
    assert repr(ALICE) == "ScramUser('alice')"
