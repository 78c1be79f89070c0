"""pkafka's consumer in groups, on Apache Kafka and on pkafka, also in one group with other clients."""

import contextlib
import signal
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import pytest

from pkafka.clients.consumer import ConsumerRebalanceListener
from pkafka.clients.consumer.errors import CommitFailedError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from tests.interop.conftest import System
from tests.interop.consumer_members import (
    COOPERATIVE,
    MORTAL,
    Join,
    Member,
    Other,
    ProcessMember,
    alone,
    confluent_member,
    java_member,
    kafka_python_member,
    membership_of,
    numbers,
    partitions,
    process_member,
    read,
    share_all,
)
from tests.talk import Talk
from tests.talk import wait_for as wait_for_at_most

wait_for: Final = partial(wait_for_at_most, timeout_s=60)
"""Of a rebalance that takes part of a second where nothing else runs."""

pytestmark = pytest.mark.timeout(300)


def test_members_come_go_and_crash_and_every_record_is_read(
    system: System, talk: Talk, topic: str, group: str, join: Join
) -> None:
    talk.create(topic, 6)
    wanted = partitions(topic, 6)
    first, second, crashes = join(), join(), process_member(system, group, topic, **MORTAL)
    try:
        wait_for(share_all([first, second, crashes], wanted))
        for number in range(60):
            talk.send(topic, b"%d" % number, partition=number % 6)
        wait_for(lambda: set(first.values) | set(second.values) | crashes.values == numbers(0, 60))
        second.close()
        wait_for(share_all([first, crashes], wanted))
        # Its coordinator notices when the session ends.
        crashes.kill()
        for number in range(60, 120):
            talk.send(topic, b"%d" % number, partition=number % 6)
        wait_for(lambda: first.owned == wanted and numbers(60, 120) <= set(first.values))
    finally:
        crashes.close()


