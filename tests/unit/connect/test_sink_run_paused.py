"""A sink task as it runs: what it has read reaches the connector, whatever it is told meanwhile."""

import threading
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast

from pkafka.clients.consumer import ConsumerRecord
from pkafka.connect.sink_run import SinkParts, SinkRun
from pkafka.connect.states import Target, TaskName
from pkafka.model import TopicPartition

PLACE = TopicPartition("t", 0)


def record(offset: int) -> ConsumerRecord:
    return ConsumerRecord("t", 0, offset, -1, 0, None, b"%d" % offset, (), -1)


class ToldMeanwhile:
    """A consumer; the test says what happens during each poll.

    Args:
        polls: of each, what the task is told while it waits, and what has come.
        stopping: ends the task when there is nothing more to poll.
    """

    def __init__(
        self, polls: Sequence[tuple[Target | None, Sequence[ConsumerRecord]]], stopping: threading.Event
    ) -> None:
        self._polls = list(polls)
        self._stopping = stopping
        self.run: SinkRun
        self.paused: set[TopicPartition] = set()

    def subscribe(self, topics: object, *, listener: Any) -> None:
        pass

    def assignment(self) -> set[TopicPartition]:
        return {PLACE}

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def wakeup(self) -> None:
        pass

    def poll(self, _timeout_ms: int) -> Sequence[ConsumerRecord]:
        if not self._polls:
            self._stopping.set()
            return []
        told, records = self._polls.pop(0)
        assert not records or PLACE not in self.paused
        if told is not None:
            self.run.aim(told)
        return records


def put_by(polls: Sequence[tuple[Target | None, Sequence[ConsumerRecord]]]) -> list[int]:
    """The offsets of all that the connector's task got."""
    stopping = threading.Event()
    consumer = ToldMeanwhile(polls, stopping)
    got: list[int] = []
    task = SimpleNamespace(
        initialize=lambda _context: None,
        start=lambda _configs: None,
        put=lambda records: got.extend(each.offset for each in records),
        pre_commit=lambda _current: {},
    )
    parts = SimpleNamespace(
        task=task,
        configs={},
        topics=("t",),
        pattern=None,
        transforms=SimpleNamespace(apply=lambda _raw, decoded: decoded),
        converters=SimpleNamespace(decode=lambda raw: raw),
        handling=SimpleNamespace(tolerates_all=False),
        consumer=consumer,
        dead_letters=None,
        commit_interval_s=60.0,
        commit_timeout_s=1.0,
        bisects=False,
        used_topic=lambda _name, _topic: None,
    )
    run = SinkRun(TaskName("c", 0), Target.STARTED, lambda *_told: None, cast(SinkParts, parts), stopping)
    consumer.run = run
    run.work()
    return got


def test_what_comes_while_the_task_is_told_to_pause_is_not_lost() -> None:
    polls = [
        (None, [record(0)]),
        (Target.PAUSED, [record(1), record(2)]),
        (Target.STARTED, []),
        (None, [record(3)]),
    ]
    assert put_by(polls) == [0, 1, 2, 3]
