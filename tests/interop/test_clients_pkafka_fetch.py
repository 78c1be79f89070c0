"""What pkafka's consumer fetches, on Apache Kafka and on pkafka; transactions and the nearest replica on Kafka."""

import random
import threading
import time
from collections import defaultdict
from pathlib import Path

import confluent_kafka
import pytest

from pkafka.clients.admin.results import NewTopic
from pkafka.clients.consumer import Chunk, Consumer, ConsumerRecord
from pkafka.model import TopicPartition
from pkafka.records.builder import RecordFields, build_batch
from pkafka.records.compression import Codec
from pkafka.tools.zookeeper.server import running_server
from tests.interop import kafka as oracle
from tests.interop.conftest import System
from tests.open_transactions import ends
from tests.talk import Talk, good, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

NOW = 1_700_000_000_000
"""Years ago: topics keep for ever what is so old, or brokers delete it half a minute after their start."""


def consumer_of(bootstrap: str, topic: str, partitions: int = 1, **keys: object) -> Consumer:
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    consumer = Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", **dotted})
    consumer.assign([TopicPartition(topic, each) for each in range(partitions)])
    return consumer


def read_all(consumer: Consumer, timeout_s: float = 60) -> list[ConsumerRecord]:
    """Every record up to where the partitions end now."""
    found: list[ConsumerRecord] = []
    ends = consumer.end_offsets(consumer.assignment())
    deadline = time.monotonic() + timeout_s
    while any(consumer.position(each) < end for each, end in ends.items()):
        assert time.monotonic() < deadline, f"{len(found)} records came"
        found += consumer.poll(200)
    return found


def end_of(consumer: Consumer) -> int:
    (end,) = consumer.end_offsets(consumer.assignment()).values()
    return end


