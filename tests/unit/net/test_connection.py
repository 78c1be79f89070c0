"""Connections on real socket pairs: frames however they are cut, answers in order, files, hand-over, back-pressure."""

import asyncio
import gc
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from pkafka.net.buffers import Arena, Lease, ReadBuffers
from pkafka.net.connection import (
    AFTER_OTHERS,
    Answer,
    Detach,
    FileRange,
    LaterAnswer,
    Note,
    Outcome,
    Part,
    ServerConnection,
)
from pkafka.net.page_cache import PageCache
from pkafka.net.together import Together
from tests.open_files import count_open_files

FRAME_BYTES_MAX = 8 * 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


Handle = Callable[[ServerConnection, bytes], Outcome]


class Client:
    """A client, the connection that serves it, and what its handler was given."""

    def __init__(
        self,
        handle: Handle | None = None,
        page_cache: PageCache | None = None,
        buffers: ReadBuffers | None = None,
        pair: tuple[socket.socket, socket.socket] | None = None,
    ) -> None:
        ours, theirs = pair or socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.sock = ours
        self.requests: list[bytes] = []
        self.closed = 0
        self.finished = 0
        self._handle = handle
        self.buffers = buffers or ReadBuffers()
        self.together = Together()
        self.connection = ServerConnection(
            theirs,
            listener="PLAINTEXT",
            peer_host="here",
            buffers=self.buffers,
            handle=self._serve,
            finished=self._count_finished,
            closed=self._count_closed,
            frame_bytes_max=FRAME_BYTES_MAX,
            together=self.together,
            page_cache=page_cache,
        )

    def _serve(self, connection: ServerConnection, view: memoryview) -> Outcome:
        frame = bytes(view)
        self.requests.append(frame)
        if self._handle is None:
            return (framed(frame),)
        connection.pending = (0, 0, 0, 0, None)
        return self._handle(connection, frame)

    def _count_finished(self, _note: Note, _answer: Answer) -> None:
        self.finished += 1

    def _count_closed(self, _connection: ServerConnection) -> None:
        self.closed += 1

    async def send(self, data: bytes) -> None:
        await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(self.sock, data), 10)

    async def receive(self, size: int) -> bytes:
        """Exactly so many bytes, or fewer where the connection ends."""
        got = bytearray()
        loop = asyncio.get_running_loop()
        while len(got) < size:
            try:
                chunk = await asyncio.wait_for(loop.sock_recv(self.sock, size - len(got)), 10)
            except ConnectionResetError:
                break
            if not chunk:
                break
            got += chunk
        return bytes(got)

    async def is_closed_by_peer(self) -> bool:
        return await self.receive(1) == b""

    def end(self) -> None:
        self.connection.close()
        self.sock.close()


