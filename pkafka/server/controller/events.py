"""The events of a controller. They wait in one first-in, first-out queue that one thread empties.

An event from a watch says only that something may have changed; the controller then reads the store.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeAlias

from pkafka.coordination.store import Store
from pkafka.model import BrokerId, TopicPartition
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from pkafka.protocol.messages.stop_replica import StopReplicaResponse


class _Plain:
    """An event of which its class says all; two of one class are equal.

    No data class: a broker starts by making all its classes, and one of those takes half a millisecond.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Startup(NamedTuple):
    """A store with a new session is there: watch /controller and stand for election."""

    store: Store


class ControllerChange(_Plain):
    """/controller was made, changed or deleted."""


class SessionExpired(NamedTuple):
    """The session of ``store`` is over, and with it the role."""

    store: Store


class BrokerChange(_Plain):
    """A broker registered, went away, or changed its registration."""


class TopicChange(_Plain):
    """A topic was made or removed."""


class PartitionChange(NamedTuple):
    """A topic's node changed: partitions were added."""

    topic: str


class TopicDeletionWish(_Plain):
    """A broker wrote a wish to delete a topic into the store."""


class ReassignmentWish(_Plain):
    """/admin/reassign_partitions was made or changed: tools from before Kafka 2.4 ask for moves so."""


class ElectionWish(_Plain):
    """/admin/preferred_replica_election was made or changed, by tools from before Kafka 2.2."""


class IsrChange(_Plain):
    """A leader changed an ISR by itself, as leaders of Kafka before 2.7 do."""


class IsrsDecided(NamedTuple):
    """ISRs that leaders of moving partitions proposed are written; the moves may have waited for them."""

    partitions: tuple[TopicPartition, ...]


class LogDirChange(_Plain):
    """A broker lost a log directory."""


class UncleanElectionAllowed(NamedTuple):
    """Unclean elections are allowed now for a topic, or with None for every topic without a setting of its own."""

    topic: str | None


class LeaderAndIsrAnswered(NamedTuple):
    """A broker answered a LeaderAndIsr of controller epoch ``epoch``."""

    broker: BrokerId
    epoch: int
    response: LeaderAndIsrResponse


class StopReplicaAnswered(NamedTuple):
    """A broker answered a StopReplica of controller epoch ``epoch`` that told it to delete ``deleted``."""

    broker: BrokerId
    epoch: int
    deleted: tuple[TopicPartition, ...]
    response: StopReplicaResponse


class Reload(_Plain):
    """The controller's knowledge may be wrong, after a write without an answer or a bug: it reads everything anew."""


class Balance(_Plain):
    """It is time to look for leaders that are not on their preferred replicas (auto.leader.rebalance.enable)."""


class Call:
    """Another thread has a function called on this one.

    Args:
        function: is called.
    """

    __slots__ = ("function", "future")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.future: Future[Any] = Future()
        """Of what it returns."""


class Shutdown(_Plain):
    """Give the role up and end the thread."""


Event: TypeAlias = (
    Startup
    | ControllerChange
    | SessionExpired
    | BrokerChange
    | TopicChange
    | PartitionChange
    | TopicDeletionWish
    | ReassignmentWish
    | ElectionWish
    | IsrChange
    | IsrsDecided
    | LogDirChange
    | UncleanElectionAllowed
    | LeaderAndIsrAnswered
    | StopReplicaAnswered
    | Reload
    | Balance
    | Call
    | Shutdown
)
