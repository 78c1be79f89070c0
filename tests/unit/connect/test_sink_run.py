"""A sink task whose batches are refused: what is put again, what is told, and which offsets are committed."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.consumer import ConsumerRebalanceListener, ConsumerRecord
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.connect.connector import SinkTask
from pkafka.connect.data.records import SinkRecord
from pkafka.connect.errors import ConnectError, DataError, RetriableError
from pkafka.connect.sink_run import SinkParts, SinkRun
from pkafka.connect.states import Target
from pkafka.connect.task_run import TaskName
from pkafka.connect.tolerance import ErrorHandling, ErrorSettings, Failure, Stage
from pkafka.model import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def raw(offset: int, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, 0, None, str(offset).encode(), (), -1)


class FakeConsumer:
    """Gives batches while nothing is paused, and calls back when it has no more."""

    def __init__(self, batches: list[list[ConsumerRecord]], ended: Callable[[], None]) -> None:
        self.batches = batches
        self.ended = ended
        self.paused: set[TopicPartition] = set()
        self.committed_offsets: list[dict[TopicPartition, int]] = []
        self.waits: list[int] = []
        self.before_poll: Callable[[], None] = lambda: None
        self.listener: ConsumerRebalanceListener
        self.owned = {ZERO, ONE}

    def subscribe(self, _topics: object, listener: ConsumerRebalanceListener) -> None:
        self.listener = listener

    def assignment(self) -> set[TopicPartition]:
        return set(self.owned)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self.paused.difference_update(partitions)

    def poll(self, wait_ms: int) -> list[ConsumerRecord]:
        self.waits.append(wait_ms)
        self.before_poll()
        if self.paused:
            return []
        if not self.batches:
            self.ended()
            return []
        return self.batches.pop(0)

    def commit_sync(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int) -> None:
        self.committed_offsets.append({at: each.offset for at, each in offsets.items()})

    def wakeup(self) -> None:
        """Nothing waits."""

    def close(self, _timeout_ms: int) -> None:
        self.listener.on_partitions_revoked(self.owned)


class Picky(SinkTask):
    """Refuses batches with bad records; odd ones for a while."""

    def __init__(self, bad: Collection[int], tired: int = 0, error: type[Exception] = DataError) -> None:
        self.bad = set(bad)
        self.tired = tired
        self.error = error
        self.puts: list[list[int]] = []
        self.taken: list[int] = []
        self.reports: set[int] = set()

    def start(self, configs: Mapping[str, str]) -> None:
        """Nothing."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take all or nothing."""
        offsets = [each.offset for each in records]
        self.puts.append(offsets)
        if self.tired and len(self.puts) > 2:
            self.tired -= 1
            raise RetriableError("not now")
        for each in records:
            if each.offset in self.reports:
                assert self.context.errant_records is not None
                self.context.errant_records.report(each, DataError("told"))
        found = self.bad.intersection(offsets)
        if found:
            raise self.error(f"cannot take {min(found)}")
        self.taken += offsets

    def stop(self) -> None:
        """Nothing."""


class Letters:
    """Notes failures, in the place of a topic."""

    def __init__(self) -> None:
        self.found: list[Failure] = []
        self.is_written = True

    def report(self, failure: Failure) -> None:
        self.send(failure)

    def send(self, failure: Failure) -> "Future[None]":
        self.found.append(failure)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def flush(self, _timeout_s: float) -> bool:
        return self.is_written

    def close(self) -> None:
        """Nothing."""


