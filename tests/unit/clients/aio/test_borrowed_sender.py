"""Whose thread does a producer's sending: the loop's where nothing takes long, the sender's own where something may."""

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pkafka.clients.aio import AsyncProducer, borrowed_sender
from pkafka.clients.aio.borrowed_sender import BorrowedSender
from pkafka.clients.connection import Connection
from pkafka.clients.errors import ClosedError
from pkafka.clients.producer import ProducerRecord, RecordMetadata
from pkafka.clients.producer.sender import Sender
from tests.fakes.broker import FakeBroker
from tests.talk import wait_for
from tests.unit.clients.aio.loops import run, until
from tests.unit.clients.aio.test_producer import running, transactional
from tests.unit.clients.test_producer_sending import FAST, Logs

Producing = Callable[[AsyncProducer], Any]


class Listens:
    """An interceptor that changes nothing."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        return


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that gets no processor keeps the turns, but where a test says otherwise."""
    monkeypatch.setattr(borrowed_sender, "_LATE_MS", 30_000)


@pytest.fixture
def senders(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that sent to brokers, in order."""
    found: list[int] = []
    plain = Sender._send

    def noted(self: Sender, *arguments: Any) -> None:
        found.append(threading.get_ident())
        plain(self, *arguments)

    monkeypatch.setattr(Sender, "_send", noted)
    return found


def sender_of(producer: AsyncProducer) -> Sender:
    assert producer._running is not None
    return producer._running.core._sender


def borrowed(producer: AsyncProducer) -> BorrowedSender:
    assert producer._running is not None
    return producer._running.sender


async def lent(producer: AsyncProducer) -> int:
    """Send until the loop has the sender's turns.

    Returns:
        How many records that took.
    """
    count = 0
    async with asyncio.timeout(30):
        while not borrowed(producer).is_lent:
            await producer.send("t", b"x")
            await producer.flush()
            count += 1
    return count


def test_the_loop_sends_and_takes_answers_in_once_the_cluster_is_found(
    senders: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running() as (logs, producer):
            await lent(producer)
            before = logs.count()
            senders.clear()
            loop = asyncio.get_running_loop()
            woken: list[str] = []
            monkeypatch.setattr(
                loop, "call_soon_threadsafe", lambda *_: woken.append(threading.current_thread().name)
            )
            for _ in range(20):
                await producer.send_and_wait("t", b"x")
            outcomes = [await producer.send("t", b"x" * 100) for _ in range(1_000)]
            assert len(senders) == 20  # the turn of the loop is not over
            await asyncio.gather(*outcomes)
            monkeypatch.undo()
            assert set(senders) == {threading.get_ident()}
            assert woken == []
            assert logs.count() == before + 1_020

    run(main)


@pytest.mark.parametrize("keys", [{"compression.type": "zstd"}, {"interceptor.classes": [Listens]}])
def test_what_may_take_long_stays_on_the_senders_thread(keys: dict[str, object], senders: list[int]) -> None:
    async def main() -> None:
        with FakeBroker({"t": 1}) as broker:
            Logs(broker)
            async with AsyncProducer({"bootstrap.servers": broker.bootstrap, **FAST, **keys}) as producer:
                for _ in range(5):
                    await producer.send_and_wait("t", b"x")
                assert not borrowed(producer).is_lent
        assert threading.get_ident() not in senders

    run(main)


def test_what_one_turn_of_the_loop_sends_wakes_the_senders_thread_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with running(batch_size=1_000, compression_type="lz4") as (logs, producer):
            await producer.send_and_wait("t", b"x")
            sender = sender_of(producer)
            plain, woken = sender.wake, []

            def counted() -> None:
                woken.append(threading.current_thread().name)
                plain()

            monkeypatch.setattr(sender, "wake", counted)
            outcomes = [await producer.send("t", b"x" * 100) for _ in range(500)]
            assert woken == []
            await asyncio.gather(*outcomes)
            assert len(woken) == 1
            assert producer._running is not None
            core = producer._running.core
            core.send("t", b"x")  # as any thread may: the loop's own thread, in the next turn
            await asyncio.to_thread(core.send, "t", b"y")
            await until(lambda: logs.count() == 503)
            assert len(woken) <= 3

    run(main)


def test_transactions_stay_on_the_senders_thread(senders: list[int]) -> None:
    async def main() -> None:
        async with transactional() as (_, producer):
            for _ in range(3):
                async with producer.transaction():
                    await producer.send_and_wait("t", b"x")
        assert senders
        assert threading.get_ident() not in senders

    run(main)


def test_a_turn_that_a_ctrl_c_could_break_stays_on_the_senders_thread(senders: list[int]) -> None:
    """``asyncio.run()`` has a Ctrl-C cancel the main task; a loop of the program's own leaves it to raise anywhere."""

    async def main() -> None:
        async with running() as (_, producer):
            for _ in range(5):
                await producer.send_and_wait("t", b"x")

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert senders
    assert threading.get_ident() not in senders


def test_the_senders_thread_goes_on_while_the_loop_is_busy(
    senders: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running() as (logs, producer):
            monkeypatch.setattr(borrowed_sender, "_LATE_MS", 100)
            await lent(producer)
            before = logs.count()
            senders.clear()
            outcomes = [await producer.send("t", b"%d" % number) for number in range(100)]
            wait_for(lambda: logs.count() == before + 100)  # and have the loop be busy meanwhile
            assert threading.get_ident() not in senders
            await asyncio.gather(*outcomes)
            # The loop is not busy any more, and has the turns again.
            monkeypatch.setattr(borrowed_sender, "_LATE_MS", 30_000)
            await lent(producer)
            senders.clear()
            await producer.send_and_wait("t", b"x")
            assert senders == [threading.get_ident()]

    run(main)


def test_the_loop_never_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[int] = []
    plain = Connection.__init__

    def noted(self: Connection, *arguments: Any, **keys: Any) -> None:
        connected.append(threading.get_ident())
        plain(self, *arguments, **keys)

    monkeypatch.setattr(Connection, "__init__", noted)

    async def main() -> None:
        async with running(batch_size=500) as (logs, producer):
            await lent(producer)
            before = len(connected)
            for _ in range(5):
                logs.errors = [None]
                outcomes = [await producer.send("t", b"x") for _ in range(200)]
                await asyncio.gather(*outcomes)
                await lent(producer)
            assert len(connected) >= before + 5
            assert threading.get_ident() not in connected

    run(main)


def test_a_leader_without_a_connection_is_connected_to_by_the_senders_thread() -> None:
    async def main() -> None:
        async with running() as (_, producer):
            await lent(producer)
            sender = sender_of(producer)
            network = sender._cluster.network
            address = next(iter(network._connections))
            network.may_connect = False
            try:
                other = address._replace(port=1)
                assert not network.is_ready(other)
                assert network.connection(other) is None
                assert network.take_wish_to_connect()
                assert not network.take_wish_to_connect()
            finally:
                network.may_connect = True

    run(main)


def test_what_lingers_is_sent_in_time(senders: list[int]) -> None:
    async def main() -> None:
        async with running(linger_ms=30) as (_, producer):
            await lent(producer)
            senders.clear()
            begun = time.monotonic()
            await producer.send_and_wait("t", b"x")
            assert 0.025 < time.monotonic() - begun < 30
            assert senders == [threading.get_ident()]

    run(main)


def test_calls_of_other_threads_are_heard(senders: list[int]) -> None:
    async def main() -> None:
        async with running(linger_ms=60_000, delivery_timeout_ms=120_000) as (logs, producer):
            outcome = await producer.send("t", b"x")
            await producer.flush()
            assert (await outcome).offset == 0
            count = 1 + await lent(producer)
            senders.clear()
            outcomes = [await producer.send("t", b"x") for _ in range(10)]
            sent = await producer.send_batch("t", [b"y"] * 1_000)
            await producer.flush()
            assert sum(each.length for each in await sent) == 1_000
            assert all(each.done() for each in [outcome, *outcomes])
            assert logs.count() == count + 1_010
            assert set(senders) == {threading.get_ident()}

    run(main)


def test_an_error_in_a_turn_on_the_loop_ends_the_producer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running() as (_, producer):
            await lent(producer)
            sender = sender_of(producer)

            def fails(_: int) -> int:
                raise ZeroDivisionError

            monkeypatch.setattr(sender, "_drain", fails)
            monkeypatch.setattr(threading, "excepthook", lambda _: None)
            outcome = await producer.send("t", b"x")
            with pytest.raises(ClosedError):
                await outcome
            with pytest.raises(ClosedError):
                await (await producer.send("t", b"y"))
            await until(lambda: not sender.thread.is_alive())
        assert "ZeroDivisionError" in caplog.text

    run(main)


def test_a_ctrl_c_in_a_turn_on_the_loop_reaches_the_program_and_ends_the_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second Ctrl-C in ``asyncio.run()`` raises wherever the loop is."""
    ended: list[Sender] = []

    def interrupted(_: int) -> int:
        raise KeyboardInterrupt

    async def main() -> None:
        async with running() as (_, producer):
            await lent(producer)
            ended.append(sender_of(producer))
            monkeypatch.setattr(ended[0], "_drain", interrupted)
            monkeypatch.setattr(threading, "excepthook", lambda _: None)
            await (await producer.send("t", b"x"))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    ended[0].thread.join(30)
    assert not ended[0].thread.is_alive()


@pytest.mark.filterwarnings("ignore:the producer .* was dropped:ResourceWarning")
def test_a_producer_that_is_dropped_on_the_loop_sends_what_is_left_and_ends() -> None:
    async def main() -> None:
        with FakeBroker({"t": 1}) as broker:
            logs = Logs(broker)
            producer = AsyncProducer({"bootstrap.servers": broker.bootstrap, **FAST, "linger.ms": 60_000})
            await producer.start()
            sender = sender_of(producer)
            count = await lent(producer)
            await producer.send("t", b"last")
            del producer
            gc.collect()
            await until(lambda: not sender.thread.is_alive())
            assert logs.count() == count + 1

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:the producer .* was dropped:ResourceWarning")
def test_a_loop_that_is_closed_gives_the_turns_back_and_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(borrowed_sender, "_LATE_MS", 100)
    before = set(os.listdir("/proc/self/fd"))
    with FakeBroker({"t": 1}) as broker:
        logs = Logs(broker)
        kept: list[AsyncProducer] = []

        async def main() -> None:
            producer = AsyncProducer({"bootstrap.servers": broker.bootstrap, **FAST})
            await producer.start()
            kept.append(producer)
            await lent(producer)
            await producer.send("t", b"left")

        asyncio.run(main())
        sender = sender_of(kept[0])
        wait_for(lambda: b"left" in logs.values() and not borrowed(kept[0]).is_lent)
        kept.clear()
        gc.collect()
        sender.thread.join(30)
        assert not sender.thread.is_alive()
    del sender
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before
