"""Assignors at work: consumers that join one by one, on Apache Kafka and on pkafka, also beside Kafka's own."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.consumer.assignors.api import Assignment, Assignor, PartitionsByTopic, Subscription
from pkafka.clients.consumer.assignors.range_assignor import RangeAssignor
from pkafka.model import TopicPartition
from tests.interop.conftest import System
from tests.interop.consumer_members import java_member
from tests.talk import Talk, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

COUNT = 7
Owned = dict[str, set[int]]


class Everything(Assignor):
    """Somebody's own: all partitions to the member with the highest id."""

    name = "everything"

    def subscription_user_data(self, topics: object) -> bytes:
        return b"mine"

    def assign(
        self, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        assert {each.user_data for each in subscriptions.values()} == {b"mine"}
        given = {member: Assignment([]) for member in subscriptions}
        given[max(subscriptions)].partitions.extend(
            TopicPartition(topic, each.partition) for topic, found in partitions.items() for each in found
        )
        return given


class Members:
    """Consumers of one group, all polled by the test's thread."""

    def __init__(self, system: System, topic: str, stack: ExitStack, **keys: object) -> None:
        self._system, self._topic, self._stack, self._keys = system, topic, stack, keys
        self.consumers: dict[str, Consumer] = {}

    def join(self, name: str) -> None:
        properties = {
            "bootstrap.servers": self._system.bootstrap,
            "group.id": self._topic,
            "client.id": name,
            "heartbeat.interval.ms": 200,
            # Longer than any pause of a busy machine: a member that is given up loses what the sticky ones keep.
            "session.timeout.ms": 60_000,
            **{key.replace("_", "."): value for key, value in self._keys.items()},
        }
        consumer = self._stack.enter_context(Consumer(properties))
        consumer.subscribe([self._topic])
        self.consumers[name] = consumer

    def owned(self) -> Owned:
        for consumer in self.consumers.values():
            consumer.poll(20)
        return {
            name: {each.partition for each in consumer.assignment()}
            for name, consumer in self.consumers.items()
        }

    def settled(self, is_good: Callable[[Owned], bool], others: Callable[[], int] = lambda: 0) -> Owned:
        """What everybody owns once every partition has one owner and it is ``is_good``."""
        found: Owned = {}

        def look() -> bool:
            found.clear()
            found.update(self.owned())
            every = [each for mine in found.values() for each in mine]
            return len(set(every)) == len(every) == COUNT - others() and is_good(found)

        wait_for(look, timeout_s=60)
        return dict(found)


def is_even(owned: Owned) -> bool:
    sizes = [len(each) for each in owned.values()]
    return max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    "strategy", ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"]
)
def test_consumers_that_join_and_leave_share_evenly_and_the_sticky_ones_keep_what_they_can(
    system: System, talk: Talk, topic: str, strategy: str
) -> None:
    talk.create(topic, COUNT)
    with ExitStack() as stack:
        members = Members(system, topic, stack, partition_assignment_strategy=strategy)
        before: Owned = {}
        for name in "abc":
            members.join(name)
            owned = members.settled(is_even)
            if "Sticky" in strategy:
                assert all(owned[each] <= before[each] for each in before), (before, owned)
            elif strategy == "RangeAssignor":
                in_order = [owned[each] for each in sorted(owned)]
                assert sorted(map(min, in_order)) == list(map(min, in_order))
                assert all(each == set(range(min(each), max(each) + 1)) for each in in_order)
            else:
                in_order = [owned[each] for each in sorted(owned)]
                assert in_order == [set(range(start, COUNT, len(owned))) for start in range(len(owned))]
            before = owned
        members.consumers.pop("b").close()
        owned = members.settled(is_even)
        if "Sticky" in strategy:
            assert all(before[each] <= owned[each] for each in owned), (before, owned)


def test_an_assignor_of_ones_own_decides(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic, COUNT)
    with ExitStack() as stack:
        members = Members(system, topic, stack, partition_assignment_strategy=[Everything, RangeAssignor])
        for name in "ab":
            members.join(name)
            owned = members.settled(lambda owned: len(owned[max(owned)]) == COUNT)
        assert owned == {"a": set(), "b": set(range(COUNT))}


@pytest.mark.parametrize("strategy", ["RoundRobinAssignor", "StickyAssignor"])
def test_a_member_of_kafkas_own_client_gets_its_part(
    system: System, talk: Talk, topic: str, strategy: str, kafka_classpath: str
) -> None:
    talk.create(topic, COUNT)
    with ExitStack() as stack:
        members = Members(system, topic, stack, partition_assignment_strategy=strategy)
        members.join("a")
        members.join("b")
        before = members.settled(is_even)
        full = f"org.apache.kafka.clients.consumer.{strategy}"
        more = {"--assignment-strategy": full, "--session-timeout": "60000"}
        java = java_member(kafka_classpath, system, topic, topic, **more)
        try:
            owned = members.settled(
                lambda owned: bool(java.owned) and is_even(owned), lambda: len(java.owned)
            )
            assert len(java.owned) in (2, 3)
            if strategy == "StickyAssignor":
                assert all(owned[each] <= before[each] for each in owned), (before, owned)
            # Whoever leads now, what the members of either kind said they had is understood.
            members.consumers.pop("a").close()
            later = members.settled(lambda owned: True, lambda: len(java.owned))
            assert len(later["b"]) in (3, 4)
            if strategy == "StickyAssignor":
                assert owned["b"] <= later["b"]
        finally:
            java.close()
