"""What the controller knows: brokers, topics, assignments, leadership and the states of partitions and replicas.

It is read from the store anew at every election, and owned by the controller thread. It writes nothing.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from pkafka.model import NO_LEADER, NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from pkafka.server.cluster.metadata import BrokerInfo
from pkafka.server.cluster.state_change import StateChangeLog, controller_log
from pkafka.server.controller.stats import ControllerStats

NO_CONTROLLER: Final = -1


class PartitionState(Enum):
    """Names the states of partitions; the table of legal changes is in :mod:`.partition_state`."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    """Has replicas, but neither leader nor ISR yet."""
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    """Had a leader, which is gone."""


class ReplicaState(Enum):
    """Names the states of replicas; the table of legal changes is in :mod:`.replica_state`."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """Can only become a follower."""
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """Its broker is away or failed to delete it; the controller tries again when that changes."""


class Replica(NamedTuple):
    """Names one replica of one partition."""

    partition: TopicPartition
    broker: BrokerId

    def __str__(self) -> str:
        return f"{self.partition}@{self.broker}"


class Assignment(NamedTuple):
    """Holds the replicas of a partition, the preferred leader first, and those that a reassignment adds and removes."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()


class Leadership(NamedTuple):
    """Holds content and version of a partition's state node."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    """The epoch of the controller that wrote it."""
    partition_epoch: int
    """The version of the node."""
    recovering: bool = False
    """The leader was elected uncleanly and has not recovered yet."""


class DeletionCounts(NamedTuple):
    """Counts what is left to delete, under Kafka's names; 0 where this broker is not the controller."""

    topics: int = 0
    replicas: int = 0
    """Replicas that their brokers have not deleted yet."""
    ineligible_topics: int = 0
    ineligible_replicas: int = 0
    """Replicas whose brokers are away or failed to delete them."""

    def by_name(self) -> dict[str, int]:
        """By the name of the gauge of Kafka's controller."""
        return {
            "TopicsToDeleteCount": self.topics,
            "ReplicasToDeleteCount": self.replicas,
            "TopicsIneligibleToDeleteCount": self.ineligible_topics,
            "ReplicasIneligibleToDeleteCount": self.ineligible_replicas,
        }


