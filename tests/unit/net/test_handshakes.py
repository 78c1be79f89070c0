"""Handshakes with clients that speak TLS, and with those that do not, or not to its end."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkafka.net.handshakes import Handshake, Handshakes
from pkafka.net.tls import TlsStream
from pkafka.security.tls_context import ClientAuth
from tests.unit.net.connected import Run, turns
from tests.unit.net.encrypted import contexts


class Knock:
    """A client that has just connected, and what becomes of it."""

    def __init__(self, handshakes: Handshakes, client_auth: ClientAuth = ClientAuth.NONE) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.setblocking(False)
        theirs.setblocking(False)
        self.done: list[TlsStream] = []
        self.failed: list[str | None] = []
        self._sockets = [theirs]
        self.handshake = Handshake(
            theirs,
            contexts(client_auth)[0],
            listener="SSL",
            peer_host="here",
            handshakes=handshakes,
            done=lambda _handshake, _sock, stream: self.done.append(stream),
            failed=lambda _handshake, reason: self.failed.append(reason),
        )

    @property
    def is_over(self) -> bool:
        return bool(self.done or self.failed)

    def received(self) -> bytes:
        try:
            return self.sock.recv(100_000)
        except BlockingIOError:
            return b"(nothing)"

    def end(self) -> None:
        self.handshake.close()
        for sock in (self.sock, *self._sockets):
            sock.close()


def hello(context: ssl.SSLContext | None = None) -> bytes:
    """A client's first words."""
    outgoing = ssl.MemoryBIO()
    context = context or contexts()[1]
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="broker").do_handshake()
    return outgoing.read()


HELLO = hello()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - turns of the loop are what it waits for
            await asyncio.sleep(0)


async def shake(knock: Knock, context: ssl.SSLContext | None = None) -> TlsStream:
    near = TlsStream(knock.sock, context or contexts()[1], "broker")
    while not near.handshake():  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    return near


def test_the_two_sides_agree(run: Run) -> None:
    async def test() -> None:
        knock = Knock(Handshakes())
        await shake(knock)
        await until(lambda: knock.is_over)
        assert knock.failed == []
        assert knock.done[0].version == "TLSv1.3"
        knock.end()

    run(test)


@pytest.mark.parametrize(
    "first", [b"\0", b"\0\0\0\x10\0\x12", b"GET / HTTP/1.1\r\n", b"\x16\x02\0", b"\x80\x2e\x01"]
)
def test_who_does_not_speak_tls_gets_no_byte(run: Run, first: bytes) -> None:
    async def test() -> None:
        knock = Knock(Handshakes())
        knock.sock.sendall(first)
        await until(lambda: knock.is_over)
        assert knock.failed == ["the client does not speak TLS"]
        with pytest.raises(ConnectionResetError):  # as what it sent was not read
            knock.received()
        knock.end()

    run(test)


def test_who_connects_and_goes_is_not_told_of(run: Run) -> None:
    async def test() -> None:
        handshakes = Handshakes()
        before, amid = Knock(handshakes), Knock(handshakes)
        amid.sock.sendall(HELLO[:50])
        await turns()
        for knock in (before, amid):
            knock.sock.close()
            await until(lambda knock=knock: knock.is_over)  # type: ignore[misc]
            assert knock.failed == [None]
            knock.end()

    run(test)


def test_a_client_without_the_certificate_that_is_wanted_is_told_of(run: Run) -> None:
    async def test() -> None:
        knock = Knock(Handshakes(), ClientAuth.REQUIRED)
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
        await shake(knock, bare)
        await until(lambda: knock.is_over)
        assert knock.failed == ["peer did not return a certificate"]
        knock.end()

    run(test)


def test_a_client_that_shows_its_certificate_is_known(run: Run) -> None:
    async def test() -> None:
        for client_auth in (ClientAuth.REQUIRED, ClientAuth.REQUESTED):
            knock = Knock(Handshakes(), client_auth)
            await shake(knock, contexts(client_auth)[1])
            await until(lambda knock=knock: knock.is_over)  # type: ignore[misc]
            assert knock.done[0].peer_certificate_der() is not None
            knock.end()

    run(test)


def test_small_pieces_do_not_make_a_client_younger(run: Run) -> None:
    async def test() -> None:
        knock = Knock(Handshakes())
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(0.001)
        for byte in HELLO[:100]:
            knock.sock.sendall(bytes([byte]))
            await turns(3)
        assert not knock.is_over
        assert knock.handshake.is_idle_since(begun + 0.001)
        knock.handshake.drain()
        assert knock.failed == [None]
        knock.end()

    run(test)


def test_few_clients_are_looked_at_in_each_turn_of_the_loop(run: Run) -> None:
    async def test() -> None:
        handshakes = Handshakes()
        knocks = [Knock(handshakes) for _ in range(30)]
        for knock in knocks:
            knock.sock.sendall(HELLO)
        answered = 0
        while answered < len(knocks):
            await turns(1)
            now = sum(knock.handshake._stream is not None for knock in knocks)
            assert now - answered <= 4
            answered = now
        for knock in knocks:
            knock.end()

    run(test)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, len(HELLO) - 1), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.integers(3, len(HELLO)),
    rest=st.binary(max_size=40),
)
def test_whatever_comes_ends_the_connection_or_waits_for_more(
    run: Run, changes: list[tuple[int, int]], cut: int, rest: bytes
) -> None:
    said = bytearray(HELLO)
    for place, value in changes:
        said[place] = value

    async def test() -> None:
        knock = Knock(Handshakes())
        knock.sock.sendall(said[:cut] + rest)
        await turns(10)
        if not knock.is_over:
            knock.sock.shutdown(socket.SHUT_WR)
            await until(lambda: knock.is_over)
        assert knock.done == []
        knock.end()

    run(test)


def test_garbage_after_the_first_words_is_refused(run: Run) -> None:
    async def test() -> None:
        knock = Knock(Handshakes())
        knock.sock.sendall(HELLO + b"\x16\x03\x03\x00\x40" + os.urandom(64))
        await until(lambda: knock.is_over)
        assert knock.done == []
        assert knock.failed[0]
        knock.end()

    run(test)
