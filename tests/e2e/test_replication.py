"""Three brokers on a real ZooKeeper: what is acknowledged is on all in sync, byte for byte."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigResource, ElectionType, ResourceType
from pkafka.clients.consumer import Consumer
from pkafka.model import TopicPartition
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cluster import Cluster
from tests.raw_client import RawClient
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PATIENT: Final = {"zookeeper.session.timeout.ms": 10_000, "auto.leader.rebalance.enable": "false"}
"""Nobody dies here, so nobody has to be missed soon: leaders and ISRs stay while the machine stands still, and the
controller moves no leader now and then."""


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=PATIENT) as started:
        yield started


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


def test_fetchers_come_and_go_while_records_come(cluster: Cluster) -> None:
    partitions, records = 12, 100
    every_broker = ConfigResource(ResourceType.BROKER, "")
    cluster.create_topic("shared-out", partitions)
    with cluster.admin() as admin, cluster.producer() as producer:
        for operation, size in (
            (AlterOp.SET, "2"),
            (AlterOp.SET, "4"),
            (AlterOp.SET, "3"),
            (AlterOp.DELETE, None),
        ):
            for number in range(partitions * records):
                producer.send("shared-out", b"%d" % number, partition=number % partitions)
            change = ConfigChange("num.replica.fetchers", operation, size)
            good(admin.alter_configs({every_broker: [change]})[every_broker])
        producer.flush()
    for partition in range(partitions):
        expected = log_bytes(cluster, 0, "shared-out", partition)
        assert expected
        assert all(log_bytes(cluster, broker, "shared-out", partition) == expected for broker in (1, 2))
    assert all(isr == [0, 1, 2] for _, isr in cluster.leadership("shared-out").values())


def test_what_is_acknowledged_is_read(cluster: Cluster) -> None:
    cluster.create_topic("read")
    with cluster.producer() as producer:
        for number in range(100):
            assert producer.send("read", b"%d" % number, partition=0).result(120).offset == number
    with Consumer({"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("read", 0)])
        values: list[bytes | None] = []

        def has_all() -> bool:
            values.extend(one.value for one in consumer.poll(100))
            return len(values) == 100

        wait_for(has_all)
    assert values == [b"%d" % number for number in range(100)]


def test_clients_go_to_a_new_leader_that_the_old_one_names(cluster: Cluster) -> None:
    """They would rest for ten minutes before they asked anybody (KIP-951)."""
    cluster.create_topic("handed", assignment={0: (0, 1, 2), 1: (1, 0, 2)})
    partitions = [TopicPartition("handed", index) for index in range(2)]
    patience = {"retry.backoff.ms": 600_000, "retry.backoff.max.ms": 600_000}
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest", **patience}
    with cluster.admin() as admin:
        moved = admin.alter_partition_reassignments({partitions[0]: [1, 0, 2], partitions[1]: [0, 1, 2]})
        assert set(moved.values()) == {None}
        wait_for(lambda: not admin.list_partition_reassignments())
    wait_until_all_know(cluster, "handed", {0: 0, 1: 1})
    with cluster.producer(**patience) as producer, Consumer(settings) as consumer:
        consumer.assign(partitions)
        values: list[bytes | None] = []

        def send_and_read(value: bytes) -> None:
            for partition in range(2):
                assert producer.send("handed", value, partition=partition).result(120)

            def has_both() -> bool:
                values.extend(one.value for one in consumer.poll(100))
                return values.count(value) == 2

            wait_for(has_both)

        send_and_read(b"before")
        with cluster.admin() as admin:
            elected = admin.elect_leaders(ElectionType.PREFERRED, partitions)
            assert elected == dict.fromkeys(partitions)
        wait_until_all_know(cluster, "handed", {0: 1, 1: 0})
        send_and_read(b"after")


def wait_until_all_know(cluster: Cluster, topic: str, leaders: dict[int, int]) -> None:
    """Every broker says that these lead the partitions, under the same epochs."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

    def told_by(address: str) -> dict[int, tuple[int, int]]:
        with RawClient(address) as client:
            [found] = client.call(request, 12).topics
        return {one.partition_index: (one.leader_id, one.leader_epoch) for one in found.partitions}

    def is_known() -> bool:
        first, *others = [told_by(broker.bootstrap) for broker in cluster.brokers]
        return {one: leader for one, (leader, _) in first.items()} == leaders and others == [first, first]

    wait_for(is_known, what=f"leaders of {topic} at all brokers")


