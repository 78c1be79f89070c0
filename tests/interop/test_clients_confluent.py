"""confluent-kafka (librdkafka), without a group, on Apache Kafka and on pkafka."""

import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.interop.conftest import System

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 60


def result(futures: dict[Any, Future[Any]]) -> Any:
    """The outcome of the only request of an admin call."""
    (future,) = futures.values()
    return future.result(timeout=TIMEOUT_S)


@pytest.fixture
def admin(system: System) -> AdminClient:
    return AdminClient({"bootstrap.servers": system.bootstrap})


def consume(system: System, topic: str, count: int, *, offset: int = OFFSET_BEGINNING) -> list[Message]:
    """The next ``count`` records of partition 0."""
    consumer = Consumer(
        {"bootstrap.servers": system.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        messages: list[Message] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(messages) < count and time.monotonic() < deadline:
            messages += consumer.consume(count - len(messages), timeout=1.0)
        return messages
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True])
def test_records_there_and_back(
    system: System, admin: AdminClient, topic: str, codec: str, idempotent: bool
) -> None:
    result(admin.create_topics([NewTopic(topic, 1, 1)]))
    acks: list[Message] = []
    settings = {"bootstrap.servers": system.bootstrap, "compression.type": codec, "linger.ms": 20}
    producer = Producer({**settings, "enable.idempotence": idempotent})

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acks.append(message)

    now = int(time.time() * 1000)
    for number in range(1_000):
        producer.produce(
            topic,
            value=None if number % 10 == 0 else b"value %d" % number,
            key=b"key %d" % number,
            partition=0,
            timestamp=now + number,
            headers=[("number", b"%d" % number), ("null", None)],
            on_delivery=on_delivery,
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert [ack.offset() for ack in acks] == list(range(1_000))

    messages = consume(system, topic, 1_000)
    assert [message.offset() for message in messages] == list(range(1_000))
    assert [message.timestamp()[1] for message in messages] == list(range(now, now + 1_000))
    assert messages[11].value() == b"value 11"
    assert messages[11].key() == b"key 11"
    assert messages[10].value() is None
    assert messages[11].headers() == [("number", b"11"), ("null", None)]


def test_a_record_too_large_is_refused_and_the_next_taken(
    system: System, admin: AdminClient, topic: str
) -> None:
    result(admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "2000"})]))
    outcomes: list[str | None] = []
    producer = Producer({"bootstrap.servers": system.bootstrap})
    for size in (5_000, 100):
        producer.produce(
            topic,
            bytes(size),
            partition=0,
            on_delivery=lambda error, _message: outcomes.append(error.name() if error else None),
        )
        producer.flush(TIMEOUT_S)
    assert outcomes == ["MSG_SIZE_TOO_LARGE", None]


def test_acks_of_every_kind(system: System, admin: AdminClient, topic: str) -> None:
    result(admin.create_topics([NewTopic(topic, 1, 1)]))
    for acks in ("0", "1", "all"):
        producer = Producer({"bootstrap.servers": system.bootstrap, "acks": acks})
        producer.produce(topic, acks.encode(), partition=0)
        assert producer.flush(TIMEOUT_S) == 0
    assert [message.value() for message in consume(system, topic, 3)] == [b"0", b"1", b"all"]


def test_topics_and_configs_by_the_admin_client(system: System, admin: AdminClient, topic: str) -> None:
    result(admin.create_topics([NewTopic(topic, 2, 1)]))
    with pytest.raises(KafkaException, match="already exists"):
        result(admin.create_topics([NewTopic(topic, 2, 1)]))
    result(admin.create_partitions([NewPartitions(topic, 3)]))
    described = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    assert sorted(described.partitions) == [0, 1, 2]
    assert {partition.leader for partition in described.partitions.values()} == {0}

    change = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    result(
        admin.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])]
        )
    )
    configs = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    assert configs["retention.ms"].value == "5000"
    assert configs["cleanup.policy"].value == "delete"
    cluster = admin.describe_cluster().result(timeout=TIMEOUT_S)
    assert [node.id for node in cluster.nodes] == [0]
    result(admin.delete_topics([topic]))


def test_offsets_and_deletion_of_records(system: System, admin: AdminClient, topic: str) -> None:
    result(admin.create_topics([NewTopic(topic, 1, 1)]))
    producer = Producer({"bootstrap.servers": system.bootstrap})
    for number in range(20):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush(TIMEOUT_S)
    partition = TopicPartition(topic, 0)
    assert result(admin.list_offsets({partition: OffsetSpec.latest()})).offset == 20
    deleted = result(admin.delete_records([TopicPartition(topic, 0, 15)]))
    assert deleted.low_watermark == 15
    assert result(admin.list_offsets({partition: OffsetSpec.earliest()})).offset == 15
    consumer = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "unused"})
    try:
        assert consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S) == (15, 20)
    finally:
        consumer.close()
    # An offset that is gone sends the consumer to the beginning of what is left.
    assert [message.offset() for message in consume(system, topic, 5, offset=15)] == list(range(15, 20))


def test_a_topic_is_made_by_being_produced_to(system: System, topic: str) -> None:
    producer = Producer({"bootstrap.servers": system.bootstrap})
    producer.produce(topic, b"first")
    assert producer.flush(TIMEOUT_S) == 0
    assert [message.value() for message in consume(system, topic, 1)] == [b"first"]