@pytest.mark.parametrize("keys", [{}, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_member_that_hung_has_lost_its_partitions_and_comes_back(
    system: System, talk: Talk, topic: str, group: str, join: Join, keys: dict[str, object]
) -> None:
    talk.create(topic, 4)
    wanted = partitions(topic, 4)
    first, hangs = join(**keys), process_member(system, group, topic, **MORTAL, **keys)
    try:
        wait_for(share_all([first, hangs], wanted))
        hangs.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: first.owned == wanted)
        before = len(hangs.events)
        hangs.process.send_signal(signal.SIGCONT)
        wait_for(share_all([first, hangs], wanted))
        assert hangs.events[before] == "partitions_lost"
    finally:
        hangs.close()


def test_an_eager_member_is_told_as_kafka_tells_it(topic: str, talk: Talk, join: Join) -> None:
    talk.create(topic, 2)
    first = join()
    wait_for(lambda: first.events == [("assigned", [0, 1])])
    second = join()
    wait_for(lambda: len(second.events) == 1)
    second.close()
    wait_for(lambda: len(first.events) == 5)
    kept = first.events[2][1]
    assert first.events == [
        ("assigned", [0, 1]),
        ("revoked", [0, 1]),
        ("assigned", kept),
        ("revoked", kept),
        ("assigned", [0, 1]),
    ]
    given = [each for each in (0, 1) if each not in kept]
    assert second.events == [("assigned", given), ("revoked", given)]


def test_a_cooperative_member_gives_up_only_what_moves(topic: str, talk: Talk, join: Join) -> None:
    talk.create(topic, 4)
    first = join(**COOPERATIVE)
    wait_for(lambda: first.events == [("assigned", [0, 1, 2, 3])])
    second = join(**COOPERATIVE)
    wait_for(share_all([first, second], partitions(topic, 4)))
    wait_for(lambda: ("assigned", sorted(each.partition for each in second.owned)) in second.events)
    moved = sorted(each.partition for each in second.owned)
    assert len(moved) == 2
    # Two rounds: the first takes what moves, the second gives it to the other.
    assert first.events[1] == ("revoked", moved)
    assert first.events[2:] in ([("assigned", [])], [("assigned", []), ("assigned", [])])
    assert [each for each in second.events if each[1]] == [("assigned", moved)]
    second.close()
    # Its listener hears of it a moment after the partitions are its own.
    wait_for(lambda: first.owned == partitions(topic, 4) and first.events[-1] == ("assigned", moved))
    assert second.events[-1] == ("revoked", moved)


@pytest.mark.nightly  # Java's members take their time
@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_a_listener_is_told_what_javas_is_told(
    strategy: str, kafka: System | None, talk_to_kafka: Talk, kafka_classpath: str, topic: str
) -> None:
    """Also of nothing: three members share one partition, come one after the other, and the last one goes."""
    assert kafka is not None
    told = []
    for kind in ("java", "pkafka"):
        name = f"{topic}{kind}"
        talk_to_kafka.create(name, 1)
        members: list[ProcessMember] = []
        try:
            for count in (1, 2, 3):
                if kind == "java":
                    full = f"org.apache.kafka.clients.consumer.{strategy}"
                    member = java_member(
                        kafka_classpath, kafka, name, name, **{"--assignment-strategy": full}
                    )
                else:
                    member = process_member(kafka, name, name, partition_assignment_strategy=strategy)
                members.append(member)
                wait_for(partial(has_seen, members, list(range(count, 0, -1))))
            members.pop().close()
            wait_for(partial(has_seen, members, [4, 3]))
            told.append(sorted(each.shape for each in members))
        finally:
            for member in members:
                member.close()
    # Which of them has the partition is chance: what each is told is compared without it.
    assert told[0] == told[1]


def test_unsubscribing_gives_partitions_up_and_leaves(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    events: list[str] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            events.append("assigned")

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            events.append("revoked")
            consumer.commit_sync(dict.fromkeys(partitions, 7))

    with alone(system, group, enable_auto_commit="false", session_timeout_ms=600_000) as consumer:
        consumer.subscribe([topic], listener=Listener())
        wait_for(lambda: not consumer.poll(50) and events == ["assigned"])
        consumer.unsubscribe()
        assert events == ["assigned", "revoked"]
        assert consumer.assignment() == []
        # Another member gets the partition without waiting for the session of the first one to end.
        with alone(system, group, enable_auto_commit="false") as other:
            other.subscribe([topic])
            wait_for(lambda: not other.poll(50) and bool(other.assignment()))
        mine = TopicPartition(topic, 0)
        assert consumer.committed([mine]) == {mine: OffsetAndMetadata(7)}


def test_a_static_member_that_returns_moves_nothing(topic: str, talk: Talk, join: Join) -> None:
    talk.create(topic, 4)
    first, second = join(group_instance_id="one"), join(group_instance_id="two")
    wait_for(share_all([first, second], partitions(topic, 4)))
    owned, rest = second.owned, sorted(each.partition for each in first.owned)
    # Its listener hears of it a moment after the partitions are its own.
    wait_for(lambda: first.events[-1:] == [("assigned", rest)])
    events = list(first.events)
    second.close()
    back = join(group_instance_id="two")
    wait_for(lambda: back.owned == owned)
    assert generation_of(back) == generation_of(first)
    assert first.events == events


def test_a_static_leader_that_returns_still_watches_for_new_partitions(
    topic: str, talk: Talk, join: Join
) -> None:
    talk.create(topic, 2)
    keys = {"metadata_max_age_ms": 300}
    leader = join(group_instance_id="one", **keys)
    wait_for(lambda: leader.owned == partitions(topic, 2))
    other = join(group_instance_id="two", **keys)
    wait_for(share_all([leader, other], partitions(topic, 2)))
    assert membership_of(leader).is_leader
    generation = generation_of(leader)
    leader.close()
    back = join(group_instance_id="one", **keys)
    wait_for(share_all([back, other], partitions(topic, 2)))
    assert generation_of(back) == generation
    talk.admin.create_partitions({topic: 4})
    wait_for(share_all([back, other], partitions(topic, 4)))


def generation_of(member: Member) -> int:
    return membership_of(member).generation.id


def test_a_second_process_with_the_same_instance_fences_the_first(
    system: System, topic: str, talk: Talk, group: str
) -> None:
    talk.create(topic, 1)
    with alone(system, group, group_instance_id="one") as first:
        first.subscribe([topic])
        wait_for(lambda: not first.poll(50) and bool(first.assignment()))
        with alone(system, group, group_instance_id="one") as second:
            second.subscribe([topic])
            wait_for(lambda: not second.poll(50) and bool(second.assignment()))
            with pytest.raises(ApiError) as caught:
                read(first, 1)
            assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_that_does_not_poll_in_time_loses_its_partitions(topic: str, talk: Talk, join: Join) -> None:
    talk.create(topic, 2)
    slow = join(max_poll_interval_ms=1_500)
    # On a busy machine it may be too slow already, and be assigned them again.
    wait_for(lambda: slow.events[:1] == [("assigned", [0, 1])])
    slow.hold()
    other = join()
    wait_for(lambda: other.owned == partitions(topic, 2))
    slow.go_on()
    wait_for(share_all([slow, other], partitions(topic, 2)))
    assert slow.events[1] == ("lost", [0, 1])


def test_a_commit_of_one_that_is_out_of_the_group_fails(
    system: System, topic: str, talk: Talk, group: str
) -> None:
    talk.create(topic, 1)
    mine = TopicPartition(topic, 0)
    keys = {"max_poll_interval_ms": 1_000, "enable_auto_commit": "false"}
    with alone(system, group, **keys) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
        membership = consumer._group.membership  # type: ignore[union-attr]
        wait_for(lambda: not membership.generation.member_id)
        with pytest.raises(CommitFailedError):
            consumer.commit_sync({mine: 1})

        def is_back() -> bool:
            if consumer.poll(50) or not membership.generation.member_id or not consumer.assignment():
                return False
            with contextlib.suppress(CommitFailedError):  # a busy machine has put it out once more
                consumer.commit_sync({mine: 1})
                return True
            return False

        wait_for(is_back)


@pytest.mark.usefixtures("sockets_of_kafka_python")
@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_one_group_of_many_kinds_of_clients(
    system: System, topic: str, talk: Talk, group: str, join: Join, kafka_classpath: str, strategy: str
) -> None:
    talk.create(topic, 8)
    wanted = partitions(topic, 8)
    ours = join(partition_assignment_strategy=strategy)
    others: list[ProcessMember | Other] = []
    try:
        full = f"org.apache.kafka.clients.consumer.{strategy}"
        others.append(java_member(kafka_classpath, system, group, topic, **{"--assignment-strategy": full}))
        others.append(confluent_member(system, group, topic, strategy))
        if strategy == "RangeAssignor":  # kafka-python has no cooperative one
            others.append(kafka_python_member(system, group, topic))
        wait_for(share_all([ours, *others], wanted))
        for number in range(80):
            talk.send(topic, b"%d" % number, partition=number % 8)
        wait_for(lambda: set(ours.values).union(*(each.values for each in others)) == numbers(0, 80))
        for member in others:
            member.close()
        wait_for(lambda: ours.owned == wanted)
    finally:
        for member in others:
            member.close()


def has_seen(members: Sequence["ProcessMember"], assignments: list[int]) -> bool:
    return [each.assignments for each in members] == assignments
