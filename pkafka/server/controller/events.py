"""The events of a controller. They wait in one first-in, first-out queue that one thread empties.

An event from a watch says only that something may have changed; the controller then reads the store.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pkafka.coordination.store import Store
from pkafka.model import BrokerId, TopicPartition
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from pkafka.protocol.messages.stop_replica import StopReplicaResponse


@dataclass(frozen=True, slots=True)
class Startup:
    """A store with a new session is there: watch /controller and stand for election."""

    store: Store


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """/controller was made, changed or deleted."""


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """The session of ``store`` is over, and with it the role."""

    store: Store


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """A broker registered, went away, or changed its registration."""


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic was made or removed."""


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A topic's node changed: partitions were added."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletionWish:
    """A broker wrote a wish to delete a topic into the store."""


@dataclass(frozen=True, slots=True)
class ReassignmentWish:
    """/admin/reassign_partitions was made or changed: tools from before Kafka 2.4 ask for moves so."""


@dataclass(frozen=True, slots=True)
class ElectionWish:
    """/admin/preferred_replica_election was made or changed, by tools from before Kafka 2.2."""


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A leader changed an ISR by itself, as leaders of Kafka before 2.7 do."""


@dataclass(frozen=True, slots=True)
class IsrsDecided:
    """ISRs that leaders of moving partitions proposed are written; the moves may have waited for them."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class LogDirChange:
    """A broker lost a log directory."""


@dataclass(frozen=True, slots=True)
class UncleanElectionAllowed:
    """Unclean elections are allowed now for a topic, or with None for every topic without a setting of its own."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker answered a LeaderAndIsr of controller epoch ``epoch``."""

    broker: BrokerId
    epoch: int
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """A broker answered a StopReplica of controller epoch ``epoch`` that told it to delete ``deleted``."""

    broker: BrokerId
    epoch: int
    deleted: tuple[TopicPartition, ...]
    response: StopReplicaResponse


@dataclass(frozen=True, slots=True)
class Reload:
    """The controller's knowledge may be wrong, after a write without an answer or a bug: it reads everything anew."""


@dataclass(frozen=True, slots=True)
class Balance:
    """It is time to look for leaders that are not on their preferred replicas (auto.leader.rebalance.enable)."""


@dataclass(frozen=True, slots=True)
class Call:
    """Another thread has a function called on this one."""

    function: Callable[[], Any]
    future: "Future[Any]" = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Shutdown:
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
