"""Logins while processes of the broker die, and while others try to let nobody in."""

import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.scram import ScramUpsertion
from pkafka.net.scram import ScramMechanism
from pkafka.protocol.messages.metadata import MetadataRequest
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.security.sasl.scram import ScramExchange
from pkafka.testing import Broker, running_broker
from tests.faults.family import family, kill, replaced
from tests.interop.secured_pkafka import sasl_settings
from tests.raw_client import ClosedByBroker, RawClient, at_once
from tests.sockets import free_port
from tests.talk import wait_for

SHA_256 = ScramMechanism.SCRAM_SHA_256
LOGINS = 300


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture
def broker(port: int, tmp_path: Path) -> Iterator[Broker]:
    settings = {**sasl_settings({"clients": port}), "pkafka.workers": 2}
    with running_broker(tmp_path / "broker", settings) as broker:
        set_password(broker, "alice", "secret")
        wait_for(lambda: everybody_lets_in(port))
        yield broker


def set_password(broker: Broker, user: str, password: str) -> None:
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        upsertion = ScramUpsertion(user=user, mechanism=SHA_256, password=password.encode())
        assert admin.alter_user_scram_credentials([upsertion]) == {user: None}


def begin(port: int) -> tuple[RawClient, ScramExchange, bytes]:
    """A login of which the last step is missing."""
    client = RawClient(f"127.0.0.1:{port}")
    exchange = ScramExchange(SHA_256, "alice", "secret", "N" * 20)
    assert client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
    answer = client.call(SaslAuthenticateRequest(auth_bytes=exchange.first()), 2)
    final = exchange.answer(answer.auth_bytes)
    assert final is not None
    return client, exchange, final


def lets_in(port: int) -> bool:
    with contextlib.suppress(ClosedByBroker, ConnectionError, AssertionError, TypeError):
        client, exchange, final = begin(port)
        with client:
            answer = client.call(SaslAuthenticateRequest(auth_bytes=final), 2)
            if answer.error_code == 0:
                exchange.answer(answer.auth_bytes)
                return bool(client.call(MetadataRequest(topics=[]), 9).brokers)
    return False


def everybody_lets_in(port: int) -> bool:
    """Whether each of a few connections is let in: the kernel spreads them over the workers."""
    return all(lets_in(port) for _ in range(8))


def test_workers_go_on_with_what_they_know_while_control_is_away(broker: Broker, port: int) -> None:
    control = family(broker)["control"]
    os.kill(control.pid, signal.SIGSTOP)
    try:
        for _ in range(8):
            assert lets_in(port)
    finally:
        os.kill(control.pid, signal.SIGCONT)
    victim = kill(broker, "control")
    for _ in range(8):
        assert lets_in(port)
    replaced(broker, victim, "control")
    set_password(broker, "bob", "secret")
    for _ in range(8):
        assert lets_in(port)


def test_a_worker_that_is_killed_amid_logins(broker: Broker, port: int) -> None:
    begun = [begin(port) for _ in range(12)]
    victim = kill(broker, "worker-0")
    ended = went_on = 0
    for client, _exchange, final in begun:
        with client:
            try:
                assert client.call(SaslAuthenticateRequest(auth_bytes=final), 2).error_code == 0
                went_on += 1
            except (ClosedByBroker, ConnectionError):
                ended += 1
    # The kernel spreads connections over the workers.
    assert ended + went_on == len(begun)
    replaced(broker, victim, "worker-0")
    for _ in range(8):
        wait_for(lambda: lets_in(port))


def test_users_outlive_a_restart_of_the_broker(broker: Broker, port: int) -> None:
    broker.restart()
    wait_for(lambda: everybody_lets_in(port))


def test_hundreds_of_logins_beside_a_client_that_is_served(broker: Broker, port: int) -> None:
    """Half of them are never finished, and some announce what they never send."""
    served = begin(port)[0:3]
    client, exchange, final = served
    exchange.answer(client.call(SaslAuthenticateRequest(auth_bytes=final), 2).auth_bytes)
    waiting = [begin(port)[0] for _ in range(LOGINS // 2)]
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(LOGINS // 2)]
    try:
        for each in silent:
            each.sendall(struct.pack(">i", 500_000) + bytes(100))
        slowest_s = 0.0

        def ask_on() -> None:
            nonlocal slowest_s
            for _ in range(100):
                begun_s = time.monotonic()
                assert client.call(MetadataRequest(topics=[]), 9).brokers
                slowest_s = max(slowest_s, time.monotonic() - begun_s)

        def log_in() -> None:
            for _ in range(20):
                assert lets_in(port)

        at_once([ask_on, *[log_in] * 8])
        assert slowest_s < 20
    finally:
        for one in (client, *waiting):
            one.close()
        for each in silent:
            each.close()
