"""A copy is written by one writer, in order, and what is told of it holds."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from pkafka.clients.consumer import RawBatch
from pkafka.clients.producer import BatchFuture
from pkafka.clients.producer.futures import BatchMetadata
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.records.batch import read_header
from pkafka.records.builder import build_batch
from pkafka.tools.mirroring.back_fill.writing import OtherWriterError, Writer, writer_settings

SOURCE, TARGET = TopicPartition("t", 3), TopicPartition("A.t", 3)


class Answer:
    """What becomes of a batch; nothing, before ``settle``."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._found: BatchMetadata | None = None
        self._callbacks: list[Callable[[Any], object]] = []

    def settle(self, offset: int, error: Exception | None = None) -> None:
        self._found = BatchMetadata(*TARGET, offset, self.count, 0, range(self.count), error)
        for each in self._callbacks:
            each(self)

    def done(self) -> bool:
        return self._found is not None

    def exception(self, timeout: float | None = None) -> Exception | None:
        assert self._found is not None
        return self._found.error

    def result(self, timeout: float | None = None) -> list[BatchMetadata]:
        assert self._found is not None
        if self._found.error is not None:
            raise self._found.error
        return [self._found]

    def add_done_callback(self, function: Callable[[Any], object]) -> None:
        self._callbacks.append(function)


class FakeProducer:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Answer] = []
        self.is_closed = False

    def send_raw_batch(self, topic: str, batch: Any, *, partition: int) -> BatchFuture:
        assert (topic, partition) == TARGET
        self.sent.append(Answer(read_header(batch).records_count))
        return cast(BatchFuture, self.sent[-1])

    def close(self, timeout_s: float | None = None) -> None:
        self.is_closed = True


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
def told() -> list[tuple[int, int, int]]:
    return []


@pytest.fixture
def writer(producer: FakeProducer, told: list[tuple[int, int, int]]) -> Writer:
    def note(upstream: int, downstream: int, count: int) -> None:
        told.append((upstream, downstream, count))

    made = Writer(producer, TARGET, 1_000, note)
    made.end = 100
    return made


def batch(first: int, count: int) -> RawBatch:
    return of_values(first, [b"v"] * count)


def of_values(first: int, values: list[bytes]) -> RawBatch:
    data = bytes(build_batch([(1_000, None, each, ()) for each in values], base_offset=first))
    return RawBatch(SOURCE, data, first, first + len(values), len(values), 0)


def test_what_arrived_is_told_by_both_offsets(
    writer: Writer, producer: FakeProducer, told: list[tuple[int, int, int]]
) -> None:
    writer.send(batch(0, 20), 0)
    writer.send(batch(20, 3), 0)  # small: these wait for more
    writer.send(batch(30, 3), 1)
    assert [each.count for each in producer.sent] == [20]
    writer.settle()
    assert told == []
    producer.sent[0].settle(100)
    writer.send(batch(40, 30), 0)
    writer.settle()
    assert [each.count for each in producer.sent] == [20, 5, 30]
    assert told == [(0, 100, 20)]
    producer.sent[1].settle(120)
    producer.sent[2].settle(125)
    writer.finish()
    assert told[1:] == [(20, 120, 3), (31, 123, 2), (40, 125, 30)]
    assert (writer.end, writer.records, writer.raw_records) == (155, 55, 50)


def test_records_of_others_are_noticed(writer: Writer, producer: FakeProducer) -> None:
    writer.send(batch(0, 20), 0)
    writer.send(batch(20, 20), 0)
    producer.sent[0].settle(100)
    producer.sent[1].settle(121)
    with pytest.raises(OtherWriterError, match="offset 121 where 120 was to come"):
        writer.settle()


def test_an_answer_without_an_offset_is_believed(
    writer: Writer, producer: FakeProducer, told: list[tuple[int, int, int]]
) -> None:
    for first in (0, 20):
        writer.send(batch(first, 20), 0)
    producer.sent[0].settle(-1)
    producer.sent[1].settle(120)
    writer.settle()
    assert told == [(0, 100, 20), (20, 120, 20)]


def test_behind_a_batch_that_does_not_arrive_none_does(writer: Writer, producer: FakeProducer) -> None:
    for first in (0, 20):
        writer.send(batch(first, 20), 0)
    error = ApiError(ErrorCode.MESSAGE_TOO_LARGE)
    producer.sent[0].settle(-1, error)
    assert producer.is_closed
    with pytest.raises(ApiError, match="larger than the server accepts"):
        writer.settle()
    assert writer.failure is error


def test_a_batch_that_is_too_large_goes_in_parts_up_to_a_record_that_is(
    writer: Writer, producer: FakeProducer, told: list[tuple[int, int, int]]
) -> None:
    values = [b"x" * 90] * 20
    writer.send(of_values(0, values), 0)
    assert [each.count for each in producer.sent] == [5, 5, 5, 5]
    for number, each in enumerate(producer.sent):
        each.settle(100 + 5 * number)
    writer.settle()
    assert told == [(5 * number, 100 + 5 * number, 5) for number in range(4)]
    values[12] = b"x" * 1_000
    with pytest.raises(ApiError, match=r"a record of 1\d+ bytes is too large for A\.t of the target"):
        writer.send(of_values(20, values), 0)
    assert sum(each.count for each in producer.sent[4:]) == 12


def test_a_writer_keeps_the_order_whatever_the_file_says() -> None:
    given = {"acks": "0", "enable.idempotence": "false", "transactional.id": "t", "client.id": "c"}
    wanted = {"acks": "all", "enable.idempotence": "true", "client.id": "c", "max.request.size": 9}
    assert writer_settings(given, 9) == wanted
