"""What clients and brokers say around Kerberos's own tokens: the end of the context, the layer, whom one acts for."""

import pytest

from pkafka.security.sasl import SaslError
from pkafka.security.sasl.gssapi import GssapiExchange, GssapiServerExchange, GssError


class Context:
    """A context that is established after so many tokens of the other end, and says each of its own in turn."""

    def __init__(self, says: list[bytes | None], steps: int) -> None:
        self._says = says
        self._steps = steps
        self.fails = ""

    @property
    def is_established(self) -> bool:
        return self._steps <= 0

    def step(self, token: bytes | None) -> bytes | None:
        self._check()
        self._steps -= 1
        return self._says.pop(0)

    def wrap(self, data: bytes) -> bytes:
        self._check()
        return b"<" + data + b">"

    def unwrap(self, data: bytes) -> bytes:
        self._check()
        if data[:1] != b"<":
            raise GssError("not wrapped")
        return data[1:-1]

    def initiator(self) -> str:
        return "alice@REALM"

    def _check(self) -> None:
        if self.fails:
            raise GssError(self.fails)


def test_both_ends_prove_themselves() -> None:
    client = GssapiExchange(Context([b"ticket", None], 2), "alice@REALM")
    server = GssapiServerExchange(Context([b"proof"], 1), lambda principal: principal.partition("@")[0])
    assert client.mechanism == "GSSAPI"
    assert (client.first(), server.answer(b"ticket")) == (b"ticket", b"proof")
    assert client.answer(b"proof") == b""
    offer = server.answer(b"")
    assert offer == b"<\x01\0\0\0>"
    choice = client.answer(offer)
    assert choice == b"<\x01\0\0\0alice@REALM>"
    assert not server.is_complete
    assert server.answer(choice) == b""
    assert not client.is_complete
    assert client.answer(b"") is None
    assert (client.is_complete, server.is_complete, server.user) == (True, True, "alice")
    assert (server.expires_ms, server.is_token) == (None, False)


def test_a_client_that_asks_for_no_proof_gets_the_offer_at_once() -> None:
    """As Java's clients are."""
    client = GssapiExchange(Context([b"ticket"], 1), "alice")
    server = GssapiServerExchange(Context([None], 1), str)
    choice = client.answer(server.answer(client.first()))
    assert choice is not None
    assert server.answer(choice) == b""
    assert server.user == "alice@REALM"


def test_whom_a_client_would_act_for_does_not_count() -> None:
    server = GssapiServerExchange(Context([None], 1), str)
    server.answer(b"ticket")
    server.answer(b"<\x01\0\0\0admin>")
    assert server.user == "alice@REALM"


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        (b"<\x01\0\0>", "cannot be read"),
        (b"<\x02\0\0\0alice>", "wants a security layer"),
        (b"<\x03\0\0\0alice>", "wants a security layer"),
        (b"bare", "not wrapped"),
    ],
)
def test_choices_that_a_broker_refuses(choice: bytes, problem: str) -> None:
    server = GssapiServerExchange(Context([None], 1), str)
    server.answer(b"ticket")
    with pytest.raises(SaslError, match=problem):
        server.answer(choice)
    assert not server.is_complete


@pytest.mark.parametrize(
    ("offer", "problem"),
    [(b"<\x01>", "cannot be read"), (b"<\x06\0\0\0>", "insists on a security layer"), (b"x", "not wrapped")],
)
def test_offers_that_a_client_refuses(offer: bytes, problem: str) -> None:
    client = GssapiExchange(Context([b"ticket"], 1), "alice")
    with pytest.raises(SaslError, match=problem):
        client.answer(offer)


def test_tokens_out_of_turn() -> None:
    server = GssapiServerExchange(Context([b"proof"], 1), str)
    server.answer(b"ticket")
    with pytest.raises(SaslError, match="out of turn"):
        server.answer(b"more")
    client = GssapiExchange(Context([b"ticket"], 1), "alice")
    client.answer(b"<\x01\0\0\0>")
    with pytest.raises(SaslError, match="after the end"):
        client.answer(b"more")


def test_contexts_that_take_more_than_one_token() -> None:
    server = GssapiServerExchange(Context([b"go on", None], 2), str)
    assert server.answer(b"first") == b"go on"
    assert server.answer(b"second") == b"<\x01\0\0\0>"


def test_what_kerberos_refuses() -> None:
    context = Context([], 1)
    context.fails = "Ticket expired"
    with pytest.raises(SaslError, match="Ticket expired"):
        GssapiExchange(context, "alice")
    with pytest.raises(SaslError, match="Ticket expired"):
        GssapiServerExchange(context, str).answer(b"ticket")


def test_a_principal_that_is_nobody() -> None:
    def nobody(principal: str) -> str:
        raise SaslError(f"no rule for {principal}")

    server = GssapiServerExchange(Context([None], 1), nobody)
    server.answer(b"ticket")
    with pytest.raises(SaslError, match="no rule for alice@REALM"):
        server.answer(b"<\x01\0\0\0>")
    assert not server.is_complete
