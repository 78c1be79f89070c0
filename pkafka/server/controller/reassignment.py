"""Moving partitions to other brokers (KIP-455): grow, wait until the new replicas are in sync, switch, shrink.

While a partition moves, its assignment names the old and the new replicas, and which of them are added and removed. The
topic's node has that, so the next controller goes on from there. Every step may be repeated.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_TOPIC_ID, BrokerId, TopicPartition
from pkafka.server.controller.context import Assignment, Leadership, Replica
from pkafka.server.controller.deletion import TopicDeletion
from pkafka.server.controller.election import Strategy
from pkafka.server.controller.machines import Machines
from pkafka.server.controller.nodes import REASSIGN_PARTITIONS
from pkafka.server.controller.partition_state import CONFLICT_ROUNDS_MAX
from pkafka.server.controller.state_store import Topic
from pkafka.server.controller.stats import Work, counted_as
from pkafka.server.controller.written_moves import WrittenMoves

log = logging.getLogger("kafka.controller.KafkaController")

_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")


def origin(assignment: Assignment) -> tuple[BrokerId, ...]:
    """The replicas that a partition had before it began to move."""
    return tuple(one for one in assignment.replicas if one not in assignment.adding)


def target(assignment: Assignment) -> tuple[BrokerId, ...]:
    """The replicas that a partition has when it has moved."""
    return tuple(one for one in assignment.replicas if one not in assignment.removing)


def moves(assignment: Assignment) -> bool:
    """Whether a partition moves."""
    return bool(assignment.adding or assignment.removing)


def on_the_way(assignment: Assignment, wanted: Sequence[BrokerId]) -> Assignment:
    """The assignment of a partition that begins to move, or gets another target: all replicas, the new ones first."""
    before = origin(assignment)
    both = tuple(dict.fromkeys((*wanted, *before)))
    return Assignment(
        both,
        tuple(one for one in both if one not in before),
        tuple(one for one in both if one not in wanted),
    )


def _problem(wanted: Sequence[BrokerId]) -> str | None:
    """Kafka's text for an impossible list of replicas, with the names of Scala's collections."""
    if not wanted:
        return "Empty replica list specified in partition reassignment."
    if len(set(wanted)) < len(wanted):
        return f"Duplicate replica ids in partition reassignment replica list: {_listed(wanted)}"
    if min(wanted) < 0:
        return f"Invalid broker id in replica list: {_listed(wanted)}"
    return None


def _listed(brokers: Iterable[BrokerId]) -> str:
    return f"ArrayBuffer({', '.join(map(str, brokers))})"


class Reassignments:
    """Moves partitions to other brokers. For the controller thread.

    Args:
        machines: state and machines.
        deletion: waits for partitions that move.
    """

    def __init__(self, machines: Machines, deletion: TopicDeletion) -> None:
        self._context, self._states, self._batch, self._partitions, self._replicas = machines
        self._deletion = deletion
        self._written = WrittenMoves(self._states)

    @counted_as(Work.LIST_REASSIGNMENTS)
    def ongoing(self) -> dict[TopicPartition, Assignment]:
        """All partitions that move."""
        return {
            one: self._context.assignment(one)
            for one in self._context.partitions()
            if moves(self._context.assignment(one))
        }

    @counted_as(Work.REASSIGNMENT)
    def begin(self, partition: TopicPartition, wanted: Sequence[BrokerId] | None) -> ApiError | None:
        """Move a partition, or with None give up a move.

        Returns:
            Why the move is refused; None when it has begun.

        Raises:
            StoreError: the store failed.
        """
        if not self._exists(partition):
            return ApiError(*_UNKNOWN)
        now = self._context.assignment(partition)
        if wanted is None:
            if not moves(now):
                return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            wanted = origin(now)
        elif problem := _problem(wanted) or self._death(now, wanted):
            return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        # The last request for a partition counts.
        self._written.drop(lambda one, _: one == partition)
        self._go_on(partition, on_the_way(now, wanted))
        return None

    def begin_written(self) -> set[TopicPartition]:
        """Begin the moves that /admin/reassign_partitions asks for and that have not begun.

        A move to a broker that is away waits for the broker, as it did before there was an API for moves.

        Returns:
            The partitions that moved a step.

        Raises:
            StoreError: the store failed.
        """
        begun: set[TopicPartition] = set()
        refused: dict[TopicPartition, str] = {}
        for partition, wanted in self._written.read().items():
            now = self._context.assignment(partition)
            if not self._exists(partition):
                refused[partition] = _UNKNOWN[1]
            elif problem := _problem(wanted):
                refused[partition] = problem
            elif not (moves(now) and target(now) == wanted):
                self._go_on(partition, on_the_way(now, wanted))
                begun.add(partition)
        if refused:
            log.warning("moves that %s asks for are refused: %s", REASSIGN_PARTITIONS, refused)
            self._written.drop(lambda one, _: one in refused)
        return begun

    def _exists(self, partition: TopicPartition) -> bool:
        context = self._context
        return partition in context.partition_states and partition.topic not in context.being_deleted

    def _death(self, now: Assignment, wanted: Sequence[BrokerId]) -> str | None:
        added = [one for one in wanted if one not in origin(now)]
        if all(one in self._context.live_brokers for one in added):
            return None
        live = ", ".join(map(str, sorted(self._context.live_brokers)))
        return (
            "Replica assignment has brokers that are not alive. Replica list:"
            f" {_listed(added)}, live broker list: Set({live})"
        )

    def isr_changed(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with moves of partitions whose ISR grew."""
        for partition in partitions:
            assignment = self._context.assignment(partition)
            if moves(assignment) and self._is_complete(partition, assignment):
                self._go_on(partition, assignment)

    def resume(self) -> None:
        """Go on with all moves, and begin those that were written down, after an election of the controller."""
        begun = self.begin_written()
        for partition, assignment in self.ongoing().items():
            if partition not in begun:
                self._go_on(partition, assignment)

    def brokers_joined(self, brokers: Iterable[BrokerId]) -> None:
        """Go on with the moves to brokers that came back, and with deletions that waited for them."""
        back = set(brokers)
        for partition, assignment in self.ongoing().items():
            if partition.topic not in self._context.being_deleted and not back.isdisjoint(target(assignment)):
                self._go_on(partition, assignment)

    # -- inside --

    def _go_on(self, partition: TopicPartition, wanted: Assignment) -> None:
        self._note(partition, wanted)
        if self._is_complete(partition, wanted):
            self._finish(partition, wanted)
            return
        log.info("partition %s moves to %s", partition, target(wanted))
        # All replicas, old and new, hear of a new leader epoch: a fetch under the old epoch gets an error.
        self._tell(partition, wanted)
        self._replicas.become_new(Replica(partition, broker) for broker in wanted.adding)
        self._batch.send()

    def _note(self, partition: TopicPartition, wanted: Assignment) -> None:
        """Write the target to the store; replicas that only an earlier target needed are removed."""
        now = self._context.assignment(partition)
        if now == wanted:
            return
        self._write(partition, wanted)
        self._context.assign(partition, wanted)
        self._remove(partition, [one for one in now.replicas if one not in wanted.replicas])

    def _write(self, partition: TopicPartition, assignment: Assignment) -> None:
        name = partition.topic
        assignments = {**self._context.assignments[name], partition.partition: assignment}
        topic_id = self._context.topic_ids.get(name, NO_TOPIC_ID)
        self._states.write_topic(name, Topic(topic_id, assignments))

    def _is_complete(self, partition: TopicPartition, wanted: Assignment) -> bool:
        if not moves(wanted):
            return True
        now = self._context.leadership.get(partition)
        # A controller of Kafka may have begun a move to an empty list. It never ends: its end would delete the
        # partition.
        return now is not None and bool(target(wanted)) and set(target(wanted)) <= set(now.isr)

    def _finish(self, partition: TopicPartition, wanted: Assignment) -> None:
        """End a move whose new replicas are in sync: they take over, and the old ones are removed."""
        arrived = Assignment(target(wanted))
        self._replicas.become_online(Replica(partition, broker) for broker in wanted.adding)
        self._context.assignments[partition.topic][partition.partition] = arrived
        leader = self._context.leadership[partition].leader
        if leader in arrived.replicas and self._context.is_online(partition, leader):
            self._tell(partition, arrived, also=wanted.removing)
        else:
            self._partitions.become_online([partition], Strategy.REASSIGNMENT)
        self._batch.send()
        self._remove(partition, wanted.removing)
        self._write(partition, arrived)
        self._written.drop(lambda one, brokers: one == partition and brokers == arrived.replicas)
        self._batch.add_update_metadata(self._context.live_brokers, (partition,))
        self._batch.send()
        log.info("partition %s has moved to %s", partition, arrived.replicas)
        self._deletion.retry({partition.topic})

    def _tell(
        self, partition: TopicPartition, assignment: Assignment, *, also: Iterable[BrokerId] = ()
    ) -> None:
        now = self._raise_epoch(partition)
        if now is not None:
            self._batch.add_leader_and_isr(
                (*assignment.replicas, *also), partition, now, assignment, is_new=False
            )

    def _raise_epoch(self, partition: TopicPartition) -> Leadership | None:
        """Begin a leader epoch with the same leader and ISR."""
        for _ in range(CONFLICT_ROUNDS_MAX):
            now = self._states.read_leadership([partition]).get(partition)
            if now is None or now.controller_epoch > self._context.epoch:
                self._context.state_changes.error("the leader epoch of %s cannot be raised", partition)
                return None
            wanted = now._replace(leader_epoch=now.leader_epoch + 1, controller_epoch=self._context.epoch)
            outcome = self._states.update_leadership({partition: wanted})
            if written := outcome.written.get(partition):
                self._context.leadership[partition] = written
                return written
            if partition in outcome.failed:
                raise outcome.failed[partition]
        self._context.state_changes.error("the state of %s changes too often", partition)
        return None

    def _remove(self, partition: TopicPartition, brokers: Iterable[BrokerId]) -> None:
        """Have replicas deleted. The move does not wait for their brokers: files that stay do no harm."""
        replicas = [Replica(partition, broker) for broker in brokers]
        if not replicas:
            return
        self._replicas.become_offline(replicas)
        self._replicas.start_deletion(replicas)
        self._replicas.deletion_succeeded(replicas)
        self._replicas.become_non_existent(replicas)
        self._batch.send()
        for replica in replicas:
            self._context.replica_states.pop(replica, None)
