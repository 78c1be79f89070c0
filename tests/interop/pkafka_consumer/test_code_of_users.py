"""What users' code sees in pkafka's consumer (values, interceptors, listeners, wakeups), on Kafka and on pkafka."""

from collections.abc import Callable, Collection
from typing import Any

import pytest

from pkafka.clients.consumer import ConsumerRebalanceListener
from pkafka.clients.consumer.errors import RecordDeserializationError
from pkafka.clients.errors import WakeupError
from pkafka.model import TopicPartition
from tests.interop.conftest import System
from tests.interop.consumer_members import COOPERATIVE, alone, read
from tests.talk import Talk, wait_for


def test_keys_and_values_are_deserialized_and_a_bad_one_can_be_passed(
    system: System, talk: Talk, topic: str
) -> None:
    talk.create(topic, 1)
    talk.send(topic, b"\0\0\0\1", b"\0\0\0\2", b"bad bytes", b"\0\0\0\3")
    mine = TopicPartition(topic, 0)
    deserializer = "org.apache.kafka.common.serialization.IntegerDeserializer"
    with alone(system, value_deserializer=deserializer) as consumer:
        consumer.assign([mine])
        assert [each.value for each in read(consumer, 2)] == [1, 2]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as caught:
                read(consumer, 1)
            assert (caught.value.partition, caught.value.offset, caught.value.part) == (mine, 2, "value")
            consumer.seek(mine, 2)
        consumer.seek(mine, 3)
        assert [each.value for each in read(consumer, 1)] == [3]


def test_interceptors_see_records_and_commits(system: System, talk: Talk, topic: str, group: str) -> None:
    talk.create(topic, 1)
    talk.send(topic, b"keep", b"drop")
    commits: list[object] = []

    class Interceptor:
        def on_consume(self, records: Any) -> Any:
            return type(records)([each for each in records if each.value == b"keep"])

        def on_commit(self, offsets: Any) -> None:
            commits.append({each: at.offset for each, at in offsets.items()})

    with alone(system, group, interceptor_classes=[Interceptor()], enable_auto_commit="false") as consumer:
        consumer.subscribe([topic])
        assert [each.value for each in read(consumer, 1)] == [b"keep"]
        consumer.commit_sync()
        assert commits == [{TopicPartition(topic, 0): 2}]
        assert consumer.poll(0).by_partition() == {}


def test_wakeup_ends_what_waits_once(system: System, talk: Talk, topic: str, group: str) -> None:
    talk.create(topic, 1)
    mine = TopicPartition(topic, 0)
    with alone(system, group) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
        calls: list[Callable[[], object]] = [
            lambda: consumer.poll(60_000),
            lambda: consumer.commit_sync({mine: 0}),
            lambda: consumer.committed([mine]),
        ]
        for call in calls:
            consumer.wakeup()
            with pytest.raises(WakeupError):
                call()
        consumer.commit_sync({mine: 0})


@pytest.mark.parametrize("keys", [{}, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_listener_that_fails_is_raised_and_the_group_goes_on(
    system: System, talk: Talk, topic: str, group: str, keys: dict[str, object]
) -> None:
    """What is called in which order was seen with Java's consumer: the assignment comes again, and brings nothing."""
    talk.create(topic, 1)
    talk.send(topic, b"x")
    events: list[tuple[str, int]] = []
    failing = {"assigned"}

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            self._note("assigned", partitions)

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            self._note("revoked", partitions)

        def _note(self, name: str, partitions: Collection[TopicPartition]) -> None:
            events.append((name, len(partitions)))
            if name in failing:
                failing.discard(name)
                raise ZeroDivisionError("a bug of the user's")

    with alone(system, group, **keys) as consumer:
        consumer.subscribe([topic], listener=Listener())
        with pytest.raises(ZeroDivisionError):
            read(consumer, 1)
        assert consumer.assignment() == [TopicPartition(topic, 0)]
        assert [each.value for each in read(consumer, 1)] == [b"x"]
        assert events == [("assigned", 1), ("assigned", 0)]
        if not keys:
            failing.add("revoked")
            consumer.enforce_rebalance()
            with pytest.raises(ZeroDivisionError):
                read(consumer, 1)
            assert consumer.assignment() == []
            wait_for(lambda: not consumer.poll(50) and len(events) == 4)
            assert events[2:] == [("revoked", 1), ("assigned", 1)]
