"""The clients of asyncio on a real broker: order, cancellation, held-back senders, transactions, rebalances."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.aio import AsyncConsumer, AsyncProducer, AsyncRebalanceListener
from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import ClientTimeoutError, ClosedError, IllegalStateError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.talk import Talk
from tests.unit.clients.aio.loops import run, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DOC: Final = Path(__file__).parents[2] / "docs" / "asyncio.md"
EXAMPLES: Final = re.findall(r"```python\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "group.min.session.timeout.ms": 1_000,
    }


def keys_of(address: str, **keys: object) -> dict[str, object]:
    return {"bootstrap.servers": address, **{name.replace("_", "."): value for name, value in keys.items()}}


def member_keys(address: str, group: str, **keys: object) -> dict[str, object]:
    return keys_of(address, group_id=group, auto_offset_reset="earliest", enable_auto_commit="false", **keys)


def values(address: str, topic: str, count: int, **keys: object) -> list[bytes]:
    """What a consumer without asyncio finds in partition 0."""
    found: list[bytes] = []
    with Consumer(keys_of(address, **keys)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        while len(found) < count:
            found += [each.value for each in consumer.poll(10_000)]
    return found


def test_ten_thousand_sends_at_once(talk: Talk, address: str, topic: str) -> None:
    talk.create(topic, 1)

    async def main() -> None:
        async with AsyncProducer(keys_of(address)) as producer:
            outcomes = [await producer.send(topic, b"%d" % number) for number in range(10_000)]
            found = await asyncio.gather(*outcomes)
            assert [each.offset for each in found] == list(range(10_000))
            waits = [producer.send_and_wait(topic, b"%d" % number) for number in range(10_000)]
            found = await asyncio.gather(*waits)
            assert [each.offset for each in found] == list(range(10_000, 20_000))
            runs = await (await producer.send_batch(topic, [b"x"] * 1_000))
            assert sum(each.length for each in runs) == 1_000

    run(main)
    assert values(address, topic, 21_000)[:20_000] == [b"%d" % number for number in range(10_000)] * 2


def test_an_outcome_is_the_same_typed_error(talk: Talk, address: str, topic: str) -> None:
    talk.create(topic, 1)

    async def main() -> None:
        async with AsyncProducer(keys_of(address, max_block_ms=500)) as hasty:
            with pytest.raises(ClientTimeoutError):
                await hasty.send_and_wait(topic, b"x", partition=7)
        async with AsyncProducer(keys_of(address)) as producer:
            with pytest.raises(ApiError) as refused:
                await producer.send_and_wait(topic, bytes(2_000_000))
            assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
            await producer.send("a topic has no such name", b"x")  # nobody looks at this one
        with pytest.raises(ClosedError):
            await producer.send(topic, b"x")
        with pytest.raises(IllegalStateError):
            await AsyncProducer(keys_of(address)).send(topic, b"x")

    run(main)


def test_a_full_buffer_holds_senders_back_and_keeps_their_order(talk: Talk, address: str, topic: str) -> None:
    talk.create(topic, 1)
    count, size = 2_000, 1_000

    async def main() -> None:
        async with AsyncProducer(keys_of(address, buffer_memory=65_536)) as producer:
            turns = 0
            is_over = False

            async def count_turns() -> None:
                nonlocal turns
                while not is_over:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count_turns())
            sends = [
                asyncio.create_task(producer.send(topic, b"%d" % number + bytes(size)))
                for number in range(count)
            ]
            await asyncio.gather(*await asyncio.gather(*sends))
            is_over = True
            await counting
            assert turns > 10  # the loop went on meanwhile

    run(main)
    assert [int(each.rstrip(b"\0")) for each in values(address, topic, count)] == list(range(count))


def test_a_cancelled_send_is_sent(talk: Talk, address: str, topic: str) -> None:
    talk.create(topic, 1)

    async def main() -> None:
        async with AsyncProducer(keys_of(address)) as producer:
            waiting = asyncio.create_task(producer.send(topic, b"waits for metadata"))
            await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()
            behind = await producer.send(topic, b"behind")
            behind.cancel()
            await producer.send(topic, b"last")
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await producer.flush()

    run(main)
    assert values(address, topic, 3) == [b"waits for metadata", b"behind", b"last"]


def test_flush_ends_when_all_futures_are_done(talk: Talk, address: str, topic: str) -> None:
    talk.create(topic, 1)

    async def main() -> None:
        async with AsyncProducer(keys_of(address, linger_ms=60_000, delivery_timeout_ms=120_000)) as producer:
            outcomes = [await producer.send(topic, b"x") for _ in range(100)]
            await producer.flush()
            assert all(each.done() for each in outcomes)

    run(main)


def test_records_are_delivered_once_and_in_order_whatever_is_cancelled(
    talk: Talk, address: str, topic: str
) -> None:
    talk.create(topic, 1)
    count = 1_000

    async def main() -> None:
        found: list[int] = []
        async with (
            AsyncProducer(keys_of(address)) as producer,
            AsyncConsumer(keys_of(address, fetch_max_wait_ms=20)) as consumer,
        ):
            partition = TopicPartition(topic, 0)
            await consumer.assign([partition])
            await consumer.seek_to_beginning()
            for sent in range(count):
                asking = asyncio.create_task(consumer.getmany(timeout_ms=10_000, max_records=70))
                await producer.send(topic, b"%d" % sent)
                await asyncio.sleep(0)
                if sent % 2:
                    asking.cancel()
                outcome = await asyncio.gather(asking, return_exceptions=True)
                if isinstance(outcome[0], dict):
                    found += [int(each.value) for each in outcome[0].get(partition, ())]
                    assert await consumer.position(partition) == len(found)
            while len(found) < count:
                found.append(int((await consumer.getone()).value))
        assert found == list(range(count))

    run(main)


def test_calls_do_not_wait_for_a_coroutine_that_waits_for_records(
    talk: Talk, address: str, topic: str
) -> None:
    talk.create(topic, 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def main() -> None:
        async with (
            AsyncConsumer(keys_of(address), ()) as consumer,
            AsyncProducer(keys_of(address)) as producer,
        ):
            await consumer.assign([first, second])
            await consumer.seek_to_beginning()
            waiting = asyncio.create_task(consumer.getone())
            assert await consumer.position(first) == 0
            assert set(await consumer.assignment()) == {first, second}
            assert await consumer.end_offsets([first]) == {first: 0}
            assert await consumer.getmany() == {}
            await consumer.pause([second])
            assert await consumer.paused() == [second]
            await producer.send_and_wait(topic, b"paused", partition=1)
            await producer.send_and_wait(topic, b"read", partition=0)
            assert (await waiting).value == b"read"
            await consumer.resume([second])
            assert (await consumer.getone()).value == b"paused"
            await consumer.seek(second, 0)
            found = await consumer.getmany(timeout_ms=10_000)
            assert [each.value for each in found[second]] == [b"paused"]

    run(main)


def test_what_was_not_delivered_is_not_committed_and_is_paused_and_sought(
    talk: Talk, address: str, topic: str
) -> None:
    talk.create(topic, 1)
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with AsyncProducer(keys_of(address)) as producer:
            await (await producer.send_batch(topic, [b"%d" % number for number in range(100)]))
        async with AsyncConsumer(member_keys(address, topic), [topic]) as consumer:
            for number in range(10):
                assert int((await consumer.getone()).value) == number
            assert await consumer.position(partition) == 10
            await consumer.commit()
            committed = await consumer.committed([partition])
            assert (at := committed[partition]) is not None
            assert at.offset == 10
            await consumer.pause([partition])
            assert await consumer.getmany(timeout_ms=100) == {}
            await consumer.resume([partition])
            assert int((await consumer.getone()).value) == 10
            await consumer.seek(partition, 50)
            assert int((await consumer.getone()).value) == 50
        # With automatic commits, the end commits what was delivered.
        async with AsyncConsumer(
            {**member_keys(address, topic), "enable.auto.commit": "true"}, [topic]
        ) as consumer:
            for number in range(10, 15):
                assert int((await consumer.getone()).value) == number
        async with AsyncConsumer(member_keys(address, topic), [topic]) as consumer:
            assert int((await consumer.getone()).value) == 15

    run(main)


def test_a_loop_over_records_ends_when_the_consumer_is_stopped(talk: Talk, address: str, topic: str) -> None:
    talk.create(topic, 1)

    async def main() -> None:
        consumer = AsyncConsumer(member_keys(address, topic), [topic])
        await consumer.start()
        found = []

        async def read() -> None:
            async for record in consumer:
                found.append(record.value)

        reading = asyncio.create_task(read())
        waiting = asyncio.create_task(consumer.getone())
        async with AsyncProducer(keys_of(address)) as producer:
            await producer.send_and_wait(topic, b"1")
        await until(lambda: found or waiting.done())
        await consumer.stop()
        await reading
        with pytest.raises(ClosedError):
            await consumer.getone()
        assert [*found, *([waiting.result().value] if found == [] else [])] == [b"1"]
        if found:
            with pytest.raises(ClosedError):
                await waiting

    run(main)


class Committing(AsyncRebalanceListener):
    """Commits what it gives up, while the group waits."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        self.consumer = consumer
        self.assigned: set[TopicPartition] = set()
        self.refused: Exception | None = None

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.assigned |= set(partitions)
        for each in partitions:
            await self.consumer.position(each)

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        try:
            await self.consumer.getone()
        except IllegalStateError as error:
            self.refused = error
        await self.consumer.commit()
        self.assigned -= set(partitions)