class Setting:
    """A run of a task over batches of records."""

    def __init__(
        self, task: Picky, *batches: Sequence[ConsumerRecord], bisects: bool = True, tolerates: bool = True
    ) -> None:
        stopping = threading.Event()
        self.task = task
        self.letters = Letters()
        self.consumer = FakeConsumer([list(each) for each in batches], stopping.set)
        self.errors = ErrorHandling(ErrorSettings(tolerates), [self.letters], stopping)
        step = SimpleNamespace(close=lambda: None)
        parts = SinkParts(
            task,
            {},
            ("t",),
            None,
            cast(Any, SimpleNamespace(apply=lambda _raw, record: record, close=step.close)),
            cast(Any, SimpleNamespace(decode=_decode, close=step.close)),
            self.errors,
            cast(Any, self.consumer),
            cast(Any, self.letters),
            3600.0,
            1.0,
            bisects=bisects,
        )
        self.run_ = SinkRun(TaskName("c", 0), Target.STARTED, lambda *_told: None, parts, stopping)

    def run(self) -> None:
        self.run_.work()
        self.run_.close()

    @property
    def told(self) -> list[int]:
        return [cast(ConsumerRecord, each.record).offset for each in self.letters.found]

    @property
    def committed(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for each in self.consumer.committed_offsets:
            found.update(each)
        return found


def _decode(record: ConsumerRecord) -> SinkRecord:
    return SinkRecord(record.topic, record.partition, None, None, None, record.value, offset=record.offset)


def test_the_records_to_blame_are_dead_letters_and_the_others_go_in() -> None:
    setting = Setting(Picky({5, 6}), [raw(offset) for offset in range(16)], [raw(16)])
    setting.run()
    assert setting.task.taken == [offset for offset in range(17) if offset not in (5, 6)]
    assert setting.told == [5, 6]
    assert setting.committed == {ZERO: 17}
    assert len(setting.task.puts) < 14 + len(setting.consumer.waits)  # those of nothing among them
    failure = setting.letters.found[0]
    assert (failure.stage, str(failure.error)) == (Stage.TASK_PUT, "cannot take 5")
    assert cast(ConsumerRecord, failure.record).value == b"5", "as it was read"
    assert (setting.errors.skipped, setting.errors.failures, setting.run_.sent) == (2, 2, 15)


def test_nothing_is_read_and_nothing_waited_for_while_a_batch_is_searched() -> None:
    setting = Setting(Picky({1}), [raw(offset) for offset in range(4)], [raw(4)])
    setting.run()
    searching = setting.consumer.waits[1 : setting.consumer.waits.index(500, 1)]
    assert searching
    assert set(searching) == {0}
    assert setting.consumer.paused == set(), "the consumer reads on"


def test_other_errors_end_the_task_and_nothing_of_the_batch_is_committed() -> None:
    setting = Setting(Picky({1}, error=ConnectError), [raw(0)], [raw(1)])
    with pytest.raises(ConnectError, match="unrecoverable exception"):
        setting.run_.work()
    setting.run_.close()
    assert setting.task.puts[-1] == [1]
    assert (setting.told, setting.committed) == ([], {ZERO: 1})


def test_without_the_setting_a_data_error_ends_the_task_as_in_kafka() -> None:
    setting = Setting(Picky({1}), [raw(0), raw(1)], bisects=False)
    with pytest.raises(ConnectError, match="unrecoverable exception"):
        setting.run()
    assert (setting.task.puts, setting.told) == ([[0, 1]], [])


def test_a_record_that_is_not_tolerated_ends_the_task() -> None:
    setting = Setting(Picky({1}), [raw(0), raw(1)], tolerates=False)
    with pytest.raises(ConnectError, match="Tolerance exceeded"):
        setting.run_.work()
    setting.run_.close()
    assert setting.committed == {ZERO: 1}, "the record before it is in"


def test_a_part_that_is_refused_for_now_comes_again_as_it_was() -> None:
    setting = Setting(Picky({3}, tired=2), [raw(offset) for offset in range(4)])
    setting.run()
    assert setting.task.puts[:8] == [[0, 1, 2, 3], [0, 1], [2, 3], [2, 3], [2, 3], [2], [3], []]
    assert setting.told == [3]
    assert setting.committed == {ZERO: 4}


def test_a_retriable_error_alone_is_no_reason_to_search() -> None:
    setting = Setting(Picky(set(), tired=1), [raw(0)], [raw(1)], [raw(2), raw(3)])
    setting.run()
    assert setting.task.puts[:4] == [[0], [1], [2, 3], [2, 3]]


def test_offsets_are_committed_behind_what_is_settled_and_no_further() -> None:
    setting = Setting(Picky({2}), [raw(0), raw(1), raw(2), raw(3)])

    def ask() -> None:
        setting.run_._context.request_commit()

    setting.consumer.before_poll = ask
    setting.run()
    assert setting.consumer.committed_offsets == [{ZERO: 2}, {ZERO: 3}, {ZERO: 4}]


def test_offsets_wait_for_dead_letters_that_are_on_their_way() -> None:
    setting = Setting(Picky({0}), [raw(0), raw(1)])
    setting.letters.is_written = False
    setting.run()
    assert setting.told == [0]
    assert setting.committed == {}


def test_partitions_that_go_in_the_middle_of_a_search_take_their_records_along() -> None:
    records = [raw(0, 0), raw(1, 0), raw(0, 1), raw(7, 1)]
    setting = Setting(Picky({7}), records)

    def lose() -> None:
        if len(setting.task.puts) == 2:  # the first half is in
            setting.consumer.owned.discard(ONE)
            setting.consumer.paused.discard(ONE)
            setting.consumer.listener.on_partitions_revoked([ONE])

    setting.consumer.before_poll = lose
    setting.run()
    assert setting.task.taken == [0, 1]
    assert (setting.told, setting.committed) == ([], {ZERO: 2})


def test_a_task_that_is_to_end_does_not_search_to_the_end() -> None:
    setting = Setting(Picky({7}), [raw(offset) for offset in range(8)])

    def stop() -> None:
        if len(setting.task.puts) == 2:
            setting.run_.request_stop()

    setting.consumer.before_poll = stop
    setting.run()
    assert setting.committed == {ZERO: setting.task.taken[-1] + 1}
    assert setting.told == []


class Killed(Exception):
    """The worker is gone: nothing is closed, nothing committed."""


@given(
    count=st.integers(1, 40),
    bad=st.sets(st.integers(0, 39), max_size=6),
    tired=st.integers(0, 3),
    kills=st.lists(st.integers(0, 30), max_size=3),
    commits=st.sets(st.integers(0, 40)),
)
def test_kills_between_any_two_parts_lose_no_record_and_commit_none_that_is_not_settled(
    count: int, bad: set[int], tired: int, kills: list[int], commits: set[int]
) -> None:
    taken: set[int] = set()
    told: set[int] = set()
    begin = 0
    for kill_at in [*kills, None]:
        records = [raw(offset) for offset in range(begin, count)]
        setting = Setting(Picky(bad, tired), records[:7], records[7:])

        def before_poll(setting: Setting = setting, kill_at: int | None = kill_at) -> None:
            polls = len(setting.consumer.waits)
            if kill_at is not None and polls > kill_at:
                raise Killed
            if polls in commits:
                setting.run_._context.request_commit()

        setting.consumer.before_poll = before_poll
        with suppress(Killed):
            setting.run()
        assert setting.task.taken == sorted(set(setting.task.taken)), "in their order, each once"
        taken.update(setting.task.taken)
        told.update(setting.told)
        begin = setting.committed.get(ZERO, begin)
        assert set(range(begin)) <= taken | told
    there = set(range(count))
    assert (begin, taken, told) == (count, there - bad, there & bad)


def test_what_a_task_reports_itself_is_told_once_though_it_comes_in_parts() -> None:
    task = Picky({3})
    task.reports = {1, 3}
    setting = Setting(task, [raw(offset) for offset in range(4)])
    setting.run()
    assert sorted(setting.told) == [1, 3]
    assert setting.committed == {ZERO: 4}
