"""Records that are gathered in runs: nothing of it shows in batches, futures, memory or the choice of partitions."""

import random
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import ClosedError
from pkafka.clients.metrics import metrics_of
from pkafka.clients.producer import RecordFuture, RecordMetadata, accumulator
from pkafka.clients.producer.accumulator import Accumulator
from pkafka.clients.producer.gathering import NO_RUN, Run
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.clients.producer.producer import Producer
from pkafka.clients.producer.queues import TopicQueues
from pkafka.clock import ManualClock
from pkafka.errors import ErrorCode
from pkafka.protocol.messages.produce import BatchIndexAndErrorMessage
from pkafka.records import _plain, builder
from pkafka.records.builder import NO_HEADERS, encode_headers
from tests.talk import wait_for
from tests.unit.clients.test_producer_sending import Logs, error, running

TOPIC = "t"
LINGERS: dict[str, Any] = {"linger_ms": 60_000, "delivery_timeout_ms": 100_000}


# -- the same as record by record -------------------------------------------------------------------------------


class Sent(NamedTuple):
    """A record to hand over; ``times`` of them."""

    partition: int
    key_size: int | None
    value_size: int | None
    headers: bytes
    times: int


class Many(NamedTuple):
    """A ``send_batch()``."""

    partition: int
    sizes: list[int]


class Taken(NamedTuple):
    """The sender takes the first batch of a queue."""

    partition: int


class Passed(NamedTuple):
    """So much time goes by; negative when somebody sets the clock back."""

    ms: int


SIZES = st.one_of(st.none(), st.integers(0, 130), st.integers(0, 9_000))
PARTITIONS = st.integers(-1, 2)
STEPS = st.lists(
    st.one_of(
        st.builds(
            Sent,
            PARTITIONS,
            st.one_of(st.none(), st.none(), SIZES),
            SIZES,
            st.sampled_from([NO_HEADERS, NO_HEADERS, encode_headers([("name", b"content")])]),
            st.integers(1, 60),
        ),
        st.builds(Many, PARTITIONS, st.lists(st.integers(0, 300), min_size=1, max_size=20)),
        st.builds(Taken, st.integers(0, 2)),
        st.builds(Passed, st.integers(-2, 300)),
    ),
    max_size=30,
)


class Filled:
    """An accumulator that steps are played on.

    Args:
        gathers: whether records may be gathered.
    """

    def __init__(self, *, gathers: bool, partitions: int, seed: int, keys: dict[str, object]) -> None:
        self.clock = ManualClock()
        config = ProducerConfig.from_properties({"bootstrap.servers": "nowhere:1", **keys})
        metrics = ProducerMetrics(metrics_of(config, self.clock))
        self.wakes = 0
        self.accumulator = Accumulator(config, self.clock, metrics, self._woken)
        self.topic = TopicQueues(TOPIC, config.batch_size)
        self.topic.partition_count = partitions
        self.topic.available = range(partitions)
        self.topic.generation = 1
        self.futures: list[RecordFuture] = []
        self.taken: list[bytes] = []
        self.gathered = 0
        self._gathers = gathers
        self._random = random.Random(seed)

    def _woken(self) -> None:
        self.wakes += 1

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def play(self, step: Sent | Many | Taken | Passed) -> None:
        if isinstance(step, Passed):
            self.clock.advance(ms=step.ms)
        elif isinstance(step, Taken):
            self._take(step.partition % self.topic.partition_count)
        elif isinstance(step, Many):
            values: list[bytes | None] = [bytes(size) for size in step.sizes]
            self.accumulator.append_many(
                self.topic,
                min(step.partition, self.topic.partition_count - 1),
                self.clock.now_ms(),
                values,
                None,
                (),
                range(len(values)),
                None,
                [],
            )
        else:
            for _ in range(step.times):
                self._send(step)

    def _send(self, step: Sent) -> None:
        key = None if step.key_size is None else b"k" * step.key_size
        value = None if step.value_size is None else b"v" * step.value_size
        partition = min(step.partition, self.topic.partition_count - 1)
        future = None
        if self._gathers:
            future = self.accumulator.join(
                self.topic, partition, self.clock.now_ms() / 1_000, 1, key, value, step.headers, None
            )
            self.gathered += future is not None
        self.futures.append(
            future
            or self.accumulator.append(
                *(self.topic, partition, self.clock.now_ms(), key, value, step.headers, None, None),
                name=TOPIC if self._gathers else None,
                room_bytes=1_000_000,
            )
        )

    def _take(self, partition: int) -> None:
        queue = self.topic.queues.get(partition)
        if queue is None or not queue.batches:
            return
        with self.accumulator.lock:
            size = self.accumulator.first_bytes(queue)
            batch = self.accumulator.take(queue)
        assert batch.builder.size_bytes == size
        self.taken.append(bytes(batch.builder.build()))
        queue.unanswered += 1
        if batch.finish(base_offset=0):
            queue.unanswered -= 1
            self.accumulator.release([batch])

    def state(self) -> tuple[object, ...]:
        """All that the two kinds of filling must agree on."""
        order = {batch: number for number, batch in enumerate(self.accumulator.incomplete)}
        return (
            self.accumulator.free_bytes,
            self.topic.sticky.partition,
            {each.partition: [batch.count for batch in each.batches] for each in self.topic.queues.values()},
            [each.partition for each in self.accumulator.waiting],
            list(order.values()),
            self.taken,
            self.wakes,
        )

    def places(self) -> list[tuple[object, ...]]:
        batches: dict[object, int] = {}
        return [
            (
                batches.setdefault(each.batch, len(batches)),
                each.index,
                each.timestamp_ms,
                each.key_size,
                each.value_size,
            )
            for each in self.futures
        ]


