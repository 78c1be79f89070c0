"""The consumer of coroutines on a scripted broker: cancellation, calls beside a poll, commits, listeners, the end."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest

from pkafka.clients.aio import AsyncConsumer, AsyncRebalanceListener
from pkafka.clients.consumer import ConsumerRebalanceListener
from pkafka.clients.consumer.errors import InvalidGroupIdError, RecordDeserializationError
from pkafka.clients.errors import ClosedError, IllegalArgumentError, IllegalStateError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from tests.unit.clients.aio.loops import run, until
from tests.unit.clients.test_consumer import KEYS, Log, broker_with
from tests.unit.clients.test_consumer_group import QUICK, Group

T0 = TopicPartition("t", 0)


@asynccontextmanager
async def reading(log: Log, **keys: object) -> AsyncIterator[AsyncConsumer]:
    """A consumer that reads this log from its beginning; ``_`` in keys stands for ``.``."""
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    with broker_with(log) as broker:
        config = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest", **KEYS, **dotted}
        async with AsyncConsumer(config) as consumer:
            await consumer.assign([T0])
            yield consumer


@asynccontextmanager
async def member(log: Log, **keys: object) -> AsyncIterator[tuple[Group, AsyncConsumer]]:
    """A member of a group that reads this log."""
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    with Group() as group:
        group.broker.handlers[ApiKey.FETCH] = log.fetch
        group.broker.handlers[ApiKey.LIST_OFFSETS] = log.offsets
        config = {
            "bootstrap.servers": group.broker.bootstrap,
            "group.id": "g",
            "enable.auto.commit": "false",
            **QUICK,
            **dotted,
        }
        async with AsyncConsumer(config) as consumer:
            yield group, consumer


def append(log: Log, count: int) -> None:
    for _ in range(count):
        number = len(log.batches)
        log.batches.append(bytes(build_batch([(1_000, None, b"%d" % number, ())], base_offset=number)))


def test_records_come_one_by_one_in_lists_and_by_iteration() -> None:
    async def main() -> None:
        async with reading(Log(30)) as consumer:
            assert (await consumer.getone()).offset == 0
            found = await consumer.getmany(timeout_ms=10_000, max_records=4)
            assert [each.offset for each in found[T0]] == [1, 2, 3, 4]
            offsets = []
            async for record in consumer:
                offsets.append(record.offset)
                if record.offset == 29:
                    break
            assert offsets == list(range(5, 30))
            assert await consumer.getmany(timeout_ms=50) == {}
            with pytest.raises(IllegalArgumentError):
                await consumer.getmany(max_records=0)

    run(main)


def test_what_a_cancelled_call_had_asked_for_is_delivered_to_the_next() -> None:
    async def main() -> None:
        log = Log(0)
        async with reading(log) as consumer:
            found: list[int] = []
            for _ in range(60):
                asking = asyncio.create_task(consumer.getmany(timeout_ms=10_000))
                await asyncio.sleep(0)
                append(log, 3)
                await asyncio.sleep(0.001)
                asking.cancel()
                try:
                    records = await asking
                except asyncio.CancelledError:
                    continue
                found += [each.offset for each in records.get(T0, ())]
            while len(found) < 180:
                found.append((await consumer.getone()).offset)
            assert found == list(range(180))

    run(main)


def test_a_poll_that_nobody_waits_for_ends() -> None:
    async def main() -> None:
        async with reading(Log(0)) as consumer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await consumer.getone()
            await until(lambda: consumer._polling is None)

    run(main)


def test_calls_are_made_beside_a_coroutine_that_waits_for_records() -> None:
    async def main() -> None:
        log = Log(0)
        async with reading(log) as consumer:
            waiting = asyncio.create_task(consumer.getone())
            many = asyncio.create_task(consumer.getmany(timeout_ms=30_000))
            for _ in range(20):
                assert await consumer.position(T0) == 0
                assert await consumer.end_offsets([T0]) == {T0: 0}
                assert await consumer.beginning_offsets([T0]) == {T0: 0}
            assert await consumer.assignment() == [T0]
            assert await consumer.getmany() == {}
            assert await consumer.getmany(timeout_ms=20) == {}
            assert (await consumer.partitions_for("t")).error == ErrorCode.NONE
            assert "t" in await consumer.topics()
            append(log, 5)
            found = [(await waiting).offset]
            found += [each.offset for each in (await many).get(T0, ())]
            while len(found) < 5:
                found.append((await consumer.getone()).offset)
            assert sorted(found) == [0, 1, 2, 3, 4]

    run(main)


def test_calls_without_end_do_not_keep_records_away() -> None:
    async def main() -> None:
        async with reading(Log(2_000)) as consumer:
            is_over = False

            async def ask() -> int:
                count = 0
                while not is_over:
                    await consumer.assignment()
                    count += 1
                return count

            asking = [asyncio.create_task(ask()) for _ in range(3)]
            for offset in range(2_000):
                assert (await consumer.getone()).offset == offset
            is_over = True
            assert all(each > 0 for each in await asyncio.gather(*asking))

    run(main)


def test_lost_connections_cost_no_record() -> None:
    async def main() -> None:
        log = Log(10)
        with broker_with(log) as broker:
            lost = 0

            def fetch(message: Message, version: int) -> Message | None:
                nonlocal lost
                if len(log.batches) > 10 and lost < 3:
                    lost += 1
                    return None
                return log.fetch(message, version)

            broker.handlers[ApiKey.FETCH] = fetch
            keys = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest", **KEYS}
            async with AsyncConsumer(keys) as consumer:
                await consumer.assign([T0])
                assert [(await consumer.getone()).offset for _ in range(10)] == list(range(10))
                waiting = asyncio.create_task(consumer.getone())
                await asyncio.sleep(0)
                append(log, 10)
                assert (await waiting).offset == 10
                assert [(await consumer.getone()).offset for _ in range(9)] == list(range(11, 20))
                assert lost == 3

    run(main)


def test_what_was_fetched_is_paused_and_sought_too() -> None:
    async def main() -> None:
        async with reading(Log(100)) as consumer:
            assert (await consumer.getone()).offset == 0
            assert await consumer.position(T0) == 1
            await consumer.pause([T0])
            assert await consumer.paused() == [T0]
            assert await consumer.getmany(timeout_ms=50) == {}
            await consumer.resume([T0])
            assert (await consumer.getone()).offset == 1
            await consumer.seek(T0, 50)
            assert (await consumer.getone()).offset == 50
            await consumer.seek_to_beginning()
            assert (await consumer.getone()).offset == 0
            await consumer.seek_to_time(1_070)
            assert (await consumer.getone()).offset == 70
            await consumer.seek_to_end([T0])
            assert await consumer.getmany(timeout_ms=50) == {}
            assert await consumer.position(T0) == 100
            with pytest.raises(IllegalStateError):
                await consumer.seek(TopicPartition("t", 5), 0)
            with pytest.raises(IllegalStateError):
                await consumer.position(TopicPartition("t", 5))

    run(main)


def test_errors_are_those_of_the_consumer() -> None:
    async def main() -> None:
        log = Log(3)
        async with reading(log, value_deserializer="LongDeserializer") as consumer:
            with pytest.raises(RecordDeserializationError):
                await consumer.getone()
            await consumer.seek(T0, 3)
            assert await consumer.getmany(timeout_ms=20) == {}
            with pytest.raises(InvalidGroupIdError):
                await consumer.subscribe(["t"])
            log.failures = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            with pytest.raises(ApiError):
                await consumer.getone()
        with pytest.raises(IllegalStateError):
            await AsyncConsumer({"bootstrap.servers": "127.0.0.1:1"}).getone()

    run(main)


def test_an_error_that_nobody_waited_for_is_raised_by_the_next_call() -> None:
    async def main() -> None:
        async with AsyncConsumer({"bootstrap.servers": "127.0.0.1:1"}) as consumer:
            asking = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            with pytest.raises(IllegalStateError, match="not subscribed"):
                await consumer.getone()

    run(main)


def test_a_commit_stores_what_was_delivered_and_nothing_beyond_it() -> None:
    async def main() -> None:
        async with member(Log(100)) as (group, consumer):
            await consumer.subscribe(["t"])
            for _ in range(10):
                await consumer.getone()
            await consumer.commit()
            assert group.stored[T0].offset == 10
            committed = await consumer.committed([T0])
            assert committed[T0] == group.stored[T0]
            await consumer.commit({T0: 3})
            assert group.stored[T0].offset == 3
            assert await consumer.subscription() == {"t"}
            assert (await consumer.group_metadata()).member_id == "m"

    run(main)


def test_positions_are_looked_at_while_other_coroutines_take_records() -> None:
    async def main() -> None:
        async with reading(Log(3_000)) as consumer:
            found: list[int] = []

            async def take() -> None:
                while len(found) < 3_000:
                    found.append((await consumer.getone()).offset)
                    await asyncio.sleep(0)

            taking = asyncio.create_task(take())
            while not taking.done():
                before = len(found)
                assert before <= await consumer.position(T0) <= len(found) + 1
            assert found == list(range(3_000))

    run(main)


def test_the_end_commits_what_was_delivered_where_that_is_automatic() -> None:
    async def main() -> None:
        async with member(Log(100), enable_auto_commit="true") as (group, consumer):
            await consumer.subscribe(["t"])
            for _ in range(7):
                await consumer.getone()
            await consumer.stop()
            assert group.stored[T0].offset == 7
            assert group.broker.count(ApiKey.LEAVE_GROUP) == 1

    run(main)


def test_a_cancelled_commit_goes_on() -> None:
    async def main() -> None:
        async with member(Log(10)) as (group, consumer):
            await consumer.subscribe(["t"])
            await consumer.getone()
            committing = asyncio.create_task(consumer.commit())
            await asyncio.sleep(0)
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
            await until(lambda: T0 in group.stored)

    run(main)


class Telling(AsyncRebalanceListener):
    """Uses the consumer while the group waits."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        self.consumer = consumer
        self.told: list[str] = []

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await self.consumer.seek(T0, 5)
        self.told.append(f"assigned at {await self.consumer.position(T0)}")
        with pytest.raises(IllegalStateError):
            await self.consumer.getone()
        with pytest.raises(IllegalStateError):
            await self.consumer.stop()

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.gather(self.consumer.commit(), asyncio.sleep(0.01))
        self.told.append("revoked")


