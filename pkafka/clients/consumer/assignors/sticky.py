"""StickyAssignor and CooperativeStickyAssignor: as even as possible, as near as possible to what was.

The first is eager: members give everything up before they join, so what they had travels as user data. The second is
cooperative: members keep what they have, and a partition that moves is given to no member at first. Its owner sees that
it lost it, gives it up and joins again; then it is given to the new one.
"""

from collections.abc import Collection, Mapping
from struct import Struct
from struct import error as StructError
from typing import Final

from pkafka.clients.consumer.assignors.api import (
    NO_GENERATION,
    Assignment,
    Assignor,
    PartitionsByTopic,
    RebalanceProtocol,
    Subscription,
)
from pkafka.clients.consumer.assignors.claims import Claim, settle
from pkafka.clients.consumer.assignors.java_order import group_order
from pkafka.model import TopicPartition

_INT: Final = Struct(">i")
_SHORT: Final = Struct(">h")


class StickyAssignor(Assignor):
    """The eager one."""

    name = "sticky"

    def __init__(self) -> None:
        self._had: Claim | None = None

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """What this member had, in Kafka's version 1: topics with partitions, and the generation."""
        return None if self._had is None else encode_claim(self._had)

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """See :meth:`Assignor.on_assignment`."""
        self._had = Claim(assignment.partitions, generation)

    def assign(
        self, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """See :meth:`Assignor.assign`."""
        claims = {
            member: decode_claim(each.user_data) if each.user_data else Claim()
            for member, each in subscriptions.items()
        }
        assigned, _ = _assign(partitions, subscriptions, claims)
        return {member: Assignment(each) for member, each in assigned.items()}


class CooperativeStickyAssignor(Assignor):
    """The cooperative one (KIP-429)."""

    name = "cooperative-sticky"
    supported_protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """The generation of what this member has, for leaders that read subscriptions before version 2."""
        return _INT.pack(self._generation)

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """See :meth:`Assignor.on_assignment`."""
        self._generation = generation

    def assign(
        self, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """See :meth:`Assignor.assign`; what another member has to give up first is left out."""
        claims = {
            member: Claim(each.owned_partitions, _generation(each)) for member, each in subscriptions.items()
        }
        assigned, moving = _assign(partitions, subscriptions, claims)
        if moving is None:
            moving = _moving(subscriptions, assigned)
        return {
            member: Assignment([each for each in given if moving.get(each) != member])
            for member, given in assigned.items()
        }


def encode_claim(claim: Claim) -> bytes:
    """The user data of a sticky member, version 1: an array of topics with arrays of partitions; the generation."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in claim.partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [_INT.pack(len(by_topic))]
    for topic in group_order([each.topic for each in claim.partitions]):
        name = topic.encode()
        found = by_topic[topic]
        parts += [_SHORT.pack(len(name)), name, _INT.pack(len(found)), *map(_INT.pack, found)]
    return b"".join((*parts, _INT.pack(claim.generation)))


def decode_claim(data: bytes) -> Claim:
    """What :func:`encode_claim` wrote, or version 0 without the generation; nothing, where it cannot be read."""
    try:
        partitions, position = _decode_partitions(data)
    except StructError:
        return Claim()
    (generation,) = _INT.unpack_from(data, position) if len(data) - position >= 4 else (NO_GENERATION,)
    return Claim(partitions, generation)


def _decode_partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    partitions: list[TopicPartition] = []
    topics, position = _length(data, 0, _INT)
    for _ in range(topics):
        size, position = _length(data, position, _SHORT)
        topic = data[position : position + size].decode(errors="replace")
        count, position = _length(data, position + size, _INT)
        layout = Struct(f">{count}i")
        partitions += [TopicPartition(topic, each) for each in layout.unpack_from(data, position)]
        position += layout.size
    return partitions, position


def _length(data: bytes, position: int, layout: Struct) -> tuple[int, int]:
    (length,) = layout.unpack_from(data, position)
    position += layout.size
    if not 0 <= length <= len(data) - position:
        raise StructError("a length reaches beyond the data")
    return length, position


def _generation(subscription: Subscription) -> int:
    if subscription.generation_id >= 0:
        return subscription.generation_id
    data = subscription.user_data
    return _INT.unpack_from(data)[0] if data is not None and len(data) >= _INT.size else NO_GENERATION


def _assign(
    partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> tuple[Mapping[str, list[TopicPartition]], Mapping[TopicPartition, str] | None]:
    """What each member gets, and what of it others have to give up first; None where that was not found on the way."""
    if not subscriptions:
        return {}, {}
    # For the leader alone: the other members of a group need not load them.
    from pkafka.clients.consumer.assignors.different_subscriptions import DifferentSubscriptions
    from pkafka.clients.consumer.assignors.equal_subscriptions import EqualSubscriptions
    from pkafka.clients.consumer.assignors.racks import Racks

    subscribed = frozenset(topic for each in subscriptions.values() for topic in each.topics)
    partitions = {topic: found for topic, found in partitions.items() if topic in subscribed}
    racks = Racks(partitions, subscriptions)
    settled = settle(partitions, subscriptions, claims)
    first, *others = (frozenset(each.topics) for each in subscriptions.values())
    if all(topics == first for topics in others):
        equal = EqualSubscriptions(partitions, racks, settled)
        return equal.assign(), equal.moving
    assigned = DifferentSubscriptions(partitions, subscriptions, racks, settled).assign()
    return {member: list(each) for member, each in assigned.items()}, None


def _moving(
    subscriptions: Mapping[str, Subscription], assigned: Mapping[str, list[TopicPartition]]
) -> dict[TopicPartition, str]:
    """The partitions that one member has and another is to get."""
    gained: dict[TopicPartition, str] = {}
    lost: set[TopicPartition] = set()
    for member, given in assigned.items():
        owned = frozenset(subscriptions[member].owned_partitions)
        gained.update((each, member) for each in given if each not in owned)
        lost |= owned.difference(given)
    return {each: member for each, member in gained.items() if each in lost}