# Turns of the sticky partition that end within a batch: others have filled a part of it.
TURNS = [
    each
    for number in range(30)
    for each in (
        Sent(number % 3, None, 100, NO_HEADERS, 5 + number % 7),
        Sent(-1, None, 90 + number, NO_HEADERS, 40),
        Taken(number % 3),
    )
]


@example(TURNS, 3, 1, False, {"batch.size": 3_000})
@example(TURNS, 2, 2, False, {})
@example([Sent(-1, None, 100, NO_HEADERS, 900)], 1, 1, True, {"batch.size": 100_000})
@given(
    STEPS,
    st.integers(1, 3),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(
        [
            {},
            {"batch.size": 200},
            {"batch.size": 16_384},
            {"batch.size": 3_000, "compression.type": "lz4"},
            {"batch.size": 100_000},
        ]
    ),
)
def test_runs_change_nothing_but_the_time_that_it_takes(
    steps: list[Sent | Many | Taken | Passed],
    partitions: int,
    seed: int,
    pure: bool,
    keys: dict[str, object],
) -> None:
    gathering = Filled(gathers=True, partitions=partitions, seed=seed, keys=keys)
    plain = Filled(gathers=False, partitions=partitions, seed=seed, keys=keys)
    with pytest.MonkeyPatch.context() as patch:
        if pure:
            patch.setattr(builder, "append_records", _plain.append_records)
            patch.setattr(builder, "append_record", _plain.append_record)
        for step in [*steps, *(Taken(each % 3) for each in range(60))]:
            for filled in (gathering, plain):
                patch.setattr(accumulator, "random_below", filled.below)
                filled.play(step)
            assert gathering.state() == plain.state(), step
    assert gathering.places() == plain.places()


def test_records_that_are_alike_are_gathered() -> None:
    filled = Filled(gathers=True, partitions=1, seed=0, keys={"batch.size": 100_000})
    filled.play(Sent(-1, None, 100, NO_HEADERS, 500))
    assert filled.gathered > 490
    filled.play(Passed(1))
    filled.play(Sent(-1, None, 100, NO_HEADERS, 100))  # a busy thread begins the next run at once
    assert filled.gathered > 588
    filled.play(Passed(1))
    filled.play(Sent(-1, 10, 100, encode_headers([("a", b"b")]), 100))
    assert filled.gathered > 685


# -- a run and the threads ----------------------------------------------------------------------------------------


class Ends:
    """Stands for the values of a run that ends just when the next record is added."""

    def __init__(self, run: Run, *, before: bool) -> None:
        self._run = run
        self._values = run.values
        self._before = before

    def __len__(self) -> int:
        return len(self._values)

    def append(self, value: bytes | None) -> None:
        run = self._run
        run.values = self._values
        if not self._before:
            run.values.append(value)
        with run.lock:
            run.end()
        if self._before:
            run.values.append(value)


