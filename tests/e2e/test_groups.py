"""Groups on a whole broker: any connection reaches the coordinator, and what was acknowledged survives every end."""

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.protocol.messages.describe_groups import DescribeGroupsRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pkafka.testing import Broker, running_broker
from tests.group_client import GroupClient
from tests.group_requests import subscription
from tests.talk import talking, wait_for

TOPIC = "t"
GROUPS = [f"g{number}" for number in range(20)]
CONNECTIONS = 12


@pytest.fixture(scope="module", params=[1, 2, 4], ids=["1-worker", "2-workers", "4-workers"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {
        "pkafka.workers": request.param,
        "offsets.topic.num.partitions": 8,
        "group.initial.rebalance.delay.ms": 1_000,
    }
    with running_broker(tmp_path_factory.mktemp("groups") / "broker", settings) as broker:
        prepare(broker)
        yield broker


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """For tests that stop it."""
    with running_broker(tmp_path / "broker", {"pkafka.workers": 2}) as broker:
        prepare(broker)
        yield broker


def prepare(broker: Broker) -> None:
    """The topic, and groups that are coordinated."""
    with talking(broker.bootstrap) as talk, GroupClient(broker.bootstrap) as client:
        talk.create(TOPIC, 4)
        client.make_topic_of_groups()
        for group in GROUPS:
            client.coordinate(group)


@pytest.fixture
def clients(broker: Broker) -> Iterator[list[GroupClient]]:
    """Connections, which the kernel spreads over the workers."""
    with ExitStack() as stack:
        yield [stack.enter_context(GroupClient(broker.bootstrap)) for _ in range(CONNECTIONS)]


def test_every_connection_reaches_every_group(clients: list[GroupClient]) -> None:
    for number, group in enumerate(GROUPS):
        writer, reader = clients[number % CONNECTIONS], clients[(number + 5) % CONNECTIONS]
        writer.commit(group, {(TOPIC, 1): (number, "here")})
        assert reader.offsets(group)[TOPIC, 1] == (number, "here")
    listed = [{group.group_id for group in client.list_all()} for client in clients]
    assert all(names >= {*GROUPS} for names in listed)
    wanted = [
        OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[1])]
        )
        for group in GROUPS
    ]
    for client in clients:
        described = client.ask(DescribeGroupsRequest(groups=GROUPS), 5).groups
        assert [(one.group_id, one.group_state) for one in described] == [(name, "Empty") for name in GROUPS]
        fetched = client.ask(OffsetFetchRequest(groups=wanted), 9).groups
        offsets = [one.topics[0].partitions[0].committed_offset for one in fetched]
        assert offsets == list(range(len(GROUPS)))
    deleted = clients[0].delete_groups(*GROUPS).results
    assert {one.group_id: one.error_code for one in deleted} == dict.fromkeys(GROUPS, 0)
    assert not {one.group_id for one in clients[1].list_all()} & {*GROUPS}


def test_members_meet_whatever_their_connections(clients: list[GroupClient]) -> None:
    """All join on connections of their own, the leader tells them what is theirs."""
    size = 6
    long = {"session_timeout_ms": 600_000, "rebalance_timeout_ms": 600_000}
    # The group waits for the first one to join again, and so for as many others as there are.
    first, *others = clients[:size]
    known = first.join("meeting", **long).member_id
    for client in others:
        client.send_join("meeting", **long)
    wait_for(lambda: len(first.describe("meeting").groups[0].members) == size, what="everybody")
    joined = [first.join("meeting", member=known, **long), *(client.client.receive() for client in others)]
    [generation] = {one.generation_id for one in joined}
    [leader] = {one.leader for one in joined}
    [told] = [one for one in joined if one.member_id == leader]
    assert {one.member_id for one in told.members} == {one.member_id for one in joined}
    shares = {one.member_id: one.member_id.encode() for one in joined}
    synced = at_once(
        [
            lambda client=client, one=one: client.sync(
                "meeting", one.member_id, generation, shares if one.member_id == leader else {}
            )
            for client, one in zip(clients, joined, strict=False)
        ]
    )
    assert [one.assignment for one in synced] == [shares[one.member_id] for one in joined]
    for number, one in enumerate(joined):
        assert clients[-1 - number].heartbeat("meeting", one.member_id, generation) == 0
    for number, one in enumerate(joined):
        assert clients[number].leave("meeting", one.member_id) == 0
    assert clients[0].describe("meeting").groups[0].group_state == "Empty"