def some_rows(chance: random.Random, count: int) -> list[RecordFields]:
    return [
        (
            NOW + chance.choice((0, 1, 5, 9_000)),
            chance.choice((None, b"", b"key", chance.randbytes(70))),
            chance.choice((None, b"", b"value" * 20, chance.randbytes(chance.choice((10, 300, 9_000))))),
            [("h", None), ("", b"x"), ("größe", b"")][: chance.choice((0, 0, 3))],
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("batch_records", [1, 40])
def test_records_of_every_codec_come_as_they_were_sent(
    system: System, talk: Talk, topic: str, batch_records: int
) -> None:
    talk.create(topic, retention_ms=-1)
    chance = random.Random(batch_records)
    sent: list[RecordFields] = []
    for codec in [*Codec, *Codec]:
        rows = some_rows(chance, batch_records)
        talk.produce(topic, bytes(build_batch(rows, codec=codec)))
        sent += rows
    with consumer_of(system.bootstrap, topic, max_poll_records=17) as consumer:
        records = read_all(consumer)
        assert [each.offset for each in records] == list(range(len(sent)))
        got = [(each.timestamp, each.key, each.value, list(each.headers)) for each in records]
        assert got == [(*row[:3], list(row[3])) for row in sent]
        assert {(each.timestamp_type, each.leader_epoch) for each in records} == {(0, 0)}
        consumer.seek_to_beginning()
        chunks: list[Chunk] = []
        while sum(map(len, chunks)) < len(sent):
            chunks += consumer.poll_chunks(200, records_max=1_000)
        assert [value for chunk in chunks for value in chunk.values] == [row[2] for row in sent]
        assert [key for chunk in chunks for key in chunk.keys] == [row[1] for row in sent]
        assert [list(each) for chunk in chunks for each in chunk.headers] == [list(row[3]) for row in sent]


def test_the_time_of_appending_is_told_apart(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic, message_timestamp_type="LogAppendTime")
    talk.produce(topic, bytes(build_batch([(1, None, b"a", ()), (2, None, b"b", ())])))
    with consumer_of(system.bootstrap, topic) as consumer:
        records = read_all(consumer)
    assert {each.timestamp_type for each in records} == {1}
    assert len({each.timestamp for each in records}) == 1
    assert records[0].timestamp > NOW


def test_narrow_limits_and_many_partitions_lose_and_repeat_nothing(
    system: System, talk: Talk, topic: str
) -> None:
    count = 40
    talk.create(topic, count, retention_ms=-1)
    for partition in range(count):
        for start in range(0, 30, 10):
            rows = [(NOW, None, b"%d" % each + b"x" * 300, ()) for each in range(start, start + 10)]
            talk.produce(topic, bytes(build_batch(rows)), partition=partition)
    with consumer_of(
        system.bootstrap,
        topic,
        count,
        # Smaller than a batch, which comes whole nevertheless.
        max_partition_fetch_bytes=100,
        fetch_max_bytes=10_000,
        max_poll_records=7,
    ) as consumer:
        offsets = defaultdict(list)
        for record in read_all(consumer):
            offsets[record.partition].append(record.offset)
    assert dict(offsets) == {partition: list(range(30)) for partition in range(count)}


def test_a_fetch_waits_for_enough_bytes_or_for_its_time(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic)
    with consumer_of(system.bootstrap, topic, fetch_min_bytes=2_000, fetch_max_wait_ms=1_000) as consumer:
        read_all(consumer)
        began = time.monotonic()
        assert consumer.poll(50) == []  # a fetch is under way, which began no earlier
        talk.send(topic, b"little")
        while not consumer.poll(100):
            continue
        assert time.monotonic() - began > 0.9
    with consumer_of(system.bootstrap, topic, fetch_min_bytes=2_000, fetch_max_wait_ms=25_000) as consumer:
        consumer.seek(TopicPartition(topic, 0), 1)
        began = time.monotonic()
        assert consumer.poll(50) == []
        talk.send(topic, b"much" * 1_000)
        while not consumer.poll(100):
            continue
        assert time.monotonic() - began < 24  # a busy machine is slow; who waits for its time takes longer


def test_a_paused_partition_goes_on_where_it_was(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic, 2)
    for partition in range(2):
        talk.send(topic, *(b"%d" % each for each in range(100)), partition=partition)
    first = TopicPartition(topic, 0)
    with consumer_of(system.bootstrap, topic, 2, max_poll_records=10) as consumer:
        while consumer.position(first) == 0:
            consumer.poll(200)
        consumer.pause([first])
        at = consumer.position(first)
        others: list[ConsumerRecord] = []
        while len(others) < 100 - consumer.position(TopicPartition(topic, 1)):
            others += consumer.poll(200)
        assert {each.partition for each in others} <= {1}
        assert consumer.position(first) == at
        consumer.resume([first])
        assert [each.offset for each in read_all(consumer) if each.partition == 0] == list(range(at, 100))


def test_records_that_are_deleted_meanwhile_are_passed_over(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic)
    for start in range(0, 100, 10):
        talk.send(topic, *(b"%d" % each for each in range(start, start + 10)))
    partition = TopicPartition(topic, 0)
    with consumer_of(system.bootstrap, topic, max_partition_fetch_bytes=100, max_poll_records=5) as consumer:
        while consumer.position(partition) < 5:
            consumer.poll(200)
        good(talk.admin.delete_records({partition: 60})[partition])
        offsets = [each.offset for each in read_all(consumer)]
    assert offsets == sorted(set(offsets))
    assert offsets[-40:] == list(range(60, 100))


def test_a_reader_of_committed_records_sees_no_aborted_ones(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic)
    producers = []
    for name in "ab":
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": system.bootstrap, "transactional.id": f"{topic}-{name}"}
        )
        producer.init_transactions(30)
        producers.append(producer)
    committed: set[bytes] = set()
    aborted: set[bytes] = set()
    for number in range(8):
        for producer in producers:
            producer.begin_transaction()
        for name, producer in zip("ab", producers, strict=True):
            for each in range(5):
                producer.produce(topic, f"{name}-{number}-{each}".encode())
            producer.flush(30)
        for name, producer in zip("ab", producers, strict=True):
            values = {f"{name}-{number}-{each}".encode() for each in range(5)}
            if (number + (name == "b")) % 3:
                producer.commit_transaction(30)
                committed |= values
            else:
                producer.abort_transaction(30)
                aborted |= values
    opened: list[int | None] = []
    producers[0].begin_transaction()
    producers[0].produce(topic, b"open", on_delivery=lambda _error, message: opened.append(message.offset()))
    producers[0].flush(30)
    talk.send(topic, b"behind the open one")
    # A commit has an answer before its marker is written.
    wait_for(lambda: [ends(talk.admin, topic)[0]] == opened, what="the end of the other transactions")
    with consumer_of(
        system.bootstrap, topic, isolation_level="read_committed", max_poll_records=3
    ) as consumer:
        records = read_all(consumer)
        assert {each.value for each in records} == committed
        assert len(records) == len(committed)
        stable = end_of(consumer)
    with consumer_of(system.bootstrap, topic) as consumer:
        records = read_all(consumer)
        assert {each.value for each in records} == committed | aborted | {b"open", b"behind the open one"}
        assert end_of(consumer) > stable
    producers[0].abort_transaction(30)
    with consumer_of(system.bootstrap, topic, isolation_level="read_committed") as consumer:
        wait_for(lambda: end_of(consumer) > stable + 1)
        assert {each.value for each in read_all(consumer)} == committed | {b"behind the open one"}


# -- on Apache Kafka alone ----------------------------------------------------------------------------------------


def test_the_nearest_replica_is_read_and_its_end_survived(kafka_classpath: str, tmp_path: Path) -> None:
    """Two brokers in two racks: the one in the consumer's answers; when it is gone, the leader does."""
    with running_server(tmp_path, jars=Path(kafka_classpath).parent) as (_, port):
        brokers = [
            oracle.KafkaBroker(
                kafka_classpath,
                f"127.0.0.1:{port}",
                tmp_path / f"broker-{number}",
                overrides={
                    "broker.id": number,
                    "broker.rack": f"rack-{number}",
                    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
                },
                jvm_flags=("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            )
            for number in (0, 1)
        ]
        try:
            for broker in brokers:
                broker.start()
            talk = Talk(brokers[0].bootstrap)
            good(talk.admin.create_topics([NewTopic("near", assignments={0: (0, 1)})])["near"])
            talk.send("near", *(b"%d" % each for each in range(50)))
            with consumer_of(
                ",".join(each.bootstrap for each in brokers),
                "near",
                client_rack="rack-1",
                max_poll_records=10,
            ) as consumer:
                assert len(read_all(consumer)) == 50
                network = consumer._cluster.network
                nearest = consumer._cluster.view.brokers[1]
                wait_for(lambda: consumer.poll(50) == [] and network.in_flight_count(nearest.address) > 0)
                brokers[1].stop()
                sender = threading.Thread(target=talk.send, args=("near", b"after"))
                sender.start()
                deadline = time.monotonic() + 60
                records: list[ConsumerRecord] = []
                while not records and time.monotonic() < deadline:
                    records += consumer.poll(200)
                assert [each.value for each in records] == [b"after"]
                sender.join(30)
            talk.close()
        finally:
            for broker in brokers:
                broker.kill()
