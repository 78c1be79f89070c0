"""Connections on real socket pairs: frames however they are cut, answers in order, back-pressure, moves, the end."""

import asyncio
import gc
import os
import socket
import struct

import psutil
import pytest

from pkafka.net.answers import Answer
from pkafka.net.buffers import ReadBuffers
from pkafka.net.connection import Detach, LaterAnswer, Outcome, ServerConnection
from tests.unit.net.connected import FRAME_BYTES_MAX, Client, Handle, Run, framed, turns

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
        # Buffers were 400 MiB; a few come to the process whatever it does, by the huge page on some machines.
        assert process.memory_info().rss - before < 32 * 1024 * 1024
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
            finished=lambda _note, answer: answer,
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


def test_a_pause_begins_behind_the_answer_and_what_was_read_waits_for_its_end(run: Run) -> None:
    async def test() -> None:
        def handle(connection: ServerConnection, frame: bytes) -> Outcome:
            if frame == b"slow down":
                connection.pause(0.3)
            return (framed(frame),)

        client = Client(handle)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await client.send(framed(b"slow down", b"next") + framed(b"x" * 1000)[:300])
        assert await client.receive(len(framed(b"slow down"))) == framed(b"slow down")
        await client.send(framed(b"x" * 1000)[300:] + framed(b"last"))
        rest = framed(b"next", b"x" * 1000, b"last")
        assert await client.receive(len(rest)) == rest
        assert loop.time() - began_s >= 0.3
        assert client.requests == [b"slow down", b"next", b"x" * 1000, b"last"]
        client.end()

    run(test)


def test_a_pause_begins_behind_an_answer_that_comes_later(run: Run) -> None:
    async def test() -> None:
        later: list[LaterAnswer] = []

        def handle(connection: ServerConnection, frame: bytes) -> Outcome:
            if frame.startswith(b"later"):
                later.append(LaterAnswer(connection))
                return later[-1]
            return (framed(frame),)

        client = Client(handle)
        loop = asyncio.get_running_loop()
        await client.send(framed(b"later 1", b"at once"))
        await turns()
        assert len(client.requests) == 2
        began_s = loop.time()
        client.connection.pause(0.3)
        later[0].finish((framed(b"1"),))
        due = framed(b"1", b"at once")
        assert await client.receive(len(due)) == due
        await client.send(framed(b"next"))
        assert await client.receive(len(framed(b"next"))) == framed(b"next")
        assert loop.time() - began_s >= 0.3
        client.end()

    run(test)


def test_a_connection_ends_in_its_pause(run: Run) -> None:
    async def test() -> None:
        def handle(connection: ServerConnection, frame: bytes) -> Outcome:
            connection.pause(60)
            return (framed(frame),)

        client = Client(handle)
        await client.send(framed(b"a", b"b"))
        assert await client.receive(len(framed(b"a"))) == framed(b"a")
        client.connection.close()
        assert client.closed == 1
        assert client.requests == [b"a"]
        client.end()

    run(test)


def test_of_two_pauses_the_longer_one_counts(run: Run) -> None:
    async def test() -> None:
        def handle(connection: ServerConnection, frame: bytes) -> Outcome:
            if frame == b"slow down":
                connection.pause(0.3)
                connection.pause(0.01)
            return (framed(frame),)

        client = Client(handle)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await client.send(framed(b"slow down", b"next"))
        both = framed(b"slow down", b"next")
        assert await client.receive(len(both)) == both
        assert loop.time() - began_s >= 0.3
        client.end()

    run(test)