def test_a_listener_of_coroutines_commits_before_partitions_go(talk: Talk, address: str, topic: str) -> None:
    talk.create(topic, 2)

    async def main() -> None:
        async with AsyncProducer(keys_of(address)) as producer:
            for partition in (0, 1):
                await producer.send_and_wait(topic, b"x", partition=partition)
        keys = member_keys(address, topic, heartbeat_interval_ms=100)
        found: list[tuple[str, int, int]] = []

        async def read(consumer: AsyncConsumer) -> None:
            async for record in consumer:
                found.append((record.topic, record.partition, record.offset))

        async with AsyncConsumer(keys) as one, AsyncConsumer(keys) as other:
            listener, another = Committing(one), Committing(other)
            await one.subscribe([topic], listener=listener)
            reading = asyncio.create_task(read(one))
            await until(lambda: len(found) == 2)
            await other.subscribe([topic], listener=another)
            reading_too = asyncio.create_task(read(other))
            await until(lambda: len(listener.assigned) == len(another.assigned) == 1)
            assert listener.refused is not None
            await one.stop()
            await other.stop()
            await asyncio.gather(reading, reading_too)
        assert sorted(found) == [(topic, 0, 0), (topic, 1, 0)]  # none twice: it was committed

    run(main)


def test_what_a_listener_raises_reaches_who_asks_for_records(talk: Talk, address: str, topic: str) -> None:
    talk.create(topic, 1)

    class Refusing(AsyncRebalanceListener):
        async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            raise LookupError("not these")

    async def main() -> None:
        async with AsyncConsumer(member_keys(address, topic)) as consumer:
            await consumer.subscribe([topic], listener=Refusing())
            with pytest.raises(LookupError, match="not these"):
                await consumer.getone()

    run(main)


