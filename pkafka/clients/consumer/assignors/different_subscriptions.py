"""The sticky assignment where members subscribe different topics: as even as the subscriptions allow.

What members had stays, what no member has goes to the one that has the least, and then partitions move, one after the
other, to members that have at least two fewer. If that made the whole no more even, it is taken back.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence

from pkafka.clients.consumer.assignors.api import PartitionsByTopic, Subscription
from pkafka.clients.consumer.assignors.claims import Claims
from pkafka.clients.consumer.assignors.java_order import capacity, partition_bucket
from pkafka.clients.consumer.assignors.racks import Racks
from pkafka.model import TopicPartition


class DifferentSubscriptions:
    """One assignment to members that subscribe different topics.

    Args:
        partitions: all there are.
        subscriptions: by member id.
        racks: which members are near which partitions.
        claims: which member had which partitions; what they owned is changed into the assignment.
    """

    def __init__(
        self,
        partitions: PartitionsByTopic,
        subscriptions: Mapping[str, Subscription],
        racks: Racks,
        claims: Claims,
    ) -> None:
        self._racks = racks
        self._outdated = claims.outdated
        self._current = claims.owned
        self._topics = {
            member: partitions.keys() & set(each.topics) for member, each in subscriptions.items()
        }
        self._subscribers = dict.fromkeys(partitions, 0)
        for topics in self._topics.values():
            for topic in topics:
                self._subscribers[topic] += 1
        self._of_topic = {
            topic: [TopicPartition(topic, each.partition) for each in found]
            for topic, found in partitions.items()
        }
        self._full = {
            member: sum(len(self._of_topic[topic]) for topic in topics)
            for member, topics in self._topics.items()
        }
        """How many partitions a member has when it has everything that it subscribes."""
        self._owner: dict[TopicPartition, str] = {}
        self._by_size: list[tuple[int, str]] = []
        self._movements = _Movements()

    def assign(self) -> Mapping[str, Iterable[TopicPartition]]:
        """Decide."""
        must_revoke = self._drop_unwanted()
        self._by_size = sorted((len(owned), member) for member, owned in self._current.items())
        from_scratch = self._by_size[-1][0] == 0
        order = sorted(self._of_topic, key=lambda topic: (self._subscribers[topic], topic))
        every = [
            partition for topic in order if self._subscribers[topic] for partition in self._of_topic[topic]
        ]
        fresh = [partition for partition in every if partition not in self._owner]
        left = fresh
        if self._racks.matter:
            left = [each for each in fresh if not self._give(each, self._is_near)]
        for partition in left:
            self._give(partition, self._is_subscribed)

        # Members that can neither get nor give anything are left out of what follows.
        movable = [partition for partition in every if self._subscribers[partition.topic] > 1]
        fresh = [partition for partition in fresh if self._subscribers[partition.topic] > 1]
        fixed = {member for member in self._current if not self._may_change(member)}
        self._by_size = [(size, member) for size, member in self._by_size if member not in fixed]
        before = {member: dict(owned) for member, owned in self._current.items()}
        if not must_revoke:
            self._even_out(fresh)
        if self._even_out(movable) and not from_scratch:
            changing = self._current.keys() - fixed
            if _unevenness(self._current, changing) >= _unevenness(before, changing):
                return before
        return self._current

    def _drop_unwanted(self) -> bool:
        """Forget what a member has no use for, or should not read from where it is; whether there was anything."""
        dropped = False
        for member, owned in self._current.items():
            for partition in list(owned):
                if partition.topic not in self._topics[member] or self._racks.mismatch(member, partition):
                    del owned[partition]
                    dropped = True
                else:
                    self._owner[partition] = member
        return dropped

    def _is_subscribed(self, member: str, partition: TopicPartition) -> bool:
        return partition.topic in self._topics[member]

    def _is_near(self, member: str, partition: TopicPartition) -> bool:
        return partition.topic in self._topics[member] and not self._racks.mismatch(member, partition)

    def _give(self, partition: TopicPartition, may: Callable[[str, TopicPartition], bool]) -> bool:
        """Give the partition to the member with the least that may have it."""
        for _, member in self._by_size:
            if may(member, partition):
                self._resize(member, lambda owned: owned.update({partition: None}))
                self._owner[partition] = member
                return True
        return False

    def _may_change(self, member: str) -> bool:
        owned = self._current[member]
        return len(owned) < self._full[member] or any(self._subscribers[each.topic] > 1 for each in owned)

    def _even_out(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions until nothing more is gained; whether any was moved."""
        moved = False
        while partitions:
            again = False
            # Only a move can change whether all is even, so it is not asked after every partition.
            even = self._is_even()
            for partition in partitions:
                if even:
                    break
                to = self._better(partition)
                if to is not None:
                    self._move(self._movements.instead_of(partition, self._owner[partition], to), to)
                    again = moved = True
                    even = self._is_even()
            if not again:
                break
        return moved

    def _better(self, partition: TopicPartition) -> str | None:
        """The member that should have the partition instead of its owner: the one before that, or the least loaded."""
        size = len(self._current[self._owner[partition]])
        former = self._outdated.get(partition)
        # Kafka does not ask whether the former owner still subscribes the topic, and then assigns what is refused.
        if (
            former is not None
            and self._is_subscribed(former, partition)
            and size > len(self._current[former]) + 1
        ):
            return former
        for least, member in self._by_size:
            if least + 1 >= size:
                return None
            if self._is_subscribed(member, partition):
                return member
        return None

    def _is_even(self) -> bool:
        """Whether no member could get a partition from one that has at least two more."""
        if self._by_size[0][0] >= self._by_size[-1][0] - 1:
            return True
        most: dict[str, int] = {}
        for size, member in self._by_size:
            if size == self._full[member]:
                continue
            for topic in self._topics[member]:
                if topic not in most:
                    most[topic] = self._most(topic)
                if size + 1 < most[topic]:
                    return False
        return True

    def _most(self, topic: str) -> int:
        """The size of the biggest owner of a partition of the topic."""
        owners = {self._owner[partition] for partition in self._of_topic[topic]}
        return max((len(self._current[owner]) for owner in owners), default=0)

    def _move(self, partition: TopicPartition, to: str) -> None:
        owner = self._owner[partition]
        self._movements.note(partition, owner, to)
        self._resize(owner, lambda owned: owned.pop(partition))
        self._resize(to, lambda owned: owned.update({partition: None}))
        self._owner[partition] = to

    def _resize(self, member: str, change: Callable[[dict[TopicPartition, None]], object]) -> None:
        """Change what a member has, keeping the order by size."""
        owned = self._current[member]
        del self._by_size[bisect_left(self._by_size, (len(owned), member))]
        change(owned)
        insort(self._by_size, (len(owned), member))


