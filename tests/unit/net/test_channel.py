"""Connections to other brokers: what cannot be reached is one kind of error, whatever the reason."""

import asyncio
import contextlib
import gc
import random
import ssl
import struct
import time
import weakref
from typing import NamedTuple

import pytest

from pkafka.net.channel import ChannelError, open_channel
from tests.skipped_time import LoopTime
from tests.unit.net.encrypted import contexts


class Ends(NamedTuple):
    """What the two ends of a connection encrypt by; None: it is plain."""

    server: ssl.SSLContext | None = None
    client: ssl.SSLContext | None = None


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def tls(request: pytest.FixtureRequest) -> Ends:
    return Ends(*contexts()) if request.param else Ends()


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_nobody_could_have_cannot_be_reached(host: str) -> None:
    """Apache Kafka takes such a name for an advertised listener, so other brokers may register with it."""
    with pytest.raises(ChannelError, match="cannot be reached"):
        asyncio.run(open_channel(host, 9092, timeout_s=60, frame_bytes_max=1000))


async def _hold_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers ``yes`` at once, and whatever else is said when nobody waits any more."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
        while True:
            said = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
            if said != b"yes":
                await asyncio.sleep(60)
            writer.write(struct.pack(">i", len(said)) + said)


def test_what_is_not_answered_in_time_ends_the_connection(tls: Ends) -> None:
    """The answer that comes too late would be taken for that to the next question."""

    async def run() -> None:
        async with await asyncio.start_server(_hold_back, "127.0.0.1", 0, ssl=tls.server) as server:
            port = server.sockets[0].getsockname()[1]
            channel = await open_channel(
                "127.0.0.1", port, timeout_s=60, frame_bytes_max=1000, tls=tls.client
            )
            for patience_s in (60, 30):
                assert bytes(await channel.ask(b"\0\0\0\3yes", timeout_s=patience_s)) == b"yes"
            began = time.monotonic()
            with pytest.raises(ChannelError, match=r"did not answer within 0\.2 s"):
                await channel.ask(b"\0\0\0\2no", timeout_s=0.2)  # although others were ready to wait longer
            assert 0.2 <= time.monotonic() - began < 20
            assert channel.is_closed
            with pytest.raises(ChannelError, match=r"did not answer within 0\.2 s"):
                await channel.ask(b"\0\0\0\3yes", timeout_s=60)

    asyncio.run(run())


def test_each_question_has_a_patience_of_its_own(tls: Ends) -> None:
    async def run() -> None:
        was_asked, may_answer = asyncio.Event(), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError), contextlib.closing(writer):
                writer.write(await reader.readexactly(7))
                said = await reader.readexactly(8)
                was_asked.set()
                await may_answer.wait()
                writer.write(said)
                await reader.read()

        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.server) as server:
            time = LoopTime()
            port = server.sockets[0].getsockname()[1]
            channel = await open_channel(
                "127.0.0.1", port, timeout_s=60, frame_bytes_max=1000, tls=tls.client
            )
            assert bytes(await channel.ask(b"\0\0\0\3yes", timeout_s=30)) == b"yes"
            asking = asyncio.create_task(channel.ask(b"\0\0\0\4slow", timeout_s=90))
            await was_asked.wait()
            await time.skip(35)  # the first one's time is over long before the second answer comes
            may_answer.set()
            assert bytes(await asking) == b"slow"
            channel.close()

    asyncio.run(run())


def test_answers_come_in_any_pieces(tls: Ends) -> None:
    """Several at once, one byte at a time, larger than all before, much smaller than the last."""
    chance = random.Random(7)
    sizes = [1, 3, 100, 70_000, 5, 2_000_000, 12, 65_532, 65_533, 300_000, 1]
    answers = [chance.randbytes(size) for size in sizes]
    stream = b"".join(struct.pack(">i", len(answer)) + answer for answer in answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.readexactly(5 * len(answers))
            position = 0
            while position < len(stream):
                size = chance.choice([1, 2, 3, 4, 5, 1000, 66_000, 500_000])
                writer.write(stream[position : position + size])
                await writer.drain()
                position += size
            await reader.read()

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.server) as server:
            port = server.sockets[0].getsockname()[1]
            channel = await open_channel(
                "127.0.0.1", port, timeout_s=60, frame_bytes_max=2_000_000, tls=tls.client
            )

            async def ask() -> bytes:
                return bytes(await channel.ask(b"\0\0\0\1x", timeout_s=30))

            assert await asyncio.gather(*(ask() for _ in answers)) == answers
            channel.close()

    asyncio.run(run())


@pytest.mark.parametrize("size", [-1, 0, 1001])
def test_an_answer_of_no_possible_size_ends_the_connection(tls: Ends, size: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.readexactly(5)
            writer.write(struct.pack(">i", size))
            await reader.read()

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.server) as server:
            port = server.sockets[0].getsockname()[1]
            channel = await open_channel(
                "127.0.0.1", port, timeout_s=60, frame_bytes_max=1000, tls=tls.client
            )
            with pytest.raises(ChannelError, match=f"announces an answer of {size} bytes"):
                await channel.ask(b"\0\0\0\1x", timeout_s=30)

    asyncio.run(run())


def test_what_does_not_speak_tls_is_told() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.read(10)

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ChannelError, match=r"the port may not speak TLS|reset by peer"):
                await open_channel("127.0.0.1", port, timeout_s=60, frame_bytes_max=1000, tls=contexts()[1])

    asyncio.run(run())


def test_a_server_that_says_nothing_in_the_handshake_is_given_up() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.read()

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ChannelError, match=r"did not take the connection within 0\.2 s"):
                await open_channel("127.0.0.1", port, timeout_s=0.2, frame_bytes_max=1000, tls=contexts()[1])

    asyncio.run(run())


def test_an_encrypted_channel_that_ends_leaves_no_cycle() -> None:
    """A worker does not look again at what has lasted (garbage.py)."""
    tls = Ends(*contexts())

    async def run() -> None:
        async with await asyncio.start_server(_hold_back, "127.0.0.1", 0, ssl=tls.server) as server:
            port = server.sockets[0].getsockname()[1]
            gc.collect()
            gc.disable()
            try:
                channel = await open_channel(
                    "127.0.0.1", port, timeout_s=60, frame_bytes_max=1000, tls=tls.client
                )
                assert bytes(await channel.ask(b"\0\0\0\3yes", timeout_s=30)) == b"yes"
                transport = weakref.ref(channel._transport)
                channel.close()
                del channel
                async with asyncio.timeout(20):
                    while transport() is not None:  # noqa: ASYNC110 - nothing tells of it
                        await asyncio.sleep(0)
            finally:
                gc.enable()

    asyncio.run(run())