def test_transactions_commit_or_leave_nothing(talk: Talk, address: str, topic: str) -> None:
    talk.create(topic, 1)

    async def main() -> None:
        async with AsyncProducer(keys_of(address, transactional_id=topic)) as producer:
            await producer.init_transactions()

            async def fails() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"aborted")
                    raise LookupError

            with pytest.raises(LookupError):
                await fails()
            begun = asyncio.Event()

            async def cancelled() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"cancelled")
                    begun.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(cancelled())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send(topic, b"committed")
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 5}, topic)
        async with AsyncConsumer(member_keys(address, topic, isolation_level="read_committed")) as consumer:
            committed = await consumer.committed([TopicPartition(topic, 0)])
            assert (at := committed[TopicPartition(topic, 0)]) is not None
            assert at.offset == 5
            await consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            assert (await consumer.getone()).value == b"committed"

    run(main)


def test_clients_go_on_after_a_restart_of_the_broker(talk: Talk, own_broker: Broker, topic: str) -> None:
    address = own_broker.bootstrap
    talk.create(topic, 1)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with (
            AsyncProducer(keys_of(address)) as producer,
            AsyncConsumer(member_keys(address, topic), [topic]) as consumer,
        ):
            await producer.send_and_wait(topic, b"before")
            assert (await consumer.getone()).value == b"before"
            waiting = asyncio.create_task(consumer.getone())
            await loop.run_in_executor(None, own_broker.stop)
            outcomes = [await producer.send(topic, b"%d" % number) for number in range(500)]
            await loop.run_in_executor(None, own_broker.start)
            assert len({each.offset for each in await asyncio.gather(*outcomes)}) == 500
            found = [await waiting]
            while len(found) < 500:
                found.append(await consumer.getone())
            assert [int(each.value) for each in found] == list(range(500))
        await loop.shutdown_default_executor()

    run(main)


def test_the_examples_of_the_page(address: str, tmp_path: Path) -> None:
    assert len(EXAMPLES) >= 4
    for number, example in enumerate(EXAMPLES):
        file = tmp_path / f"example_{number}.py"
        file.write_text(example.replace("localhost:9092", address))
        done = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", file], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert "Exception" not in done.stderr
