"""What an assignor is given, what it returns, and the class that one's own derives from."""

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import ClassVar, NamedTuple, TypeAlias

from pkafka.model import TopicPartition

NO_GENERATION = -1


class RebalanceProtocol(IntEnum):
    """What a member does with its partitions when a rebalance begins (KIP-429)."""

    EAGER = 0
    """It gives all of them up."""
    COOPERATIVE = 1
    """It keeps them, and gives up afterwards what it was not assigned again."""


class PartitionRacks(NamedTuple):
    """A partition of a topic, with the racks of its replicas as far as they are known (KIP-881)."""

    partition: int
    racks: frozenset[str] = frozenset()


PartitionsByTopic: TypeAlias = Mapping[str, Sequence[PartitionRacks]]
"""The partitions of every topic that a member subscribes and that exists, sorted by number."""


class Subscription(NamedTuple):
    """What a member tells the leader of its group."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int = NO_GENERATION
    """The generation in which ``owned_partitions`` were assigned."""
    rack_id: str | None = None
    group_instance_id: str | None = None
    """Not a part of the subscription on the wire: JoinGroup's answer names it beside."""


class Assignment(NamedTuple):
    """What a member is to read."""

    partitions: list[TopicPartition]
    user_data: bytes | None = None


class Assignor:
    """Assigns partitions to the members of a group; one object for each consumer, used by one thread at a time.

    The leader of a group calls :meth:`assign`, every member the rest.
    """

    name: ClassVar[str]
    """How members agree on the assignor: unique, the same in all clients of a group."""
    supported_protocols: ClassVar[Sequence[RebalanceProtocol]] = (RebalanceProtocol.EAGER,)
    """A consumer uses the highest protocol that all its assignors support."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Look at the consumer's configuration; called once, before anything else."""
        return

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """What this member's subscription carries for the leader's :meth:`assign`; asked at every join."""
        return None

    def assign(
        self, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]
    ) -> Mapping[str, Assignment]:
        """Decide which member reads which partitions.

        Args:
            partitions: every partition there is to assign.
            subscriptions: by member id.

        Returns:
            An assignment for every member, by member id.
        """
        raise NotImplementedError

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """This member was assigned something.

        Args:
            assignment: what :meth:`assign` said on the leader.
            generation: the group's, since this assignment.
        """
        return
