"""What the members of a group had, as far as it is still true: where the sticky assignors start from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pkafka.clients.consumer.assignors.api import NO_GENERATION, PartitionsByTopic, Subscription
from pkafka.clients.consumer.assignors.java_order import hash_order
from pkafka.model import TopicPartition


class Claim(NamedTuple):
    """What a member says it had, and in which generation."""

    partitions: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION


@dataclass(slots=True)
class Claims:
    """All claims looked at together."""

    owned: dict[str, dict[TopicPartition, None]] = field(default_factory=dict)
    """By member, in the order in which Java would look at them: a set that keeps its order."""
    contested: set[TopicPartition] = field(default_factory=set)
    """Claimed by several members of one generation, so given to none of them."""
    outdated: dict[TopicPartition, str] = field(default_factory=dict)
    """The member that had the partition last, of those whose generation is not the newest."""


def settle(
    partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> Claims:
    """Decide which member owned which partitions: of two that claim one, the member of the newer generation did.

    Partitions that do not exist are left out.

    Args:
        subscriptions: by member id; only their generation is looked at.
        claims: by member id.
    """
    settled = Claims()
    owner: dict[TopicPartition, str] = {}
    existing = {topic: frozenset(each.partition for each in found) for topic, found in partitions.items()}
    order = hash_order(subscriptions)
    for member in order:
        claim = claims[member]
        generation = claim.generation
        owned = settled.owned[member] = {}
        for partition in claim.partitions:
            if partition.partition not in existing.get(partition.topic, ()):
                continue
            other = owner.get(partition)
            if other is None:
                owned[partition] = None
            else:
                # Kafka compares with what the subscription says here, not with what the claim says.
                others = max(NO_GENERATION, subscriptions[other].generation_id)
                if generation < others:
                    continue
                settled.owned[other].pop(partition, None)
                if generation == others:
                    settled.contested.add(partition)
                else:
                    owned[partition] = None
            owner[partition] = member
    _note_outdated(settled, order, claims)
    return settled


def _note_outdated(settled: Claims, order: list[str], claims: Mapping[str, Claim]) -> None:
    newest = max((claim.generation for claim in claims.values()), default=NO_GENERATION)
    since: dict[TopicPartition, int] = {}
    for member in order:
        claim = claims[member]
        if claim.generation == newest:
            continue
        for partition in claim.partitions:
            if partition not in since or claim.generation > since[partition]:
                since[partition] = claim.generation
                settled.outdated[partition] = member
