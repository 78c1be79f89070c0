"""The producer of coroutines on a scripted broker: outcomes, order, held-back senders, cancellation, transactions."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pkafka.clients.aio import AsyncProducer
from pkafka.clients.errors import BufferExhaustedError, ClientTimeoutError, ClosedError, IllegalStateError
from pkafka.clients.producer import Producer, ProducerFencedError, TransactionAbortedError
from pkafka.clients.serialization import SerializationError
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.api import ApiKey
from tests.fakes.broker import FakeBroker
from tests.unit.clients.aio.loops import run, until
from tests.unit.clients.test_producer_gathering import Ends
from tests.unit.clients.test_producer_sending import FAST, Logs, error
from tests.unit.clients.test_producer_transactions_sending import Coordinated


@asynccontextmanager
async def running(**keys: object) -> AsyncIterator[tuple[Logs, AsyncProducer]]:
    """A broker with a topic ``t`` of one partition, and a producer; ``_`` in keys stands for ``.``."""
    with FakeBroker({"t": 1}) as broker:
        logs = Logs(broker)
        dotted = {key.replace("_", "."): value for key, value in keys.items()}
        producer = AsyncProducer({"bootstrap.servers": broker.bootstrap, **FAST, **dotted})
        async with producer:
            try:
                yield logs, producer
            finally:
                logs.held.set()


@asynccontextmanager
async def transactional() -> AsyncIterator[tuple[Coordinated, AsyncProducer]]:
    with FakeBroker({"t": 2}) as broker:
        coordinated = Coordinated(broker)
        keys = {"bootstrap.servers": broker.bootstrap, "transactional.id": "mine", **FAST}
        async with AsyncProducer(keys) as producer:
            await producer.init_transactions()
            yield coordinated, producer


def test_ten_thousand_sends_at_once_have_their_outcomes_in_order() -> None:
    async def main() -> None:
        async with running() as (logs, producer):
            outcomes = [await producer.send("t", b"%d" % number) for number in range(10_000)]
            assert [each.offset for each in await asyncio.gather(*outcomes)] == list(range(10_000))
            waits = [producer.send_and_wait("t", b"%d" % number) for number in range(10_000)]
            found = await asyncio.gather(*waits)
            assert [each.offset for each in found] == list(range(10_000, 20_000))
            assert logs.values() == [b"%d" % number for number in range(10_000)] * 2

    run(main)


def test_one_wake_up_settles_what_is_known_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running(batch_size=1_000, linger_ms=5) as (logs, producer):
            await producer.send_and_wait("t", b"x")
            loop = asyncio.get_running_loop()
            woken: list[str] = []
            plain = loop.call_soon_threadsafe

            def counted(*arguments: object, **more: object) -> object:
                woken.append(threading.current_thread().name)
                return plain(*arguments, **more)  # type: ignore[arg-type] # passed on as they are

            monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
            outcomes = [await producer.send("t", b"x" * 10) for _ in range(5_000)]
            await asyncio.gather(*outcomes)
            assert len(logs.batch_sizes) > 40
            assert 1 <= len(woken) <= len(logs.batch_sizes)

    run(main)


def test_an_outcome_that_is_kept_keeps_nothing_but_the_place_of_its_record() -> None:
    async def main() -> None:
        async with running() as (_, producer):
            outcomes = [await producer.send("t", b"x") for _ in range(100)]
            outcomes[50].cancel()
            await producer.flush()
            assert [each.result().offset for each in outcomes if not each.cancelled()] == [
                number for number in range(100) if number != 50
            ]
            done = [each for each in outcomes if not each.cancelled()]
            assert not any(hasattr(each, "batch") for each in done)

    run(main)


def stop_clock(producer: AsyncProducer) -> Producer:
    """So that no run ends by chance. Returns what is behind the producer."""
    running = producer._running
    assert running is not None
    now_ms = running.core._clock.now_ms()
    running.core._clock.now_ms = lambda: now_ms  # type: ignore[method-assign] # of this producer alone
    running.now_s = running.core._now_s = lambda: now_ms / 1_000
    return running.core


def test_a_record_joins_the_run_that_the_thread_of_an_earlier_send_began() -> None:
    async def main() -> None:
        async with running(linger_ms=60_000, delivery_timeout_ms=100_000) as (logs, producer):
            core = stop_clock(producer)
            # All three wait for metadata, on a thread of the producer's.
            outcomes = await asyncio.gather(*[producer.send("t", b"%d" % number) for number in range(3)])
            run_ = core._accumulator.run
            assert run_.is_open
            assert run_.owner != threading.get_ident()
            before = list(run_.values)
            outcomes += [await producer.send("t", b"%d" % number) for number in range(3, 6)]
            assert run_.values == [*before, b"3", b"4", b"5"]
            await producer.flush()
            assert logs.values() == [b"%d" % number for number in range(6)]
            assert [(await each).offset for each in outcomes] == list(range(6))

    run(main)


@pytest.mark.parametrize("before", [True, False])
def test_a_record_that_comes_while_its_run_ends_is_sent_once(before: bool) -> None:
    async def main() -> None:
        async with running(linger_ms=60_000, delivery_timeout_ms=100_000) as (logs, producer):
            outcomes = [await producer.send("t", b"0")]
            core = stop_clock(producer)
            outcomes += [await producer.send("t", b"%d" % number) for number in range(1, 5)]
            run_ = core._accumulator.run
            assert run_.is_open
            run_.values = Ends(run_, before=before)  # type: ignore[assignment] # append() is all that is called
            outcomes += [await producer.send("t", b"%d" % number) for number in range(5, 7)]
            assert not run_.is_open
            await producer.flush()
            assert logs.values() == [b"%d" % number for number in range(7)]
            assert [(await each).offset for each in outcomes] == list(range(7))

    run(main)


def test_outcomes_are_the_typed_errors_of_the_producer() -> None:
    async def main() -> None:
        async with running() as (logs, producer):
            logs.errors = [error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
            outcome = await producer.send("t", b"x")
            with pytest.raises(ApiError) as refused:
                await outcome
            assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            with pytest.raises(ApiError) as refused:
                await producer.send_and_wait("t", bytes(2_000_000))
            assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
            with pytest.raises(SerializationError):
                await producer.send("t", "no bytes")
            logs.errors = [error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 2
            unseen = await producer.send("t", b"nobody looks")
            await producer.flush()
            assert unseen.done()
            del unseen
        async with running(max_block_ms=300) as (_, producer):
            with pytest.raises(ClientTimeoutError):
                await producer.send_and_wait("t", b"x", partition=7)

    run(main)


def test_a_batch_tells_where_its_records_went() -> None:
    async def main() -> None:
        async with running() as (logs, producer):
            runs = await (await producer.send_batch("t", [b"%d" % number for number in range(1_000)]))
            assert sum(each.length for each in runs) == 1_000
            logs.errors = [error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
            with pytest.raises(ApiError):
                await (await producer.send_batch("t", [b"x"]))
            cancelled = await producer.send_batch("t", [b"x"])
            cancelled.cancel()
        assert logs.count() == 1_001

    run(main)


def test_a_batch_that_is_split_settles_all_its_records() -> None:
    async def main() -> None:
        async with running(linger_ms=60_000, delivery_timeout_ms=120_000) as (logs, producer):
            await producer.send("t", b"first")
            await producer.flush()
            logs.errors = [error(ErrorCode.MESSAGE_TOO_LARGE)]
            outcomes = [await producer.send("t", b"%d" % number) for number in range(100)]
            await producer.flush()
            assert [each.offset for each in await asyncio.gather(*outcomes)] == list(range(1, 101))

    run(main)


def test_a_full_buffer_holds_senders_back_and_the_loop_goes_on() -> None:
    async def main() -> None:
        async with running(buffer_memory=40_000) as (logs, producer):
            await producer.send_and_wait("t", b"0")
            logs.held.clear()
            sends = [
                asyncio.create_task(producer.send("t", b"%d" % number + bytes(1_000)))
                for number in range(1, 200)
            ]
            await until(lambda: any(each.done() for each in sends))
            assert not sends[-1].done()
            sends[-2].cancel()  # sent all the same
            logs.held.set()
            outcomes = [await each for each in sends if each is not sends[-2]]
            await asyncio.gather(*outcomes)
            assert [int((each or b"").rstrip(b"\0")) for each in logs.values()] == list(range(200))

    run(main)


def test_senders_behind_a_full_buffer_wait_for_max_block_ms_together() -> None:
    async def main() -> None:
        async with running(buffer_memory=40_000, max_block_ms=500) as (logs, producer):
            is_sent = False
            while not is_sent:
                with contextlib.suppress(ClientTimeoutError):  # a busy machine may bring the metadata later
                    await producer.send_and_wait("t", b"0")
                    is_sent = True
            logs.held.clear()
            begun = asyncio.get_running_loop().time()
            outcomes = await asyncio.gather(*[producer.send("t", bytes(10_000)) for _ in range(60)])
            assert asyncio.get_running_loop().time() - begun < 20
            logs.held.set()
            results = await asyncio.gather(*outcomes, return_exceptions=True)
            failed = [each for each in results if isinstance(each, BaseException)]
            assert len(failed) > 40
            assert {type(each) for each in failed} == {BufferExhaustedError}

    run(main)


def test_what_is_cancelled_is_sent_and_in_its_place() -> None:
    async def main() -> None:
        async with running() as (logs, producer):
            waiting = asyncio.create_task(producer.send("t", b"waits for metadata"))
            await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()
            behind = await producer.send("t", b"behind")
            behind.cancel()
            await producer.send("t", b"last")
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert logs.values() == [b"waits for metadata", b"behind", b"last"]

    run(main)


def test_lost_connections_cost_no_record_and_no_order() -> None:
    async def main() -> None:
        async with running(linger_ms=1, batch_size=500) as (logs, producer):
            await producer.send_and_wait("t", b"0")
            logs.errors = [None] * 3
            outcomes = [await producer.send("t", b"%d" % number) for number in range(1, 500)]
            assert [each.offset for each in await asyncio.gather(*outcomes)] == list(range(1, 500))
            assert logs.values() == [b"%d" % number for number in range(500)]
            assert logs.errors == []

    run(main)


def test_flush_ends_when_all_futures_are_done() -> None:
    async def main() -> None:
        async with running(linger_ms=60_000, delivery_timeout_ms=120_000) as (_, producer):
            outcomes = [await producer.send("t", b"x") for _ in range(2_000)]
            await producer.flush()
            assert all(each.done() for each in outcomes)

    run(main)


def test_stopping_without_time_fails_what_is_left_and_is_the_end() -> None:
    async def main() -> None:
        async with running() as (logs, producer):
            await producer.send_and_wait("t", b"0")
            logs.held.clear()
            outcomes = [await producer.send("t", b"x") for _ in range(100)]
            stopping = asyncio.gather(producer.stop(0), producer.stop(0))
            await asyncio.sleep(0)
            with pytest.raises(ClosedError):
                await producer.send("t", b"late")
            logs.held.set()
            await stopping
            assert all(each.done() for each in outcomes)
        with contextlib.suppress(ClosedError):
            await producer.flush()
        unstarted = AsyncProducer({"bootstrap.servers": "127.0.0.1:1"})
        with pytest.raises(IllegalStateError):
            await unstarted.send("t", b"x")
        await unstarted.stop()

    run(main)


def test_a_producer_that_never_found_a_broker_ends_cleanly() -> None:
    async def main() -> None:
        keys = {"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 200}
        async with AsyncProducer(keys) as producer:
            outcomes = await asyncio.gather(*[producer.send("t", b"x") for _ in range(50)])
            results = await asyncio.gather(*outcomes, return_exceptions=True)
            assert all(isinstance(each, ClientTimeoutError) for each in results)

    run(main)


def test_a_transaction_commits_at_its_end_and_aborts_when_something_is_raised() -> None:
    async def fails(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send("t", b"aborted", partition=0)
            raise LookupError

    async def is_cancelled(producer: AsyncProducer, begun: asyncio.Event) -> None:
        async with producer.transaction():
            begun.set()
            await asyncio.Event().wait()

    async def main() -> None:
        async with transactional() as (broker, producer):
            async with producer.transaction():
                await producer.send("t", b"committed", partition=0)
            assert broker.ends == [True]
            with pytest.raises(LookupError):
                await fails(producer)
            begun = asyncio.Event()
            task = asyncio.create_task(is_cancelled(producer, begun))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"x", partition=0)
            await producer.commit_transaction()
            assert broker.ends[0] is broker.ends[-1] is True
            with pytest.raises(IllegalStateError):
                await producer.send("t", b"outside")

    run(main)


def test_an_abort_fails_what_was_not_sent() -> None:
    async def main() -> None:
        with FakeBroker({"t": 2}) as broker:
            Coordinated(broker)
            keys = {
                "bootstrap.servers": broker.bootstrap,
                "transactional.id": "mine",
                "linger.ms": 60_000,
                "delivery.timeout.ms": 120_000,
            }
            async with AsyncProducer({**keys, **FAST}) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                outcome = await producer.send("t", b"x", partition=0)
                await producer.abort_transaction()
                assert isinstance(outcome.exception(), TransactionAbortedError)

    run(main)


def test_a_fenced_producer_says_so() -> None:
    async def main() -> None:
        async with transactional() as (broker, producer):
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"x", partition=0)
            broker.errors[ApiKey.END_TXN] = [ErrorCode.PRODUCER_FENCED]
            with pytest.raises(ProducerFencedError):
                await producer.commit_transaction()

    run(main)