@pytest.fixture
def run() -> Iterator[Callable[[Callable[[], Awaitable[None]]], None]]:
    """Runs a test's coroutine; a connection must never leave the loop an exception to report."""
    problems: list[Any] = []

    def run_it(test: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
            await test()

        asyncio.run(main())

    yield run_it
    assert not problems


Run = Callable[[Callable[[], Awaitable[None]]], None]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- frames --


def test_frames_arrive_whole_however_the_stream_is_cut(run: Run) -> None:
    bodies = [b"", b"a", b"bc" * 40, b"d" * 300]
    stream = framed(*bodies)

    async def test() -> None:
        for size in (1, 2, 3, 5, 7, 64, len(stream)):
            client = Client()
            for start in range(0, len(stream), size):
                await client.send(stream[start : start + size])
                await turns(2)
            assert await client.receive(len(stream)) == stream
            assert client.requests == bodies
            client.end()

    run(test)


def test_a_large_frame_in_pieces_and_what_follows_it(run: Run) -> None:
    large = os.urandom(3_000_000)

    async def test() -> None:
        client = Client(lambda _connection, frame: (framed(b"%d" % len(frame)),))
        await client.send(framed(b"before", large, b"after"))
        assert await client.receive(5 + 11 + 5) == framed(b"6", b"3000000", b"5")
        assert client.requests[1] == large
        client.end()

    run(test)


def test_buffers_of_large_frames_are_used_again_but_never_mixed_up(run: Run) -> None:
    async def test() -> None:
        one, other = Client(), Client()
        other.buffers = one.buffers
        other.connection._buffers = one.buffers
        first, second = os.urandom(200_000), os.urandom(250_000)
        for _ in range(3):
            await asyncio.gather(one.send(framed(first)[:100_000]), other.send(framed(second)[:100_000]))
            await turns()
            await asyncio.gather(one.send(framed(first)[100_000:]), other.send(framed(second)[100_000:]))
            assert await one.receive(200_004) == framed(first)
            assert await other.receive(250_004) == framed(second)
        assert one.requests == [first] * 3
        assert other.requests == [second] * 3
        one.end()
        other.end()

    run(test)


@pytest.mark.parametrize("size", [-1, -(2**31), FRAME_BYTES_MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("cut", [4, 1])
def test_an_impossible_length_closes_the_connection_after_the_answers_so_far(
    run: Run, size: int, cut: int
) -> None:
    async def test() -> None:
        client = Client()
        stream = framed(b"fine") + struct.pack(">i", size)
        await client.send(stream[:-cut])
        await turns()
        await client.send(stream[-cut:])
        assert await client.receive(9) == framed(b"fine")
        assert client.closed == 1
        client.end()
        assert client.closed == 1

    run(test)


def test_a_length_alone_costs_no_memory(run: Run) -> None:
    async def test() -> None:
        process = psutil.Process()
        clients = [Client() for _ in range(50)]
        gc.collect()
        before = process.memory_info().rss
        for client in clients:
            await client.send(struct.pack(">i", FRAME_BYTES_MAX))
        await turns()
        assert process.memory_info().rss - before < 2 * 1024 * 1024
        for client in clients:
            client.end()

    run(test)


def test_an_idle_connection_holds_no_frame_buffer(run: Run) -> None:
    async def test() -> None:
        client = Client()
        await client.send(framed(b"x" * 100_000))
        await client.receive(100_004)
        assert client.connection._frame is None
        assert client.connection._backlog is None
        client.end()

    run(test)


# -- order and back-pressure --


def test_pipelined_requests_are_answered_in_order_also_when_some_answer_later(run: Run) -> None:
    async def test() -> None:
        waiting: list[tuple[ServerConnection, bytes]] = []

        def handle(connection: ServerConnection, frame: bytes) -> Answer | None:
            body = frame
            if body.startswith(b"later"):
                waiting.append((connection, body))
                return None
            return (framed(body),)

        client = Client(handle)
        bodies = [b"later%d" % n if n % 3 == 0 else b"now%d" % n for n in range(30)]
        await client.send(framed(*bodies))
        answered = 0
        while answered < 10:
            await turns()
            if waiting:
                assert len(waiting) == 1  # one request of a client at a time
                connection, body = waiting.pop()
                connection.finish((framed(body),))
                answered += 1
        assert await client.receive(len(framed(*bodies))) == framed(*bodies)
        assert client.finished == 10
        client.end()

    run(test)


def test_a_request_in_hand_is_not_overtaken_when_the_client_reads_earlier_answers_late(run: Run) -> None:
    """The answers before it fill the socket; when they have drained, the one in hand is still the next."""

    async def test() -> None:
        held: list[ServerConnection] = []
        large = b"x" * 4_000_000

        def handle(connection: ServerConnection, frame: bytes) -> Answer | None:
            if frame == b"large":
                return (framed(large),)
            if frame == b"later":
                held.append(connection)
                return None
            return (framed(frame),)

        client = Client(handle)
        await client.send(framed(b"large"))
        await turns()
        await client.send(framed(b"later", b"last"))
        assert await client.receive(len(large) + 4) == framed(large)
        await turns(20)
        assert client.requests == [b"large", b"later"]
        held[0].finish((framed(b"later"),))
        assert await client.receive(17) == framed(b"later", b"last")
        client.end()

    run(test)


def test_answers_that_wait_before_a_request_in_hand_leave_first(run: Run) -> None:
    async def test() -> None:
        held: list[ServerConnection] = []
        body = (
            b"y" * 200_000
        )  # below what one write gathers: the next request is served before any of it is sent

        def handle(connection: ServerConnection, frame: bytes) -> Answer | None:
            if frame == b"later":
                held.append(connection)
                return None
            return (framed(body),)

        client = Client(handle)
        client.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        await client.send(framed(b"a", b"later", b"b"))
        await turns()
        assert client.requests == [b"a", b"later"]
        got = await client.receive(len(body) + 4)  # drains while "later" is in hand
        assert got == framed(body)
        await turns(20)
        assert client.requests == [b"a", b"later"]
        held[0].finish((framed(b"done"),))
        assert await client.receive(8 + len(body) + 4) == framed(b"done", body)
        client.end()

    run(test)


def test_a_client_that_does_not_read_is_served_no_further(run: Run) -> None:
    async def test() -> None:
        answer = b"z" * 100_000
        client = Client(lambda _connection, _frame: (framed(answer),))
        stream = framed(*[b"q"] * 10_000)
        await client.send(stream)
        await turns(200)
        served = len(client.requests)
        assert served < 20
        await turns(200)
        assert len(client.requests) == served
        assert await client.receive(10 * len(framed(answer))) == framed(answer) * 10
        await turns(50)
        assert served < len(client.requests) < served + 20
        client.end()

    run(test)


def test_a_client_that_pipelines_lets_others_have_a_turn(run: Run) -> None:
    async def test() -> None:
        order: list[bytes] = []

        def handle(_connection: ServerConnection, frame: bytes) -> Answer:
            order.append(frame)
            return (framed(b"ok"),)

        greedy, modest = Client(handle), Client(handle)
        await asyncio.gather(greedy.send(framed(*[b"g"] * 5_000)), modest.send(framed(b"m")))
        assert await modest.receive(6) == framed(b"ok")
        assert order.index(b"m") <= 1_000
        assert await greedy.receive(6 * 5_000) == framed(b"ok") * 5_000
        greedy.end()
        modest.end()

    run(test)


def test_finishing_a_request_never_serves_another_from_within(run: Run) -> None:
    """A produce on one connection finishes a fetch on another, whose pipelined produce finishes a third's ..."""

    async def test() -> None:
        clients: list[Client] = []
        depth = [0, 0]

        def handle(connection: ServerConnection, frame: bytes) -> Answer | None:
            if frame == b"wait":
                return None
            depth[0] += 1
            depth[1] = max(depth)
            place = next(n for n, client in enumerate(clients) if client.connection is connection)
            if place + 1 < len(clients):
                clients[place + 1].connection.finish((framed(b"woken"),))
            depth[0] -= 1
            return (framed(b"ok"),)

        clients.extend(Client(handle) for _ in range(100))
        for client in clients[1:]:
            await client.send(framed(b"wait", b"go"))
        await turns()
        await clients[0].send(framed(b"go"))
        assert await clients[-1].receive(15) == framed(b"woken", b"ok")
        assert depth[1] == 1
        for client in clients:
            client.end()

    run(test)


# -- files --


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "numbers"
    path.write_bytes(b"".join(struct.pack(">I", n) for n in range(2_000_000)))
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def number_bytes(position: int, length: int) -> bytes:
    first, last = position // 4, (position + length + 3) // 4
    whole = b"".join(struct.pack(">I", n) for n in range(first, last))
    return whole[position % 4 :][:length]


def test_ranges_of_files_go_out_between_bytes(run: Run, numbers: int) -> None:
    async def test() -> None:
        parts: Answer = (
            b"head",
            FileRange(numbers, 3, 5),
            FileRange(numbers, 0, 0),
            b"",
            b"middle",
            FileRange(numbers, 1_000_001, 5_000_000),
            b"tail",
        )
        client = Client(lambda _connection, frame: parts if frame == b"get" else (b"next",))
        await client.send(framed(b"get", b"more"))
        expected = b"".join(
            [b"head", number_bytes(3, 5), b"middle", number_bytes(1_000_001, 5_000_000), b"tail", b"next"]
        )
        assert await client.receive(len(expected)) == expected
        client.end()

    run(test)


def test_small_ranges_leave_with_what_surrounds_them(run: Run, numbers: int) -> None:
    # Packets, so that what was one call to the kernel can be told.
    async def test() -> None:
        parts: Answer = (b"head", FileRange(numbers, 3, 50_000), b"middle", FileRange(numbers, 8, 4), b"tail")
        client = Client(lambda _connection, _frame: parts, pair=socket.socketpair(type=socket.SOCK_SEQPACKET))
        await client.send(framed(b"get"))
        expected = b"".join([b"head", number_bytes(3, 50_000), b"middle", number_bytes(8, 4), b"tail"])
        assert client.sock.recv(1 << 20) == expected
        client.end()

    run(test)


@pytest.mark.parametrize(("ranges", "size"), [(1500, 40), (20, 60_000)])
def test_many_small_ranges_go_out_whole(run: Run, numbers: int, ranges: int, size: int) -> None:
    async def test() -> None:
        parts: list[Part] = []
        for place in range(ranges):
            parts += [b"<%d>" % place, FileRange(numbers, place, size)]
        client = Client(lambda _connection, _frame: parts)
        await client.send(framed(b"get"))
        expected = b"".join(b"<%d>" % place + number_bytes(place, size) for place in range(ranges))
        assert await client.receive(len(expected)) == expected
        client.end()

    run(test)


def test_a_range_goes_on_after_its_file_was_closed(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "file"
        path.write_bytes(b"r" * 6_000_000)
        fd = os.open(path, os.O_RDONLY)
        client = Client(lambda _connection, _frame: (FileRange(fd, 0, 6_000_000),))
        await client.send(framed(b"get"))
        await turns()
        os.close(fd)
        path.unlink()
        assert await client.receive(6_000_000) == b"r" * 6_000_000
        client.end()

    run(test)


def test_a_small_range_that_cannot_be_read_closes_the_connection(run: Run, numbers: int) -> None:
    async def test() -> None:
        closed = os.dup(numbers)
        os.close(closed)
        client = Client(lambda _connection, _frame: (b"head", FileRange(closed, 0, 8)))
        await client.send(framed(b"get"))
        assert await client.receive(100) == b""
        assert client.closed == 1
        client.end()

    run(test)


def test_a_file_that_is_shorter_than_promised_closes_the_connection(run: Run, numbers: int) -> None:
    async def test() -> None:
        client = Client(lambda _connection, _frame: (b"head", FileRange(numbers, 8_000_000 - 4, 8)))
        await client.send(framed(b"get"))
        assert await client.receive(100) == b"head" + struct.pack(">I", 1_999_999)
        assert client.closed == 1
        client.end()

    run(test)


def test_no_descriptor_is_left_when_a_client_goes_in_the_middle_of_a_file(run: Run, numbers: int) -> None:
    async def test() -> None:
        before = count_open_files()
        for _ in range(20):
            client = Client(lambda _connection, _frame: (FileRange(numbers, 0, 8_000_000), b"x") * 2)
            await client.send(framed(b"get"))
            await turns()
            client.sock.close()
            await turns()
            client.end()
        assert count_open_files() == before

    run(test)


class ForgetfulPageCache(PageCache):
    """As if nothing were in memory but what was read ahead."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        super().__init__(threads)
        self.reads: list[tuple[int, int]] = []

    def bytes_in_memory(self, fd: int, position: int, length: int) -> int:
        return 0

    def read_ahead(self, fd: int, position: int, length: int, done: Callable[[int], None]) -> None:
        self.reads.append((position, length))
        super().read_ahead(fd, position, length, done)


def test_what_is_not_in_memory_is_read_by_a_thread_before_it_is_sent(run: Run, numbers: int) -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as threads:
            page_cache = ForgetfulPageCache(threads)
            parts = (b"head", FileRange(numbers, 5, 7_000_000), b"tail")
            client = Client(lambda _connection, _frame: parts, page_cache)
            expected = b"head" + number_bytes(5, 7_000_000) + b"tail"
            for _ in range(2):
                await client.send(framed(b"get"))
                assert await client.receive(len(expected)) == expected
                position = 5
                for start, length in page_cache.reads:
                    assert start == position
                    assert length <= 2 * 1024 * 1024
                    position += length
                assert position == 7_000_005
                page_cache.reads.clear()
            client.end()

    run(test)


def test_a_client_may_go_while_its_file_is_read(run: Run, numbers: int) -> None:
    async def test() -> None:
        before = count_open_files()
        with ThreadPoolExecutor(1) as threads:
            page_cache = ForgetfulPageCache(threads)
            client = Client(lambda _connection, _frame: (FileRange(numbers, 0, 4_000_000),), page_cache)
            await client.send(framed(b"get"))
            await turns()
            assert page_cache.reads
            client.end()
        await turns()
        assert count_open_files() == before

    run(test)


# -- answers that come later --


def test_requests_are_served_behind_one_whose_answer_comes_later_and_answered_in_order(run: Run) -> None:
    async def test() -> None:
        later: dict[bytes, LaterAnswer] = {}

        def handle(connection: ServerConnection, frame: bytes) -> Outcome:
            if frame.startswith(b"later"):
                later[frame] = LaterAnswer(connection)
                later[frame].note = (0, 0, 0, 0, None)
                return later[frame]
            return (framed(frame),)

        client = Client(handle)
        await client.send(framed(b"first", b"later 1", b"now", b"later 2", b"last"))
        assert await client.receive(9) == framed(b"first")
        await turns()
        assert client.requests == [b"first", b"later 1", b"now", b"later 2", b"last"]
        later[b"later 2"].finish((framed(b"two"),))
        await turns()
        assert client.finished == 0
        assert not client.connection.is_idle_since(asyncio.get_running_loop().time() + 1)
        later[b"later 1"].finish((framed(b"one"),))
        expected = framed(b"one", b"now", b"two", b"last")
        assert await client.receive(len(expected)) == expected
        assert client.finished == 2
        assert not client.connection.has_answers_due
        client.end()

    run(test)


def answered_later() -> tuple[Callable[[ServerConnection, bytes], Outcome], list[LaterAnswer]]:
    """A handler that answers nothing at once, and what it owes, in the order of the requests."""
    later: list[LaterAnswer] = []

    def handle(connection: ServerConnection, _frame: bytes) -> Outcome:
        later.append(LaterAnswer(connection))
        return later[-1]

    return handle, later


def test_answers_that_one_read_brings_leave_in_one_write(run: Run) -> None:
    async def test() -> None:
        handle, later = answered_later()
        # Packets, so that what was one write can be told.
        client = Client(handle, pair=socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        await client.send(framed(b"a", b"b", b"c"))
        await turns()
        client.together.begin()
        for one in later:
            one.finish((framed(b"done"),))
        await turns()
        client.together.end()
        assert await asyncio.get_running_loop().sock_recv(client.sock, 1000) == framed(*[b"done"] * 3)
        client.end()

    run(test)


def test_a_request_may_end_the_connection_in_place_of_its_answer(run: Run) -> None:
    async def test() -> None:
        handle, later = answered_later()
        client = Client(handle)
        await client.send(framed(b"one", b"two", b"three"))
        await turns()
        later[2].finish((framed(b"three"),))
        later[1].close()
        await turns()
        assert not client.connection.closed
        later[0].finish((framed(b"one"),))
        assert await client.receive(100) == framed(b"one")
        assert client.connection.closed
        client.end()

    run(test)


def test_a_request_that_has_to_find_all_before_it_done_waits(run: Run) -> None:
    async def test() -> None:
        later: list[LaterAnswer] = []

        def handle(connection: ServerConnection, frame: bytes) -> Outcome:
            if frame == b"later":
                later.append(LaterAnswer(connection))
                return later[-1]
            return AFTER_OTHERS if connection.has_answers_due else (framed(frame),)

        client = Client(handle)
        await client.send(framed(b"later", b"waits") + framed(b"x" * 100_000)[:50_000])
        await turns()
        assert client.requests == [b"later", b"waits"]
        await client.send(framed(b"x" * 100_000)[50_000:])
        await turns()
        later[0].finish((framed(b"done"),))
        expected = framed(b"done", b"waits", b"x" * 100_000)
        assert await client.receive(len(expected)) == expected
        assert client.requests[2:] == [b"waits", b"x" * 100_000]
        client.end()

    run(test)


def test_few_requests_of_a_client_are_served_at_a_time(run: Run) -> None:
    async def test() -> None:
        handle, later = answered_later()
        client = Client(handle)
        await client.send(framed(*[b"x"] * 40))
        served = 0
        while served < 40:
            await turns()
            assert served < len(later) <= served + 16
            for one in later[served:]:
                served += 1
                one.finish((framed(b"y"),))
        assert await client.receive(200) == framed(*[b"y"] * 40)
        client.end()

    run(test)


def test_a_connection_that_is_to_close_sends_the_answers_due_first(run: Run) -> None:
    async def test() -> None:
        later: list[LaterAnswer] = []

        def handle(connection: ServerConnection, frame: bytes) -> Outcome:
            if frame == b"bad":
                connection.close()
                return ()
            later.append(LaterAnswer(connection))
            return later[-1]

        for ends_by in (b"bad", None):
            client = Client(handle)
            await client.send(framed(b"later", ends_by or b"later"))
            await turns()
            if ends_by is None:
                client.connection.drain()
            assert not client.connection.closed
            for one in later:
                one.finish((framed(b"done"),))
            expected = framed(*[b"done"] * len(later))
            later.clear()
            assert await client.receive(len(expected) + 1) == expected
            assert client.connection.closed
            client.end()

    run(test)


# -- memory that other processes map --


def test_a_frame_in_hand_and_those_behind_it_stay_where_they_were_read(run: Run) -> None:
    async def test() -> None:
        arena = Arena.create()
        assert arena is not None
        leases: list[Lease] = []
        served: list[tuple[int, bytes]] = []

        def handle(connection: ServerConnection, _frame: bytes) -> Answer | None:
            lease = connection.hold_frame()
            assert lease is not None
            leases.append(lease)
            return None

        client = Client(handle, buffers=ReadBuffers(arena=arena))
        inner = client.connection._handle

        def note(connection: ServerConnection, view: memoryview) -> Outcome:
            served.append((arena.position_of(view), bytes(view)))
            return inner(connection, view)

        client.connection._handle = note
        other = Client(buffers=client.buffers)
        free = arena.free_slots
        await client.send(framed(b"one", b"two", b"three") + b"\0")
        await turns()
        await other.send(framed(b"read over the same memory, were it not lent"))
        assert await other.receive(4)
        for body in (b"one", b"two", b"three"):
            await turns()
            assert served[-1] == (served[0][0] + body_offset(body), body)
            assert arena.free_slots == free - 1
            client.connection.finish((framed(body),))
            leases[-1].release()
        await turns()
        assert await client.receive(21) == framed(b"one", b"two", b"three")[:21]
        assert arena.free_slots == free
        client.end()
        other.end()

    def body_offset(body: bytes) -> int:
        return {b"one": 0, b"two": 7, b"three": 14}[body]

    run(test)


def test_a_client_that_goes_leaves_no_memory_behind(run: Run) -> None:
    async def test() -> None:
        arena = Arena.create()
        assert arena is not None
        client = Client(lambda _connection, _frame: None, buffers=ReadBuffers(arena=arena))
        free = arena.free_slots
        await client.send(framed(b"in hand", b"behind it"))
        await turns()
        assert arena.free_slots == free - 1
        client.end()
        assert arena.free_slots == free

    run(test)


# -- moving --


def test_a_connection_moves_with_its_unread_bytes_and_after_its_answers(run: Run) -> None:
    async def test() -> None:
        taken: list[tuple[socket.socket, bytes]] = []

        def handle(_connection: ServerConnection, frame: bytes) -> Answer | Detach:
            if frame == b"move":
                return Detach(lambda sock, unread: taken.append((sock, unread)))
            return (framed(b"first " + frame),)

        client = Client(handle)
        await client.send(framed(b"a", b"move", b"b") + framed(b"c" * 1000)[:500])
        assert await client.receive(11) == framed(b"first a")
        await turns()
        [(sock, unread)] = taken
        assert client.connection.closed
        assert client.closed == 1
        assert unread == framed(b"move", b"b") + framed(b"c" * 1000)[:500]

        second = ServerConnection(
            sock,
            listener="PLAINTEXT",
            peer_host="here",
            buffers=ReadBuffers(),
            handle=lambda _connection, frame: (framed(bytes(frame)),),
            finished=lambda _note, _answer: None,
            closed=lambda _connection: None,
            frame_bytes_max=FRAME_BYTES_MAX,
        )
        second.feed(bytearray(unread))
        await client.send(framed(b"c" * 1000)[500:])
        expected = framed(b"move", b"b", b"c" * 1000)
        assert await client.receive(len(expected)) == expected
        second.close()
        client.end()

    run(test)


def test_a_connection_moves_only_when_its_answers_are_read(run: Run) -> None:
    async def test() -> None:
        taken: list[tuple[socket.socket, bytes]] = []
        large = b"x" * 3_000_000

        def handle(_connection: ServerConnection, frame: bytes) -> Answer | Detach:
            if frame == b"move":
                return Detach(lambda sock, unread: taken.append((sock, unread)))
            return (framed(large),)

        client = Client(handle)
        await client.send(framed(b"a", b"move"))
        await turns()
        assert taken == []
        assert await client.receive(len(large) + 4) == framed(large)
        await turns()
        assert [unread for _sock, unread in taken] == [framed(b"move")]
        taken[0][0].close()
        client.end()

    run(test)


# -- the end --


def test_a_handler_that_closes_loses_no_answer_to_earlier_requests(run: Run) -> None:
    async def test() -> None:
        def handle(connection: ServerConnection, frame: bytes) -> Answer:
            if frame == b"bad":
                connection.close()
                return ()
            return (framed(frame * 700_000),)

        client = Client(handle)
        await client.send(framed(b"a", b"b", b"bad"))
        expected = framed(b"a" * 700_000, b"b" * 700_000)
        assert await client.receive(len(expected)) == expected
        assert await client.is_closed_by_peer()
        assert client.closed == 1
        client.end()

    run(test)


def test_finishing_after_the_client_went_does_nothing(run: Run) -> None:
    async def test() -> None:
        client = Client(lambda _connection, _frame: None)
        await client.send(framed(b"later"))
        await turns()
        client.connection.close()
        client.connection.finish((b"answer",))
        assert await client.receive(10) == b""
        assert client.closed == 1
        client.sock.close()

    run(test)


def test_idleness_counts_from_the_last_byte_and_not_while_a_request_is_in_hand(run: Run) -> None:
    async def test() -> None:
        large = b"x" * 8_000_000
        answers: dict[bytes, Answer | None] = {b"later": None, b"large": (framed(large),)}
        client = Client(lambda _connection, frame: answers[frame])
        connection = client.connection
        assert connection.is_idle_since(connection.last_active + 1)
        assert not connection.is_idle_since(connection.last_active - 1)
        await client.send(framed(b"later"))
        await turns()
        assert not connection.is_idle_since(connection.last_active + 1)
        connection.finish((framed(b""),))
        await client.receive(4)
        assert connection.is_idle_since(connection.last_active + 1)
        # A client that does not read its answer is idle all the same.
        await client.send(framed(b"large"))
        await turns(20)
        assert connection.is_idle_since(connection.last_active + 1)
        client.end()

    run(test)


def waits(log: list[str], *, answers: bool) -> Handle:
    """A handler that waits for ever, unless it is told to hurry."""

    def handle(connection: ServerConnection, frame: bytes) -> Answer | None:
        def hurry() -> None:
            log.append(frame.decode())
            if answers:
                connection.finish((framed(b"what there is"),))

        connection.hurry = hurry
        return None

    return handle


def test_a_client_that_goes_is_not_waited_for(run: Run) -> None:
    async def test() -> None:
        hurried: list[str] = []
        client = Client(waits(hurried, answers=True))
        await client.send(framed(b"poll"))
        await turns()
        assert (hurried, client.closed) == ([], 0)
        client.sock.close()
        await turns(10)
        assert (hurried, client.closed) == (["poll"], 1)

    run(test)


def test_a_client_that_only_shuts_its_sending_side_down_is_answered(run: Run) -> None:
    async def test() -> None:
        client = Client(waits([], answers=True))
        await client.send(framed(b"poll"))
        client.sock.shutdown(socket.SHUT_WR)
        assert await client.receive(100) == framed(b"what there is")
        assert client.closed == 1
        client.sock.close()

    run(test)


def test_a_connection_that_closes_lets_its_handler_know(run: Run) -> None:
    async def test() -> None:
        hurried: list[str] = []
        client = Client(waits(hurried, answers=False))
        await client.send(framed(b"poll"))
        await turns()
        client.connection.close()
        assert hurried == ["poll"]
        client.end()

    run(test)


def test_draining_closes_an_idle_connection_at_once_and_another_after_its_answer(run: Run) -> None:
    large = b"x" * 8_000_000

    async def test() -> None:
        idle = Client()
        idle.connection.drain()
        assert await idle.is_closed_by_peer()
        idle.end()

        busy = Client(lambda _connection, _frame: None)
        await busy.send(framed(b"later", b"behind it"))
        await turns()
        busy.connection.drain()
        await turns()
        assert busy.closed == 0
        busy.connection.finish((framed(large),))
        assert await busy.receive(len(large) + 100) == framed(large)
        assert (busy.closed, busy.requests) == (1, [b"later"])
        busy.end()

        polling = Client(waits([], answers=True))
        await polling.send(framed(b"poll"))
        await turns()
        polling.connection.drain()
        assert await polling.receive(100) == framed(b"what there is")
        assert polling.closed == 1
        polling.end()

    run(test)


# -- memory --


def test_a_frame_waits_while_others_take_the_memory_for_frames(run: Run) -> None:
    big = framed(b"b" * 300_000)
    small = framed(b"s")

    async def test() -> None:
        buffers = ReadBuffers(frames_bytes_max=100_000)
        first, second, third = (Client(buffers=buffers) for _ in range(3))
        await first.send(big[:200_000])
        await turns()
        sending = []
        for client in (second, third):
            # Whole in the socket, and read no further than its beginning, which came with a small one.
            await client.send(small + big[:1_000])
            assert await client.receive(len(small)) == small
            sending.append(asyncio.ensure_future(client.send(big[1_000:] + small)))
            await turns(20)
            assert len(client.requests) == 1
        await first.send(big[200_000:])
        assert await first.receive(len(big)) == big
        for client in (second, third):
            assert await client.receive(len(big + small)) == big + small
        await asyncio.gather(*sending)
        assert buffers.has_room
        for client in (first, second, third):
            client.end()

    run(test)


def test_the_memory_for_frames_comes_back_from_those_who_leave(run: Run) -> None:
    big = framed(b"b" * 300_000)

    async def test() -> None:
        buffers = ReadBuffers(frames_bytes_max=100_000)
        leaver, gone, stayer = (Client(buffers=buffers) for _ in range(3))
        await leaver.send(big[:100])
        await turns()
        for client in (gone, stayer):
            await client.send(big[:100])
            await turns()
        gone.end()
        sending = asyncio.ensure_future(stayer.send(big[100:]))
        await turns(20)
        assert stayer.requests == []
        leaver.end()
        assert await stayer.receive(len(big)) == big
        await sending
        stayer.end()

    run(test)


def test_a_client_that_sends_no_more_gets_the_answers_that_come_later(run: Run) -> None:
    async def test() -> None:
        handle, later = answered_later()
        client = Client(handle)
        await client.send(framed(b"one", b"two"))
        client.sock.shutdown(socket.SHUT_WR)
        await turns()
        assert len(later) == 2
        assert client.closed == 0
        later[1].finish((framed(b"two"),))
        later[0].finish((framed(b"one"),))
        assert await client.receive(100) == framed(b"one", b"two")
        assert client.closed == 1
        client.sock.close()

    run(test)
