"""The znodes of a live Apache Kafka 3.9.1, and what it makes of ours."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from pkafka.coordination import znodes as z
from pkafka.coordination.cluster import create_checked_ephemeral, create_persistent_paths, ensure_cluster_id
from pkafka.coordination.store import NoNodeError
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.model import TopicPartition
from tests.interop.kafka import KafkaBroker
from tests.talk import wait_for

pytestmark = pytest.mark.interop

WAIT_S = 30.0
PARTITIONS = 13  # from 12 on Kafka's order of partitions is no longer the numbers' order


@pytest.fixture
def broker(kafka: KafkaBroker | None) -> KafkaBroker:
    if kafka is None:
        pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves Apache Kafka out")
    return kafka


@pytest.fixture
def store(broker: KafkaBroker) -> Iterator[ZooKeeperStore]:
    with ZooKeeperStore(broker.zookeeper, 10_000) as store:
        yield store


@pytest.fixture
def admin(broker: KafkaBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def live_topic(admin: AdminClient, store: ZooKeeperStore, topic: str) -> str:
    config = {"retention.ms": "7000", "cleanup.policy": "compact,delete", "segment.bytes": "1048576"}
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(WAIT_S)
    last = z.PartitionState.path(TopicPartition(topic, PARTITIONS - 1))
    wait_for(lambda: store.exists(last) is not None)
    return topic


def test_live_znodes_are_read_and_written_to_the_byte(store: ZooKeeperStore, live_topic: str) -> None:
    kinds: list[tuple[str, Any]] = [
        (z.BrokerRegistration.path(0), z.BrokerRegistration),
        (z.TopicAssignment.path(live_topic), z.TopicAssignment),
        (z.PartitionState.path(TopicPartition(live_topic, 0)), z.PartitionState),
        (z.Controller.path(), z.Controller),
        (z.ControllerEpoch.path(), z.ControllerEpoch),
        (z.ClusterId.path(), z.ClusterId),
        (z.Features.path(), z.Features),
        (z.EntityConfig.path("topics", live_topic), z.EntityConfig),
    ]
    for path, kind in kinds:
        data = store.get(path)[0]
        assert kind.decode(data).encode() == data, path


def test_the_tree_that_a_broker_makes_is_ours(store: ZooKeeperStore, broker: KafkaBroker) -> None:
    with ZooKeeperStore(f"{broker.zookeeper}/ours{time.monotonic_ns()}", 10_000, create_chroot=True) as ours:
        create_persistent_paths(ours)
        ensure_cluster_id(ours)
        for path in ("/brokers", "/admin"):
            assert set(ours.children(path)) <= set(store.children(path))
        for path in z.PERSISTENT_PATHS:
            assert store.exists(path) is not None
        assert set(ours.children("/config")) == set(store.children("/config"))


def test_kafka_applies_a_config_that_we_wrote(
    store: ZooKeeperStore, admin: AdminClient, live_topic: str
) -> None:
    config = z.EntityConfig({"retention.ms": "123456", "flush.messages": "77"})
    store.set(z.EntityConfig.path("topics", live_topic), config.encode())
    store.create(
        z.ConfigChange.create_path(), z.ConfigChange(f"topics/{live_topic}").encode(), sequential=True
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, live_topic)

    def applied() -> bool:
        described = admin.describe_configs([resource])[resource].result(WAIT_S)
        values = [described[key].value for key in ("retention.ms", "flush.messages")]
        return values == ["123456", "77"]

    wait_for(applied)


def test_kafka_takes_our_registration_for_a_broker(broker: KafkaBroker, admin: AdminClient) -> None:
    registration = z.BrokerRegistration(
        (z.Endpoint("PLAINTEXT", "127.0.0.1", 1),), timestamp_ms=time.time_ns() // 1_000_000, rack="r"
    )

    def alive() -> dict[int, str]:
        brokers = admin.list_topics(timeout=WAIT_S).brokers
        return {number: f"{each.host}:{each.port}" for number, each in brokers.items()}

    with ZooKeeperStore(broker.zookeeper, 10_000) as session:
        create_checked_ephemeral(session, z.BrokerRegistration.path(77), registration.encode())
        wait_for(lambda: alive().get(77) == "127.0.0.1:1")
    wait_for(lambda: 77 not in alive())


def test_kafka_creates_a_topic_whose_znode_we_wrote(store: ZooKeeperStore, topic: str) -> None:
    # Without a topic id, as a broker before 2.8 would have written it: the controller adds one.
    assignment = z.TopicAssignment({0: z.PartitionAssignment((0,)), 1: z.PartitionAssignment((0,))}, None)
    store.create(z.TopicAssignment.path(topic), assignment.encode())

    def led() -> bool:
        try:
            data, _ = store.get(z.PartitionState.path(TopicPartition(topic, 1)))
        except NoNodeError:
            return False
        return z.PartitionState.decode(data).leader == 0

    wait_for(led)
    written = z.TopicAssignment.decode(store.get(z.TopicAssignment.path(topic))[0])
    assert written.topic_id is not None
    assert written.partitions == assignment.partitions
