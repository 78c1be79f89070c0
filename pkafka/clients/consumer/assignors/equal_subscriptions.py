"""The sticky assignment where all members subscribe the same topics: each gets as many as the others, or one more.

One pass over members and one over partitions, however they were assigned before.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from pkafka.clients.consumer.assignors.api import PartitionsByTopic
from pkafka.clients.consumer.assignors.claims import Claims
from pkafka.clients.consumer.assignors.racks import Racks
from pkafka.model import TopicPartition


class EqualSubscriptions:
    """One assignment to members that all subscribe the same topics.

    Args:
        partitions: all there are.
        racks: which members are near which partitions.
        claims: which member had which partitions.
    """

    def __init__(self, partitions: PartitionsByTopic, racks: Racks, claims: Claims) -> None:
        self._partitions = partitions
        self._racks = racks
        self._claims = claims
        self._given: Final[dict[str, list[TopicPartition]]] = {member: [] for member in claims.owned}
        self._size, self._bigger_max = divmod(sum(map(len, partitions.values())), len(claims.owned))
        self._size_max: Final = self._size + (self._bigger_max > 0)
        self._bigger = 0
        """How many members have ``size + 1`` so far; ``bigger_max`` of them will."""
        self._below: list[str] = []
        """Members with fewer than ``size``."""
        self._at_size: list[str] = []
        """Members with exactly ``size`` that may get one more."""
        self._revoked: dict[TopicPartition, str] = {}
        self.moving: Final[dict[TopicPartition, str]] = {}
        """Partitions that another member has to give up before this member may have them."""

    def assign(self) -> Mapping[str, list[TopicPartition]]:
        """Decide; :attr:`moving` is known afterwards."""
        for member, owned in self._claims.owned.items():
            self._keep(member, owned)
        taken = {partition for given in self._given.values() for partition in given}
        left = [
            each
            for topic in sorted(self._partitions)
            for place in self._partitions[topic]
            if (each := TopicPartition(topic, place.partition)) not in taken
        ]
        self._below.sort()
        self._at_size.sort()
        left = self._racks.fewest_near_first(left)
        if self._racks.matter:
            left = self._deal_by_rack(left)
        self._deal(left)
        return self._given

    def _keep(self, member: str, owned: Mapping[TopicPartition, None]) -> None:
        """Leave the member what it had, as far as its share goes."""
        mine: list[TopicPartition] = []
        for partition in sorted(owned, key=lambda each: (each.partition, each.topic)):
            if self._racks.mismatch(member, partition):
                self._revoked[partition] = member
            elif partition not in self._claims.contested:
                mine.append(partition)
        if len(mine) < self._size:
            self._below.append(member)
            kept = mine
        elif len(mine) >= self._size_max and self._bigger < self._bigger_max:
            self._bigger += 1
            if self._bigger == self._bigger_max:
                self._at_size.clear()
            kept = mine[: self._size_max]
        else:
            kept = mine[: self._size]
            if self._bigger < self._bigger_max:
                self._at_size.append(member)
        self._given[member] += kept
        self._revoked.update(dict.fromkeys(mine[len(kept) :], member))

    def _deal_by_rack(self, left: list[TopicPartition]) -> list[TopicPartition]:
        """Give partitions in turn to members near them that have room.

        Returns:
            Those that are left.
        """
        far: list[TopicPartition] = []
        turn = 0
        for partition in left:
            index = self._racks.next_near(partition, self._below, turn)
            if index >= 0:
                member = self._below[index]
                count = len(self._given[member]) + 1
                if count >= self._size:
                    del self._below[index]
                    if count < self._size_max and self._bigger < self._bigger_max:
                        self._at_size.append(member)
                else:
                    index += 1
                turn = index % len(self._below) if self._below else 0
            else:
                index = self._racks.next_near(partition, self._at_size)
                if index < 0:
                    far.append(partition)
                    continue
                member = self._at_size.pop(index)
                self._bigger += 1
                if self._bigger == self._bigger_max:
                    self._at_size.clear()
            self._give(partition, member)
        return far

    def _deal(self, left: list[TopicPartition]) -> None:
        """Give the rest in turn to members below the size, then one each to members at it."""
        below, at_size = deque(self._below), deque(self._at_size)
        for partition in left:
            if not below:
                self._give(partition, at_size.popleft())
                continue
            member = below.popleft()
            if self._give(partition, member) == self._size:
                at_size.append(member)
            else:
                below.append(member)

    def _give(self, partition: TopicPartition, member: str) -> int:
        given = self._given[member]
        given.append(partition)
        if self._revoked.get(partition, member) != member or partition in self._claims.contested:
            self.moving[partition] = member
        return len(given)