def test_a_listener_of_coroutines_uses_the_consumer_while_the_group_waits() -> None:
    async def main() -> None:
        async with member(Log(10)) as (group, consumer):
            listener = Telling(consumer)
            await consumer.subscribe(["t"], listener=listener)
            asking = [asyncio.create_task(consumer.assignment()) for _ in range(5)]
            assert (await consumer.getone()).offset == 5
            await asyncio.gather(*asking)
            assert listener.told == ["assigned at 5"]
            await consumer.stop()
            assert listener.told == ["assigned at 5", "revoked"]
            assert group.stored[T0].offset == 6

    run(main)


class Plain(ConsumerRebalanceListener):
    """A listener of the other consumer's kind, with a coroutine where it need not be one."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append("assigned")

    async def on_partitions_revoked(  # type: ignore[override] # what is tested
        self, partitions: Collection[TopicPartition]
    ) -> None:
        self.told.append("revoked")


def test_methods_of_a_listener_may_be_plain_and_what_is_lost_counts_as_revoked() -> None:
    async def main() -> None:
        async with member(Log(100), max_poll_records=1) as (group, consumer):
            listener = Plain()
            await consumer.subscribe(["t"], listener=listener)
            await consumer.getone()
            group.errors[ApiKey.HEARTBEAT] = [ErrorCode.UNKNOWN_MEMBER_ID]
            while listener.told[:3] != ["assigned", "revoked", "assigned"]:
                await consumer.getmany(timeout_ms=20, max_records=1)

    run(main)


class Refusing(AsyncRebalanceListener):
    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        raise LookupError("not these")


def test_what_a_listener_raises_reaches_who_asks_for_records() -> None:
    async def main() -> None:
        async with member(Log(1)) as (_, consumer):
            await consumer.subscribe(["t"], listener=Refusing())
            with pytest.raises(LookupError, match="not these"):
                await consumer.getone()

    run(main)


def test_stopping_ends_loops_and_refuses_what_comes_later() -> None:
    async def main() -> None:
        async with reading(Log(3)) as consumer:
            found: list[int] = []

            async def read() -> None:
                async for record in consumer:
                    found.append(record.offset)

            looping = asyncio.create_task(read())
            await until(lambda: len(found) == 3)
            waiting = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0)
            await asyncio.gather(consumer.stop(), consumer.stop())
            await looping
            with pytest.raises(ClosedError):
                await waiting
            with pytest.raises(ClosedError):
                await consumer.position(T0)

    run(main)


def test_a_call_behind_the_end_is_refused() -> None:
    async def main() -> None:
        async with reading(Log(3)) as consumer:
            stopping = asyncio.create_task(consumer.stop())
            asking = [asyncio.create_task(consumer.assignment()) for _ in range(3)]
            results = await asyncio.gather(*asking, return_exceptions=True)
            await stopping
            assert all(isinstance(each, ClosedError) for each in results)

    run(main)


def test_a_consumer_that_is_dropped_without_an_end_warns() -> None:
    async def main() -> None:
        with broker_with(Log(0)) as broker:
            consumer = AsyncConsumer({"bootstrap.servers": broker.bootstrap})
            await consumer.start()
            kept = consumer._turns
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                del consumer
                gc.collect()
            # What other tests have left may be collected now, and warn too.
            texts = [str(each.message) for each in said if "AsyncConsumer" in str(each.message)]
            assert texts == ["an AsyncConsumer was dropped without stop()"]
            await kept.close(0)

    run(main)
