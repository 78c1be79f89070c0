"""The tables of the state machines are Kafka's: every legal way is taken, every other one is refused loudly."""

import itertools
import logging
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from pkafka.model import TopicPartition
from pkafka.server.cluster.metadata import BrokerInfo
from pkafka.server.controller.batch import RequestBatch
from pkafka.server.controller.context import (
    Assignment,
    ControllerContext,
    Leadership,
    PartitionState,
    Replica,
    ReplicaState,
)
from pkafka.server.controller.election import Strategy
from pkafka.server.controller.partition_state import PartitionStates
from pkafka.server.controller.replica_state import ReplicaStates
from pkafka.server.controller.state_store import Outcome, StateStore

KAFKA_PARTITION_STATES = {
    "NonExistentPartition": {"OfflinePartition"},
    "NewPartition": {"NonExistentPartition"},
    "OnlinePartition": {"NewPartition", "OnlinePartition", "OfflinePartition"},
    "OfflinePartition": {"NewPartition", "OnlinePartition", "OfflinePartition"},
}
"""From which states Kafka's controller lets a partition go into each, by Kafka's names (PartitionStateMachine)."""

KAFKA_REPLICA_STATES = {
    "NewReplica": {"NonExistentReplica"},
    "OnlineReplica": {"NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible"},
    "OfflineReplica": {"NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible"},
    "ReplicaDeletionStarted": {"OfflineReplica"},
    "ReplicaDeletionSuccessful": {"ReplicaDeletionStarted"},
    "ReplicaDeletionIneligible": {"OfflineReplica", "ReplicaDeletionStarted"},
    "NonExistentReplica": {"ReplicaDeletionSuccessful"},
}
"""Likewise of replicas (ReplicaStateMachine)."""

T0 = TopicPartition("t", 0)
LEADER, FOLLOWER = Replica(T0, 1), Replica(T0, 2)


class _Nodes:
    """State nodes in a dict, in place of the store."""

    def __init__(self) -> None:
        self.stored = {T0: Leadership(1, 4, (1, 2), 1, 7)}
        self.conflicts = 0

    def read_leadership(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Leadership]:
        return {one: self.stored[one] for one in partitions if one in self.stored}

    def create_leadership(self, wanted: dict[TopicPartition, Leadership]) -> Outcome:
        return Outcome(dict(wanted), [], {})

    def update_leadership(self, wanted: dict[TopicPartition, Leadership]) -> Outcome:
        if self.conflicts:
            self.conflicts -= 1
            return Outcome({}, list(wanted), {})
        written = {one: now._replace(partition_epoch=now.partition_epoch + 1) for one, now in wanted.items()}
        self.stored.update(written)
        return Outcome(written, [], {})


class _Silence:
    def send(self, *_: object) -> None: ...

    def brokers_changed(self, *_: object) -> None: ...


class _Machines:
    def __init__(self) -> None:
        self.context = ControllerContext()
        self.context.epoch = 1
        for broker in (1, 2):
            self.context.live_brokers[broker] = BrokerInfo(broker, None, {})
        self.context.assign(T0, Assignment((1, 2)))
        self.nodes = _Nodes()
        batch = RequestBatch(
            1,
            "PLAINTEXT",
            self.context,
            _Silence(),
            on_leader_and_isr=lambda *_: None,
            on_stop_replica=lambda *_: None,
        )
        states = cast(StateStore, self.nodes)
        self.partitions = PartitionStates(
            self.context, states, batch, lambda topics: dict.fromkeys(topics, False)
        )
        self.replicas = ReplicaStates(self.context, states, batch)


_PARTITION_MOVES: dict[PartitionState, Callable[[PartitionStates], object]] = {
    PartitionState.NEW: lambda machine: machine.become_new([T0]),
    PartitionState.ONLINE: lambda machine: machine.become_online([T0], Strategy.OFFLINE_PARTITION),
    PartitionState.OFFLINE: lambda machine: machine.become_offline([T0]),
    PartitionState.NON_EXISTENT: lambda machine: machine.become_non_existent([T0]),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(PartitionState, PartitionState)))
