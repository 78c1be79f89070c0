"""Clients that come with tokens which another server has signed: its keys, their exchange, and their absence."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.errors import AuthenticationError
from pkafka.testing import Broker, running_broker
from tests.bearer_tokens import AUDIENCE, ISSUER, Keys, KeyServer, claims, key_server
from tests.faults.family import kill, replaced
from tests.interop.secured_kafka import OAUTHBEARER
from tests.interop.secured_pkafka import sasl_settings
from tests.sockets import free_port
from tests.talk import wait_for

PREFIX = "sasl.oauthbearer"
REFRESH_MS = 400


class TokenFile:
    """What a client asks for its token; clients of Python's may name such a class."""

    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


@pytest.fixture(scope="module")
def server() -> Iterator[KeyServer]:
    with key_server(Keys()) as server:
        yield server


def settings(port: int, url: str) -> Mapping[str, object]:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    return {
        **sasl_settings({"tokens": port}, "OAUTHBEARER"),
        "pkafka.workers": 2,
        "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": handler,
        f"{PREFIX}.jwks.endpoint.url": url,
        f"{PREFIX}.jwks.endpoint.refresh.ms": REFRESH_MS,
        f"{PREFIX}.jwks.endpoint.retry.backoff.ms": 50,
        f"{PREFIX}.jwks.endpoint.retry.backoff.max.ms": 200,
        f"{PREFIX}.expected.audience": AUDIENCE,
        f"{PREFIX}.expected.issuer": ISSUER,
    }


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(server: KeyServer, port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("tokens"), settings(port, server.url)) as broker:
        yield broker


def lets_in(port: int, token: str) -> bool:
    keys = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{OAUTHBEARER};",
        "sasl.login.callback.handler.class": TokenFile(token),
    }
    try:
        with Admin(keys) as admin:
            return bool(admin.describe_cluster().brokers)
    except AuthenticationError:
        return False


def test_signed_tokens_let_their_users_in(broker: Broker, server: KeyServer, port: int) -> None:
    wait_for(lambda: lets_in(port, server.keys.signed()))
    # The other worker may hear of the keys a moment later.
    wait_for(lambda: lets_in(port, server.keys.signed(key="curve", alg="ES256")))
    for token in (
        server.keys.signed(claims(aud="others")),
        server.keys.signed(claims(exp=claims()["iat"] - 60, iat=1)),
        server.keys.signed(key="other", kid="rsa"),
        server.keys.confused(),
        server.keys.by_secret(),
    ):
        assert not lets_in(port, token)
    wait_for(lambda: "A token is not trusted" in broker.log_file.read_text())
    said = broker.log_file.read_text()
    assert server.keys.signed().split(".")[0] not in said


def test_keys_that_are_exchanged(broker: Broker, server: KeyServer, port: int) -> None:
    wait_for(lambda: lets_in(port, server.keys.signed()))
    old = server.keys.signed()
    keys = dict(server.keys.published)
    try:
        server.keys.published = {"rsa": server.keys.other, "new": server.keys.curve}
        wait_for(lambda: lets_in(port, server.keys.signed(key="other", kid="rsa")))
        wait_for(lambda: lets_in(port, server.keys.signed(key="curve", kid="new", alg="ES256")))
        wait_for(lambda: not lets_in(port, old))
    finally:
        server.keys.published = keys
    wait_for(lambda: lets_in(port, old))


def test_keys_outlive_their_server_and_the_control_process(
    broker: Broker, server: KeyServer, port: int
) -> None:
    wait_for(lambda: lets_in(port, server.keys.signed()))
    server.status = 500
    try:
        victim = kill(broker, "control")
        for _ in range(4):
            wait_for(lambda: lets_in(port, server.keys.signed()))
        replaced(broker, victim, "control")
        told = "cannot be had, so no new token is trusted: it answers 500"
        wait_for(lambda: told in broker.log_file.read_text())
        # Workers go on with what the control process before told them.
        for _ in range(4):
            wait_for(lambda: lets_in(port, server.keys.signed()))
    finally:
        server.status = 200


def test_keys_come_late(server: KeyServer, tmp_path: Path) -> None:
    port = free_port()
    server.status = 503
    try:
        with running_broker(tmp_path, settings(port, server.url)):
            assert not lets_in(port, server.keys.signed())
            server.status = 200
            wait_for(lambda: lets_in(port, server.keys.signed()))
    finally:
        server.status = 200


def test_a_worker_that_is_forked_again_has_the_keys(broker: Broker, server: KeyServer, port: int) -> None:
    wait_for(lambda: lets_in(port, server.keys.signed()))
    for name in ("worker-0", "worker-1"):
        replaced(broker, kill(broker, name), name)
    for _ in range(8):
        wait_for(lambda: lets_in(port, server.keys.signed()))
