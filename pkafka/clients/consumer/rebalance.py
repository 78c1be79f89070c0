"""Which partitions a rebalance takes and gives, by the protocol of the group's assignors (KIP-429). Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from pkafka.clients.consumer.assignors.api import RebalanceProtocol
from pkafka.model import TopicPartition


class Surrender(NamedTuple):
    """What to do before joining."""

    lost: list[TopicPartition]
    revoked: list[TopicPartition] | None
    """None where the listener is not to be told; an EAGER member is told of nothing too."""
    kept: list[TopicPartition]


class Takeover(NamedTuple):
    """What to do with an assignment."""

    revoked: list[TopicPartition]
    """To be given up now; the member then joins again, so that another member gets them."""
    added: list[TopicPartition]


def before_join(
    protocol: RebalanceProtocol, *, lost: bool, owned: Iterable[TopicPartition], topics: Collection[str]
) -> Surrender:
    """What a member gives up before it joins.

    Args:
        lost: the coordinator does not know the member any more, so others may own its partitions already.
        owned: in their order.
        topics: that it subscribes now.
    """
    have = list(owned)
    if lost:
        return Surrender(have, None, [])
    if protocol is RebalanceProtocol.EAGER:
        return Surrender([], have, [])
    revoked = [each for each in have if each.topic not in topics]
    return Surrender([], revoked or None, [each for each in have if each.topic in topics])


def after_join(
    protocol: RebalanceProtocol, *, owned: Iterable[TopicPartition], assigned: Collection[TopicPartition]
) -> Takeover:
    """What an assignment takes and brings; from an EAGER member, which has given everything up, it takes nothing."""
    have = list(owned)
    given, known = set(assigned), set(have)
    added = [each for each in assigned if each not in known]
    if protocol is RebalanceProtocol.EAGER:
        return Takeover([], added)
    return Takeover([each for each in have if each not in given], added)


def moved_too_early(
    owned: Mapping[str, Collection[TopicPartition]], assigned: Mapping[str, Collection[TopicPartition]]
) -> set[TopicPartition]:
    """The partitions that a COOPERATIVE assignor gave to one member before another has given them up.

    Args:
        owned: what each member said it has, by member id.
        assigned: what each is to have.
    """
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member, given in assigned.items():
        before, after = set(owned.get(member, ())), set(given)
        added |= after - before
        revoked |= before - after
    return added & revoked
