"""RangeAssignor: each topic's partitions, in order, cut into a contiguous range for each member.

The first (partitions mod members) members of a topic get one partition more. Where both members and replicas have
racks that tell partitions apart, partitions go first to members in a rack of theirs (KIP-881), as far as the sizes of
the ranges allow; topics with the same number of partitions and the same members stay co-partitioned even then.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from pkafka.clients.consumer.assignors.api import (
    Assignment,
    Assignor,
    PartitionRacks,
    PartitionsByTopic,
    Subscription,
)
from pkafka.clients.consumer.assignors.java_order import hash_order
from pkafka.clients.consumer.assignors.members import sorted_members
from pkafka.clients.consumer.assignors.racks import racks_matter
from pkafka.model import TopicPartition


class RangeAssignor(Assignor):
    """Gives each member a range of each topic."""

    name = "range"

    def assign(
        self, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """See :meth:`Assignor.assign`."""
        members: dict[str, list[str]] = {}
        for member in hash_order(subscriptions):
            for topic in subscriptions[member].topics:
                members.setdefault(topic, []).append(member)
        racks = {member: each.rack_id for member, each in subscriptions.items() if each.rack_id}
        topics = [
            _Topic(topic, partitions[topic], sorted_members(set(members[topic]), subscriptions), racks)
            for topic in hash_order(topic for topic in hash_order(members) if partitions.get(topic))
        ]
        given: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        by_rack = any(topic.racks_matter for topic in topics)
        if by_rack:
            _assign_by_rack(topics, given)
        for each in topics:
            each.share_out(given)
        if by_rack:
            for found in given.values():
                found.sort()
        return {member: Assignment(found) for member, found in given.items()}


class _Topic:
    """A topic while it is being given away."""

    def __init__(
        self,
        name: str,
        partitions: Sequence[PartitionRacks],
        members: Sequence[str],
        member_racks: Mapping[str, str],
    ) -> None:
        self.name = name
        self.members = members
        self.racks = {member: member_racks.get(member) for member in members}
        self.partition_racks = {each.partition: each.racks for each in partitions}
        self.racks_matter = racks_matter(
            {rack for rack in self.racks.values() if rack}, self.partition_racks.values()
        )
        self._left = dict.fromkeys(self.partition_racks)
        self._size, self._extra = divmod(len(partitions), len(members))
        self._given = dict.fromkeys(members, 0)

    def room(self, member: str) -> int:
        """How many partitions more the member may get."""
        return max(0, self._size + (self._extra > 0) - self._given[member])

    def fits(self, member: str, partition: int) -> bool:
        """Whether the member may read the partition from its own rack, if it has one."""
        rack = self.racks[member]
        return rack is None or rack in self.partition_racks.get(partition, ())

    def give(self, member: str, partitions: Sequence[int], given: dict[str, list[TopicPartition]]) -> None:
        """Put partitions that no member has on the member's list."""
        for partition in partitions:
            del self._left[partition]
        given[member] += [TopicPartition(self.name, partition) for partition in partitions]
        self._given[member] += len(partitions)
        if self._given[member] > self._size:
            self._extra -= 1

    def share_out(
        self, given: dict[str, list[TopicPartition]], fits: Callable[[str, int], bool] | None = None
    ) -> None:
        """Give each member the next partitions that no member has and that fit, as many as it has room for."""
        for member in self.members:
            if not self._left:
                return
            near = self._left if fits is None else (each for each in self._left if fits(member, each))
            chosen = list(islice(near, self.room(member)))
            if chosen:
                self.give(member, chosen, given)


def _assign_by_rack(topics: Iterable[_Topic], given: dict[str, list[TopicPartition]]) -> None:
    alike: dict[tuple[tuple[tuple[str, str | None], ...], int], list[_Topic]] = {}
    for topic in topics:
        # Where no member of a topic has a rack, Kafka knows no racks of its partitions either, and counts none.
        count = len(topic.partition_racks) if any(topic.racks.values()) else 0
        alike.setdefault((tuple(sorted(topic.racks.items())), count), []).append(topic)
    for (_, count), group in alike.items():
        if len(group) > 1:
            _assign_together(group, count, given)
        elif group[0].racks_matter:
            group[0].share_out(given, group[0].fits)


def _assign_together(topics: Sequence[_Topic], count: int, given: dict[str, list[TopicPartition]]) -> None:
    """Give partition n of all these topics to one member, if there is one in whose rack all of them are."""
    members = list(topics[0].members)
    for partition in range(count):
        for member in members:
            if all(topic.fits(member, partition) and topic.room(member) for topic in topics):
                break
        else:
            continue
        for topic in topics:
            topic.give(member, [partition], given)
        if not any(topic.room(member) for topic in topics):
            members.remove(member)
            if not members:
                return
