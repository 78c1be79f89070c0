"""Elections that are asked for in a node: which are, in how many nodes, and what others have asked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.coordination.cluster import create_persistent_paths
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.znodes import (
    PREFERRED_REPLICA_ELECTION,
    BrokerRegistration,
    Endpoint,
    PartitionAssignment,
    PartitionState,
    PreferredReplicaElection,
    TopicAssignment,
)
from pkafka.model import TopicPartition
from pkafka.tools.elections.leader import Result
from pkafka.tools.elections.preferred_replica import ElectionInProgressError, ask, batches, foresee, plan

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
NOT_THERE = [TopicPartition("t", 9), TopicPartition("no", 0)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """Topic t: the first partition is led as it should be, the second is not, the third was never led."""
    with EmbeddedStore(tmp_path / "store.sqlite") as store:
        create_persistent_paths(store)
        store.create("/brokers/ids/1", BrokerRegistration((Endpoint("PLAINTEXT", "host", 1),), 0).encode())
        assignments = {number: PartitionAssignment((1, 2)) for number in range(3)}
        store.create(TopicAssignment.path("t"), TopicAssignment(assignments, b"t" * 16).encode())
        for partition, leader in ((T0, 1), (T1, 2)):
            state = PartitionState(leader=leader, leader_epoch=0, isr=(1, 2), controller_epoch=1)
            store.create(PartitionState.path(partition), state.encode(), make_parents=True)
        yield store


def test_what_can_be_asked_for(store: EmbeddedStore) -> None:
    assert [(each.partition, each.result) for each in plan(store, None)] == [
        (T0, Result.ASKED),
        (T1, Result.ASKED),
        (T2, Result.ASKED),
    ]
    found = {each.partition: each.result for each in plan(store, [*NOT_THERE, T1])}
    assert found == {T1: Result.ASKED, **dict.fromkeys(NOT_THERE, Result.FAILED)}


def test_what_would_come_of_it(store: EmbeddedStore) -> None:
    found = {each.partition: each.result for each in foresee(store, [T0, T1, T2, *NOT_THERE])}
    assert found == {
        T0: Result.NOT_NEEDED,
        T1: Result.ELECTED,
        T2: Result.FAILED,
        **dict.fromkeys(NOT_THERE, Result.FAILED),
    }


def test_the_node_names_the_partitions(store: EmbeddedStore) -> None:
    assert list(ask(store, [T0, T2], timeout_s=0)) == [[T0, T2]]
    written = PreferredReplicaElection.decode(store.get(PREFERRED_REPLICA_ELECTION)[0])
    assert written.partitions == (T0, T2)
    with pytest.raises(ElectionInProgressError, match="currently in progress for t-0,t-2"):
        list(ask(store, [T1], timeout_s=0))


def test_nothing_to_ask_for_makes_no_node(store: EmbeddedStore) -> None:
    assert list(ask(store, [], timeout_s=0)) == []
    assert store.exists(PREFERRED_REPLICA_ELECTION) is None


def test_more_than_a_node_holds_waits_for_the_controller(store: EmbeddedStore) -> None:
    many = [TopicPartition("x" * 200, number) for number in range(5_000)]
    asking = ask(store, many, timeout_s=0.05)
    first = next(asking)
    assert 0 < len(first) < len(many)
    with pytest.raises(ElectionInProgressError, match="the controller has not come to"):
        next(asking)
    asked = []
    store.delete(PREFERRED_REPLICA_ELECTION)
    for batch in ask(store, many, timeout_s=0.05):
        asked += batch
        store.delete(PREFERRED_REPLICA_ELECTION)
    assert asked == many


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_batches_leave_nothing_out(count: int) -> None:
    partitions = [TopicPartition("topic", number) for number in range(count)]
    for bytes_max in (1, 300, 400, 1_000_000):
        found = batches(partitions, bytes_max)
        assert [each for batch in found for each in batch] == partitions
        assert all(found)
    assert len(batches(partitions, 1_000_000)) == min(count, 1)
