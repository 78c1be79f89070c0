"""What brokers tell, side by side: the newest of everything, who is behind, and what ZooKeeper has otherwise."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pkafka.clients.cluster import PartitionView, TopicView
from pkafka.coordination import znodes
from pkafka.coordination.cluster import create_persistent_paths
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.errors import ErrorCode
from pkafka.model import NO_TOPIC_ID, TopicPartition
from pkafka.tools.cluster.metadata_view import (
    Nodes,
    Partition,
    Told,
    Written,
    chosen,
    compare,
    read_nodes,
    with_adding,
)

T0 = TopicPartition("t", 0)
U0 = TopicPartition("u", 0)


def told(
    partitions: Mapping[TopicPartition, tuple[int, int, list[int]]],
    *,
    controller: int = 1,
    brokers: tuple[int, ...] = (1, 2, 3),
) -> Told:
    """An answer: leader, leader epoch and ISR of partitions on brokers 1, 2 and 3."""
    topics: dict[str, TopicView] = {}
    for partition, (leader, epoch, isr) in partitions.items():
        view = PartitionView(partition.partition, leader, epoch, [1, 2, 3], isr, [], ErrorCode.NONE)
        topics[partition.topic] = TopicView(partition.topic, NO_TOPIC_ID, False, [view], ErrorCode.NONE)
    return Told(controller, {each: (f"host:{each}", None) for each in brokers}, topics)


GOOD = told({T0: (1, 5, [1, 2, 3])})


def test_all_tell_the_same() -> None:
    look = compare("cluster", {1: GOOD, 2: told({T0: (1, 5, [3, 1, 2])}), 3: GOOD}, None)
    assert look.partitions == {T0: Partition(1, 5, (1, 2, 3), (1, 2, 3))}
    assert (look.controller, look.alive) == (1, {1, 2, 3})
    assert not any(look.stale.values())
    assert not any(look.behind.values())
    assert look.differences == {}


@pytest.mark.parametrize(
    "older",
    [
        told({T0: (2, 4, [2, 3])}),
        told({T0: (1, 5, [1, 2])}),  # the same epoch: the controller's own answer counts
        told({}),
    ],
)
def test_a_broker_whose_metadata_is_behind(older: Told) -> None:
    look = compare("cluster", {1: GOOD, 2: older, 3: GOOD}, None)
    assert look.partitions[T0] == Partition(1, 5, (1, 2, 3), (1, 2, 3))
    assert look.stale_brokers(T0) == [2]


def test_even_the_controllers_broker_may_be_behind() -> None:
    look = compare("cluster", {1: GOOD, 2: told({T0: (2, 6, [2, 3])}), 3: GOOD}, None)
    assert look.partitions[T0].leader == 2
    assert look.stale_brokers(T0) == [1, 3]


def test_who_does_not_know_the_controller_or_a_broker() -> None:
    look = compare("cluster", {1: GOOD, 2: told({}, controller=-1, brokers=(1, 2)), 3: GOOD}, None)
    assert look.behind[2] == {"takes no broker for the controller", "does not know broker 3"}
    assert look.behind[1] == look.behind[3] == frozenset()


@pytest.mark.parametrize(
    ("leader", "isr", "state"),
    [
        (1, [1, 2, 3], "ok"),
        (2, [1, 2, 3], "not_preferred"),
        (2, [2, 3], "under_replicated"),
        (-1, [2], "offline"),
    ],
)
def test_the_state_of_a_partition(leader: int, isr: list[int], state: str) -> None:
    assert compare("cluster", {1: told({T0: (leader, 0, isr)})}, None).partitions[T0].state == state


@pytest.mark.parametrize(
    ("isr", "adding", "missing", "state"),
    [
        ([1, 2], (3,), (), "ok"),
        ([1], (3,), (2,), "under_replicated"),
        ([1], (2, 3), (), "ok"),
        # As many as it is to have are in sync: Kafka counts, and asks not which.
        ([1, 3], (3,), (), "ok"),
    ],
)
def test_replicas_that_are_being_added_are_not_missed(
    isr: list[int], adding: tuple[int, ...], missing: tuple[int, ...], state: str
) -> None:
    look = with_adding(compare("cluster", {1: told({T0: (1, 0, isr)})}, None), {T0: adding})
    assert (look.partitions[T0].missing, look.partitions[T0].state) == (missing, state)


def nodes(
    states: Mapping[TopicPartition, Written], replicas: Mapping[TopicPartition, tuple[int, ...]]
) -> Nodes:
    return Nodes(1, 9, {1: 100}, {}, replicas, states)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (Written(1, 5, (3, 2, 1), 9, 12), None),
        (Written(2, 6, (2, 3), 9, 12), "leader 2, leader epoch 6, isr 2,3"),
        (Written(-1, 5, (1, 2, 3), 9, 12), "leader none"),
        (None, "it has no state"),
    ],
)
def test_what_zookeeper_has_otherwise(written: Written | None, words: str | None) -> None:
    found = nodes({} if written is None else {T0: written}, {T0: (1, 2, 3)})
    assert compare("cluster", {1: GOOD}, found).differences.get(T0) == words


def test_partitions_that_only_one_side_knows() -> None:
    found = nodes({U0: Written(1, 0, (1,), 9, 0)}, {U0: (1,)})
    assert compare("cluster", {1: GOOD}, found).differences == {
        T0: "ZooKeeper does not know it",
        U0: "no broker knows it",
    }
    moved = nodes({T0: Written(1, 5, (1, 2, 3), 9, 0)}, {T0: (4, 1, 2, 3)})
    assert compare("cluster", {1: GOOD}, moved).differences == {T0: "replicas 4,1,2,3"}


def test_some_topics_alone() -> None:
    both = told({T0: (1, 5, [1, 2, 3]), U0: (1, 5, [1, 2, 3])})
    look = chosen(compare("cluster", {1: both, 2: told({})}, nodes({}, {})), "u".__eq__)
    assert set(look.partitions) == {U0}
    assert set(look.topics) == {"u"}
    assert look.stale == {1: frozenset(), 2: {U0}}
    assert set(look.differences) == {U0}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path / "store.sqlite") as store:
        create_persistent_paths(store)
        yield store


def test_nodes_are_read(store: EmbeddedStore) -> None:
    assert read_nodes(store) == Nodes(-1, None, {}, {}, {}, {})
    registration = znodes.BrokerRegistration((znodes.Endpoint("PLAINTEXT", "host", 1),), 0)
    store.create(znodes.BrokerRegistration.path(1), registration.encode())
    store.create(znodes.CONTROLLER, znodes.Controller(1, 0).encode())
    store.create(znodes.CONTROLLER_EPOCH, b"7")
    assignments = {0: znodes.PartitionAssignment((1, 2)), 1: znodes.PartitionAssignment((2, 1))}
    store.create(znodes.TopicAssignment.path("t"), znodes.TopicAssignment(assignments, b"t" * 16).encode())
    state = znodes.PartitionState(leader=1, leader_epoch=3, isr=(1, 2), controller_epoch=6)
    store.create(znodes.PartitionState.path(T0), state.encode(), make_parents=True)
    store.set(znodes.PartitionState.path(T0), state.encode())
    found = read_nodes(store)
    stat = store.exists(znodes.BrokerRegistration.path(1))
    assert stat is not None
    assert found == Nodes(
        1,
        7,
        {1: stat.czxid},
        {"t": b"t" * 16},
        {T0: (1, 2), TopicPartition("t", 1): (2, 1)},
        {T0: Written(1, 3, (1, 2), 6, 1)},
    )
