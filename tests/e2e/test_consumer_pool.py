"""The pool: one fetching thread, many workers, on a real broker."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener, ConsumerRecord
from pkafka.clients.consumer.errors import RecordDeserializationError
from pkafka.clients.consumer.pool import ConsumerPool, OnRevoke, Order, ProcessingError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ConfigError
from pkafka.model import TopicPartition
from pkafka.records.builder import build_batch
from tests.raw_client import new_topic_name
from tests.talk import Talk, good, talking, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

KEYS = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "session.timeout.ms": 60_000,
    "heartbeat.interval.ms": 200,
    "partition.assignment.strategy": "CooperativeStickyAssignor",
}


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 2}


@pytest.fixture
def talk(address: str) -> Iterator[Talk]:
    made = Talk(address)
    yield made
    made.close()


@pytest.fixture
def filled(talk: Talk) -> str:
    """A topic with 4 partitions of 300 records; the key of a record is its number modulo 5."""
    topic = new_topic_name("pool")
    talk.create(topic, 4, retention_ms=-1)  # the records are of long ago
    for partition in range(4):
        rows = [(1, b"%d" % (number % 5), b"%d" % number, ()) for number in range(300)]
        talk.produce(topic, bytes(build_batch(rows)), partition=partition)
    return topic


def consumer_of(address: str, group: str, **keys: object) -> Consumer:
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    return Consumer({"bootstrap.servers": address, "group.id": group, **KEYS, **dotted})


def committed(address: str, topic: str, group: str) -> list[int]:
    with consumer_of(address, group) as consumer:
        found = consumer.committed([TopicPartition(topic, each) for each in range(4)])
    return [0 if at is None else at.offset for at in found.values()]


class Run:
    """A pool that runs on a thread of its own."""

    def __init__(
        self, consumer: Consumer, topic: str, process: Callable[[ConsumerRecord], Any], **options: Any
    ) -> None:
        self.consumer = consumer
        self.pool = ConsumerPool(consumer, process, **options)
        self.pool.subscribe([topic])
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self, *, drain: bool = False, closes: bool = True) -> None:
        self.pool.stop(drain=drain)
        self.join()
        if closes:
            self.consumer.close()

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.pool.run()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error


class Seen:
    """What was processed, in which order, and by whom at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.offsets: dict[tuple[int, Any], list[int]] = defaultdict(list)
        self.count = 0
        self.threads: set[str] = set()

    def note(self, record: ConsumerRecord) -> None:
        with self._lock:
            self.offsets[record.partition, record.key].append(record.offset)
            self.count += 1
            self.threads.add(threading.current_thread().name)

    def of_partition(self, partition: int) -> list[int]:
        return sorted(
            each for (at, _), offsets in self.offsets.items() if at == partition for each in offsets
        )


@contextmanager
def running(run: Run) -> Iterator[Run]:
    try:
        yield run
    finally:
        run.end()


@pytest.mark.parametrize("order", list(Order), ids=lambda order: order.value)
def test_everything_is_processed_once_in_order_and_committed(address: str, filled: str, order: Order) -> None:
    seen, partitions = Seen(), defaultdict(list)
    all_begin = threading.Barrier(3, timeout=60)

    def process(record: ConsumerRecord) -> None:
        if threading.current_thread().name not in seen.threads:
            all_begin.wait()  # else two might have done it all before the machine let the third one begin
        if record.offset % 50 == 0:
            time.sleep(0.01)  # lets others overtake
        partitions[record.partition].append(record.offset)
        seen.note(record)

    run = Run(consumer_of(address, filled), filled, process, workers=3, order=order, commit_interval_ms=50)
    with running(run):
        wait_for(lambda: seen.count >= 1200)
        wait_for(lambda: committed(address, filled, filled) == [300] * 4)
    assert run.error is None
    assert seen.count == 1200
    assert len(seen.threads) == 3
    for partition in range(4):
        assert seen.of_partition(partition) == list(range(300))
        if order is Order.PARTITION:
            assert partitions[partition] == list(range(300))
    if order is Order.KEY:
        assert all(offsets == sorted(offsets) for offsets in seen.offsets.values())


