"""The partition state machine: the legal changes, and what each writes to the store and tells the brokers.

A New partition has replicas but no leader, an Online one has a leader, an Offline one has lost it. Only a change to
Online writes to the store.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pkafka.model import TopicPartition
from pkafka.server.cluster.state_change import leader_and_isr_text
from pkafka.server.controller import election
from pkafka.server.controller.batch import RequestBatch
from pkafka.server.controller.context import ControllerContext, Leadership, PartitionState
from pkafka.server.controller.election import Elected, Strategy
from pkafka.server.controller.state_store import Outcome, StateStore

PREDECESSORS: Final[Mapping[PartitionState, frozenset[PartitionState]]] = {
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
}

CONFLICT_ROUNDS_MAX: Final = 100
"""How often an election may lose against a leader that changes its ISR meanwhile; each round reads the state anew."""


class PartitionStates:
    """Changes the states of all partitions of a :class:`ControllerContext`. Owned by the controller thread.

    Args:
        context: holds the states.
        states: reads and writes the store.
        batch: collects the requests to brokers; the caller sends it.
        unclean_allowed: says whether topics may elect a leader that is out of sync; called only when that would help.
    """

    def __init__(
        self,
        context: ControllerContext,
        states: StateStore,
        batch: RequestBatch,
        unclean_allowed: Callable[[Sequence[str]], Mapping[str, bool]],
    ) -> None:
        self._context = context
        self._states = states
        self._batch = batch
        self._unclean_allowed = unclean_allowed

    def start(self) -> None:
        """Give every partition its first state, from leadership and live brokers."""
        context = self._context
        for partition in context.partitions():
            leadership = context.leadership.get(partition)
            if leadership is None:
                state = PartitionState.NEW
            elif context.is_online(partition, leadership.leader):
                state = PartitionState.ONLINE
            else:
                state = PartitionState.OFFLINE
            context.partition_states[partition] = state

    def become_online_where_possible(self, topic: str | None = None) -> None:
        """Elect for every partition, or every one of ``topic``, without a leader whose topic stays."""
        waiting = [
            partition
            for partition, state in self._context.partition_states.items()
            if state in (PartitionState.OFFLINE, PartitionState.NEW)
            and partition.topic not in self._context.being_deleted
            and topic in (None, partition.topic)
        ]
        self.become_online(waiting, Strategy.OFFLINE_PARTITION)

    def become_new(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions New: their replicas are known."""
        for partition in self._legal(partitions, PartitionState.NEW):
            replicas = ",".join(map(str, self._context.replicas_of(partition)))
            self._context.state_changes.info(
                "Changed partition %s state from %s to %s with assigned replicas %s",
                partition,
                self._state(partition).value,
                PartitionState.NEW.value,
                replicas,
            )
            self._context.partition_states[partition] = PartitionState.NEW

    def become_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions Offline: their leader is gone."""
        for partition in self._legal(partitions, PartitionState.OFFLINE):
            self._trace_change(partition, PartitionState.OFFLINE)
            self._context.partition_states[partition] = PartitionState.OFFLINE

    def become_non_existent(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions NonExistent: their topic is being deleted."""
        for partition in self._legal(partitions, PartitionState.NON_EXISTENT):
            self._trace_change(partition, PartitionState.NON_EXISTENT)
            self._context.partition_states[partition] = PartitionState.NON_EXISTENT

    def become_online(self, partitions: Iterable[TopicPartition], strategy: Strategy) -> set[TopicPartition]:
        """Give each partition a leader.

        Returns:
            Those that got one; for the others the reason is logged and they stay as they were.
        """
        new: list[TopicPartition] = []
        elect: list[TopicPartition] = []
        for partition in self._legal(partitions, PartitionState.ONLINE):
            state = self._context.partition_states[partition]
            (new if state is PartitionState.NEW else elect).append(partition)
        return self._lead_first(new) | self._elect(elect, strategy)

    # -- the first leader --

    def _lead_first(self, partitions: Sequence[TopicPartition]) -> set[TopicPartition]:
        context = self._context
        wanted: dict[TopicPartition, Leadership] = {}
        for partition in partitions:
            elected = election.first_leader(
                context.replicas_of(partition), context.online_replicas(partition)
            )
            if elected is None:
                self._context.state_changes.error(
                    "partition %s stays new: none of its replicas is live", partition
                )
            else:
                wanted[partition] = Leadership(elected.leader, 0, elected.isr, context.epoch, 0)
        outcome = self._states.create_leadership(wanted)
        for partition in outcome.conflicts:
            self._context.state_changes.error(
                "partition %s stays new: its state node exists already", partition
            )
        return self._take_over(outcome, is_new=True)

    # -- another leader --

    def _elect(self, partitions: Sequence[TopicPartition], strategy: Strategy) -> set[TopicPartition]:
        done: set[TopicPartition] = set()
        open_ones = list(partitions)
        for _ in range(CONFLICT_ROUNDS_MAX):
            if not open_ones:
                break
            outcome = self._states.update_leadership(self._decide(open_ones, strategy))
            # A leader that was elected cleanly has nothing to recover.
            self._context.stats.unclean_elections += sum(one.recovering for one in outcome.written.values())
            done |= self._take_over(outcome, is_new=False)
            open_ones = outcome.conflicts
        for partition in open_ones:
            self._context.state_changes.error("no election for %s: its state changes too often", partition)
        return done

    def _decide(
        self, partitions: Sequence[TopicPartition], strategy: Strategy
    ) -> dict[TopicPartition, Leadership]:
        context = self._context
        stored = self._states.read_leadership(partitions)
        unclean = self._unclean_topics(stored, strategy)
        wanted: dict[TopicPartition, Leadership] = {}
        for partition in partitions:
            now = stored.get(partition)
            if now is None:
                self._context.state_changes.error("no election for %s: it has no state node", partition)
            elif now.controller_epoch > context.epoch:
                self._context.state_changes.error(
                    "no election for %s: controller epoch %d wrote its state, this one is %d",
                    partition,
                    now.controller_epoch,
                    context.epoch,
                )
            elif (elected := self._candidate(partition, now, strategy, unclean)) is None:
                self._context.state_changes.error(
                    "no election for %s by %s: no replica is eligible", partition, strategy.value
                )
            else:
                wanted[partition] = Leadership(
                    elected.leader,
                    now.leader_epoch + 1,
                    elected.isr,
                    context.epoch,
                    now.partition_epoch,
                    # An unclean leader recovers first (KIP-704); a clean one keeps the state that was there.
                    elected.unclean,
                )
        return wanted

    def _candidate(
        self, partition: TopicPartition, now: Leadership, strategy: Strategy, unclean: Mapping[str, bool]
    ) -> Elected | None:
        context = self._context
        assignment = context.assignment(partition)
        online = context.online_replicas(partition)
        match strategy:
            case Strategy.OFFLINE_PARTITION | Strategy.OFFLINE_PARTITION_UNCLEAN:
                return election.elect_for_offline_partition(
                    assignment.replicas, now.isr, online, unclean_allowed=unclean.get(partition.topic, False)
                )
            case Strategy.REASSIGNMENT:
                target = tuple(one for one in assignment.replicas if one not in assignment.removing)
                return election.elect_for_reassignment(target, now.isr, online)
            case Strategy.PREFERRED_REPLICA:
                return election.elect_preferred(assignment.replicas, now.isr, online)
            case Strategy.CONTROLLED_SHUTDOWN:
                staying = frozenset(
                    one
                    for one in assignment.replicas
                    if context.is_online(partition, one, count_shutting_down=True)
                )
                return election.elect_for_controlled_shutdown(
                    assignment.replicas, now.isr, staying, context.shutting_down
                )

    def _unclean_topics(
        self, stored: Mapping[TopicPartition, Leadership], strategy: Strategy
    ) -> Mapping[str, bool]:
        if strategy not in (Strategy.OFFLINE_PARTITION, Strategy.OFFLINE_PARTITION_UNCLEAN):
            return {}
        lost = {
            partition.topic
            for partition, now in stored.items()
            if self._context.online_replicas(partition).isdisjoint(now.isr)
        }
        if strategy is Strategy.OFFLINE_PARTITION_UNCLEAN:
            return dict.fromkeys(lost, True)
        return self._unclean_allowed(sorted(lost)) if lost else {}

    # -- both --

    def _take_over(self, outcome: Outcome, *, is_new: bool) -> set[TopicPartition]:
        context, changes = self._context, self._context.state_changes
        for partition, error in outcome.failed.items():
            self._context.state_changes.error("the leader of %s could not be written: %s", partition, error)
        for partition, leadership in outcome.written.items():
            context.leadership[partition] = leadership
            changes.info(
                "Changed partition %s from %s to %s with state %s",
                partition,
                self._state(partition).value,
                PartitionState.ONLINE.value,
                _text(leadership),
            )
            context.partition_states[partition] = PartitionState.ONLINE
            recipients = [
                one
                for one in context.replicas_of(partition)
                if context.is_online(partition, one, count_shutting_down=True)
            ]
            self._batch.add_leader_and_isr(
                recipients, partition, leadership, context.assignment(partition), is_new=is_new
            )
        return set(outcome.written)

    def _state(self, partition: TopicPartition) -> PartitionState:
        return self._context.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def _trace_change(self, partition: TopicPartition, target: PartitionState) -> None:
        self._context.state_changes.trace(
            "Changed partition %s state from %s to %s", partition, self._state(partition).value, target.value
        )

    def _legal(self, partitions: Iterable[TopicPartition], target: PartitionState) -> list[TopicPartition]:
        legal = []
        for partition in partitions:
            state = self._state(partition)
            if state in PREDECESSORS[target]:
                legal.append(partition)
            else:
                self._context.state_changes.error(
                    "partition %s cannot go from %s to %s", partition, state.value, target.value
                )
        return legal


def _text(leadership: Leadership) -> str:
    return leader_and_isr_text(
        leadership.leader,
        leadership.leader_epoch,
        leadership.isr,
        leadership.partition_epoch,
        recovering=leadership.recovering,
    )
