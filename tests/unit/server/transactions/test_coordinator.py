"""The coordinator on real logs: what it answers, when, and what it writes; what the next one makes of that."""

import asyncio
import logging
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.server.ipc import turns
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.states import TransactionState
from pkafka.server.transactions.transaction import Producer
from tests.unit.server.transactions.bench import (
    MINUTE_MS,
    PARTITIONS,
    T0,
    T1,
    Bench,
    SlowLog,
    now,
    on_bench,
)
from tests.unit.server.workers import Family, until, with_family


def states(found: list[object]) -> list[object]:
    """The states of records."""
    return [None if one is None else getattr(one, "state", None) for one in found]


def test_each_change_is_a_record_and_markers_follow_the_answer(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        assert producer == Producer(101, 0)
        assert await bench.add(producer, T0, T1) is ErrorCode.NONE
        assert await bench.end(producer) is ErrorCode.NONE
        assert bench.facts().state is TransactionState.PREPARE_COMMIT
        assert await bench.end(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
        [debt] = bench.markers.owed
        assert (debt.marker, list(debt.partitions)) == (Marker(101, 0, 5, True), [T0, T1])
        debt.settle(T0)
        described = bench.coordinator.describe("x")
        assert described.facts is not None
        assert described.facts.partitions == (T1,), "as Kafka: those that still lack their marker"
        debt.settle(T1)
        assert await bench.end(producer) is ErrorCode.NONE
        found = await bench.records()
        assert states(list(found)) == [
            TransactionState.EMPTY,
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.COMPLETE_COMMIT,
        ]
        assert found[2] is not None
        assert found[2].partitions == (T0, T1)

    on_bench(tmp_path, body)


def test_the_next_coordinator_owes_what_was_decided_and_keeps_what_is_open(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        producers = {name: await bench.producer(name) for name in ("open", "decided", "idle")}
        for name in ("open", "decided"):
            await bench.add(producers[name], T0, name=name)
        await bench.end(producers["decided"], commit=False, name="decided")
        after = await Bench(bench.worker).load()
        assert [(one.transactional_id, one.marker) for one in after.markers.owed] == [
            ("decided", Marker(producers["decided"].producer_id, 0, 5, False))
        ]
        # Nothing is begun before: the markers are on their way already.
        refused = await after.coordinator.init("decided", 1_000, None)
        assert refused.error is ErrorCode.CONCURRENT_TRANSACTIONS
        after.markers.pay()
        assert after.facts("decided").state is TransactionState.COMPLETE_ABORT
        assert await after.end(producers["open"], name="open") is ErrorCode.NONE
        assert (await after.producer("idle")).epoch == 1

    on_bench(tmp_path, body)


def test_a_coordinator_that_lost_its_partition_answers_so_and_owes_nothing(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        await bench.add(producer, T0)
        slow = SlowLog(bench.worker)
        bench = await Bench(bench.worker, state_log=slow).load()
        waiting = bench.coordinator.end("x", producer, is_commit=True)
        bench.coordinator.end_partition(bench.coordinator.partition_of("x"))
        slow.commit()
        assert await now(waiting) is ErrorCode.NOT_COORDINATOR
        assert not bench.markers.owed
        assert bench.coordinator.describe("x").error is ErrorCode.NOT_COORDINATOR
        # The decision is in the log: the next one carries it out.
        after = await Bench(bench.worker).load()
        assert after.markers.pay() == [Marker(*producer, 5, True)]
        assert await after.end(producer) is ErrorCode.NONE

    on_bench(tmp_path, body)


def test_markers_of_a_coordinator_that_went_are_cancelled(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        await bench.add(producer, T0)
        await bench.end(producer)
        [debt] = bench.markers.owed
        bench.coordinator.resign()
        assert debt.is_cancelled
        debt.settle(T0)
        assert bench.coordinator.describe("x").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert states(list(await bench.records()))[-1] is TransactionState.PREPARE_COMMIT

    on_bench(tmp_path, body)


@pytest.mark.parametrize(
    ("failure", "heard"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_record_that_cannot_be_written_changes_nothing(
    tmp_path: Path, failure: ErrorCode, heard: ErrorCode
) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        slow = SlowLog(bench.worker)
        bench = await Bench(bench.worker, state_log=slow).load()
        waiting = bench.coordinator.add("x", producer, [T0])
        slow.commit(failure)
        assert await now(waiting) is heard
        assert bench.facts().state is TransactionState.EMPTY
        again = bench.coordinator.add("x", producer, [T0])
        slow.commit()
        assert await now(again) is ErrorCode.NONE

    on_bench(tmp_path, body)


def test_the_end_is_written_however_often_that_fails(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        await bench.add(producer, T0)
        await bench.end(producer)
        slow = SlowLog(bench.worker)
        bench = await Bench(bench.worker, state_log=slow).load()
        bench.markers.pay()
        for failure in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT):
            await until(lambda: bool(slow.waiting))
            slow.commit(failure)
            assert len(bench.coordinator.append_retries) == 1
            assert await bench.end(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
        await until(lambda: bool(slow.waiting))
        slow.commit()
        assert not bench.coordinator.append_retries
        assert await bench.end(producer) is ErrorCode.NONE

    on_bench(tmp_path, body)


def test_the_next_transaction_waits_a_moment_for_the_markers_of_the_one_before(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        await bench.add(producer, T0)
        await bench.end(producer)
        waiting = bench.coordinator.add("x", producer, [T1])
        assert isinstance(waiting, asyncio.Future)
        bench.markers.pay()
        assert await waiting is ErrorCode.NONE
        assert bench.facts().partitions == (T1,)
        await bench.end(producer)
        # Not for long: the producer asks again.
        assert await bench.add(producer, T1) is ErrorCode.CONCURRENT_TRANSACTIONS
        # Nor for a producer that is refused whatever comes.
        assert bench.coordinator.add("x", Producer(1, 0), [T1]) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        gone = bench.coordinator.add("x", producer, [T1])
        bench.coordinator.resign()
        assert await now(gone) is ErrorCode.NOT_COORDINATOR

    on_bench(tmp_path, body)


def test_an_open_transaction_that_has_had_its_time_is_aborted(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        await bench.add(producer, T0)
        other = await bench.producer("patient", timeout_ms=MINUTE_MS)
        await bench.add(other, T0, name="patient")
        bench = await Bench(bench.worker).load()
        bench.clock.advance(ms=1_001)
        bench.coordinator.abort_timed_out()
        assert bench.markers.pay() == [Marker(producer.producer_id, 1, 5, False)]
        assert await bench.end(producer) is ErrorCode.PRODUCER_FENCED
        assert bench.facts().state is TransactionState.COMPLETE_ABORT
        assert bench.facts("patient").state is TransactionState.ONGOING
        bench.coordinator.abort_timed_out()
        assert not bench.markers.owed

    on_bench(tmp_path, body)


def test_a_newcomer_aborts_the_open_transaction_of_its_predecessor_first(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        await bench.add(producer, T0)
        assert (await bench.coordinator.init("x", 1_000, None)).error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert bench.markers.pay() == [Marker(producer.producer_id, 1, 5, False)]
        assert await bench.producer() == Producer(producer.producer_id, 2)

    on_bench(tmp_path, body)


def test_ids_that_are_not_used_for_long_are_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def body(bench: Bench) -> None:
        names = [f"{'long' * 2_000}{number}" for number in range(60)]
        for name in names:
            await bench.producer(name)
        producer = await bench.producer("open", timeout_ms=MINUTE_MS)
        await bench.add(producer, T0, name="open")
        bench.clock.advance(ms=5 * MINUTE_MS)
        fresh = await bench.producer("fresh")
        bench.clock.advance(ms=5 * MINUTE_MS)
        await bench.coordinator.expire()
        assert all(bench.coordinator.look_up(name) == (ErrorCode.NONE, None) for name in names)
        assert (await bench.records(names[0]))[-1] is None
        assert await bench.add(fresh, T0, name="fresh") is ErrorCode.NONE
        assert await bench.end(producer, name="open") is ErrorCode.NONE
        assert bench.coordinator.describe(names[0]).error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        after = await Bench(bench.worker).load()
        assert after.coordinator.describe(names[0]).error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (await after.producer(names[0])).epoch == 0

    on_bench(tmp_path, body)


def test_an_id_that_is_used_while_others_are_looked_at_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(bench: Bench) -> None:
        producers = {name: await bench.producer(name, timeout_ms=MINUTE_MS) for name in "abcde"}
        bench.clock.advance(ms=11 * MINUTE_MS)
        expiring = asyncio.ensure_future(bench.coordinator.expire())
        await asyncio.sleep(0)  # it has looked at one of them
        assert not expiring.done()
        for name, producer in producers.items():
            assert await bench.add(producer, T0, name=name) is ErrorCode.NONE
        await expiring
        for name, producer in producers.items():
            assert await bench.end(producer, name=name) is ErrorCode.NONE

    monkeypatch.setattr(turns, "TURN_S", -1)
    on_bench(tmp_path, body)


def test_ids_at_rest_are_forgotten_and_named_like_others(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        for name in "abc":
            bench.clock.advance(ms=MINUTE_MS)
            await bench.producer(name)
        after = await Bench(bench.worker).load()
        after.clock.advance(ms=12 * MINUTE_MS)
        assert {one.transactional_id for one in after.coordinator.overview()[1]} == {"a", "b", "c"}
        await after.coordinator.expire()
        assert {one.transactional_id for one in after.coordinator.overview()[1]} == {"c"}
        assert [(await after.records(name))[-1] is None for name in "abc"] == [True, True, False]
        assert (await after.producer("c")).epoch == 1
        assert after.entry("c").coordinator_epoch == 5

    on_bench(tmp_path, body)


def test_an_id_that_cannot_be_forgotten_stays(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        slow = SlowLog(bench.worker)
        bench = await Bench(bench.worker, state_log=slow).load()
        bench.clock.advance(ms=11 * MINUTE_MS)
        await bench.coordinator.expire()
        assert await bench.add(producer, T0) is ErrorCode.CONCURRENT_TRANSACTIONS
        slow.commit(ErrorCode.NOT_ENOUGH_REPLICAS)
        waiting = bench.coordinator.add("x", producer, [T0])
        slow.commit()
        assert await now(waiting) is ErrorCode.NONE

    on_bench(tmp_path, body)


def test_at_the_bound_those_that_were_idle_for_longest_are_forgotten(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        opened = await bench.producer("open", timeout_ms=MINUTE_MS)
        await bench.add(opened, T0, name="open")
        for name in ("a", "b", "c", "d"):
            bench.clock.advance(ms=1)
            await bench.producer(name)
        known = {one.transactional_id for one in bench.coordinator.overview()[1]}
        assert known == {"open", "c", "d"}
        assert (await bench.records("a"))[-1] is None
        assert await bench.end(opened, name="open") is ErrorCode.NONE

    on_bench(tmp_path, body, ids_max=3)


@pytest.mark.parametrize("timeout_ms", [0, -1, MINUTE_MS + 1])
def test_a_timeout_is_within_bounds(tmp_path: Path, timeout_ms: int) -> None:
    async def body(bench: Bench) -> None:
        result = await bench.coordinator.init("x", timeout_ms, None)
        assert result.error is ErrorCode.INVALID_TRANSACTION_TIMEOUT

    on_bench(tmp_path, body)


def test_without_a_producer_id_a_producer_asks_again(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.next_id = None
        assert (await bench.coordinator.init("x", 1, None)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert bench.coordinator.describe("x").error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    on_bench(tmp_path, body)


def test_two_producers_of_a_new_id_at_once_share_it(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        results = await asyncio.gather(*(bench.coordinator.init("x", 1_000, None) for _ in range(3)))
        assert [one.error for one in results] == [ErrorCode.NONE] * 3
        assert {one.producer.producer_id for one in results} == {bench.facts().producer_id}
        assert sorted(one.producer.epoch for one in results) == [0, 1, 2]

    on_bench(tmp_path, body)


def test_a_worker_that_leads_nothing_coordinates_nothing(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        other = Bench(bench.worker)
        assert (await other.coordinator.init("x", 1, None)).error is ErrorCode.NOT_COORDINATOR
        assert await other.add(Producer(1, 0), T0) is ErrorCode.NOT_COORDINATOR
        assert await other.end(Producer(1, 0)) is ErrorCode.NOT_COORDINATOR
        assert other.coordinator.verify("x", Producer(1, 0), [T0]) is ErrorCode.NOT_COORDINATOR
        assert other.coordinator.overview()[0] is ErrorCode.NONE
        other.coordinator.begin(0)
        assert other.coordinator.overview()[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await until(lambda: not other.coordinator.overview()[0])

    on_bench(tmp_path, body)


def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        assert await bench.add(Producer(1, 0), T0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await bench.end(Producer(1, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await bench.add(Producer(1, 0), T0, name="") is ErrorCode.INVALID_REQUEST
        assert bench.coordinator.describe("").error is ErrorCode.INVALID_REQUEST
        producer = await bench.producer()
        await bench.add(producer, T0)
        assert bench.coordinator.verify("x", producer, [T0, T1]) == {
            T0: ErrorCode.NONE,
            T1: ErrorCode.TRANSACTION_ABORTABLE,
        }

    on_bench(tmp_path, body)


def test_a_damaged_record_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body(bench: Bench) -> None:
        producer = await bench.producer()
        partition = bench.coordinator.partition_of("x")
        key = b"\0\0\0\1x"
        bad = [(1, key, b"\0\7", ()), (1, b"\0\7later", b"v", ()), (1, b"\0\0\0\1y", b"\0\0\1", ())]
        for record in bad:
            bench.coordinator._log.append(partition, [record], lambda _error, _offset: None)
        after = await Bench(bench.worker).load()
        # The last record of x cannot be read: the id is as if it were new.
        assert await after.end(producer) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert "version 7 of a transactional id's state is not known" in caplog.text
        assert "Unknown version of a key" in caplog.text

    on_bench(tmp_path, body)


def test_partitions_share_out_the_ids(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        for number in range(20):
            await bench.producer(f"{number}")
        _error, entries = bench.coordinator.overview()
        assert {one.partition for one in entries} == set(range(PARTITIONS))
        bench.coordinator.end_partition(0)
        _error, left = bench.coordinator.overview()
        assert {one.partition for one in left} == set(range(1, PARTITIONS))
        assert (TRANSACTION_STATE_TOPIC, 0) in bench.worker.partitions.led

    on_bench(tmp_path, body)


def test_loading_reads_in_steps_of_the_buffer(tmp_path: Path) -> None:
    async def run(family: Family) -> None:
        await family.lead(TRANSACTION_STATE_TOPIC, range(PARTITIONS))
        bench = await Bench(family.workers[0]).load()
        for _ in range(20):
            producer = await bench.producer()
        after = await Bench(family.workers[0]).load()
        assert after.facts().producer == producer

    with_family(tmp_path, run, workers=1, settings={"transaction.state.log.load.buffer.size": "300"})
