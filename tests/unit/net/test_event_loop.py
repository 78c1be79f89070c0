"""The loop of the broker's processes behaves as asyncio's own, where callers can tell."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from tempfile import TemporaryFile
from typing import Any

import pytest

from pkafka.net.event_loop import PolledEventLoop, new_event_loop

Loop = asyncio.AbstractEventLoop
Run = Callable[[Callable[[Loop], Coroutine[Any, Any, None]]], None]
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture(params=[asyncio.SelectorEventLoop, PolledEventLoop], ids=["asyncio", "polled"])
def run(request: pytest.FixtureRequest) -> Run:
    def run(body: Callable[[Loop], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            loop = runner.get_loop()
            runner.run(asyncio.wait_for(body(loop), 10))

    return run


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_processes_get_it() -> None:
    with closing(new_event_loop()) as loop:
        assert isinstance(loop, PolledEventLoop)


def test_a_reader_is_called_as_long_as_there_is_something_to_read(run: Run, pair: Pair) -> None:
    ours, theirs = pair

    async def body(loop: Loop) -> None:
        seen: list[bytes] = []
        over = asyncio.Event()

        def read(size: int) -> None:
            seen.append(ours.recv(size))
            if len(seen) == 3:
                over.set()

        loop.add_reader(ours, read, 2)
        theirs.send(b"abcdef")
        await over.wait()
        assert seen == [b"ab", b"cd", b"ef"]
        assert loop.remove_reader(ours.fileno())
        assert not loop.remove_reader(ours.fileno())
        theirs.send(b"more")
        await asyncio.sleep(0.01)
        assert len(seen) == 3

    run(body)


def test_another_callback_takes_the_place_of_the_first(run: Run, pair: Pair) -> None:
    ours, _theirs = pair

    async def body(loop: Loop) -> None:
        called: asyncio.Queue[str] = asyncio.Queue()

        def write(name: str) -> None:
            called.put_nowait(name)
            loop.remove_writer(ours)

        loop.add_writer(ours, write, "first")
        loop.add_writer(ours, write, "second")
        assert await called.get() == "second"

    run(body)


def test_reader_and_writer_of_one_socket_come_and_go_apart(run: Run, pair: Pair) -> None:
    ours, theirs = pair

    async def body(loop: Loop) -> None:
        seen: list[str] = []

        def read() -> None:
            ours.recv(100)
            seen.append("read")

        def write() -> None:
            seen.append("written")
            loop.remove_writer(ours)

        loop.add_reader(ours, read)
        loop.add_writer(ours, write)
        theirs.send(b".")
        await asyncio.sleep(0.02)
        assert sorted(seen) == ["read", "written"]
        loop.remove_reader(ours)
        loop.add_writer(ours, write)
        theirs.send(b".")
        await asyncio.sleep(0.02)
        assert sorted(seen) == ["read", "written", "written"]

    run(body)


def test_what_a_callback_has_taken_away_is_not_called_any_more(run: Run) -> None:
    pairs = [socket.socketpair() for _ in range(2)]

    async def body(loop: Loop) -> None:
        called: list[int] = []

        def one(number: int) -> None:
            called.append(number)
            for ours, _theirs in pairs:
                loop.remove_reader(ours)

        for number, (ours, theirs) in enumerate(pairs):
            loop.add_reader(ours, one, number)
            theirs.send(b".")
        await asyncio.sleep(0.02)
        assert len(called) == 1

    run(body)
    for both in pairs:
        for one in both:
            one.close()


def test_what_a_callback_raises_goes_to_the_handler_and_others_are_called(run: Run) -> None:
    pairs = [socket.socketpair() for _ in range(3)]

    async def body(loop: Loop) -> None:
        raised: list[object] = []
        loop.set_exception_handler(lambda _loop, context: raised.append(context["exception"]))
        called = []

        def fail(number: int) -> None:
            called.append(number)
            loop.remove_reader(pairs[number][0])
            raise ValueError(number)

        for number, (ours, theirs) in enumerate(pairs):
            loop.add_reader(ours, fail, number)
            theirs.send(b".")
        await asyncio.sleep(0.02)
        assert sorted(called) == [0, 1, 2]
        assert sorted(str(error) for error in raised) == ["0", "1", "2"]

    run(body)
    for both in pairs:
        for one in both:
            one.close()


def test_a_callback_may_end_the_process(run: Run, pair: Pair) -> None:
    ours, theirs = pair

    async def body(loop: Loop) -> None:
        loop.add_reader(ours, exit, 3)
        theirs.send(b".")
        await asyncio.sleep(10)

    with pytest.raises(SystemExit, match="3"):
        run(body)


def test_calls_that_are_due_come_before_sockets(run: Run, pair: Pair) -> None:
    ours, theirs = pair

    async def body(loop: Loop) -> None:
        called: list[str] = []

        def read() -> None:
            called.append("socket")
            ours.recv(10)

        loop.add_reader(ours, read)
        theirs.send(b".")
        loop.call_soon(called.append, "call")
        await asyncio.sleep(0.02)
        assert called == ["call", "socket"]

    run(body)


def test_a_call_that_is_due_may_take_a_reader_away(run: Run, pair: Pair) -> None:
    ours, theirs = pair

    async def body(loop: Loop) -> None:
        called: list[str] = []
        loop.add_reader(ours, called.append, "socket")
        theirs.send(b".")
        loop.call_soon(loop.remove_reader, ours)
        await asyncio.sleep(0.02)
        assert called == []

    run(body)


def test_a_hang_up_is_told_to_readers_and_writers(run: Run) -> None:
    async def body(loop: Loop) -> None:
        told = asyncio.Event()
        reading, writing = os.pipe()
        loop.add_reader(reading, told.set)
        os.close(writing)
        await told.wait()
        loop.remove_reader(reading)
        os.close(reading)

        told.clear()
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.write(writing, bytes(65536))
        loop.add_writer(writing, told.set)
        await asyncio.sleep(0.01)
        assert not told.is_set()
        os.close(reading)
        await told.wait()
        loop.remove_writer(writing)
        os.close(writing)

    run(body)


def test_a_socket_that_was_closed_first_is_forgotten(run: Run) -> None:
    async def body(loop: Loop) -> None:
        ours, theirs = socket.socketpair()
        fd = ours.fileno()
        loop.add_reader(fd, lambda: None)
        ours.close()
        theirs.close()
        assert loop.remove_reader(fd)
        # The next socket has its number.
        one, other = socket.socketpair()
        with one, other:
            assert fd in (one.fileno(), other.fileno())
            called = asyncio.Event()
            mine, peer = (one, other) if one.fileno() == fd else (other, one)
            loop.add_reader(mine, called.set)
            peer.send(b".")
            await called.wait()
            loop.remove_reader(mine)

    run(body)


def test_what_cannot_be_polled_is_refused_and_leaves_nothing(run: Run, pair: Pair) -> None:
    ours, theirs = pair

    async def body(loop: Loop) -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            loop.add_reader(10_000, lambda: None)
        assert not loop.remove_reader(10_000)
        with TemporaryFile() as file, pytest.raises(PermissionError):
            loop.add_reader(file, lambda: None)
        await loop.sock_sendall(ours, b"works")
        assert await loop.sock_recv(theirs, 10) == b"works"

    run(body)


def test_streams_and_sockets_of_asyncio_work_beside(run: Run) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line * 1000)
            await writer.drain()
        writer.close()

    async def body(loop: Loop) -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for _ in range(3):
                writer.write(b"." * 1000 + b"\n")
                assert len(await reader.readexactly(1_001_000)) == 1_001_000
            writer.close()
            await writer.wait_closed()

    run(body)


def test_asyncio_may_wait_for_what_has_a_callback(run: Run, pair: Pair) -> None:
    ours, theirs = pair

    async def body(loop: Loop) -> None:
        taken: list[bytes] = []
        loop.add_reader(ours, lambda: taken.append(ours.recv(1 << 20)))
        big = bytes(4 << 20)
        sending = asyncio.ensure_future(loop.sock_sendall(ours, big))
        got = 0
        while got < len(big):
            theirs.send(b".") if not got else None
            got += len(await loop.sock_recv(theirs, 1 << 20))
        await sending
        assert taken == [b"."]
        loop.remove_reader(ours)

    run(body)


def test_a_socket_for_which_asyncio_has_waited_leaves_nothing(run: Run) -> None:
    async def body(loop: Loop) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
            server.setblocking(False)
            client.setblocking(False)
            accepting = asyncio.ensure_future(loop.sock_accept(server))
            await loop.sock_connect(client, server.getsockname())
            accepted, _ = await accepting
            accepted.setblocking(False)
            filling = asyncio.ensure_future(loop.sock_sendall(client, bytes(8 << 20)))
            reading = asyncio.ensure_future(loop.sock_recv(client, 10))
            left = 8 << 20
            while left:
                left -= len(await loop.sock_recv(accepted, 1 << 20))
            await filling
            await loop.sock_sendall(accepted, b".")
            assert await reading == b"."
            numbers = {server.fileno(), client.fileno(), accepted.fileno()}
            accepted.close()
        # The next sockets have these numbers, and the loop has to tell the kernel of them anew.
        pairs = [socket.socketpair() for _ in range(3)]
        assert numbers <= {one.fileno() for both in pairs for one in both}
        for one, other in (*pairs, *((two, one) for one, two in pairs)):
            called = asyncio.Event()
            loop.add_reader(one, called.set)
            other.send(b".")
            await called.wait()
            loop.remove_reader(one)
            one.recv(10)
        for both in pairs:
            for one in both:
                one.close()

    run(body)


def test_timers_are_not_early(run: Run, pair: Pair) -> None:
    ours, _theirs = pair

    async def body(loop: Loop) -> None:
        loop.add_reader(ours, lambda: None)
        for wait_s in (0.0004, 0.0011, 0.0202):
            began = time.monotonic()
            await asyncio.sleep(wait_s)
            assert time.monotonic() - began >= wait_s - loop_resolution()
        loop.remove_reader(ours)

    run(body)


def loop_resolution() -> float:
    return time.get_clock_info("monotonic").resolution
