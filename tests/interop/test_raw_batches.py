"""Batches that are sent on as bytes, at both brokers: they take them, and readers see the same records."""

from collections.abc import Sequence

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from pkafka.records.reading import Record
from tests.interop.conftest import System

COUNT = 2_000


def read(bootstrap: str, topic: str) -> list[Record]:
    partition = TopicPartition(topic, 0)
    found: list[Record] = []
    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        while len(found) < COUNT:
            chunks = consumer.poll_chunks(20_000)
            assert chunks, f"only {len(found)} records came"
            found += [record for chunk in chunks for record in chunk.records]
    return found


def copy(bootstrap: str, source: str, target: str) -> None:
    partition = TopicPartition(source, 0)
    settings = {"bootstrap.servers": bootstrap}
    # Small parts, so that many batches are in flight.
    with (
        Consumer({**settings, "max.partition.fetch.bytes": 10_000}) as consumer,
        Producer(settings) as producer,
    ):
        consumer.assign([partition])
        consumer.seek(partition, 0)
        outcomes = []
        while consumer.position(partition) < COUNT:
            batches = consumer.poll_batches(20_000)
            assert batches, f"nothing came behind {consumer.position(partition)}"
            outcomes += [producer.send_raw_batch(target, each, partition=0) for each in batches]
        runs = [run for each in outcomes for run in each.result(30)]
    assert [run.offset for run in runs] == _starts([run.length for run in runs])


def _starts(lengths: Sequence[int]) -> list[int]:
    return [sum(lengths[:index]) for index in range(len(lengths))]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_copy_has_the_same_records_at_the_same_offsets(system: System, topic: str, codec: str) -> None:
    settings = {"bootstrap.servers": system.bootstrap, "compression.type": codec, "batch.size": 3_000}
    source, target = f"{topic}-source", f"{topic}-target"
    with Producer(settings) as producer:
        for number in range(COUNT):
            key = None if number % 3 else b"key %d" % number
            headers = (("h", b"%d" % number),) if number % 2 else ()
            stamp = 1_700_000_000_000 + number
            producer.send(source, b"%d" % number * 20, key, partition=0, timestamp_ms=stamp, headers=headers)
    copy(system.bootstrap, source, target)
    assert read(system.bootstrap, target) == read(system.bootstrap, source)
