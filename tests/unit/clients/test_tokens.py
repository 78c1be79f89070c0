"""Tokens of OAUTHBEARER: when they are asked for, what a token server is told, and what of it is told on."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from pkafka.clients.config import ClientConfig
from pkafka.clients.errors import AuthenticationError, ConnectError
from pkafka.clients.tokens import token_source
from pkafka.clock import ManualClock
from pkafka.security.bearer_tokens import TokenSource
from pkafka.security.jaas import parse_jaas
from pkafka.security.jwt import claims, unsecured
from pkafka.security.token_settings import Refreshing, Token, extensions
from tests.sockets import free_port
from tests.talk import wait_for

REFRESHING = Refreshing(window_factor=0.8, window_jitter=0.05, buffer_ms=300_000, min_period_ms=60_000)
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
HOUR_MS = 3_600_000


class TokenServer(BaseHTTPRequestHandler):
    """Answers with what the test has put into ``answer``, and keeps what it was asked."""

    answer: tuple[int, bytes] = (200, b"")
    asked: list[tuple[str, dict[str, str], str]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.path, dict(self.headers), body))
        status, data = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[tuple[type[TokenServer], str]]:
    handler = type("Handler", (TokenServer,), {"asked": []})
    with HTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield handler, f"http://127.0.0.1:{running.server_port}/token?tenant=1"
        running.shutdown()
        thread.join(10)


def source(jaas: str, **keys: object) -> tuple[TokenSource, ManualClock]:
    text = f"{MODULE} {jaas};"
    values = {"bootstrap.servers": "h:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    given = {key.replace("_", "."): value for key, value in keys.items()}
    config = ClientConfig.from_properties({**values, "sasl.jaas.config": text, **given})
    clock = ManualClock()
    return token_source(config, parse_jaas(text), clock), clock


@pytest.mark.parametrize(
    ("life_ms", "chance", "expected_ms"),
    [
        (HOUR_MS, 0.0, 2_880_000),
        (HOUR_MS, 1.0, 3_060_000),
        (1_000_000, 1.0, 700_000),  # not in the last five minutes
        (365_000, 0.0, 65_000),
        (300_000, 0.0, 240_000),  # too short for the buffer: it does not count
    ],
)
def test_when_a_token_is_renewed(life_ms: int, chance: float, expected_ms: int) -> None:
    assert REFRESHING.due_ms(1_000, 1_000 + life_ms, chance) == 1_000 + expected_ms


def test_a_token_is_kept_until_it_is_due_and_renewed_in_the_background() -> None:
    clock = ManualClock()
    made: list[Token] = []

    def fetch() -> Token:
        made.append(Token(str(len(made)), clock.now_ms() + HOUR_MS))
        return made[-1]

    tokens = TokenSource(fetch, REFRESHING, clock)
    assert [tokens.token().text for _ in range(3)] == ["0"] * 3
    clock.advance(ms=3_100_000)
    assert tokens.token().text == "0"
    wait_for(lambda: tokens.token().text == "1", timeout_s=30)
    clock.advance(ms=HOUR_MS)
    assert tokens.token().text == "2"


def test_a_token_that_cannot_be_renewed_is_used_to_its_end(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    answers: list[Token | ConnectError] = [Token("first", clock.now_ms() + HOUR_MS)]

    def fetch() -> Token:
        if not answers:
            from pkafka.clients.errors import Stage

            raise ConnectError(Stage.AUTHENTICATE, "h", "the token server is away")
        found = answers.pop()
        assert isinstance(found, Token)
        return found

    tokens = TokenSource(fetch, REFRESHING, clock)
    assert tokens.token().text == "first"
    clock.advance(ms=3_100_000)
    assert tokens.token().text == "first"
    wait_for(lambda: "could not be renewed: the token server is away" in caplog.text, timeout_s=30)
    clock.advance(ms=HOUR_MS)
    with pytest.raises(ConnectError, match="away"):
        tokens.token()


def test_a_token_of_its_own() -> None:
    tokens, clock = source(
        'unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_n="1.5" unsecuredLoginListClaim_l="|a|b" '
        'unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_trace="x"'
    )
    token = tokens.token()
    said = claims(token.text)
    assert (said["sub"], said["n"], said["l"], said["exp"] - said["iat"]) == ("alice", 1.5, ["a", "b"], 60)
    assert token.expires_ms == clock.now_ms() + 60_000
    assert extensions(parse_jaas(f"{MODULE} unsecuredLoginExtension_a=b extension_c=d;")) == {
        "a": "b",
        "c": "d",
    }
    assert "ey" not in repr(token)


def test_a_token_servers_token(server: tuple[type[TokenServer], str]) -> None:
    handler, url = server
    tokens, clock = source(
        'clientId="me:you" clientSecret="TOP SECRET" scope="a b"',
        **{"sasl.oauthbearer.token.endpoint.url": url},
    )
    expires_s = clock.now_ms() // 1_000 + 600
    text = unsecured({"sub": "me", "exp": expires_s})
    handler.answer = (200, json.dumps({"access_token": text, "expires_in": 5}).encode())
    assert tokens.token() == Token(text, expires_s * 1_000)
    ((path, headers, body),) = handler.asked
    assert (path, body) == ("/token?tenant=1", "grant_type=client_credentials&scope=a+b")
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"me:you:TOP SECRET").decode()


def test_id_and_secret_as_in_a_url(server: tuple[type[TokenServer], str]) -> None:
    handler, url = server
    keys: dict[str, Any] = {
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.header.urlencode": "true",
    }
    tokens, clock = source('clientId="a:b" clientSecret="c d"', **keys)
    handler.answer = (200, b'{"access_token": "opaque", "expires_in": 60}')
    assert tokens.token() == Token("opaque", clock.now_ms() + 60_000)
    assert handler.asked[0][1]["Authorization"] == "Basic " + base64.b64encode(b"a%3Ab:c+d").decode()


@pytest.mark.parametrize(
    ("answer", "kind", "problem"),
    [
        (
            (401, b'{"error": "invalid_client", "error_description": "who?"}'),
            AuthenticationError,
            "invalid_client: who",
        ),
        ((400, b"<html>"), AuthenticationError, "refuses this client with 400"),
        ((302, b""), AuthenticationError, "302"),
        ((503, b""), ConnectError, "answers 503"),
        ((200, b"[]"), ConnectError, "without an access_token"),
        ((200, b'{"access_token": "opaque"}'), AuthenticationError, "does not say when it expires"),
    ],
)
def test_what_a_token_server_may_say(
    server: tuple[type[TokenServer], str], answer: tuple[int, bytes], kind: type[ConnectError], problem: str
) -> None:
    handler, url = server
    tokens, _ = source("clientId=me clientSecret=TOPSECRET", **{"sasl.oauthbearer.token.endpoint.url": url})
    handler.answer = answer
    with pytest.raises(ConnectError, match=problem) as caught:
        tokens.token()
    assert type(caught.value) is kind
    assert "TOPSECRET" not in str(caught.value)


def test_a_token_server_that_is_not_there() -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    tokens, _ = source("clientId=me clientSecret=x", **{"sasl.oauthbearer.token.endpoint.url": url})
    with pytest.raises(ConnectError, match="cannot be asked") as caught:
        tokens.token()
    assert caught.value.retriable


class OwnTokens:
    """A class of the user's."""

    def token(self) -> str:
        return unsecured({"sub": "own", "exp": 4_000_000_000})


class NoTokens:
    """A class of the user's that fails."""

    def token(self) -> str:
        raise RuntimeError("the vault is closed")


def test_a_class_of_the_users() -> None:
    tokens, _ = source("a=b", **{"sasl.login.callback.handler.class": OwnTokens})
    assert claims(tokens.token().text)["sub"] == "own"
    tokens, _ = source("a=b", **{"sasl.login.callback.handler.class": NoTokens})
    with pytest.raises(AuthenticationError, match="NoTokens gave no token: the vault is closed"):
        tokens.token()