def at_once(calls: list) -> list:  # type: ignore[type-arg]
    """The results of calls that may wait for each other."""
    results: list = [None] * len(calls)  # type: ignore[type-arg]

    def run(number: int) -> None:
        results[number] = calls[number]()

    threads = [threading.Thread(target=run, args=[number]) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert None not in results
    return results


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_offsets_and_generations_survive_the_broker(own_broker: Broker, how: str) -> None:
    with GroupClient(own_broker.bootstrap) as client:
        member, generation = client.settle("g1", metadata=subscription(TOPIC), session_timeout_ms=60_000)
        client.commit("g1", {(TOPIC, 0): 5}, generation=generation, member=member)
        for group in GROUPS[2:]:
            client.commit(group, {(TOPIC, 3): (7, group)})
        client.commit("gone", {(TOPIC, 0): 1})
        client.delete_groups("gone")
    getattr(own_broker, how)()
    own_broker.start()
    with GroupClient(own_broker.bootstrap) as client:
        for group in GROUPS:
            client.coordinate(group)
        assert client.heartbeat("g1", member, generation) == 0
        assert client.offsets("g1") == {(TOPIC, 0): (5, "")}
        [described] = client.describe("g1").groups
        assert (described.group_state, described.members[0].member_assignment) == ("Stable", b"share")
        for group in GROUPS[2:]:
            assert client.offsets(group) == {(TOPIC, 3): (7, group)}
        assert client.offsets("gone") == {}
        assert client.describe("gone").groups[0].group_state == "Dead"
        assert client.join("g1", member=member, session_timeout_ms=60_000).generation_id == generation + 1


def test_what_compaction_leaves_is_what_groups_know(tmp_path: Path) -> None:
    settings = {
        "pkafka.workers": 2,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.segment.bytes": 2_000,
        "log.cleaner.backoff.ms": 50,
        "log.cleaner.min.cleanable.ratio": 0.01,
    }
    with running_broker(tmp_path / "broker", settings) as broker:
        prepare(broker)
        [directory] = broker.log_dir.glob(f"{CONSUMER_OFFSETS_TOPIC}-*")
        with GroupClient(broker.bootstrap) as client:
            member, generation = client.settle("g1", metadata=subscription(TOPIC), session_timeout_ms=60_000)
            client.commit("deleted", {(TOPIC, 0): 1})
            client.delete_groups("deleted")
            for number in range(200):
                client.commit("g1", {(TOPIC, 0): number}, generation=generation, member=member)
                client.commit("g2", {(TOPIC, number % 4): (number, "m")})

            def is_small() -> bool:
                try:
                    return sum(file.stat().st_size for file in directory.glob("*.log")) < 10_000
                except FileNotFoundError:
                    return False  # a segment was replaced between the two looks

            # Two hundred times two commits of more than a hundred bytes were written.
            wait_for(is_small, what="the compaction")
        broker.kill()
        broker.start()
        with GroupClient(broker.bootstrap) as client:
            client.coordinate("g1")
            assert client.heartbeat("g1", member, generation) == 0
            assert client.offsets("g1") == {(TOPIC, 0): (199, "")}
            assert client.offsets("g2") == {(TOPIC, number % 4): (number, "m") for number in range(196, 200)}
            assert client.offsets("deleted") == {}


def test_a_broker_that_stops_does_not_wait_for_members_that_wait(own_broker: Broker) -> None:
    """They are told to look for another coordinator."""
    with GroupClient(own_broker.bootstrap) as first, GroupClient(own_broker.bootstrap) as second:
        long = {"session_timeout_ms": 600_000, "rebalance_timeout_ms": 600_000}
        first.settle("g1", **long)
        second.send_join("g1", **long)
        wait_for(lambda: first.describe("g1").groups[0].group_state == "PreparingRebalance", what="the join")
        own_broker.stop()
        assert second.client.receive().error_code == ErrorCode.NOT_COORDINATOR


def test_a_deleted_topic_takes_its_offsets_along(broker: Broker) -> None:
    with talking(broker.bootstrap) as talk, GroupClient(broker.bootstrap) as client:
        talk.create("going")
        client.coordinate("both")
        client.coordinate("only")
        client.commit("both", {("going", 0): 1, (TOPIC, 0): 2})
        client.commit("only", {("going", 0): 1})
        talk.delete("going")
        wait_for(lambda: client.offsets("both") == {(TOPIC, 0): (2, "")}, what="the end of the offsets")
        wait_for(lambda: client.describe("only").groups[0].group_state == "Dead", what="the end of the group")


def test_the_topic_of_offsets_can_be_made_anew(tmp_path: Path) -> None:
    """Without it nobody coordinates; the next who asks for a coordinator has it made again, empty."""
    settings = {"pkafka.workers": 2, "offsets.topic.num.partitions": 3}
    with running_broker(tmp_path / "broker", settings) as broker:
        prepare(broker)
        with talking(broker.bootstrap) as talk, GroupClient(broker.bootstrap) as client:
            client.commit("g1", {(TOPIC, 0): 1})
            talk.delete(CONSUMER_OFFSETS_TOPIC)
            wait_for(
                lambda: client.fetch("g1", None, 5).error_code == ErrorCode.NOT_COORDINATOR,
                what="the end of the group",
            )
            client.make_topic_of_groups()
            client.coordinate("g1")
            assert client.offsets("g1") == {}
            client.commit("g1", {(TOPIC, 0): 2})
            assert client.offsets("g1") == {(TOPIC, 0): (2, "")}


def test_version_1_tells_the_error_of_the_group_for_each_partition(tmp_path: Path) -> None:
    """It has no other place for it; without a word a client would take it that nothing is committed."""
    with running_broker(tmp_path / "broker", {}) as broker, GroupClient(broker.bootstrap) as client:
        [topic] = client.fetch("g", {TOPIC: [0]}, 1).topics
        assert topic.partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_records_in_the_topic_of_offsets_are_those_of_kafka(own_broker: Broker) -> None:
    """A consumer of the topic reads keys and values that begin with their versions."""
    with GroupClient(own_broker.bootstrap) as client, talking(own_broker.bootstrap) as talk:
        client.commit("g1", {(TOPIC, 2): (9, "m")})
        records = [
            record for partition in range(50) for record in talk.read(CONSUMER_OFFSETS_TOPIC, partition)
        ]
        [record] = records
        assert record.key == struct.pack(">hh2sh1si", 1, 2, b"g1", 1, b"t", 2)
        assert record.value is not None
        assert record.value[:14] == struct.pack(">hqi", 3, 9, -1)


def test_settings_of_groups(tmp_path: Path) -> None:
    settings = {
        "group.min.session.timeout.ms": 1_000,
        "group.max.session.timeout.ms": 20_000,
        "group.max.size": 1,
        "offset.metadata.max.bytes": 5,
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": 200,
        "offsets.topic.num.partitions": 3,
        "offsets.topic.segment.bytes": 1_000,
    }
    with (
        running_broker(tmp_path / "broker", settings) as broker,
        talking(broker.bootstrap) as talk,
        GroupClient(broker.bootstrap) as client,
    ):
        talk.create(TOPIC)
        client.make_topic_of_groups()
        client.coordinate("g")
        client.coordinate("old")
        for timeout_ms in (999, 20_001):
            refused = client.join("g", session_timeout_ms=timeout_ms)
            assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        client.settle("g", session_timeout_ms=20_000)
        assert client.join("g").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        for length, code in ((5, ErrorCode.NONE), (6, ErrorCode.OFFSET_METADATA_TOO_LARGE)):
            [topic] = client.commit("simple", {(TOPIC, 0): (1, "x" * length)}).topics
            assert topic.partitions[0].error_code == code
        # Version 1 says itself when it was.
        an_hour_ago = time.time_ns() // 1_000_000 - 3_600_000
        client.commit("old", {(TOPIC, 0): 1}, 1, commit_timestamp=an_hour_ago)
        wait_for(lambda: client.describe("old").groups[0].group_state == "Dead", what="the expiry")
        assert client.offsets("simple") == {(TOPIC, 0): (1, "xxxxx")}
        directories = [*broker.log_dir.glob(f"{CONSUMER_OFFSETS_TOPIC}-*")]
        assert len(directories) == 3
        for number in range(30):
            client.commit("simple", {(TOPIC, 0): number})
        wait_for(lambda: any(len([*one.glob("*.log")]) > 1 for one in directories), what="a second segment")


def test_without_enough_brokers_for_the_replicas_nobody_coordinates(tmp_path: Path) -> None:
    settings = {"offsets.topic.replication.factor": 2}
    with running_broker(tmp_path / "broker", settings) as broker, GroupClient(broker.bootstrap) as client:
        for _ in range(2):
            found = client.ask(FindCoordinatorRequest(key="g"), 1)
            assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert "Replication factor: 2 larger than available brokers: 1" in broker.log_tail()
