"""What pkafka's consumer is subscribed to when topics come and grow, on Apache Kafka and on pkafka."""

from typing import Final

from pkafka.model import TopicPartition
from tests.interop.conftest import System
from tests.interop.consumer_members import alone, read
from tests.talk import Talk, wait_for

OFFSETS: Final = "__consumer_offsets"


def test_a_pattern_takes_in_new_topics_and_new_partitions(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(f"{topic}.a", 1)
    with alone(system, group, metadata_max_age_ms=300) as consumer:
        consumer.subscribe(pattern=rf"{topic}\.[ab]")
        wait_for(lambda: not consumer.poll(50) and len(consumer.assignment()) == 1)
        talk.create(f"{topic}.b", 1)
        talk.create(f"{topic}.c", 1)
        wait_for(lambda: not consumer.poll(50) and len(consumer.assignment()) == 2)
        assert consumer.subscription() == {f"{topic}.a", f"{topic}.b"}
        talk.admin.create_partitions({f"{topic}.a": 3})
        wait_for(lambda: not consumer.poll(50) and len(consumer.assignment()) == 4)
        talk.delete(f"{topic}.b")
        wait_for(lambda: not consumer.poll(50) and len(consumer.assignment()) == 3)


def test_a_pattern_leaves_internal_topics_out_unless_told(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    pattern = f"{topic}|__consumer_offsets"
    with alone(system, group) as consumer:
        consumer.subscribe(pattern=pattern)
        wait_for(lambda: not consumer.poll(50) and consumer.subscription() == {topic})
        wait_for(lambda: not consumer.poll(50) and consumer.assignment() == [TopicPartition(topic, 0)])
    with alone(system, f"{group}2", exclude_internal_topics=False, auto_offset_reset="latest") as consumer:
        consumer.subscribe(pattern=pattern)
        wait_for(
            lambda: (
                not consumer.poll(50) and {each.topic for each in consumer.assignment()} == {topic, OFFSETS}
            )
        )


def test_a_topic_is_awaited_and_created_where_the_broker_does_that(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    with alone(system, group, allow_auto_create_topics="false", metadata_max_age_ms=300) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(500) == []
        talk.create(topic, 1)
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
    with alone(system, f"{group}2", metadata_max_age_ms=300) as consumer:
        consumer.subscribe([f"{topic}x"])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))


def test_a_subscription_can_be_changed(system: System, talk: Talk, topic: str, group: str) -> None:
    for name in (f"{topic}a", f"{topic}b"):
        talk.create(name, 1)
        talk.send(name, name.encode())
    with alone(system, group) as consumer:
        consumer.subscribe([f"{topic}a"])
        assert [each.topic for each in read(consumer, 1)] == [f"{topic}a"]
        consumer.subscribe([f"{topic}a", f"{topic}b"])
        assert [each.topic for each in read(consumer, 1)] == [f"{topic}b"]
        consumer.subscribe([f"{topic}b"])
        wait_for(lambda: not consumer.poll(50) and consumer.assignment() == [TopicPartition(f"{topic}b", 0)])


def test_a_rebalance_can_be_enforced(topic: str, talk: Talk, system: System, group: str) -> None:
    talk.create(topic, 1)
    with alone(system, group) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
        assert consumer.group_metadata().generation_id == 1
        consumer.enforce_rebalance("because")
        wait_for(lambda: not consumer.poll(50) and consumer.group_metadata().generation_id == 2)
