"""Records of a source as they go to the producer: many in one call, and which offsets count when."""

import threading
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from pkafka.clients.consumer import RawBatch
from pkafka.clients.producer import BatchMetadata
from pkafka.connect.connector import BatchSourceTask, SourceBatch, SourceTask
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.source_run import SourceParts, SourceRun
from pkafka.connect.states import Target, TaskName
from pkafka.connect.steps import Encoded
from tests.talk import wait_for

Outcomes = Callable[[SimpleNamespace], None]


class HoldingProducer:
    """Keeps what it is given; the test says when it is acknowledged."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[bytes], int | None]] = []
        self._told: list[Outcomes] = []

    def send_batch(
        self, topic: str, values: list[bytes], _keys: object, *, timestamp_ms: int | None, **_place: object
    ) -> SimpleNamespace:
        self.calls.append((topic, values, timestamp_ms))
        return SimpleNamespace(add_done_callback=self._told.append)

    def acknowledge(self, call: int) -> None:
        count = len(self.calls[call][1])
        outcome = BatchMetadata(self.calls[call][0], 0, 7, count, -1, range(count))
        self._told[call](SimpleNamespace(outcomes=lambda _timeout_s: [outcome]))

    def close(self, _timeout_s: int) -> None:
        pass


class HoldingBatches:
    """A producer that keeps batches; the test says when they are acknowledged."""

    def __init__(self) -> None:
        self.told: list[Outcomes] = []

    def send_raw_batch(self, _topic: str, _batch: object, *, partition: int) -> SimpleNamespace:
        assert partition == 0
        return SimpleNamespace(add_done_callback=self.told.append)

    def acknowledge(self, calls: range) -> None:
        outcome = BatchMetadata("t", 0, 7, 1, -1, range(1))
        for call in calls:
            self.told[call](SimpleNamespace(outcomes=lambda _timeout_s: [outcome]))


class Endless(BatchSourceTask):
    """Has as many batches as anybody wants."""

    def start(self, configs: Mapping[str, str]) -> None:
        pass

    def poll(self) -> None:
        raise AssertionError("batches go on as they are")

    def poll_batches(self) -> list[SourceBatch | SourceRecord]:
        raw = cast(RawBatch, SimpleNamespace(record_count=1))
        return [SourceBatch("t", 0, raw, {"f": 0}, {"at": 0}) for _ in range(100)]

    def stop(self) -> None:
        pass


class Once(SourceTask):
    """Gives records once."""

    def __init__(self, records: Sequence[SourceRecord], stopping: threading.Event) -> None:
        self._records = records
        self._stopping = stopping
        self.told: list[tuple[Any, int | None]] = []

    def start(self, configs: Mapping[str, str]) -> None:
        pass

    def poll(self) -> Sequence[SourceRecord]:
        self._stopping.set()
        return self._records

    def commit_record(self, record: SourceRecord, metadata: Any) -> None:
        self.told.append((record.value, None if metadata is None else metadata.offset))

    def stop(self) -> None:
        pass


def record(number: int, *, topic: str = "t", at_ms: int = 1) -> SourceRecord:
    return SourceRecord(
        topic, None, None, None, None, number, at_ms, source_partition={"f": 0}, source_offset={"at": number}
    )


def parts_of(task: SourceTask, producer: object, **more: object) -> SourceParts:
    """Parts of a run; what is left out does nothing."""
    parts = {
        "task": task,
        "configs": {},
        "handling": SimpleNamespace(tolerates_all=False),
        "producer": producer,
        "topics": SimpleNamespace(see_to=lambda _topic: None),
        "flush_timeout_s": 1.0,
        "own_store": None,
        "used_topic": lambda _name, _topic: None,
        **more,
    }
    return cast(SourceParts, SimpleNamespace(**parts))


class Ran:
    """A run that has polled once.

    Args:
        records: of the poll.
        dropped: by a transform.
    """

    def __init__(self, records: Sequence[SourceRecord], dropped: Sequence[int] = ()) -> None:
        stopping = threading.Event()
        self.task = Once(records, stopping)
        self.producer = HoldingProducer()
        self.stored: list[Any] = []

        def encode(_raw: SourceRecord, each: SourceRecord) -> Encoded:
            return Encoded(each.topic or "", None, None, b"%d" % each.value, each.timestamp, [])

        parts = parts_of(
            self.task,
            self.producer,
            transforms=SimpleNamespace(
                is_empty=not dropped,
                apply=lambda _raw, each: None if each.value in dropped else each,
            ),
            converters=SimpleNamespace(encode=encode),
            offsets=SimpleNamespace(store=self.stored.extend),
            passes_batches=False,
        )
        self.run = SourceRun(TaskName("c", 0), Target.STARTED, lambda *_told: None, parts, stopping)
        self.run.work()

    def offset(self) -> int | None:
        """How far the source has come, as far as it may be stored now."""
        self.run.store_offsets()
        return self.stored[-1][1]["at"] if self.stored else None


def test_records_that_stand_together_are_one_call() -> None:
    records = [record(0), record(1), record(2, at_ms=2), record(3, topic="u", at_ms=2), record(4)]
    ran = Ran(records)
    assert ran.producer.calls == [
        ("t", [b"0", b"1"], 1),
        ("t", [b"2"], 2),
        ("u", [b"3"], 2),
        ("t", [b"4"], 1),
    ]
    assert (ran.run.polled, ran.run.written) == (5, 0)


def test_offsets_count_up_to_the_first_record_that_is_not_acknowledged() -> None:
    ran = Ran([record(0), record(1), record(2, topic="u"), record(3)])
    ran.producer.acknowledge(2)
    assert ran.offset() is None
    ran.producer.acknowledge(0)
    assert ran.offset() == 1
    ran.producer.acknowledge(1)
    assert ran.offset() == 3
    assert ran.run.written == 4


def test_what_a_transform_drops_counts_in_the_order_of_its_source() -> None:
    ran = Ran([record(0), record(1), record(2), record(3)], dropped=[1, 3])
    assert ran.producer.calls == [("t", [b"0", b"2"], 1)]
    assert ran.offset() is None  # 1 is behind 0, which is on its way
    ran.producer.acknowledge(0)
    assert ran.offset() == 3


def test_the_task_hears_of_each_record_and_its_offset() -> None:
    ran = Ran([record(0), record(1), record(2)], dropped=[1])
    ran.producer.acknowledge(0)
    assert ran.task.told == [(1, None), (0, 7), (2, 8)]


def test_a_task_has_so_many_batches_under_way_and_goes_on_when_some_are_acknowledged() -> None:
    stopping, producer = threading.Event(), HoldingBatches()
    parts = parts_of(
        Endless(),
        producer,
        transforms=SimpleNamespace(is_empty=True, apply=None),
        converters=SimpleNamespace(encode=None),
        offsets=None,
        passes_batches=True,
    )
    run = SourceRun(TaskName("c", 0), Target.STARTED, lambda *_told: None, parts, stopping)
    thread = threading.Thread(target=run.work, daemon=True)
    thread.start()

    def has_sent(count: int) -> None:
        wait_for(lambda: len(producer.told) == count)
        thread.join(0.25)  # it waits for longer than it looks whether it is to end
        assert thread.is_alive()
        assert len(producer.told) == count

    has_sent(1_024)
    producer.acknowledge(range(31))
    has_sent(1_024)
    producer.acknowledge(range(31, 32))
    has_sent(1_024 + 32)
    stopping.set()
    thread.join(60)
    assert not thread.is_alive()