class _Movements:
    """Which partitions moved between which members, so that no two of a topic swap places."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, tuple[str, str]] = {}
        self._between: dict[str, dict[tuple[str, str], _HashSet]] = {}

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        """The partition moves on; where it came from first is what counts."""
        earlier = self._of.pop(partition, None)
        if earlier is not None:
            between = self._between[partition.topic]
            between[earlier].remove(partition)
            if not between[earlier]:
                del between[earlier]
            source = earlier[0]
        if source != target:
            self._of[partition] = source, target
            pairs = self._between.setdefault(partition.topic, {})
            pairs.setdefault((source, target), _HashSet()).add(partition)

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """A partition of the topic that came the other way and can go back, or else ``partition``."""
        earlier = self._of.get(partition)
        if earlier is not None:
            source = earlier[0]
        back = self._between.get(partition.topic, {}).get((target, source))
        return partition if back is None else back.first()


class _HashSet:
    """A set whose first element is that of Java's ``HashSet``."""

    def __init__(self) -> None:
        self._items: dict[TopicPartition, None] = {}
        self._size_max = 0

    def add(self, item: TopicPartition) -> None:
        self._items[item] = None
        self._size_max = max(self._size_max, len(self._items))

    def remove(self, item: TopicPartition) -> None:
        del self._items[item]

    def first(self) -> TopicPartition:
        buckets = capacity(self._size_max)
        return min(self._items, key=lambda item: partition_bucket(item, buckets))

    def __bool__(self) -> bool:
        return bool(self._items)


def _unevenness(assignment: Mapping[str, Mapping[TopicPartition, None]], members: Iterable[str]) -> int:
    """The sum of the differences in size between any two of the members."""
    score = total = 0
    for count, size in enumerate(sorted(len(assignment[member]) for member in members)):
        score += size * count - total
        total += size
    return score
