"""MirrorMaker 2's source connector passes whole batches on: nothing is lost or out of order, and syncs hold."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pkafka.clients.consumer import Consumer, ConsumerRecord, RawBatch
from pkafka.clients.producer import Producer
from pkafka.connect.mirror.offset_syncs import OffsetSyncStore
from pkafka.connect.mirror.records import OffsetSync
from pkafka.model import TopicPartition
from pkafka.records.batch import read_header
from pkafka.testing import Broker
from tests.connect_fixtures import source_broker
from tests.connect_workers import ConnectWorker, standalone
from tests.mirrors import SYNCS, WORKER, connector
from tests.raw_client import new_topic_name
from tests.talk import Talk, talking, wait_for

__all__ = ["source_broker"]


class Clusters(NamedTuple):
    """A, B, and a worker on B."""

    source: Broker
    a: Talk
    b: Talk
    worker: ConnectWorker

    def mirror(self, target: str, topic: str, **more: object) -> None:
        """Have a topic copied."""
        settings = {name.replace("_", "."): value for name, value in more.items()}
        configs = connector("Source", self.source.bootstrap, target, {"topics": topic, **settings})
        self.worker.create(configs)


@pytest.fixture
def clusters(source: Broker, broker: Broker, tmp_path: Path) -> Iterator[Clusters]:
    with (
        talking(source.bootstrap) as a,
        talking(broker.bootstrap) as b,
        standalone(tmp_path / "worker", broker.bootstrap, WORKER) as worker,
    ):
        yield Clusters(source, a, b, worker)


@pytest.fixture
def topic(clusters: Clusters) -> str:
    name = new_topic_name()
    clusters.a.create(name)
    return name


def batches(bootstrap: str, topic: str) -> list[RawBatch]:
    """All there are, as consumers get them."""
    partition = TopicPartition(topic, 0)
    found: list[RawBatch] = []
    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            found += consumer.poll_batches(1_000)
    return found


def test_large_batches_stay_as_they_are(clusters: Clusters, broker: Broker, topic: str) -> None:
    for codec in ("none", "gzip", "lz4", "zstd"):
        with Producer(
            {"bootstrap.servers": clusters.source.bootstrap, "compression.type": codec}
        ) as producer:
            values = [f"{codec}-{number}".encode() for number in range(200)]
            producer.send_batch(topic, values, values, headers=[("h", b"1")]).result(120)
    clusters.mirror(broker.bootstrap, topic)
    wait_for(lambda: len(clusters.b.read(f"A.{topic}")) == 800)
    there = batches(clusters.source.bootstrap, topic)
    here = batches(broker.bootstrap, f"A.{topic}")
    # All behind the header, which has offsets, epochs and the producer.
    assert [bytes(each.data[61:]) for each in here] == [bytes(each.data[61:]) for each in there]
    assert len(there) == 4


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("seed", range(2))
def test_batches_of_all_sizes_and_aborted_ones_are_copied_in_order(
    clusters: Clusters, broker: Broker, topic: str, seed: int, isolation: str
) -> None:
    rng = random.Random(seed)
    with Producer({"bootstrap.servers": clusters.source.bootstrap, "transactional.id": topic}) as producer:
        producer.init_transactions()
        for number in range(30):
            producer.begin_transaction()
            for part in range(rng.randint(1, 3)):
                values = [f"{number}-{part}-{each}".encode() for each in range(rng.choice([1, 3, 60, 200]))]
                producer.send_batch(topic, values, partition=0)
                producer.flush()
            (producer.commit_transaction if rng.random() < 0.7 else producer.abort_transaction)()
    settings = {"bootstrap.servers": clusters.source.bootstrap, "isolation.level": isolation}
    with Consumer(settings) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        wanted: list[ConsumerRecord] = []
        while consumer.position(partition) < end:
            wanted += consumer.poll(1_000)
    clusters.mirror(broker.bootstrap, topic, source_consumer_isolation_level=isolation, offset_lag_max=7)
    wait_for(lambda: len(clusters.b.read(f"A.{topic}")) >= len(wanted))
    assert [each.value for each in clusters.b.read(f"A.{topic}")] == [each.value for each in wanted]
    copy = TopicPartition(f"A.{topic}", 0)
    with Consumer({"bootstrap.servers": broker.bootstrap, "isolation.level": "read_committed"}) as consumer:
        assert consumer.end_offsets([copy])[copy] == len(wanted)  # no batch belongs to a transaction here
    _check_translations(clusters, topic, [each.offset for each in wanted])


@pytest.mark.parametrize(("more", "idempotent"), [({}, True), ({"producer_override_acks": "all"}, False)])
def test_batches_go_on_by_an_idempotent_producer_unless_something_is_said_of_order(
    clusters: Clusters, broker: Broker, topic: str, more: dict[str, str], idempotent: bool
) -> None:
    with Producer({"bootstrap.servers": clusters.source.bootstrap}) as producer:
        producer.send_batch(topic, [b"%d" % number for number in range(200)]).result(120)
    clusters.mirror(broker.bootstrap, topic, **more)
    wait_for(lambda: len(clusters.b.read(f"A.{topic}")) == 200)
    (batch,) = batches(broker.bootstrap, f"A.{topic}")
    assert (read_header(batch.data).producer_id >= 0) == idempotent


def test_syncs_of_many_partitions_are_there_soon_without_more_records(
    source: Broker, broker: Broker, tmp_path: Path
) -> None:
    # Of syncs ten may be under way; the others would else wait until offsets are stored.
    rarely = {**WORKER, "offset.flush.interval.ms": "600000"}
    topic, partitions = new_topic_name(), 50
    with (
        talking(source.bootstrap) as a,
        talking(broker.bootstrap) as b,
        standalone(tmp_path / "worker", broker.bootstrap, rarely) as worker,
    ):
        a.create(topic, partitions)
        with Producer({"bootstrap.servers": source.bootstrap}) as producer:
            for partition in range(partitions):
                producer.send(topic, b"one", partition=partition)
        Clusters(source, a, b, worker).mirror(broker.bootstrap, topic)

        def synced() -> set[int]:
            found = [OffsetSync.of(each.key, each.value).partition for each in a.read(SYNCS)]
            return {each.partition for each in found if each.topic == topic}

        wait_for(lambda: len(synced()) == partitions, timeout_s=30)


def _check_translations(clusters: Clusters, topic: str, offsets: list[int]) -> None:
    """Whatever a group has read, it misses no record of the copy when it goes on where syncs say.

    Args:
        offsets: of the records of the source, in the order of those of the copy.
    """
    last = len(offsets) - 1

    def syncs() -> list[OffsetSync]:
        found = [OffsetSync.of(each.key, each.value) for each in clusters.a.read(SYNCS)]
        return [each for each in found if each.partition.topic == topic]

    wait_for(lambda: syncs() and syncs()[-1].downstream == last)
    store = OffsetSyncStore(needs_end=False)
    store.is_at_end = True
    for sync in syncs():
        assert offsets[sync.downstream] <= sync.upstream
        store.add(sync)
    partition = TopicPartition(topic, 0)
    for asked in range(offsets[0], offsets[-1] + 2):
        found = store.translate(partition, asked)
        first_unread = next((index for index, each in enumerate(offsets) if each >= asked), len(offsets))
        assert found is not None
        assert 0 <= found <= first_unread
    # Nothing is read again by a group that has read all.
    assert store.translate(partition, offsets[-1] + 2) == len(offsets)


def test_a_transform_sees_each_record(clusters: Clusters, broker: Broker, topic: str) -> None:
    with Producer({"bootstrap.servers": clusters.source.bootstrap}) as producer:
        producer.send_batch(topic, [b"%d" % each for each in range(200)]).result(120)
    route = {
        "type": "org.apache.kafka.connect.transforms.RegexRouter",
        "regex": ".*",
        "replacement": f"{topic}-to",
    }
    clusters.mirror(
        broker.bootstrap,
        topic,
        transforms="r",
        **{f"transforms.r.{name}": value for name, value in route.items()},
    )
    wait_for(lambda: len(clusters.b.read(f"{topic}-to")) == 200)


def test_a_killed_worker_loses_nothing(clusters: Clusters, broker: Broker, topic: str) -> None:
    """It may copy again what it had not noted."""
    worker = clusters.worker
    sent = []
    clusters.mirror(broker.bootstrap, topic)
    with Producer({"bootstrap.servers": clusters.source.bootstrap}) as producer:
        for number in range(3):
            values = [f"{number}-{each}".encode() for each in range(20_000)]
            sent += values
            for start in range(0, len(values), 500):
                producer.send_batch(topic, values[start : start + 500])
            producer.flush()
            wait_for(lambda: clusters.b.ends(f"A.{topic}")[1] > 0)
            worker.kill()
            worker.start()
            clusters.mirror(broker.bootstrap, topic)
    wait_for(lambda: set(sent) <= {each.value for each in clusters.b.read(f"A.{topic}")})
    found = [each.value for each in clusters.b.read(f"A.{topic}")]
    assert list(dict.fromkeys(found)) == sent
