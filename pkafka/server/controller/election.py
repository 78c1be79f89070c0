"""The choice of the next leader: pure functions, one for each cause.

Each gets the assignment in order (the preferred leader first) and the facts it needs, and returns the new leader with
the new ISR, or None when no replica is eligible.
"""

from collections.abc import Set
from enum import Enum
from typing import NamedTuple

from pkafka.model import BrokerId


class Strategy(Enum):
    """The causes of an election."""

    OFFLINE_PARTITION = "OfflinePartitionLeaderElectionStrategy"
    """The leader is gone, or there was none yet."""
    OFFLINE_PARTITION_UNCLEAN = "OfflinePartitionLeaderElectionStrategy(allowUnclean)"
    """The leader is gone, and the operator accepts the loss of records, whatever the topic's settings are."""
    REASSIGNMENT = "ReassignPartitionLeaderElectionStrategy"
    PREFERRED_REPLICA = "PreferredReplicaPartitionLeaderElectionStrategy"
    CONTROLLED_SHUTDOWN = "ControlledShutdownPartitionLeaderElectionStrategy"


class Elected(NamedTuple):
    """Holds the outcome of an election."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    unclean: bool = False
    """The leader was not in sync: records that were acknowledged may be lost."""


def elect_for_offline_partition(
    assignment: tuple[BrokerId, ...],
    isr: tuple[BrokerId, ...],
    online: Set[BrokerId],
    *,
    unclean_allowed: bool,
) -> Elected | None:
    """Elect the first online replica in sync; without one, and if allowed, the first online replica."""
    for broker in assignment:
        if broker in online and broker in isr:
            return Elected(broker, tuple(one for one in isr if one in online))
    if unclean_allowed:
        for broker in assignment:
            if broker in online:
                return Elected(broker, (broker,), unclean=True)
    return None


def elect_for_reassignment(
    target: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], online: Set[BrokerId]
) -> Elected | None:
    """Elect the first online replica in sync among those that stay."""
    for broker in target:
        if broker in online and broker in isr:
            return Elected(broker, isr)
    return None


def elect_preferred(
    assignment: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], online: Set[BrokerId]
) -> Elected | None:
    """Elect the first replica of the assignment or none."""
    preferred = assignment[:1]
    return elect_for_reassignment(preferred, isr, online)


def elect_for_controlled_shutdown(
    assignment: tuple[BrokerId, ...],
    isr: tuple[BrokerId, ...],
    online: Set[BrokerId],
    shutting_down: Set[BrokerId],
) -> Elected | None:
    """Elect the first replica in sync that stays; replicas of brokers that shut down leave the ISR.

    Args:
        online: may have the brokers that shut down.
    """
    for broker in assignment:
        if broker in online and broker in isr and broker not in shutting_down:
            return Elected(broker, tuple(one for one in isr if one not in shutting_down))
    return None


def first_leader(assignment: tuple[BrokerId, ...], online: Set[BrokerId]) -> Elected | None:
    """Choose leader and ISR of a new partition: the online replicas, led by the first of the assignment."""
    live = tuple(one for one in assignment if one in online)
    return Elected(live[0], live) if live else None


def without_replica(
    leader: BrokerId, isr: tuple[BrokerId, ...], replica: BrokerId, *, no_leader: BrokerId
) -> tuple[BrokerId, tuple[BrokerId, ...]]:
    """Choose leader and ISR after a replica went offline.

    The last member stays in the ISR, so that only it can be elected cleanly when it comes back.
    """
    rest = tuple(one for one in isr if one != replica)
    return (no_leader if leader == replica else leader, rest or isr)
