"""Connections under TLS, on real socket pairs: what holds for plain ones, however the records are cut."""

import asyncio
import gc
import os
import socket
import struct
import weakref
from pathlib import Path

import pytest

from pkafka.net.answers import FileRange, Part
from pkafka.net.connection import AFTER_OTHERS, LaterAnswer, Outcome, ServerConnection
from tests.unit.net.connected import FRAME_BYTES_MAX, Run, framed, turns
from tests.unit.net.encrypted import EncryptedClient

LARGE = 3_000_000


def test_frames_arrive_whole_however_the_stream_is_cut(run: Run) -> None:
    bodies = [b"", b"a", b"bc" * 40, b"d" * 300]
    stream = framed(*bodies)

    async def test() -> None:
        for size in (1, 3, 64, len(stream)):
            client = await EncryptedClient.connected()
            for start in range(0, len(stream), size):
                await client.send(stream[start : start + size])
                await turns(2)
            assert await client.receive(len(stream)) == stream
            assert client.requests == bodies
            client.end()

    run(test)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_large_frames_and_large_answers_in_both_versions(run: Run, version: str) -> None:
    large = os.urandom(LARGE)

    async def test() -> None:
        client = await EncryptedClient.connected(versions=(version,))
        sending = asyncio.ensure_future(client.send(framed(b"before", large, b"after")))
        expected = framed(b"before", large, b"after")
        assert await client.receive(len(expected)) == expected
        await sending
        assert client.stream.version == version
        client.end()

    run(test)


def test_what_comes_with_the_last_word_of_the_handshake_is_served(run: Run) -> None:
    async def test() -> None:
        client = await EncryptedClient.connected(versions=("TLSv1.3",), first=framed(b"first"))
        assert await client.receive(9) == framed(b"first")
        client.end()

    run(test)


def test_ranges_of_files_go_out_between_bytes_to_a_client_that_reads_slowly(run: Run, tmp_path: Path) -> None:
    content = os.urandom(LARGE)
    (tmp_path / "file").write_bytes(content)

    async def test() -> None:
        fd = os.open(tmp_path / "file", os.O_RDONLY)
        parts: list[Part] = [
            b"head",
            FileRange(fd, 3, 5),
            FileRange(fd, 0, 0),
            b"",
            b"middle" * 100_000,
            FileRange(fd, 1_001, LARGE - 1_001),
            b"tail",
        ]
        client = await EncryptedClient.connected(lambda _c, frame: parts if frame == b"get" else (b"next",))
        await client.send(framed(b"get", b"more"))
        await turns(20)
        os.close(fd)  # the log may close it; what waits has its own
        expected = b"head" + content[3:8] + b"middle" * 100_000 + content[1_001:] + b"tail" + b"next"
        assert await client.receive(len(expected)) == expected
        client.end()

    run(test)


def test_a_file_that_is_shorter_than_promised_closes_the_connection(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"short")

    async def test() -> None:
        fd = os.open(tmp_path / "file", os.O_RDONLY)
        client = await EncryptedClient.connected(lambda _c, _f: (b"head", FileRange(fd, 0, 200_000)))
        await client.send(framed(b"get"))
        assert await client.receive(300_000) == b"headshort"
        assert client.closed == 1
        client.end()
        os.close(fd)

    run(test)


def test_a_client_that_reads_nothing_is_served_no_further(run: Run) -> None:
    async def test() -> None:
        client = await EncryptedClient.connected(lambda _c, _f: (bytes(100_000),))
        sending = asyncio.ensure_future(client.send(framed(*[bytes(1_000)] * 500)))
        await turns(50)
        served = len(client.requests)
        await turns(50)
        assert len(client.requests) == served < 50
        assert len(await client.receive(500 * 100_000)) == 500 * 100_000
        await sending
        assert len(client.requests) == 500
        client.end()

    run(test)