def test_a_slow_record_holds_back_the_commit_but_not_the_others(address: str, filled: str) -> None:
    seen, go_on = Seen(), threading.Event()

    def process(record: ConsumerRecord) -> None:
        if (record.partition, record.offset) == (1, 7):
            assert go_on.wait(60)
        seen.note(record)

    run = Run(consumer_of(address, filled), filled, process, order=Order.NONE, commit_interval_ms=50)
    with running(run):
        wait_for(lambda: seen.count >= 1100)
        wait_for(lambda: committed(address, filled, filled)[2:] == [300, 300])
        assert committed(address, filled, filled)[1] == 7
        go_on.set()
        wait_for(lambda: seen.count == 1200)
    assert committed(address, filled, filled) == [300] * 4


def test_a_partition_with_too_many_records_waits_and_goes_on(address: str, filled: str) -> None:
    seen, go_on = Seen(), threading.Event()

    def process(record: ConsumerRecord) -> None:
        if record.partition == 0:
            assert go_on.wait(60)
        seen.note(record)

    consumer = consumer_of(address, filled, max_poll_records=10)
    run = Run(consumer, filled, process, workers=2, queued_records_max=20)
    with running(run):
        wait_for(lambda: seen.count >= 900)
        assert seen.of_partition(0) == []
        waiting = run.pool._work[TopicPartition(filled, 0)].progress
        wait_for(lambda: waiting.outstanding == 20)  # it may be the last one of which so many are fetched
        go_on.set()
        wait_for(lambda: seen.count == 1200)
    assert run.error is None


def test_a_failure_ends_the_pool_and_nothing_behind_it_is_committed(address: str, filled: str) -> None:
    def process(record: ConsumerRecord) -> None:
        if (record.partition, record.offset) == (2, 41):
            raise KeyError("no such thing")

    consumer = consumer_of(address, filled)
    run = Run(consumer, filled, process)
    run.join()
    assert isinstance(run.error, ProcessingError)
    assert f"{filled}-2 at offset 41" in str(run.error)
    assert isinstance(run.error.__cause__, KeyError)
    assert not any(thread.is_alive() for thread in run.pool._threads)
    consumer.close()
    assert committed(address, filled, filled)[2] == 41


def test_failures_may_be_dealt_with(address: str, filled: str) -> None:
    bad: list[tuple[int, int]] = []

    def process(record: ConsumerRecord) -> None:
        if record.offset % 100 == 3:
            raise ValueError("bad record")

    def on_error(record: ConsumerRecord, error: Exception) -> bool:
        bad.append((record.partition, record.offset))
        return isinstance(error, ValueError)

    run = Run(consumer_of(address, filled), filled, process, on_error=on_error, commit_interval_ms=50)
    with running(run):
        wait_for(lambda: committed(address, filled, filled) == [300] * 4)
    assert run.error is None
    assert sorted(bad) == [(partition, offset) for partition in range(4) for offset in (3, 103, 203)]


@pytest.mark.parametrize("drain", [True, False])
def test_stopping_waits_for_what_is_under_way_or_for_everything(
    address: str, filled: str, drain: bool
) -> None:
    seen, begun, go_on = Seen(), threading.Event(), threading.Event()

    def process(record: ConsumerRecord) -> None:
        begun.set()
        assert go_on.wait(60)
        seen.note(record)

    consumer = consumer_of(address, filled, max_poll_records=100)
    run = Run(consumer, filled, process, workers=1, queued_records_max=100)
    assert begun.wait(60)
    run.pool.stop(drain=drain)
    if not drain:
        wait_for(lambda: all(work.is_discarded for work in run.pool._work.values()))
    go_on.set()
    run.end(drain=drain)
    assert run.error is None
    if drain:
        assert seen.count >= 100
    else:
        assert seen.count == 1
    assert sum(committed(address, filled, filled)) == seen.count


