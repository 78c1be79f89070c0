"""Clients that begin a handshake and do not end it, begin many, or speak the wrong language: others are served on."""

import contextlib
import random
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pkafka.clients.producer import Producer
from pkafka.testing import Broker, running_broker
from tests.certificates import Authority
from tests.e2e.conftest import complaints
from tests.faults.family import family
from tests.sockets import free_port
from tests.talk import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

HALF_OPEN: Final = 300
COMERS: Final = 400
PATIENCE_S: Final = 60.0
"""Far more than an answer takes on a machine that stands still; behind handshakes that never end it would not come."""


class Target(NamedTuple):
    """The broker, its ports, and a client's way to trust it."""

    broker: Broker
    plain: int
    tls: int
    authority: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.authority)
        return context

    def connected(self, port: int = 0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port or self.tls), 60)

    @contextlib.contextmanager
    def served_client(self) -> Iterator[Producer]:
        """A client that has its answers in time, before and after."""
        keys = {
            "bootstrap.servers": f"127.0.0.1:{self.tls}",
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }
        workers = {name: process.pid for name, process in family(self.broker).items()}
        with Producer(keys) as producer:
            producer.send("served", b"first").result(60)
            yield producer
            assert slowest_s(producer, 20) < PATIENCE_S
        assert {name: process.pid for name, process in family(self.broker).items()} == workers
        assert complaints(self.broker) == []


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("attacked")
    authority = Authority()
    signed = authority.signed("broker", ["127.0.0.1"])
    (directory / "ca.pem").write_bytes(authority.pem)
    (directory / "broker.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    plain, tls = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": directory / "broker.pem",
        "pkafka.workers": 2,
        "socket.listen.backlog.size": 1_000,
    }
    with running_broker(directory / "broker", settings) as broker:
        yield Target(broker, plain, tls, directory / "ca.pem")


def slowest_s(producer: Producer, count: int) -> float:
    """How long the slowest of so many records takes to be acknowledged, one after the other."""
    slowest = 0.0
    for _ in range(count):
        begun = time.monotonic()
        producer.send("served", b"value").result(60)
        slowest = max(slowest, time.monotonic() - begun)
    return slowest


def hello(target: Target) -> bytes:
    """A client's first words."""
    outgoing = ssl.MemoryBIO()
    tls = target.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_half_open_handshakes_hold_no_one_up(target: Target) -> None:
    words = hello(target)
    with contextlib.ExitStack() as stack, target.served_client() as client:
        for number in range(HALF_OPEN):
            sock = stack.enter_context(target.connected())
            sock.sendall(words[: (0, 1, 5, 100, len(words))[number % 5]])
        assert slowest_s(client, 20) < PATIENCE_S


def test_many_handshakes_at_once_leave_others_their_turn(target: Target) -> None:
    context = target.context()

    def come_and_go(_number: int) -> None:
        with target.connected() as plain, context.wrap_socket(plain, server_hostname="127.0.0.1"):
            pass

    with target.served_client() as client, ThreadPoolExecutor(8) as comers:
        coming = [comers.submit(come_and_go, number) for number in range(COMERS)]
        assert slowest_s(client, 30) < PATIENCE_S
        for one in coming:
            one.result(60)


def test_tls_on_a_plain_port_is_closed_at_once(target: Target) -> None:
    with (
        target.served_client(),
        target.connected(target.plain) as client,
        pytest.raises((ssl.SSLError, ConnectionResetError)),
    ):
        target.context().wrap_socket(client, server_hostname="127.0.0.1")
    wait_for(lambda: "announces a request of" in target.broker.log_file.read_text())


def test_whatever_is_sent_no_worker_ends(target: Target) -> None:
    chance = random.Random(7)
    words = hello(target)
    with target.served_client():
        for _ in range(200):
            said = bytearray(words)
            for _ in range(chance.randrange(1, 6)):
                said[chance.randrange(len(said))] = chance.randrange(256)
            with target.connected() as client, contextlib.suppress(ConnectionError):
                client.sendall(said[: chance.randrange(1, len(said))])
                client.sendall(chance.randbytes(chance.randrange(50)))


def test_records_that_are_none_end_one_connection(target: Target) -> None:
    with target.served_client():
        for size in (1, 20, 16_384, 65_535):
            with (
                target.connected() as plain,
                target.context().wrap_socket(plain, server_hostname="127.0.0.1") as secured,
            ):
                raw = socket.socket(fileno=secured.detach())
                with raw:
                    raw.settimeout(60)
                    raw.sendall(b"\x17\x03\x03" + size.to_bytes(2) + bytes(size))
                    with contextlib.suppress(ConnectionResetError):
                        while raw.recv(1_000):
                            pass


def test_handshakes_count_as_connections_and_end_when_they_are_idle(tmp_path: Path) -> None:
    authority = Authority()
    signed = authority.signed("broker", ["127.0.0.1"])
    (tmp_path / "broker.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    tls = free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},SSL://127.0.0.1:{tls}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": tmp_path / "broker.pem",
        "pkafka.workers": 1,
        "max.connections.per.ip": 5,
        "connections.max.idle.ms": 2_000,
    }
    with running_broker(tmp_path / "broker", settings), contextlib.ExitStack() as stack:
        half_open = [stack.enter_context(socket.create_connection(("127.0.0.1", tls), 60)) for _ in range(5)]
        with socket.create_connection(("127.0.0.1", tls), 60) as sixth:
            assert sixth.recv(1) == b""
        begun = time.monotonic()
        is_over = False
        dripping = half_open[0]
        dripping.settimeout(0.1)
        dripping.sendall(b"\x16\x03\x01\x02\x00")
        while not is_over and time.monotonic() - begun < 60:
            try:
                dripping.sendall(b"\x01")
                is_over = dripping.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                is_over = True
        assert is_over  # each byte is news, and yet it ends
        assert half_open[1].recv(1) == b""
