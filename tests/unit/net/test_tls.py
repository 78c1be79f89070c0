"""TLS over sockets that never block: both ends in this process, however slow the socket takes its bytes."""

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.net.tls import TlsClosedError, TlsStream
from tests.certificates import Authority
from tests.talk import wait_for

SIZE = 3_000_000


class Ends:
    """A stream and, at the other end of its socket, a server of Python's that blocks."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, scratch_bytes: int = 262_144) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.stream = TlsStream(self.near, client, "broker", scratch=bytearray(scratch_bytes))
        self._context = server
        self.received = bytearray()
        self.secured: ssl.SSLSocket | None = None

    def shake_hands(self) -> None:
        thread = threading.Thread(target=self._accept)
        thread.start()
        try:
            wait_for(self.stream.handshake, timeout_s=30)
        finally:
            thread.join(30)

    def _accept(self) -> None:
        self.secured = self._context.wrap_socket(self.far, server_side=True)

    def close(self) -> None:
        self.near.close()
        self.far.close()
        if self.secured is not None:
            self.secured.close()


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = Authority()
    signed = authority.signed("broker", ["broker"])
    path = tmp_path / "broker.pem"
    path.write_bytes(signed.key_pem() + signed.chain_pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=authority.pem.decode())
    return server, client


@pytest.fixture
def ends(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Ends]:
    made = Ends(*contexts)
    yield made
    made.close()


def test_bytes_arrive_as_they_were_in_both_directions(ends: Ends) -> None:
    ends.shake_hands()
    secured = ends.secured
    assert secured is not None
    assert (ends.stream.version, bool(ends.stream.cipher)) == ("TLSv1.3", True)
    assert ("commonName", "broker") in [
        pair for part in ends.stream.peer_certificate()["subject"] for pair in part
    ]
    sent = os.urandom(SIZE)

    def echo() -> None:
        while len(ends.received) < SIZE:
            ends.received += secured.recv(65_536)
        secured.sendall(ends.received)

    thread = threading.Thread(target=echo)
    thread.start()
    left = memoryview(sent)
    back = bytearray()

    def step() -> bool:
        nonlocal left
        try:
            left = left[ends.stream.send(left) :] if left else left
            ends.stream.flush()
        except BlockingIOError:
            pass
        target = bytearray(100_000)
        try:
            while count := ends.stream.recv_into(memoryview(target)):
                back.extend(target[:count])
        except BlockingIOError:
            pass
        return len(back) == SIZE

    wait_for(step, timeout_s=30)
    thread.join(30)
    assert bytes(ends.received) == sent
    assert bytes(back) == sent
    assert not ends.stream.wants_write


def test_what_the_socket_does_not_take_waits(ends: Ends) -> None:
    ends.shake_hands()
    left = memoryview(bytes(SIZE))
    with contextlib.suppress(BlockingIOError):
        while left:
            left = left[ends.stream.send(left) :]
    assert ends.stream.wants_write
    with pytest.raises(BlockingIOError):
        ends.stream.send(left)
    assert left


@pytest.fixture
def narrow(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Ends]:
    """Ends whose stream takes little from its socket at a time."""
    made = Ends(*contexts, scratch_bytes=5_000)
    made.shake_hands()
    with contextlib.suppress(BlockingIOError):
        made.stream.recv_into(memoryview(bytearray(100)))  # what comes behind the handshake
    yield made
    made.close()


def test_one_read_gives_all_that_the_socket_has(narrow: Ends) -> None:
    assert narrow.secured is not None
    sent = os.urandom(60_000)
    narrow.secured.sendall(sent)
    target = memoryview(bytearray(100_000))
    assert narrow.stream.recv_into(target) == len(sent)
    assert target[: len(sent)] == sent
    assert not narrow.stream.has_more
    with pytest.raises(BlockingIOError):
        narrow.stream.recv_into(target)


def test_one_read_gives_no_more_than_its_target_holds(narrow: Ends) -> None:
    assert narrow.secured is not None
    sent = os.urandom(60_000)
    narrow.secured.sendall(sent)
    target = memoryview(bytearray(10_000))
    found = bytearray()
    while len(found) < len(sent):
        with contextlib.suppress(BlockingIOError):  # says that the socket has to be asked again
            found += target[: narrow.stream.recv_into(target)]
    assert found == sent


def test_what_came_before_the_end_comes_first(narrow: Ends) -> None:
    assert narrow.secured is not None
    narrow.secured.sendall(bytes(60_000))
    narrow.secured.close()
    target = memoryview(bytearray(100_000))
    assert narrow.stream.recv_into(target) == 60_000
    assert narrow.stream.recv_into(target) == 0


def test_a_goodbye_is_an_end(ends: Ends) -> None:
    ends.shake_hands()
    assert ends.secured is not None
    ends.stream.say_goodbye()
    assert ends.secured.recv(10) == b""
    ends.secured.close()
    target = memoryview(bytearray(10))
    wait_for(lambda: _read(ends.stream, target) == 0, timeout_s=30)


def test_an_end_in_the_handshake_is_told(ends: Ends) -> None:
    assert not ends.stream.handshake()
    ends.far.close()
    with pytest.raises((TlsClosedError, ConnectionError)):
        wait_for(ends.stream.handshake, timeout_s=30)


def test_what_is_no_tls_is_told(ends: Ends) -> None:
    assert not ends.stream.handshake()
    ends.far.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ssl.SSLError):
        wait_for(ends.stream.handshake, timeout_s=30)


def _read(stream: TlsStream, target: memoryview) -> int | None:
    try:
        return stream.recv_into(target)
    except BlockingIOError:
        return None
