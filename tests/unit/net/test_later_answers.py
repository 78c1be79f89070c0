"""Requests whose answers come later, on real socket pairs: served at the same time, answered in order."""

import asyncio
import socket
from collections.abc import Callable

from pkafka.net.connection import (
    AFTER_OTHERS,
    LaterAnswer,
    Outcome,
    ServerConnection,
)
from tests.unit.net.connected import Client, Run, framed, turns


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