@pytest.fixture(scope="module")
def racks(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Broker 0 in rack a, brokers 1 and 2 in rack b."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with Cluster(
        tmp_path_factory.mktemp("racks"),
        zookeeper.connect,
        overrides={"replica.selector.class": selector, "controlled.shutdown.enable": "false", **PATIENT},
        overrides_of=lambda number: {"broker.rack": "ab"[number > 0]},
    ) as started:
        yield started


@pytest.mark.parametrize("owner", ["whole", "split"])
def test_consumers_read_from_the_replica_in_their_rack(racks: Cluster, owner: str) -> None:
    partitions = 1 if owner == "whole" else 4  # of several workers
    topic = f"near-{owner}"
    racks.create_topic(topic, assignment=dict.fromkeys(range(partitions), (0, 1)))
    with racks.producer() as producer:
        for number in range(200):
            producer.send(topic, b"%d" % number, partition=number % partitions)
    for rack, expected in (("b", 1), ("a", 0), ("elsewhere", 0)):
        settings = {
            "bootstrap.servers": racks.bootstrap,
            "auto.offset.reset": "earliest",
            "client.rack": rack,
        }
        with Consumer(settings) as consumer:
            consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
            values: set[bytes | None] = set()

            def has_all(consumer: Consumer = consumer, values: set[bytes | None] = values) -> bool:
                values.update(one.value for one in consumer.poll(100))
                return len(values) == 200

            wait_for(has_all)
            assert consumer_node(consumer, topic) == expected


def consumer_node(consumer: Consumer, topic: str) -> int:
    """The broker from which the first partition is read."""
    for metric in consumer.metrics().values():
        tags = dict(metric.name.tags)
        if metric.name.name == "preferred-read-replica" and tags.get("topic") == topic:
            return int(metric.value) if metric.value >= 0 else 0
    raise AssertionError("no such metric")


def test_a_broker_that_is_told_so_stops_without_ceremony(racks: Cluster) -> None:
    racks.create_topic("abrupt", assignment={0: (2, 1)})
    racks.brokers[2].stop()
    # Its session ends with it, so that another leads at once; but nobody was asked to take over before.
    wait_for(lambda: racks.leadership("abrupt")[0] == (1, [1]))
    assert "Shutting down broker 2" not in "".join(broker.log_file.read_text() for broker in racks.brokers)
    racks.brokers[2].start()
    wait_for(lambda: racks.leadership("abrupt")[0][1] == [1, 2])


def test_the_controller_talks_to_brokers_at_a_listener_of_its_own(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
        "control.plane.listener.name": "CONTROL",
        "pkafka.metrics.port": 0,
        **PATIENT,
    }
    with Cluster(tmp_path, zookeeper.connect, size=2, overrides=settings) as cluster:
        cluster.create_topic("t", assignment={0: (0, 1), 1: (1, 0)})
        with cluster.producer() as producer:
            for partition in range(2):
                assert producer.send("t", b"value", partition=partition).result(120).offset == 0
        assert cluster.leadership("t") == {0: (0, [0, 1]), 1: (1, [0, 1])}
        assert sum(control_connections(cluster, broker) for broker in range(2)) > 0


def control_connections(cluster: Cluster, broker: int) -> float:
    _, _, address = cluster.brokers[broker].log_file.read_text().rpartition("Metrics on ")
    with urllib.request.urlopen(address.split()[0], timeout=60) as answer:
        rows = [line.split() for line in answer.read().decode().splitlines() if not line.startswith("#")]
    name = 'kafka_server_socketservermetrics_connectioncount{listener="CONTROL"}'
    return sum(float(row[1]) for row in rows if row[0] == name)
