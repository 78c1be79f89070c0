"""The memory that frames of connections lie in: shared between processes, bounded, and given back."""

import asyncio

from pkafka.net.answers import Answer
from pkafka.net.buffers import Arena, Lease, ReadBuffers
from pkafka.net.connection import Outcome, ServerConnection
from tests.unit.net.connected import Client, Run, framed, turns


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
