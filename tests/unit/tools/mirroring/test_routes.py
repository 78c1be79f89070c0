"""Which batches a mirror sends as bytes: those that the producer would put into one partition anyway."""

import pytest

from pkafka.clients.consumer import RawBatch
from pkafka.clients.producer.partitioner import partition_of_key
from pkafka.model import TopicPartition
from pkafka.records.batch import read_header
from pkafka.records.builder import build_batch
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import Codec
from pkafka.tools.mirroring.routes import SMALL_BYTES, Rules, route_of, rules_of

COUNT = 40


def batch(*keys: bytes | None, partition: int = 1, codec: Codec = Codec.NONE, stamp: int = 1_000) -> RawBatch:
    cycle = keys or (None,)
    records = [(stamp, cycle[each % len(cycle)], b"%060d" % each, ()) for each in range(COUNT)]
    data = bytes(build_batch(records, codec=codec))
    header = read_header(data)
    return RawBatch(TopicPartition("t", partition), data, 0, header.next_offset, COUNT, 0)


def keys_of(partition: int, count: int) -> list[bytes]:
    found = [b"k%d" % each for each in range(1_000)]
    return [each for each in found if partition_of_key(each, 3) == partition][:count]


@pytest.mark.parametrize("target", [0, 1, 2])
def test_a_batch_whose_keys_lead_to_one_partition_goes_there_as_bytes(target: int) -> None:
    keys = keys_of(target, 5)
    assert route_of(batch(*keys), 3, Rules()) == target
    assert route_of(batch(*keys, None), 3, Rules()) == target


def test_a_batch_whose_keys_lead_to_two_partitions_is_taken_apart() -> None:
    many = batch(*keys_of(0, 35), *keys_of(2, 1))
    route = route_of(many, 3, Rules())
    assert isinstance(route, RecordColumns)
    assert route.values == [each.value for each in many.records()]


def test_a_batch_without_keys_keeps_its_partition_where_the_target_has_it() -> None:
    assert route_of(batch(partition=1), 3, Rules()) == 1
    assert route_of(batch(partition=4), 3, Rules()) == 1


def test_one_partition_takes_all_batches_as_bytes() -> None:
    assert route_of(batch(*keys_of(0, 2), *keys_of(2, 2), partition=2), 1, Rules()) == 0


def test_partitions_are_kept_whatever_the_keys() -> None:
    rules = Rules(keeps_partitions=True)
    assert route_of(batch(*keys_of(0, 2), *keys_of(2, 2), partition=2), 3, rules) == 2


def test_small_batches_and_records_without_a_time_are_taken_apart() -> None:
    small = RawBatch(TopicPartition("t", 0), bytes(build_batch([(1, None, b"v", ())])), 0, 1, 1, 0)
    assert len(small.data) < SMALL_BYTES
    assert isinstance(route_of(small, 1, Rules()), RecordColumns)
    assert isinstance(route_of(batch(stamp=-1), 1, Rules()), RecordColumns)


def test_a_codec_that_was_asked_for_takes_batches_of_others_apart() -> None:
    rules = rules_of({"compression.type": "zstd"}, {}, has_handler=False, keeps_partitions=False)
    assert isinstance(route_of(batch(codec=Codec.LZ4), 1, rules), RecordColumns)
    assert route_of(batch(codec=Codec.ZSTD), 1, rules) == 0
    assert route_of(batch(codec=Codec.LZ4), 1, Rules()) == 0


@pytest.mark.parametrize(
    ("producer", "consumer", "has_handler"),
    [
        ({"partitioner.class": "a.B"}, {}, False),
        ({"interceptor.classes": "a.B"}, {}, False),
        ({}, {"interceptor.classes": "a.B"}, False),
        ({"partitioner.ignore.keys": "true"}, {}, False),
        ({}, {}, True),
    ],
)
def test_what_looks_at_each_record_sees_each_record(
    producer: dict[str, object], consumer: dict[str, object], has_handler: bool
) -> None:
    rules = rules_of(producer, consumer, has_handler=has_handler, keeps_partitions=False)
    assert not rules.are_batches_enough
