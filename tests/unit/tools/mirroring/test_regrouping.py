"""Records are collected into batches for the partitions that their keys lead to, in their order."""

import pytest

from pkafka.clients.producer.partitioner import partition_of_key
from pkafka.model import TopicPartition
from pkafka.records.batch import read_header
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import Codec
from pkafka.records.reading import read_records
from pkafka.tools.mirroring.regrouping import Made, Regrouping

SOURCE = TopicPartition("t", 4)
Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def rows(count: int, *, first: int = 0, keys: int = 7) -> list[Row]:
    return [
        (
            number,
            1_000 + number,
            None if number % keys == 0 else b"k%d" % (number % keys),
            None if number % 11 == 0 else b"v%d" % number,
            (("h", b"%d" % number), ("n", None)) if number % 2 else (),
        )
        for number in range(first, first + count)
    ]


def by_partition(made: list[Made]) -> dict[int, list[tuple[object, ...]]]:
    found: dict[int, list[tuple[object, ...]]] = {}
    for each in made:
        records = [tuple(record[1:]) for record in read_records(each.data)]
        assert len(records) == each.record_count == read_header(each.data).records_count
        found.setdefault(each.partition.partition, []).extend(records)
    return found


@pytest.mark.parametrize("batch_bytes", [1, 300, 1 << 20])
def test_records_go_where_their_keys_lead_and_keep_their_order(batch_bytes: int) -> None:
    regrouping = Regrouping(batch_bytes)
    made: list[Made] = []
    for first in (0, 50):
        columns = RecordColumns.of(rows(50, first=first))
        made += regrouping.add(SOURCE, columns, 3, Codec.ZSTD)
    made += regrouping.take_all()
    wanted: dict[int, list[tuple[object, ...]]] = {}
    for _, *record in rows(100):
        key = record[1]
        assert isinstance(key, bytes | None)
        wanted.setdefault(4 % 3 if key is None else partition_of_key(key, 3), []).append(tuple(record))
    assert by_partition(made) == wanted
    assert {read_header(each.data).codec for each in made} == {Codec.ZSTD}
    assert {each.partition.topic for each in made} == {"t"}
    assert len(made) == (100 if batch_bytes == 1 else len(made))
    assert list(regrouping.take_all()) == []


def test_records_may_keep_their_partition() -> None:
    regrouping = Regrouping(1 << 20)
    assert not list(regrouping.add(SOURCE, RecordColumns.of(rows(20)), 5, Codec.NONE, keeps_partition=True))
    assert by_partition(list(regrouping.take_all())) == {4: [each[1:] for each in rows(20)]}


def test_what_waits_for_a_partition_is_taken_before_something_else_goes_there() -> None:
    regrouping = Regrouping(1 << 20)
    assert not list(regrouping.add(SOURCE, RecordColumns.of(rows(20, keys=1)), 5, Codec.NONE))
    assert not list(regrouping.take(TopicPartition("t", 3)))
    (made,) = regrouping.take(TopicPartition("t", 4))
    assert made.record_count == 20
    assert not list(regrouping.take(TopicPartition("t", 4)))


def test_another_codec_begins_another_batch() -> None:
    regrouping = Regrouping(1 << 20)
    made: list[Made] = []
    for first, codec in ((0, Codec.NONE), (5, Codec.LZ4)):
        made += regrouping.add(SOURCE, RecordColumns.of(rows(5, first=first, keys=1)), 5, codec)
    made += regrouping.take_all()
    assert [read_header(each.data).codec for each in made] == [Codec.NONE, Codec.LZ4]
    assert by_partition(made) == {4: [each[1:] for each in rows(10, keys=1)]}


def test_records_without_a_time_get_the_time_of_the_copy() -> None:
    regrouping = Regrouping(1)
    columns = RecordColumns([0, 1], [-1, 5], None, [b"a", b"b"])
    made = list(regrouping.add(SOURCE, columns, 5, Codec.NONE, now_ms=9))
    assert [each.timestamp for one in made for each in read_records(one.data)] == [9, 5]