def test_every_way_of_a_partition(
    before: PartitionState, after: PartitionState, caplog: pytest.LogCaptureFixture
) -> None:
    machines = _Machines()
    machines.context.partition_states[T0] = before
    _PARTITION_MOVES[after](machines.partitions)
    legal = before.value in KAFKA_PARTITION_STATES[after.value]
    assert machines.context.partition_states[T0] is (after if legal else before)
    assert bool(caplog.records) is not legal


_REPLICA_MOVES: dict[ReplicaState, Callable[[ReplicaStates], Any]] = {
    ReplicaState.NEW: lambda machine: machine.become_new([FOLLOWER]),
    ReplicaState.ONLINE: lambda machine: machine.become_online([FOLLOWER]),
    ReplicaState.OFFLINE: lambda machine: machine.become_offline([FOLLOWER]),
    ReplicaState.DELETION_STARTED: lambda machine: machine.start_deletion([FOLLOWER]),
    ReplicaState.DELETION_SUCCESSFUL: lambda machine: machine.deletion_succeeded([FOLLOWER]),
    ReplicaState.DELETION_INELIGIBLE: lambda machine: machine.deletion_ineligible([FOLLOWER]),
    ReplicaState.NON_EXISTENT: lambda machine: machine.become_non_existent([FOLLOWER]),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(ReplicaState, ReplicaState)))
def test_every_way_of_a_replica(
    before: ReplicaState, after: ReplicaState, caplog: pytest.LogCaptureFixture
) -> None:
    machines = _Machines()
    machines.context.replica_states[FOLLOWER] = before
    _REPLICA_MOVES[after](machines.replicas)
    legal = before.value in KAFKA_REPLICA_STATES[after.value]
    assert machines.context.replica_states[FOLLOWER] is (after if legal else before)
    assert bool(caplog.records) is not legal


def test_a_leader_cannot_be_a_new_replica(caplog: pytest.LogCaptureFixture) -> None:
    machines = _Machines()
    machines.context.leadership[T0] = machines.nodes.stored[T0]
    machines.replicas.become_new([LEADER])
    assert machines.context.replica_states[LEADER] is ReplicaState.NON_EXISTENT
    assert "it leads its partition" in caplog.text


@pytest.mark.parametrize(("conflicts", "elected"), [(0, True), (3, True), (10_000, False)])
def test_an_election_that_meets_another_writer_reads_again(
    conflicts: int, elected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    machines = _Machines()
    machines.nodes.conflicts = conflicts
    machines.context.partition_states[T0] = PartitionState.OFFLINE
    del machines.context.live_brokers[1]
    done = machines.partitions.become_online([T0], Strategy.OFFLINE_PARTITION)
    assert done == ({T0} if elected else set())
    if elected:
        assert machines.context.leadership[T0] == Leadership(2, 5, (2,), 1, 8)
    else:
        assert "its state changes too often" in caplog.text


def test_a_state_that_a_newer_controller_wrote_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    machines = _Machines()
    machines.nodes.stored[T0] = Leadership(1, 4, (1, 2), 9, 7)
    machines.context.partition_states[T0] = PartitionState.OFFLINE
    with caplog.at_level(logging.ERROR):
        assert machines.partitions.become_online([T0], Strategy.OFFLINE_PARTITION) == set()
    assert "controller epoch 9" in caplog.text


def test_a_shutdown_moves_leaders_off() -> None:
    machines = _Machines()
    machines.context.partition_states[T0] = PartitionState.ONLINE
    machines.context.shutting_down.add(1)
    assert machines.partitions.become_online([T0], Strategy.CONTROLLED_SHUTDOWN) == {T0}
    assert machines.context.leadership[T0] == Leadership(2, 5, (2,), 1, 8)


def test_the_preferred_replica_leads_again() -> None:
    machines = _Machines()
    machines.nodes.stored[T0] = Leadership(2, 4, (2, 1), 1, 7)
    machines.context.partition_states[T0] = PartitionState.ONLINE
    assert machines.partitions.become_online([T0], Strategy.PREFERRED_REPLICA) == {T0}
    assert machines.context.leadership[T0] == Leadership(1, 5, (2, 1), 1, 8)