@pytest.mark.parametrize("on_revoke", list(OnRevoke), ids=lambda each: each.value)
def test_a_second_consumer_takes_over_without_doing_anything_twice(
    address: str, filled: str, on_revoke: OnRevoke
) -> None:
    first, second, gives_up = Seen(), Seen(), threading.Event()

    def slowly(record: ConsumerRecord) -> None:
        # Most is left until the other has come and this one gives partitions up: that takes as long as it takes.
        if first.count > 100:
            assert gives_up.wait(60)
        time.sleep(0.002)
        first.note(record)

    one = Run(
        consumer_of(address, filled, max_poll_records=40),
        filled,
        slowly,
        workers=4,
        queued_records_max=60,
        commit_interval_ms=100,
        on_revoke=on_revoke,
    )
    give_up = one.pool._give_up

    def noted(partitions: Collection[TopicPartition], **how: Any) -> None:
        if partitions:
            gives_up.set()
        give_up(partitions, **how)

    one.pool._give_up = noted  # type: ignore[method-assign]
    with running(one):
        wait_for(lambda: first.count > 20)
        two = Run(consumer_of(address, filled), filled, second.note, commit_interval_ms=100)
        with running(two):
            wait_for(lambda: first.count + second.count >= 1200)
            wait_for(lambda: committed(address, filled, filled) == [300] * 4)
    assert one.error is None
    assert two.error is None
    assert second.count > 0
    for partition in range(4):
        both = first.of_partition(partition) + second.of_partition(partition)
        assert sorted(both) == list(range(300)), partition


def test_what_poll_raises_ends_the_pool_after_what_came_before_it(address: str, talk: Talk) -> None:
    topic = new_topic_name("numbers")
    talk.create(topic)
    talk.send(topic, *(each.to_bytes(4, "big") for each in range(10)), b"no number", b"\0\0\0\0")
    seen = Seen()
    consumer = consumer_of(address, topic, value_deserializer="IntegerDeserializer")
    run = Run(consumer, topic, seen.note)
    run.join()
    assert isinstance(run.error, RecordDeserializationError)
    assert run.error.offset == 10
    assert consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)] == OffsetAndMetadata(
        10, "", 0
    )
    consumer.close()


class Told(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append("assigned")

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append("lost")


def test_partitions_that_are_lost_are_dropped_without_waiting_or_committing(
    address: str, filled: str
) -> None:
    begun, go_on, told = threading.Event(), threading.Event(), Told()
    late = Seen()

    def process(record: ConsumerRecord) -> None:
        begun.set()
        assert go_on.wait(60)
        late.note(record)

    # Out of the group for not polling: the poll after that loses the partitions.
    consumer = consumer_of(address, filled, max_poll_interval_ms=700)
    pool = ConsumerPool(consumer, process, workers=2)
    pool.subscribe([filled], listener=told)
    for thread in pool._threads:
        thread.start()
    while not begun.is_set():
        pool._hand_out(consumer.poll(100))
    old = dict(pool._work)
    with talking(address) as talk:
        # Each poll would give it new time.
        wait_for(
            lambda: not good(talk.admin.describe_groups([filled])[filled]).members,
            what="the end of membership",
        )
    consumer.pause(consumer.assignment())
    wait_for(lambda: consumer.poll(100) == [] and "lost" in told.events)
    assert not go_on.is_set()
    assert all(work.is_discarded for work in old.values())
    go_on.set()
    wait_for(lambda: not any(work.under_way for work in old.values()))
    assert late.count <= 2
    assert told.events[:2] == ["assigned", "lost"]
    pool._end()
    consumer.close()
    assert committed(address, filled, filled) == [0] * 4


def test_a_consumer_that_commits_by_itself_is_refused(address: str) -> None:
    with (
        consumer_of(address, "g", enable_auto_commit="true") as consumer,
        pytest.raises(ConfigError, match=r"enable\.auto\.commit"),
    ):
        ConsumerPool(consumer, print)
    with consumer_of(address, "g") as consumer, pytest.raises(ValueError, match="positive"):
        ConsumerPool(consumer, print, workers=0)
