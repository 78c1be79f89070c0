"""What callbacks are told: what the futures of their records say, gathered in runs, one by one, and after a split."""

from collections.abc import Sequence
from typing import cast

import pytest

from pkafka.clients.producer import RecordMetadata
from pkafka.clients.producer.batch import ProducerBatch
from pkafka.clients.producer.callbacks import Callback, RecordCallbacks
from pkafka.clients.producer.encoded_headers import EncodedHeaders
from pkafka.errors import ErrorCode
from pkafka.protocol.messages.produce import BatchIndexAndErrorMessage
from pkafka.records.builder import NO_HEADERS, BatchBuilder, encode_headers
from tests.unit.clients.test_producer_gathering import LINGERS, TOPIC, frozen
from tests.unit.clients.test_producer_sending import error, running

Told = tuple[int, RecordMetadata, Exception | None]


class Ear:
    """Hears what callbacks are told, by the number of their records."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def of(self, number: int) -> Callback:
        return lambda metadata, error: self.told.append((number, metadata, error))


RECORDS: Sequence[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (
        b"value" * (number % 5) if number % 7 else None,
        b"key" if number % 3 else None,
        [("h", b"x")] * (number % 2),
    )
    for number in range(60)
]


@pytest.mark.parametrize("in_runs", [True, False])
def test_callbacks_and_futures_say_the_same(in_runs: bool) -> None:
    ear = Ear()
    with (frozen if in_runs else running)(**LINGERS) as (_, producer):
        futures = [
            producer.send(TOPIC, value, key, headers=headers, callback=ear.of(number) if number % 4 else None)
            for number, (value, key, headers) in enumerate(RECORDS)
        ]
        producer.flush(20)
        expected = [(number, each.result(0), None) for number, each in enumerate(futures) if number % 4]
    assert ear.told == expected


@pytest.mark.parametrize("refusals", [1, 2, 3])
def test_callbacks_go_along_when_their_batch_is_split(refusals: int) -> None:
    ear = Ear()
    with frozen(**LINGERS) as (logs, producer):
        logs.errors += [error(ErrorCode.MESSAGE_TOO_LARGE)] * refusals
        futures = [
            producer.send(TOPIC, b"x" * number, callback=ear.of(number) if number % 3 else None)
            for number in range(50)
        ]
        producer.flush(20)
        expected = [(number, each.result(0), None) for number, each in enumerate(futures) if number % 3]
        assert [each.result(0).offset for each in futures] == list(range(50))
    assert ear.told == expected


def test_a_callback_hears_of_the_error_of_its_own_record() -> None:
    ear = Ear()
    with frozen(**LINGERS, retries=0, enable_idempotence=False) as (logs, producer):
        bad = BatchIndexAndErrorMessage(batch_index=7, batch_index_error_message="bad")
        logs.errors.append(error(ErrorCode.INVALID_RECORD, record_errors=[bad]))
        futures = [producer.send(TOPIC, b"x", callback=ear.of(number)) for number in range(10)]
        producer.flush(20)
    assert ear.told == [
        (number, RecordMetadata(TOPIC, 0, -1, -1), each.exception(0)) for number, each in enumerate(futures)
    ]
    assert "bad" in str(ear.told[7][2])


class Queue:
    """All that is asked of the queue of a batch here."""

    partition = (TOPIC, 3)


def batch_of() -> ProducerBatch:
    builder = BatchBuilder(10_000)
    return ProducerBatch(Queue(), builder, now_ms=0, deadline_ms=1, reserved_bytes=0)  # type: ignore[arg-type]


def test_a_ctrl_c_between_two_columns_shifts_no_row() -> None:
    ear = Ear()
    batch = batch_of()
    batch.call_back(ear.of(0), 0, 5, -1, 10)
    batch.callbacks[-1].callbacks.append(ear.of(99))  # as far as an interrupted call came
    batch.callbacks[-1].key_sizes.append(99)
    batch.call_back(ear.of(1), 1, 5, 2, 20)
    batch.callbacks[-1].callbacks.append(ear.of(99))
    batch.finish(base_offset=100)
    assert ear.told == [
        (0, RecordMetadata(TOPIC, 3, 100, 5, -1, 10), None),
        (1, RecordMetadata(TOPIC, 3, 101, 5, 2, 20), None),
    ]


def test_callbacks_of_one_time_share_their_columns() -> None:
    batch = batch_of()
    for index, time_ms in enumerate([5, 5, 6, 6, 5]):
        batch.call_back(Ear().of(0), index, time_ms, 1, 1)
    assert [(each.timestamp_ms, each.indexes) for each in batch.callbacks] == [
        (5, [0, 1]),
        (6, [2, 3]),
        (5, [4]),
    ]


@pytest.mark.parametrize(
    ("middle", "first", "second"),
    [(0, [], [1, 4, 6]), (4, [1], [0, 2]), (5, [1, 4], [1]), (9, [1, 4, 6], [])],
)
def test_a_split_counts_the_indexes_of_the_second_half_from_its_beginning(
    middle: int, first: list[int], second: list[int]
) -> None:
    names = cast("list[Callback]", ["a", "b", "c"])
    halves = RecordCallbacks(7, [1, 4, 6], names, [1, 2, 3], [4, 5, 6]).split(middle)
    assert [each.indexes for each in halves] == [first, second]
    assert [each.timestamp_ms for each in halves] == [7, 7]
    for column in ("callbacks", "key_sizes", "value_sizes"):
        parts = [getattr(each, column) for each in halves]
        assert [len(each) for each in parts] == [len(first), len(second)]
    assert halves[0].callbacks + halves[1].callbacks == names
    assert halves[0].key_sizes + halves[1].key_sizes == [1, 2, 3]
    assert halves[0].value_sizes + halves[1].value_sizes == [4, 5, 6]


# -- headers that are remembered ---------------------------------------------------------------------------------


def test_headers_that_the_application_changes_are_encoded_anew() -> None:
    known = EncodedHeaders()
    headers: list[tuple[str, bytes | None]] = [("a", b"1")]
    for step in ([("a", b"2")], [("a", b"2"), ("b", None)], [], [("a", b"1")]):
        assert known.of(headers) == (encode_headers(headers) if headers else NO_HEADERS)
        headers[:] = step
    assert known.of(headers) == encode_headers([("a", b"1")])


def test_headers_that_cannot_be_remembered_are_encoded_each_time() -> None:
    known = EncodedHeaders()
    content = bytearray(b"1")
    headers = [("a", cast("bytes", content))]
    assert known.of(headers) == encode_headers([("a", b"1")])
    content[:] = b"22"
    assert known.of(headers) == encode_headers([("a", b"22")])


@pytest.mark.parametrize("kind", [list, tuple])
def test_the_same_headers_are_encoded_once(kind: type) -> None:
    known = EncodedHeaders()
    found = known.of(kind([("a", b"1")]))
    assert known.of(kind([("a", b"1")])) is found
    assert known.of(kind([("b", b"1")])) != found
    assert known.of(kind([("a", b"1")])) is found


def test_many_different_headers_are_forgotten_again() -> None:
    known = EncodedHeaders()
    for number in range(1_000):
        headers = [("n", b"%d" % number)]
        assert known.of(headers) == encode_headers(headers)
    assert len(known._known) <= 256


def test_a_record_with_headers_and_no_key_joins_its_run() -> None:
    with frozen(**LINGERS) as (logs, producer):
        for number in range(20):
            producer.send(TOPIC, b"%d" % number, headers=[("h", b"%d" % (number // 10))])
        producer.flush(20)
        found = logs.records[TOPIC, 0]
    assert [(each.value, list(each.headers)) for each in found] == [
        (b"%d" % number, [("h", b"%d" % (number // 10))]) for number in range(20)
    ]
