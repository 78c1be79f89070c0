"""The replica state machine: the legal changes, and what each tells the brokers.

A replica that is deleted goes through Offline, DeletionStarted, DeletionSuccessful and NonExistent. Only the change to
Offline writes to the store: the replica leaves the ISR.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pkafka.model import NO_LEADER, TopicPartition
from pkafka.server.cluster.state_change import recovery_word
from pkafka.server.controller import election
from pkafka.server.controller.batch import RequestBatch
from pkafka.server.controller.context import ControllerContext, Leadership, Replica, ReplicaState
from pkafka.server.controller.partition_state import CONFLICT_ROUNDS_MAX
from pkafka.server.controller.state_store import StateStore

_LIVING: Final = frozenset(
    {ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE}
)

PREDECESSORS: Final[Mapping[ReplicaState, frozenset[ReplicaState]]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _LIVING,
    ReplicaState.OFFLINE: _LIVING,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset({ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}


class ReplicaStates:
    """Changes the states of all replicas of a :class:`ControllerContext`. Owned by the controller thread.

    Args:
        context: holds the states.
        states: reads and writes the store.
        batch: collects the requests to brokers; the caller sends it.
    """

    def __init__(self, context: ControllerContext, states: StateStore, batch: RequestBatch) -> None:
        self._context = context
        self._states = states
        self._batch = batch

    def start(self) -> tuple[list[Replica], list[Replica]]:
        """Give every replica its first state, from live brokers.

        Returns:
            The replicas that are online and those that are not; the caller moves both on.
        """
        context = self._context
        online, offline = [], []
        for replica in context.replicas(sorted(context.assignments)):
            if context.is_online(replica.partition, replica.broker):
                context.replica_states[replica] = ReplicaState.ONLINE
                online.append(replica)
            else:
                # Offline would be wrong: if the topic is being deleted, the deletion would wait for this replica for
                # ever.
                context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
                offline.append(replica)
        return online, offline

    def become_new(self, replicas: Iterable[Replica]) -> None:
        """Make replicas New: they begin to exist."""
        for replica in self._legal(replicas, ReplicaState.NEW):
            leadership = self._context.leadership.get(replica.partition)
            if leadership is not None:
                if leadership.leader == replica.broker:
                    self._context.state_changes.error(
                        "replica %s cannot be new: it leads its partition", replica
                    )
                    continue
                self._tell(replica, leadership, is_new=True)
            self._change(replica, ReplicaState.NEW)

    def become_online(self, replicas: Iterable[Replica]) -> None:
        """Make replicas Online: they serve, as leaders or followers."""
        for replica in self._legal(replicas, ReplicaState.ONLINE):
            leadership = self._context.leadership.get(replica.partition)
            # A new replica has got its first LeaderAndIsr already.
            if self._context.replica_states[replica] is not ReplicaState.NEW and leadership is not None:
                self._tell(replica, leadership, is_new=False)
            self._change(replica, ReplicaState.ONLINE)

    def become_offline(self, replicas: Iterable[Replica]) -> None:
        """Make replicas Offline: each leaves the ISR, unless it is the last member."""
        legal = self._legal(replicas, ReplicaState.OFFLINE)
        by_broker: dict[int, list[TopicPartition]] = {}
        for replica in legal:
            self._batch.add_stop_replica((replica.broker,), replica.partition, delete=False)
            if replica.partition in self._context.leadership:
                by_broker.setdefault(replica.broker, []).append(replica.partition)
        for broker, partitions in by_broker.items():
            for partition in self._leave_isr(broker, partitions):
                if partition.topic not in self._context.being_deleted:
                    others = [one for one in self._context.replicas_of(partition) if one != broker]
                    self._batch.add_leader_and_isr(
                        others,
                        partition,
                        self._context.leadership[partition],
                        self._context.assignment(partition),
                        is_new=False,
                    )
        for replica in legal:
            self._change(replica, ReplicaState.OFFLINE)

    def start_deletion(self, replicas: Iterable[Replica]) -> None:
        """Have the broker remove the replica's files."""
        for replica in self._legal(replicas, ReplicaState.DELETION_STARTED):
            self._change(replica, ReplicaState.DELETION_STARTED)
            self._batch.add_stop_replica((replica.broker,), replica.partition, delete=True)

    def deletion_succeeded(self, replicas: Iterable[Replica]) -> None:
        """The broker removed the files."""
        for replica in self._legal(replicas, ReplicaState.DELETION_SUCCESSFUL):
            self._change(replica, ReplicaState.DELETION_SUCCESSFUL)

    def deletion_ineligible(self, replicas: Iterable[Replica]) -> None:
        """The broker is away or could not remove the files."""
        for replica in self._legal(replicas, ReplicaState.DELETION_INELIGIBLE):
            self._change(replica, ReplicaState.DELETION_INELIGIBLE)

    def become_non_existent(self, replicas: Iterable[Replica]) -> None:
        """Forget the replica."""
        for replica in self._legal(replicas, ReplicaState.NON_EXISTENT):
            self._change(replica, ReplicaState.NON_EXISTENT)

    # -- inside --

    def _change(self, replica: Replica, target: ReplicaState) -> None:
        states = self._context.replica_states
        self._context.state_changes.trace(
            "Changed state of replica %d for partition %s from %s to %s",
            replica.broker,
            replica.partition,
            states.get(replica, ReplicaState.NON_EXISTENT).value,
            target.value,
        )
        states[replica] = target

    def _tell(self, replica: Replica, leadership: Leadership, *, is_new: bool) -> None:
        assignment = self._context.assignment(replica.partition)
        self._batch.add_leader_and_isr(
            (replica.broker,), replica.partition, leadership, assignment, is_new=is_new
        )

    def _leave_isr(self, broker: int, partitions: list[TopicPartition]) -> list[TopicPartition]:
        changed: list[TopicPartition] = []
        open_ones = partitions
        for _ in range(CONFLICT_ROUNDS_MAX):
            if not open_ones:
                break
            wanted: dict[TopicPartition, Leadership] = {}
            for partition, now in self._states.read_leadership(open_ones).items():
                if now.controller_epoch > self._context.epoch:
                    self._context.state_changes.error(
                        "ISR of %s stays: a newer controller wrote it", partition
                    )
                elif broker not in now.isr:
                    self._context.leadership[partition] = now
                    changed.append(partition)
                else:
                    leader, isr = election.without_replica(now.leader, now.isr, broker, no_leader=NO_LEADER)
                    wanted[partition] = now._replace(
                        leader=leader,
                        isr=isr,
                        leader_epoch=now.leader_epoch + 1,
                        controller_epoch=self._context.epoch,
                    )
            outcome = self._states.update_leadership(wanted)
            for partition, error in outcome.failed.items():
                self._context.state_changes.error("the ISR of %s could not be written: %s", partition, error)
            self._context.leadership.update(outcome.written)
            for partition, left in outcome.written.items():
                self._context.state_changes.info(
                    "Partition %s state changed to (Leader:%d,ISR:%s,LeaderRecoveryState:%s,LeaderEpoch:%d,"
                    "ZkVersion:%d,ControllerEpoch:%d) after removing replica %d from the ISR as part of"
                    " transition to %s",
                    partition,
                    left.leader,
                    ",".join(map(str, left.isr)),
                    recovery_word(left.recovering),
                    left.leader_epoch,
                    left.partition_epoch,
                    left.controller_epoch,
                    broker,
                    ReplicaState.OFFLINE.value,
                )
            changed.extend(outcome.written)
            open_ones = outcome.conflicts
        return changed

    def _legal(self, replicas: Iterable[Replica], target: ReplicaState) -> list[Replica]:
        legal = []
        for replica in replicas:
            state = self._context.replica_states.get(replica, ReplicaState.NON_EXISTENT)
            if state in PREDECESSORS[target]:
                legal.append(replica)
            else:
                self._context.state_changes.error(
                    "replica %s cannot go from %s to %s", replica, state.value, target.value
                )
        return legal