class Interrupted:
    """Stands for the values of a run; somebody presses Ctrl-C just before the next one is added."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._values = run.values

    def __len__(self) -> int:
        return len(self._values)

    def append(self, value: bytes | None) -> None:
        self._run.values = self._values
        raise KeyboardInterrupt


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("key", [None, b"key"])
def test_a_record_that_comes_while_its_run_ends_is_sent_once(before: bool, key: bytes | None) -> None:
    called: list[RecordMetadata] = []

    def callback(metadata: RecordMetadata, _error: Exception | None) -> None:
        called.append(metadata)

    with frozen(**LINGERS) as (logs, producer):
        for number in range(4):
            producer.send(TOPIC, b"%d" % number, key)
        run = _open_run(producer)
        run.values = Ends(run, before=before)  # type: ignore[assignment] # append() is all that is called
        future = producer.send(TOPIC, b"4", key, callback=callback)
        assert not run.is_open
        producer.send(TOPIC, b"5", key)
        producer.flush(20)
        assert logs.values() == [b"%d" % number for number in range(6)]
        assert future.result(20).offset == 4
        assert [each.offset for each in called] == [4]


def test_another_thread_takes_the_long_way() -> None:
    with frozen(**LINGERS) as (logs, producer):
        for number in range(4):
            producer.send(TOPIC, b"%d" % number)
        run = _open_run(producer)
        other = threading.Thread(target=producer.send, args=(TOPIC, b"4"))
        other.start()
        other.join(20)
        assert not run.is_open
        assert producer.send(TOPIC, b"5").index == 5
        producer.flush(20)
        assert logs.values() == [b"%d" % number for number in range(6)]


def test_outcomes_are_those_of_their_records_whatever_threads_do() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with running({TOPIC: 2}) as (logs, producer):
            found: list[tuple[bytes, RecordFuture]] = []
            called: list[tuple[bytes, RecordMetadata]] = []

            def note(value: bytes, metadata: RecordMetadata, _error: Exception | None) -> None:
                called.append((value, metadata))

            def work(number: int) -> None:
                for step in range(600):
                    value = b"%d-%d" % (number, step)
                    key = b"%d" % number if number % 2 else None
                    callback = None if step % 3 else partial(note, value)
                    found.append((value, producer.send(TOPIC, value, key, callback=callback)))

            threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            producer.flush(60)
            assert logs.count() == 2_400
            for value, future in found:
                metadata = future.result(0)
                assert logs.values(TOPIC, metadata.partition)[metadata.offset] == value
            assert len(called) == 800
            for value, metadata in called:
                assert logs.values(TOPIC, metadata.partition)[metadata.offset] == value
            for number in (1, 3):
                mine = [each for each in logs.values(TOPIC, 0) + logs.values(TOPIC, 1) if each is not None]
                assert [each for each in mine if each.startswith(b"%d-" % number)] == [
                    b"%d-%d" % (number, step) for step in range(600)
                ]
    finally:
        sys.setswitchinterval(interval)


def test_whatever_was_handed_over_before_close_has_an_outcome() -> None:
    with running() as (logs, producer):
        found: list[list[RecordFuture]] = [[], []]
        begun = threading.Barrier(3)

        def work(mine: list[RecordFuture]) -> None:
            begun.wait(20)
            try:
                while True:
                    mine.append(producer.send(TOPIC, b"x"))
            except ClosedError:
                return

        threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
        for thread in threads:
            thread.start()
        begun.wait(20)
        wait_for(lambda: all(len(mine) > 50 for mine in found))
        producer.close(60)
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        futures = [*found[0], *found[1]]
        assert all(each.done() for each in futures)
        offsets = sorted(each.result(0).offset for each in futures if each.exception(0) is None)
        assert offsets == list(range(logs.count()))


def test_a_closed_producer_has_no_open_run() -> None:
    with frozen(**LINGERS) as (logs, producer):
        futures = [producer.send(TOPIC, b"x") for _ in range(10)]
        run = _open_run(producer)
        producer.close(20)
        assert not run.is_open
        with pytest.raises(ClosedError):
            producer.send(TOPIC, b"y")
        assert [each.result(0).offset for each in futures] == list(range(10))
        assert logs.count() == 10


@pytest.mark.parametrize("key", [None, b"key"])
def test_a_child_process_adds_nothing_to_a_run(key: bytes | None) -> None:
    with frozen(**LINGERS) as (_, producer):
        for _ in range(10):
            producer.send(TOPIC, b"x", key)
        assert _open_run(producer)
        producer._forsake()
        with pytest.raises(ClosedError):
            producer.send(TOPIC, b"y", key)
        producer._is_forsaken = False  # so that it can be closed: this is no child


def _send_until_ctrl_c(producer: Producer, key: bytes | None) -> None:
    """Send four records; somebody presses Ctrl-C in the next send."""
    for number in range(4):
        producer.send(TOPIC, b"%d" % number, key)
    run = _open_run(producer)
    run.values = Interrupted(run)  # type: ignore[assignment] # append() and len() are all that is called


@pytest.mark.parametrize("key", [None, b"key"])
def test_ctrl_c_leaves_keys_values_and_callbacks_together(key: bytes | None) -> None:
    called: list[str] = []

    def note(name: str, metadata: RecordMetadata, _error: Exception | None) -> None:
        called.append(f"{name} {metadata.offset}")

    with frozen(**LINGERS) as (logs, producer):
        _send_until_ctrl_c(producer, key)
        with pytest.raises(KeyboardInterrupt):
            producer.send(TOPIC, b"lost", key and b"lost key", callback=partial(note, "lost"))
        futures = [
            producer.send(TOPIC, b"%d" % number, key, callback=partial(note, "kept")) for number in (4, 5)
        ]
        producer.flush(20)
        found = logs.records[TOPIC, 0]
        assert [(each.key, each.value) for each in found] == [(key, b"%d" % number) for number in range(6)]
        assert [each.result(0).offset for each in futures] == [4, 5]
        assert called == ["kept 4", "kept 5"]


@pytest.mark.parametrize("key", [None, b"key"])
def test_a_callback_of_a_record_that_ctrl_c_kept_out_is_not_told_of_the_next_one(key: bytes | None) -> None:
    called: list[str] = []
    with frozen(**LINGERS) as (logs, producer):
        _send_until_ctrl_c(producer, key)
        with pytest.raises(KeyboardInterrupt):
            producer.send(TOPIC, b"lost", key, callback=lambda *_: called.append("lost"))
        producer.send(TOPIC, b"4", key)
        producer.send(TOPIC, b"5", key, callback=lambda *_: called.append("kept"))
        producer.flush(20)
        assert [each.value for each in logs.records[TOPIC, 0]] == [b"%d" % number for number in range(6)]
    assert called == ["kept"]


def test_records_that_were_only_gathered_fail_with_their_batch() -> None:
    failed: list[Exception | None] = []
    with frozen(**LINGERS) as (logs, producer):
        futures = [producer.send(TOPIC, b"x", callback=lambda _, why: failed.append(why)) for _ in range(10)]
        assert _open_run(producer).values
        logs.held.clear()  # where the sender is quicker than close(), it has no answer
        producer.close(0)
        assert all(isinstance(each.exception(0), ClosedError) for each in futures)
        assert len(failed) == 10
        assert all(isinstance(each, ClosedError) for each in failed)
        assert logs.count() == 0


def test_a_callback_that_raises_harms_no_other_of_its_run(caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []

    def callback(metadata: RecordMetadata, _error: Exception | None) -> None:
        called.append(metadata.offset)
        if metadata.offset % 2:
            raise KeyError(metadata.offset)

    with frozen(**LINGERS) as (_, producer):
        for _ in range(10):
            producer.send(TOPIC, b"x", callback=callback)
        assert _open_run(producer).callbacks
        producer.flush(20)
        assert called == list(range(10))
    assert "KeyError" in caplog.text


def test_a_record_of_a_run_may_have_an_error_of_its_own() -> None:
    with frozen(**LINGERS, retries=0, enable_idempotence=False) as (logs, producer):
        bad = BatchIndexAndErrorMessage(batch_index=7, batch_index_error_message="bad")
        logs.errors.append(error(ErrorCode.INVALID_RECORD, record_errors=[bad]))
        futures = [producer.send(TOPIC, b"x") for _ in range(10)]
        _open_run(producer)
        producer.flush(20)
        texts = [str(each.exception(0)) for each in futures]
        assert "bad" in texts[7]
        assert not any("bad" in text for number, text in enumerate(texts) if number != 7)


def test_a_batch_can_be_read_whatever_its_runs_were() -> None:
    with frozen(**LINGERS) as (logs, producer):
        for number in range(100):
            producer.send(TOPIC, b"v" * number, None if number % 7 else b"k" * number)
        producer.flush(20)
        assert [each.value for each in logs.records[TOPIC, 0]] == [b"v" * number for number in range(100)]


def test_headers_are_those_at_the_time_of_the_send() -> None:
    headers: list[tuple[str, bytes | None]] = [("a", b"1")]
    with frozen(**LINGERS) as (logs, producer):
        for _ in range(5):
            producer.send(TOPIC, b"x", headers=headers)
        headers[0] = ("a", b"2")
        for _ in range(5):
            producer.send(TOPIC, b"y", headers=headers)
        headers.append(("b", bytearray(b"3")))  # type: ignore[arg-type] # it passes for bytes
        producer.send(TOPIC, b"z", headers=headers)
        producer.flush(20)
        found = [each.headers for each in logs.records[TOPIC, 0]]
        assert found == [(("a", b"1"),)] * 5 + [(("a", b"2"),)] * 5 + [(("a", b"2"), ("b", b"3"))]


# -- batches that grow ----------------------------------------------------------------------------------------------


def test_a_batch_that_has_to_wait_grows_where_batch_size_is_not_set() -> None:
    with frozen(max_in_flight_requests_per_connection=1) as (logs, producer):
        assert max(_sizes_behind_a_held_one(logs, producer)) > 100_000


def test_a_batch_is_never_larger_than_batch_size_where_that_is_set() -> None:
    with frozen(max_in_flight_requests_per_connection=1, batch_size=16_384) as (logs, producer):
        assert max(_sizes_behind_a_held_one(logs, producer)) <= 16_384


def test_a_batch_that_nothing_holds_back_has_the_size_of_kafkas() -> None:
    with frozen(**LINGERS) as (logs, producer):
        for _ in range(200):
            producer.send(TOPIC, bytes(100))
        wait_for(lambda: len(logs.batch_sizes) == 1)
        assert logs.batch_sizes[0] <= 16_384


def test_a_batch_does_not_grow_where_the_broker_refused_a_large_one() -> None:
    with frozen(max_in_flight_requests_per_connection=1) as (logs, producer):
        producer.partitions_for(TOPIC)
        assert producer._topics[TOPIC].grows
        logs.errors.append(error(ErrorCode.MESSAGE_TOO_LARGE))
        producer.send_batch(TOPIC, [bytes(100)] * 10).result(60)
        assert not producer._topics[TOPIC].grows
        assert max(_sizes_behind_a_held_one(logs, producer)) <= 16_384


def _sizes_behind_a_held_one(logs: Logs, producer: Producer) -> Sequence[int]:
    """Of batches that fill while the broker keeps the answer to the first one back."""
    there = logs.count()
    logs.batch_sizes.clear()
    logs.held.clear()
    futures = [producer.send(TOPIC, b"first")]
    wait_for(lambda: producer._topics[TOPIC].queue(0).unanswered == 1)
    futures += [producer.send(TOPIC, bytes(100)) for _ in range(3_000)]
    logs.held.set()
    producer.flush(60)
    assert [each.result(0).offset - there for each in futures] == list(range(3_001))
    return logs.batch_sizes


# -- what the tests share -------------------------------------------------------------------------------------------


@contextmanager
def frozen(**keys: Any) -> Iterator[tuple[Logs, Producer]]:
    """A producer whose records all have one time, so that a run does not end by chance."""
    with running(**keys) as (logs, producer):
        producer.partitions_for(TOPIC)
        now_ms = producer._clock.now_ms()
        producer._clock.now_ms = lambda: now_ms  # type: ignore[method-assign] # the monotonic time goes on
        producer._now_s = lambda: now_ms / 1_000
        yield logs, producer


def _open_run(producer: Producer) -> Run:
    queues = producer._topics[TOPIC]
    runs = [each for each in (queues.run, queues.queue(0).run) if each is not NO_RUN and each.is_open]
    assert len(runs) == 1
    return runs[0]