class ControllerContext:
    """Holds all that the controller knows, and answers questions about it.

    Args:
        controller_id: the broker of this controller.
        stats: counters that last longer than a term of office.

    Attributes:
        epoch: this controller's epoch, 0 before the first election.
        epoch_version: version of /controller_epoch at which the election was won; every write checks it.
        live_brokers: with their endpoints, those that are shutting down included.
        broker_epochs: czxid of each live broker's node (KIP-380).
        shutting_down: live brokers that asked for a controlled shutdown; they lead nothing new.
        offline_dirs: partitions by broker whose log directory there failed.
        being_deleted: topics queued for deletion.
        deletion_ineligible: those of them that wait for a replica or a reassignment.
        deletion_begun: those of them of whose deletion brokers have heard.
    """

    def __init__(self, controller_id: BrokerId = NO_CONTROLLER, stats: ControllerStats | None = None) -> None:
        self.controller_id = controller_id
        self.stats = ControllerStats() if stats is None else stats
        self.epoch = 0
        self.epoch_version = 0
        self.live_brokers: dict[BrokerId, BrokerInfo] = {}
        self.broker_epochs: dict[BrokerId, int] = {}
        self.shutting_down: set[BrokerId] = set()
        self.offline_dirs: dict[BrokerId, set[TopicPartition]] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.topic_names: dict[TopicId, str] = {}
        self.assignments: dict[str, dict[int, Assignment]] = {}
        self.leadership: dict[TopicPartition, Leadership] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.being_deleted: set[str] = set()
        self.deletion_ineligible: set[str] = set()
        self.deletion_begun: set[str] = set()

    @property
    def state_changes(self) -> StateChangeLog:
        """The log in which this controller writes its decisions."""
        return controller_log(self.controller_id, self.epoch)

    # -- brokers --

    def is_online(
        self, partition: TopicPartition, broker: BrokerId, *, count_shutting_down: bool = False
    ) -> bool:
        """Whether a replica can serve: its broker is live, not shutting down, and the log directory works."""
        return (
            broker in self.live_brokers
            and (count_shutting_down or broker not in self.shutting_down)
            and partition not in self.offline_dirs.get(broker, ())
        )

    def online_replicas(self, partition: TopicPartition) -> frozenset[BrokerId]:
        """The assigned replicas of a partition that can serve."""
        return frozenset(one for one in self.replicas_of(partition) if self.is_online(partition, one))

    # -- topics --

    def set_topic_id(self, topic: str, topic_id: TopicId) -> None:
        """Remember a topic's id."""
        if topic_id != NO_TOPIC_ID:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def assign(self, partition: TopicPartition, assignment: Assignment) -> None:
        """Set the replicas of a partition; new ones are in the state NonExistent."""
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment
        self.partition_states.setdefault(partition, PartitionState.NON_EXISTENT)
        for broker in assignment.replicas:
            self.replica_states.setdefault(Replica(partition, broker), ReplicaState.NON_EXISTENT)

    def assignment(self, partition: TopicPartition) -> Assignment:
        """The replicas of a partition; none when it is unknown."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, Assignment(()))

    def replicas_of(self, partition: TopicPartition) -> tuple[BrokerId, ...]:
        """The assigned brokers, in order."""
        return self.assignment(partition).replicas

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of some topics."""
        return [
            TopicPartition(topic, number)
            for topic in topics
            for number in sorted(self.assignments.get(topic, ()))
        ]

    def partitions(self) -> list[TopicPartition]:
        """All partitions."""
        return self.partitions_of(sorted(self.assignments))

    def replicas(self, topics: Iterable[str]) -> list[Replica]:
        """All replicas of some topics."""
        return [
            Replica(partition, broker)
            for partition in self.partitions_of(topics)
            for broker in self.replicas_of(partition)
        ]

    def replicas_on(self, brokers: Iterable[BrokerId]) -> list[Replica]:
        """All replicas that some brokers hold."""
        wanted = frozenset(brokers)
        return [one for one in self.replicas(sorted(self.assignments)) if one.broker in wanted]

    def in_state(self, topic: str, state: ReplicaState) -> list[Replica]:
        """The replicas of a topic in a state."""
        return [one for one in self.replicas((topic,)) if self.replica_states.get(one) is state]

    def deletion_counts(self) -> DeletionCounts:
        """Return the gauges of deletion."""
        replicas = self.replicas(self.being_deleted)
        states = [self.replica_states.get(one) for one in replicas]
        return DeletionCounts(
            topics=len(self.being_deleted),
            replicas=len(states) - states.count(ReplicaState.DELETION_SUCCESSFUL),
            ineligible_topics=len(self.deletion_ineligible),
            ineligible_replicas=states.count(ReplicaState.DELETION_INELIGIBLE),
        )

    def leaderless(self) -> Iterator[TopicPartition]:
        """Partitions that had a leader which cannot serve, topics being deleted left out."""
        for partition, leadership in self.leadership.items():
            if partition.topic not in self.being_deleted and (
                leadership.leader == NO_LEADER or not self.is_online(partition, leadership.leader)
            ):
                yield partition

    def forget_topic(self, topic: str) -> None:
        """Drop everything about a topic, its place in the deletion included."""
        for partition in self.partitions_of((topic,)):
            for broker in self.replicas_of(partition):
                self.replica_states.pop(Replica(partition, broker), None)
            self.partition_states.pop(partition, None)
            self.leadership.pop(partition, None)
            for offline in self.offline_dirs.values():
                offline.discard(partition)
        self.assignments.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        self.being_deleted.discard(topic)
        self.deletion_ineligible.discard(topic)
        self.deletion_begun.discard(topic)
