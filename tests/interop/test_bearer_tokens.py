"""Tokens of OAUTHBEARER, without a signature and signed: whom Apache Kafka lets in, pkafka lets in, and no other."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pytest

from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.testing import running_broker
from tests.bearer_tokens import AUDIENCE, ISSUER, Keys, key_server, signed_tokens, unsigned, unsigned_tokens
from tests.interop.kafka import running_kafka
from tests.interop.secured_kafka import OAUTHBEARER
from tests.interop.secured_pkafka import sasl_settings
from tests.raw_client import ClosedByBroker, RawClient
from tests.sockets import free_port
from tests.talk import wait_for

LISTENERS: Final = ("bare", "scoped", "signed", "anybody", "renewing")
PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
BETTER: Final[Mapping[str, object]] = {}
"""What Apache Kafka answers where pkafka does something else."""


def settings(ports: Mapping[str, int], url: str) -> dict[str, object]:
    """Listeners that take tokens without a signature, those with a scope, and signed ones of one issuer or of any."""
    # Apache Kafka wants a token of its own where the module has any option. A minute, as the one broker is asked before
    # the other, and what is over by a second is to be good at both.
    scoped = 'unsecuredValidatorRequiredScope="a b" unsecuredValidatorAllowableClockSkewMs="60000"'
    scoped += ' unsecuredLoginStringClaim_sub="broker"'
    common = {
        f"listener.name.{name}.oauthbearer.sasl.server.callback.handler.class": (
            f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
        )
        for name in ("signed", "anybody")
    }
    return {
        **sasl_settings(ports, "OAUTHBEARER"),
        **common,
        "listener.name.scoped.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER} {scoped};",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "listener.name.signed.sasl.oauthbearer.expected.audience": f"x,{AUDIENCE}",
        "listener.name.signed.sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.anybody.sasl.oauthbearer.sub.claim.name": "iss",
        "offsets.topic.replication.factor": 1,
    }


class Sides(NamedTuple):
    """The ports of the listeners of Apache Kafka and of pkafka."""

    kafka: Mapping[str, int]
    pkafka: Mapping[str, int]
    keys: Keys


@pytest.fixture(scope="module")
def sides(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    directory, keys = tmp_path_factory.mktemp("bearer"), Keys()
    one, other = ({name: free_port() for name in LISTENERS} for _ in range(2))
    with (
        key_server(keys) as server,
        running_kafka(directory / "kafka", overrides=settings(one, server.url)),
        running_broker(directory / "pkafka", settings(other, server.url)),
    ):
        wait_for(lambda: outcome(other["signed"], keys.signed())[-1][0] == 0)
        yield Sides(one, other, keys)


class Lifetime:
    """How long a session may last; two are the same that are as long, or that end together.

    Where a session ends with its token, the broker that is asked later gives it less.

    Args:
        ms: what the broker told.
        asked_s: when it was asked.
    """

    __hash__ = None  # type: ignore[assignment] # how much may lie between equal ones depends on both

    def __init__(self, ms: int, asked_s: float) -> None:
        self._ms = ms
        self._earliest_end_s = asked_s + ms / 1_000 - 1
        self._latest_end_s = time.time() + ms / 1_000 + 1

    def __repr__(self) -> str:
        return f"{self._ms} ms"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lifetime):
            return NotImplemented
        if not self._ms or not other._ms:
            return self._ms == other._ms
        end_together = (
            self._earliest_end_s <= other._latest_end_s and other._earliest_end_s <= self._latest_end_s
        )
        return self._ms == other._ms or end_together


def outcome(port: int, token: str, begin: str = "n,,") -> list[Any]:
    """What a broker answers to a token, and to the byte that follows a refusal."""
    seen: list[Any] = []
    with RawClient(f"127.0.0.1:{port}") as client:
        try:
            assert client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
            text = f"{begin}\x01auth=Bearer {token}\x01\x01"
            for data in (text.encode(), b"\x01"):
                asked_s = time.time()
                answer = client.call(SaslAuthenticateRequest(auth_bytes=data), 1)
                lifetime = Lifetime(answer.session_lifetime_ms, asked_s)
                seen.append((answer.error_code, answer.error_message, answer.auth_bytes, lifetime))
                if not answer.auth_bytes:
                    break
        except ClosedByBroker:
            seen.append("closed")
    return seen


UNSIGNED: Final = tuple(unsigned_tokens())


@pytest.mark.parametrize("listener", ["bare", "scoped", "signed"])
@pytest.mark.parametrize("name", UNSIGNED)
def test_tokens_without_a_signature(sides: Sides, listener: str, name: str) -> None:
    token = unsigned_tokens()[name]
    assert outcome(sides.pkafka[listener], token) == outcome(sides.kafka[listener], token)


@pytest.mark.parametrize("listener", ["signed", "anybody", "bare"])
def test_tokens_that_are_signed(sides: Sides, listener: str) -> None:
    tokens = signed_tokens(sides.keys)
    answers = {
        name: (outcome(sides.kafka[listener], token), outcome(sides.pkafka[listener], token))
        for name, token in tokens.items()
    }
    assert {name: pair for name, pair in answers.items() if pair[0] != pair[1]} == {}


def test_a_token_that_is_signed_by_a_public_secret_lets_nobody_in(sides: Sides) -> None:
    """Apache Kafka takes it: the key set shows the secret to all."""
    token = sides.keys.by_secret()
    assert outcome(sides.kafka["signed"], token)[-1][0] == 0
    assert outcome(sides.pkafka["signed"], token)[-1][0] == 58


@pytest.mark.parametrize("begin", ["n,a=carol,", "n,a=bob,", "n,a=,", "n,b=carol,", "y,,", "n,", ""])
def test_whom_a_client_would_act_for(sides: Sides, begin: str) -> None:
    token = unsigned()
    assert outcome(sides.pkafka["bare"], token, begin) == outcome(sides.kafka["bare"], token, begin)


def test_a_session_lasts_as_long_as_the_shorter_of_two_limits(sides: Sides) -> None:
    token = unsigned()
    assert outcome(sides.pkafka["renewing"], token) == outcome(sides.kafka["renewing"], token)
