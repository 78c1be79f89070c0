"""Listening sockets for several processes, and what an acceptor does with those who come."""

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator

import pytest

from pkafka.net.listener import Acceptor, AddressInUseError, Admission, CloseLater, bind_for_workers
from tests.open_files import count_open_files


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def test_all_workers_get_the_port_that_the_kernel_chose() -> None:
    sockets = bind_for_workers("127.0.0.1", 0, workers=3, backlog=50)
    assert len(sockets) == 3
    assert len({sock.getsockname() for sock in sockets}) == 1
    close(sockets)


def test_a_port_that_another_broker_of_the_same_user_serves_is_refused() -> None:
    sockets = bind_for_workers("127.0.0.1", 0, workers=2, backlog=50)
    port = sockets[0].getsockname()[1]
    with pytest.raises(AddressInUseError):
        bind_for_workers("127.0.0.1", port, workers=2, backlog=50)
    close(sockets)
    close(bind_for_workers("127.0.0.1", port, workers=2, backlog=50))


def test_a_host_that_does_not_exist_is_an_os_error() -> None:
    with pytest.raises(OSError, match=r".*"):
        bind_for_workers("no-such-host.invalid", 0, workers=1, backlog=50)


def test_the_receive_buffer_is_the_kernels_unless_given() -> None:
    [left] = bind_for_workers("127.0.0.1", 0, workers=1, backlog=50)
    [given] = bind_for_workers("127.0.0.1", 0, workers=1, backlog=50, receive_buffer_bytes=20_000)
    plain = socket.socket()
    option = (socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert left.getsockopt(*option) == plain.getsockopt(*option)
    assert given.getsockopt(*option) == 40_000  # Linux doubles it for its own bookkeeping
    close([left, given, plain])


class Arrivals:
    """An acceptor whose decisions a test makes."""

    def __init__(self, local_send_buffer_bytes: int | None = None, spare_descriptors: int = 0) -> None:
        [self.sock] = bind_for_workers("127.0.0.1", 0, workers=1, backlog=50)
        self.decide: Callable[[], Admission | CloseLater] = lambda: Admission.ADMIT
        self.asked = 0
        self.taken: list[socket.socket] = []
        self.clients: list[socket.socket] = []
        self.acceptor = Acceptor(
            self.sock,
            lambda sock, _host: self.taken.append(sock),
            admit=self._admit,
            send_buffer_bytes=20_000,
            local_send_buffer_bytes=local_send_buffer_bytes,
            spare_descriptors=spare_descriptors,
        )

    def _admit(self, host: str) -> Admission | CloseLater:
        assert host in ("127.0.0.1", "127.0.0.2")
        self.asked += 1
        return self.decide()

    def connect(self, own_host: str = "127.0.0.1") -> socket.socket:
        client = socket.create_connection(self.sock.getsockname(), timeout=60, source_address=(own_host, 0))
        client.setblocking(False)
        self.clients.append(client)
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - what it waits for sets no event
                await asyncio.sleep(0.005)

    def end(self) -> None:
        self.acceptor.close()
        close([self.sock, *self.taken, *self.clients])


def test_admitted_connections_are_ready_for_the_event_loop() -> None:
    async def test() -> None:
        arrivals = Arrivals(local_send_buffer_bytes=30_000)
        for _ in range(5):
            arrivals.connect()
        await arrivals.until(lambda: len(arrivals.taken) == 5)
        for sock in arrivals.taken:
            assert not sock.getblocking()
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 60_000
        arrivals.end()

    asyncio.run(test())


def test_only_connections_from_its_own_address_are_local() -> None:
    async def test() -> None:
        arrivals = Arrivals(local_send_buffer_bytes=30_000)
        for host in ("127.0.0.1", "127.0.0.2"):
            arrivals.connect(host)
        await arrivals.until(lambda: len(arrivals.taken) == 2)
        buffers = {
            sock.getpeername()[0]: sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            for sock in arrivals.taken
        }
        assert buffers == {"127.0.0.1": 60_000, "127.0.0.2": 40_000}  # Linux doubles them
        arrivals.end()

    asyncio.run(test())


def test_a_refused_connection_is_closed_and_the_next_one_served() -> None:
    async def test() -> None:
        arrivals = Arrivals()
        decisions = iter([Admission.REFUSE, Admission.ADMIT])
        arrivals.decide = lambda: next(decisions)
        refused, _served = arrivals.connect(), arrivals.connect()
        await arrivals.until(lambda: len(arrivals.taken) == 1)
        assert await asyncio.get_running_loop().sock_recv(refused, 1) == b""
        arrivals.end()

    asyncio.run(test())


def test_a_connection_that_comes_too_early_is_closed_after_a_while_and_holds_up_nobody() -> None:
    async def test() -> None:
        arrivals = Arrivals()
        decisions: Iterator[Admission | CloseLater] = iter(
            [CloseLater(0.2), CloseLater(60.0), Admission.ADMIT]
        )
        arrivals.decide = lambda: next(decisions)
        early, very_early, _served = arrivals.connect(), arrivals.connect(), arrivals.connect()
        await arrivals.until(lambda: len(arrivals.taken) == 1)
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(early, 1) == b""
        with pytest.raises(BlockingIOError):
            very_early.recv(1)
        arrivals.acceptor.close()
        assert await loop.sock_recv(very_early, 1) == b""
        arrivals.end()

    asyncio.run(test())


def test_a_connection_that_waits_holds_up_those_behind_it_until_there_is_room() -> None:
    async def test() -> None:
        arrivals = Arrivals()
        arrivals.decide = lambda: Admission.WAIT
        first, _second = arrivals.connect(), arrivals.connect()
        await arrivals.until(lambda: arrivals.asked >= 3)
        assert arrivals.taken == []
        arrivals.decide = lambda: Admission.ADMIT
        await arrivals.until(lambda: len(arrivals.taken) == 2)
        assert arrivals.taken[0].getpeername() == first.getsockname()
        arrivals.end()

    asyncio.run(test())


def test_a_connection_that_waits_is_closed_with_the_acceptor() -> None:
    async def test() -> None:
        arrivals = Arrivals()
        arrivals.decide = lambda: Admission.WAIT
        client = arrivals.connect()
        await arrivals.until(lambda: arrivals.asked >= 1)
        arrivals.acceptor.close()
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
        asked = arrivals.asked
        await asyncio.sleep(0.05)  # some of the pauses after which it would ask again
        assert arrivals.asked == asked
        arrivals.end()

    asyncio.run(test())


def test_connections_leave_some_descriptors_to_others() -> None:
    async def test() -> None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        full = Arrivals(spare_descriptors=limit)
        refused = full.connect()
        assert await asyncio.get_running_loop().sock_recv(refused, 1) == b""
        assert not full.taken
        full.end()
        roomy = Arrivals(spare_descriptors=limit - count_open_files() - 100)
        roomy.connect()
        await roomy.until(lambda: len(roomy.taken) == 1)
        roomy.end()

    asyncio.run(test())