def test_requests_that_wait_for_their_turn_are_served_though_the_socket_is_silent(run: Run) -> None:
    """TLS has taken their bytes from the socket long before."""

    async def test() -> None:
        waiting: list[ServerConnection] = []

        def handle(connection: ServerConnection, frame: bytes) -> Outcome:
            if frame.startswith(b"later"):
                waiting.append(connection)
                return None
            return (framed(frame),)

        client = await EncryptedClient.connected(handle)
        bodies = [b"later" + bytes(70_000) if n % 4 == 0 else b"now%d" % n for n in range(40)]
        sending = asyncio.ensure_future(client.send(framed(*bodies)))
        answers = b"".join(framed(b"late" if body.startswith(b"later") else body) for body in bodies)
        receiving = asyncio.ensure_future(client.receive(len(answers)))
        while not receiving.done():
            await turns(3)
            if waiting:
                waiting.pop().finish((framed(b"late"),))
        assert await receiving == answers
        await sending
        client.end()

    run(test)


def test_later_answers_go_out_in_order(run: Run) -> None:
    async def test() -> None:
        later: list[LaterAnswer] = []

        def handle(connection: ServerConnection, frame: bytes) -> Outcome:
            if frame.startswith(b"last"):
                return AFTER_OTHERS if connection.has_answers_due else (framed(frame),)
            later.append(LaterAnswer(connection))
            return later[-1]

        client = await EncryptedClient.connected(handle)
        await client.send(framed(b"a", b"b", b"last"))
        await turns()
        later[1].finish((framed(b"B"),))
        later[0].finish((framed(b"A"),))
        assert await client.receive(5 + 5 + 8) == framed(b"A", b"B", b"last")
        client.end()

    run(test)


def test_a_goodbye_ends_the_connection_after_the_answer_in_hand(run: Run) -> None:
    async def test() -> None:
        waiting: list[ServerConnection] = []
        hurried: list[bool] = []

        def handle(connection: ServerConnection, _frame: bytes) -> Outcome:
            waiting.append(connection)
            connection.hurry = lambda: hurried.append(True)
            return None

        client = await EncryptedClient.connected(handle)
        await client.send(framed(b"a"))
        await turns()
        client.stream.say_goodbye()
        await turns()
        assert hurried == [True]  # a fetch that waits for records answers now
        waiting[0].finish((framed(b"A"),))
        assert await client.receive(100) == framed(b"A")
        await turns()
        assert client.closed == 1
        client.end()

    run(test)


def test_requests_sent_before_the_goodbye_are_served(run: Run) -> None:
    """A producer without acknowledgements writes, and leaves."""

    async def test() -> None:
        client = await EncryptedClient.connected(lambda _c, _f: ())
        bodies = [os.urandom(50_000) for _ in range(30)]
        await client.send(framed(*bodies))
        client.stream.say_goodbye()
        client.sock.close()
        while not client.closed:
            await turns()
        assert client.requests == bodies

    run(test)


def test_what_is_no_record_closes_the_connection(run: Run) -> None:
    async def test() -> None:
        client = await EncryptedClient.connected()
        await client.send(framed(b"fine"))
        assert await client.receive(8) == framed(b"fine")
        client.sock.sendall(b"\x17\x03\x03\x00\x20" + os.urandom(32))
        await turns()
        assert client.closed == 1
        client.end()

    run(test)


def test_an_impossible_length_closes_the_connection_after_the_answers_so_far(run: Run) -> None:
    async def test() -> None:
        client = await EncryptedClient.connected()
        await client.send(framed(b"fine") + struct.pack(">i", FRAME_BYTES_MAX + 1))
        assert await client.receive(100) == framed(b"fine")
        assert client.closed == 1
        client.end()

    run(test)


def test_a_lost_connection_is_noticed(run: Run) -> None:
    async def test() -> None:
        client = await EncryptedClient.connected()
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sock.close()
        await turns()
        assert client.closed == 1

    run(test)


def test_what_ends_leaves_no_cycle(run: Run) -> None:
    """A worker does not look again at what has lasted (garbage.py)."""

    async def test() -> None:
        gc.collect()
        gc.disable()
        try:
            client = await EncryptedClient.connected()
            await client.send(framed(b"a" * 100_000))
            await client.receive(100_004)
            await turns()
            marked: set[int] = set()
            client.connection.state = marked
            far = weakref.ref(marked)
            del marked
            client.stream.say_goodbye()
            client.sock.close()
            await turns()
            assert client.closed == 1
            del client.connection  # whose handler is the client's
            await turns()
            assert far() is None
        finally:
            gc.enable()

    run(test)
