"""Groups of pkafka's consumer when the broker of their coordinator goes or returns."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer

from pkafka.clients.admin.client import Admin
from pkafka.clients.admin.results import NewTopic
from pkafka.model import TopicPartition
from pkafka.testing import running_broker
from pkafka.tools.zookeeper.server import running_server
from tests.interop import kafka as oracle
from tests.interop.conftest import EITHER, System
from tests.interop.consumer_members import Member, alone, membership_of, numbers
from tests.talk import Talk, good, wait_for


@pytest.mark.parametrize("kind", EITHER)
def test_a_group_outlives_a_restart_of_its_coordinator(
    kind: str, tmp_path: Path, topic: str, group: str
) -> None:
    settings = {
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 2,
        "group.initial.rebalance.delay.ms": 0,
    }
    if kind == "kafka":
        try:
            context: Any = oracle.running_kafka(tmp_path, overrides=settings)
            oracle.jars("kafka")
        except oracle.OracleUnavailableError as missing:
            pytest.skip(str(missing))
    else:
        context = running_broker(tmp_path, settings)
    with context as broker:
        talk = Talk(broker.bootstrap, broker_id=broker.id if hasattr(broker, "id") else 0)
        talk.create(topic, 2)
        talk.send(topic, b"before")
        member = Member(broker, group, [topic], auto_commit_interval_ms=200)
        mine = TopicPartition(topic, 0)
        try:
            wait_for(lambda: member.values == [b"before"])
            wait_for(lambda: committed_by(broker, group, mine) == 1)
            broker.restart()
            talk.send(topic, b"after")
            # Once or, where the member was put out meanwhile, twice.
            wait_for(lambda: set(member.values) == {b"before", b"after"}, timeout_s=60)
            talk.send(topic, b"again")
            wait_for(lambda: b"again" in member.values, timeout_s=30)
            assert member.values.count(b"before") == 1
        finally:
            member.close()
            talk.close()
        assert committed_by(broker, group, mine) == 3


@pytest.mark.nightly
def test_a_group_moves_to_another_broker_with_its_coordinator(
    kafka_classpath: str, tmp_path: Path, topic: str, group: str
) -> None:
    """Two brokers of Apache Kafka: a partition's leader and the coordinator die, its replica takes over."""
    settings = {
        "offsets.topic.replication.factor": 2,
        "offsets.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "zookeeper.session.timeout.ms": 6_000,
        "default.replication.factor": 2,
    }
    with running_server(tmp_path, jars=Path(kafka_classpath).parent) as (_process, port):
        brokers = [
            oracle.KafkaBroker(
                kafka_classpath,
                f"127.0.0.1:{port}",
                tmp_path / str(number),
                overrides={**settings, "broker.id": number},
            )
            for number in (1, 2)
        ]
        try:
            for broker in brokers:
                broker.start()
            _move(brokers, topic, group)
        finally:
            for broker in brokers:
                broker.kill()


def _move(brokers: Sequence[oracle.KafkaBroker], topic: str, group: str) -> None:
    mine = TopicPartition(topic, 0)
    bootstrap = ",".join(each.bootstrap for each in brokers)
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "acks": "all"})
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        good(admin.create_topics([NewTopic(topic, 1, 2)])[topic])
        member = Member(brokers[0], group, [topic], auto_commit_interval_ms=200, metadata_max_age_ms=2_000)
        try:
            send_all(producer, topic, numbers(0, 10))
            wait_for(lambda: set(member.values) == numbers(0, 10))
            coordinator = membership_of(member).coordinator
            assert coordinator is not None
            doomed, other = sorted(brokers, key=lambda each: each.port != coordinator.port)
            wait_for(lambda: committed_by(other, group, mine) == 10)
            wait_for(lambda: len(good(admin.describe_topics([topic])[topic]).partitions[0].isr) == 2)
            doomed.kill()
            send_all(producer, topic, numbers(10, 20))
            wait_for(lambda: set(member.values) == numbers(0, 20), timeout_s=60)
            wait_for(
                lambda: (membership_of(member).coordinator or coordinator).port == other.port, timeout_s=60
            )
        finally:
            member.close()
    assert committed_by(other, group, mine) == 20


def send_all(producer: ConfluentProducer, topic: str, values: Collection[bytes]) -> None:
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def committed_by(system: System, group: str, partition: TopicPartition) -> int:
    with alone(system, group) as consumer:
        found = consumer.committed([partition])[partition]
    return -1 if found is None else found.offset
