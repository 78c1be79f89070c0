"""Three brokers on a real ZooKeeper: what is acknowledged is on all in sync, byte for byte."""

from collections.abc import Iterator

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def log_bytes(cluster: Cluster, broker: int, topic: str, partition: int) -> bytes:
    directory = cluster.brokers[broker].log_dir / f"{topic}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_replicas_are_the_same_byte_for_byte(cluster: Cluster) -> None:
    cluster.create_topic("same", 3)
    with cluster.producer() as producer:
        for number in range(3000):
            producer.send("same", b"value %d" % number, key=b"%d" % number, partition=number % 3)
        producer.flush()
    for partition in range(3):
        expected = log_bytes(cluster, 0, "same", partition)
        assert expected
        for broker in (1, 2):
            # acks=all: all in sync had it before the producer heard of it.
            assert log_bytes(cluster, broker, "same", partition) == expected
    assert all(isr == [0, 1, 2] for _, isr in cluster.leadership("same").values())


def test_what_is_acknowledged_is_read(cluster: Cluster) -> None:
    cluster.create_topic("read")
    with cluster.producer() as producer:
        for number in range(100):
            assert producer.send("read", b"%d" % number, partition=0).result(30).offset == number
    with Consumer({"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("read", 0)])
        values: list[bytes | None] = []

        def has_all() -> bool:
            values.extend(one.value for one in consumer.poll(100))
            return len(values) == 100

        wait_for(has_all)
    assert values == [b"%d" % number for number in range(100)]
