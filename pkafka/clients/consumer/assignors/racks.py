"""Which members are near which partitions (KIP-881)."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from pkafka.clients.consumer.assignors.api import PartitionsByTopic, Subscription
from pkafka.model import TopicPartition


def racks_matter(member_racks: Collection[str], partition_racks: Collection[Collection[str]]) -> bool:
    """Whether members could be nearer to one partition than to another."""
    if not member_racks:
        return False
    every: set[str] = set().union(*partition_racks)
    return not every.isdisjoint(member_racks) and any(len(racks) < len(every) for racks in partition_racks)


class Racks:
    """The racks of members and partitions, as far as they matter.

    Args:
        partitions: with the racks of their replicas.
        subscriptions: with the racks of the members.
    """

    def __init__(self, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]) -> None:
        members = {member: each.rack_id for member, each in subscriptions.items() if each.rack_id}
        at = {
            TopicPartition(topic, each.partition): each.racks
            for topic, found in partitions.items()
            for each in found
            if members
        }
        self._near: dict[TopicPartition, int] = {}
        if members:
            count: dict[str, int] = {}
            for rack in members.values():
                count[rack] = count.get(rack, 0) + 1
            self._near = {each: sum(count.get(rack, 0) for rack in racks) for each, racks in at.items()}
        self.matter = racks_matter(set(members.values()), at.values())
        self._of_member = members if self.matter else {}
        self._of_partition = at if self.matter else {}

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member would have to read the partition from another rack than its own."""
        rack = self._of_member.get(member)
        return rack is not None and rack not in self._of_partition.get(partition, ())

    def fewest_near_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those that fewer members are near to come first."""
        near = self._near
        return sorted(partitions, key=lambda each: near.get(each, 0)) if near else partitions

    def next_near(self, partition: TopicPartition, members: Sequence[str], first: int = 0) -> int:
        """The index of a member in a rack of the partition, looked for from ``first`` on and around; -1 for none."""
        racks = self._of_partition.get(partition)
        if racks:
            for index in _around(first, len(members)):
                if self._of_member.get(members[index]) in racks:
                    return index
        return -1


def _around(first: int, size: int) -> Iterable[int]:
    yield from range(first, size)
    yield from range(first)
