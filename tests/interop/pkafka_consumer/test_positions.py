"""Where pkafka's consumer begins and which offsets it finds, on Apache Kafka and on pkafka."""

import re

import pytest

from pkafka.clients.consumer.errors import IllegalStateError
from pkafka.clients.errors import ClientTimeoutError, NoOffsetError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import TopicPartition
from tests.interop.conftest import System
from tests.interop.consumer_members import alone, partitions, read
from tests.talk import Talk, wait_for


def test_positions_without_a_commit_follow_the_policy(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    talk.send(topic, b"old")
    mine = TopicPartition(topic, 0)
    with alone(system, group, auto_offset_reset="latest") as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
        assert consumer.position(mine) == 1
        talk.send(topic, b"new")
        assert [each.value for each in read(consumer, 1)] == [b"new"]
        assert consumer.current_lag(mine) == 0
    with alone(system, f"{group}2", auto_offset_reset="none") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(NoOffsetError, match="Undefined offset with no reset policy"):
            read(consumer, 1)
        consumer.seek(mine, 0)
        assert [each.value for each in read(consumer, 2)] == [b"old", b"new"]
        consumer.seek(mine, 100)
        with pytest.raises(NoOffsetError, match="out of range"):
            read(consumer, 1)


def test_offsets_are_looked_up(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic, 2)
    talk.send(topic, b"a", b"b")
    both = sorted(partitions(topic, 2))
    with alone(system) as consumer:
        assert consumer.beginning_offsets(both) == {both[0]: 0, both[1]: 0}
        assert consumer.end_offsets(both) == {both[0]: 2, both[1]: 0}
        found = consumer.offsets_for_times(dict.fromkeys(both, 0))
        assert [found[each].offset for each in both] == [0, -1]
        assert [each.partition for each in consumer.partitions_for(topic).partitions] == [0, 1]
        assert topic in consumer.list_topics()
        consumer.assign(both)
        assert consumer.position(both[0]) == 0
        consumer.seek_to_end([both[0]])
        assert consumer.position(both[0]) == 2
        consumer.seek_to_beginning()
        consumer.pause([both[1]])
        assert consumer.paused() == [both[1]]
        assert len(read(consumer, 2)) == 2
        consumer.seek(both[0], OffsetAndMetadata(1, "", 0))
        assert [each.value for each in read(consumer, 1)] == [b"b"]


def test_what_does_not_exist_is_answered_as_javas_consumer_answers_it(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    nowhere, beyond = TopicPartition(f"{topic}x", 0), TopicPartition(topic, 7)
    with alone(system, group, allow_auto_create_topics=False) as consumer:
        with pytest.raises(ClientTimeoutError, match="700ms expired before successfully committing offsets"):
            consumer.commit_sync({nowhere: 1}, timeout_ms=700)
        assert consumer.committed([nowhere]) == {nowhere: None}
        for partition in (nowhere, beyond):
            reason = f"Failed to get offsets by times in 700ms ({partition}: no leader is known)"
            with pytest.raises(ClientTimeoutError, match=re.escape(reason)):
                consumer.end_offsets([partition], timeout_ms=700)
        with pytest.raises(
            IllegalStateError, match="You can only check the position for partitions assigned"
        ):
            consumer.position(beyond)
