"""Assignments against Apache Kafka's own assignors: the same members and partitions give the same assignment."""

import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from pkafka.clients.consumer.assignors.api import (
    Assignment,
    Assignor,
    PartitionRacks,
    PartitionsByTopic,
    Subscription,
)
from pkafka.clients.consumer.assignors.range_assignor import RangeAssignor
from pkafka.clients.consumer.assignors.round_robin import RoundRobinAssignor
from pkafka.clients.consumer.assignors.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
)
from pkafka.clients.consumer.assignors.wire import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pkafka.model import TopicPartition
from tests.interop.line_oracle import LineOracle, line_oracle

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

ASSIGNORS: list[type[Assignor]] = [
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
]
STICKY: list[type[Assignor]] = [StickyAssignor, CooperativeStickyAssignor]
RACKS = ("a", "b", "c")


@pytest.fixture(scope="module")
def oracle(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "AssignorOracle") as started:
        yield started


def places(partitions: Sequence[TopicPartition]) -> str:
    return ",".join(f"{topic}.{partition}" for topic, partition in partitions) or "-"


def word(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def member_word(member: str, said: Subscription) -> str:
    return "|".join(
        (
            member,
            said.group_instance_id or "-",
            said.rack_id or "-",
            str(said.generation_id),
            ",".join(said.topics),
            places(said.owned_partitions),
            word(said.user_data),
        )
    )


def kafkas(
    oracle: LineOracle, name: str, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]
) -> dict[str, list[TopicPartition]]:
    topics = ";".join(
        f"{topic}=" + ",".join("/".join(sorted(each.racks)) or "-" for each in found)
        for topic, found in partitions.items()
    )
    members = " ".join(member_word(member, said) for member, said in subscriptions.items())
    answer = oracle.ask(f"assign {name} {topics} {members}")
    assert answer.startswith("ok "), answer
    assigned: dict[str, list[TopicPartition]] = {}
    for each in answer.removeprefix("ok ").split(" "):
        member, _, found = each.partition("|")
        assigned[member] = [
            TopicPartition(topic, int(partition))
            for topic, _, partition in (place.rpartition(".") for place in found.split(",") if place)
        ]
    return assigned


def ours(
    assignor: Assignor, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]
) -> dict[str, list[TopicPartition]]:
    return {member: each.partitions for member, each in assignor.assign(partitions, subscriptions).items()}


class Group:
    """A group that changes at random and hands each assignment to its members."""

    def __init__(self, seed: int, cls: type[Assignor], *, racks: bool, equal: bool, size: int = 12) -> None:
        self.chance = random.Random(seed)
        self.cls = cls
        self.racks = racks
        self.equal = equal
        self.generation = 0
        self.topics = {f"topic-{index}": self.size() for index in range(self.chance.randint(1, 6))}
        self.replicas: dict[TopicPartition, frozenset[str]] = {}
        self.members: dict[str, Assignor] = {}
        self.said: dict[str, Subscription] = {}
        for _ in range(self.chance.randint(1, size)):
            self.join()

    def size(self) -> int:
        return self.chance.choice((1, 2, 3, 5, 8, 13))

    def join(self) -> None:
        chance = self.chance
        member = f"consumer-{chance.choice('abc')}-{chance.randbytes(8).hex()}"
        self.members[member] = self.cls()
        self.said[member] = Subscription(
            topics=self.some_topics(),
            rack_id=chance.choice((*RACKS, *RACKS, None)) if self.racks else None,
            group_instance_id=f"i{chance.randrange(10**6)}" if chance.random() < 0.3 else None,
        )

    def some_topics(self) -> list[str]:
        topics = sorted(self.topics)
        if not self.equal:
            topics = self.chance.sample(topics, self.chance.randint(1, len(topics)))
        return topics

    def partitions(self) -> dict[str, list[PartitionRacks]]:
        return {
            topic: [
                PartitionRacks(number, self.racks_of(TopicPartition(topic, number))) for number in range(size)
            ]
            for topic, size in self.topics.items()
        }

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        if not self.racks:
            return frozenset()
        if partition not in self.replicas:
            self.replicas[partition] = frozenset(self.chance.sample(RACKS, self.chance.randint(1, 2)))
        return self.replicas[partition]

    def subscriptions(self) -> dict[str, Subscription]:
        """What the members send at the next join; some missed generations, some claim too much."""
        return {
            member: said._replace(user_data=self.members[member].subscription_user_data(said.topics))
            for member, said in self.said.items()
        }

    def take(self, assigned: Mapping[str, Sequence[TopicPartition]]) -> None:
        self.generation += 1
        for member, found in assigned.items():
            if self.chance.random() < 0.1:
                continue  # it missed this generation
            given = list(found)
            if self.chance.random() < 0.05:
                given.append(TopicPartition("topic-0", self.chance.randrange(self.topics["topic-0"])))
            given = list(dict.fromkeys(given))
            self.members[member].on_assignment(Assignment(given), self.generation)
            self.said[member] = self.said[member]._replace(
                owned_partitions=given, generation_id=self.generation
            )

    def change(self) -> None:
        match self.chance.randrange(6):
            case 0 | 1:
                self.join()
            case 2 if len(self.members) > 1:
                member = self.chance.choice(sorted(self.members))
                del self.members[member], self.said[member]
            case 3 if not self.equal:
                member = self.chance.choice(sorted(self.members))
                self.said[member] = self.said[member]._replace(topics=self.some_topics())
            case 4:
                self.topics[self.chance.choice(sorted(self.topics))] += self.chance.randint(1, 4)
            case _:
                self.topics[f"topic-{len(self.topics) + 5}"] = self.size()
                if self.equal:
                    topics = sorted(self.topics)
                    self.said = {member: said._replace(topics=topics) for member, said in self.said.items()}


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "different"])
@pytest.mark.parametrize("racks", [False, True], ids=["", "racks"])
@pytest.mark.parametrize("cls", ASSIGNORS, ids=lambda cls: cls.name)
def test_assignments_are_kafkas(oracle: LineOracle, cls: type[Assignor], racks: bool, equal: bool) -> None:
    for seed in range(50):
        follow(Group(seed, cls, racks=racks, equal=equal), oracle)


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "different"])
@pytest.mark.parametrize("cls", STICKY, ids=lambda cls: cls.name)
def test_assignments_of_many_members_are_kafkas(oracle: LineOracle, cls: type[Assignor], equal: bool) -> None:
    for seed in range(5):
        follow(Group(seed, cls, racks=seed % 2 > 0, equal=equal, size=120), oracle)


def follow(group: Group, oracle: LineOracle) -> None:
    """Put every step of a group to both."""
    for step in range(8):
        partitions, subscriptions = group.partitions(), group.subscriptions()
        assigned = ours(group.cls(), partitions, subscriptions)
        kafka = kafkas(oracle, group.cls.name, partitions, subscriptions)
        if subscribed_only(kafka, subscriptions):
            assert assigned == kafka, step
        else:
            # Kafka may give a partition back to who had it long ago, although that member left the topic since; such
            # a member rejoins at once, and so on for ever.
            assert issubclass(group.cls, (StickyAssignor, CooperativeStickyAssignor))
            assert subscribed_only(assigned, subscriptions)
        group.take(assigned)
        group.change()


def subscribed_only(
    assigned: Mapping[str, Sequence[TopicPartition]], subscriptions: Mapping[str, Subscription]
) -> bool:
    return all(each.topic in subscriptions[member].topics for member in assigned for each in assigned[member])


@pytest.mark.parametrize("cls", ASSIGNORS, ids=lambda cls: cls.name)
def test_user_data_are_kafkas_bytes(oracle: LineOracle, cls: type[Assignor]) -> None:
    assignor = cls()
    assert word(assignor.subscription_user_data(())) == answer(oracle, f"userdata {cls.name} 0 never")
    chance = random.Random(8)
    for generation in (0, 2**31 - 1, *range(30)):
        had = [
            TopicPartition(f"topic-{chance.randrange(40)}", partition)
            for partition in chance.sample(range(99), chance.randint(1, 60))
        ]
        assignor.on_assignment(Assignment(had), generation)
        asked = f"userdata {cls.name} {generation} {places(had)}"
        assert word(assignor.subscription_user_data(())) == answer(oracle, asked)


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_and_assignments_are_kafkas_bytes(oracle: LineOracle, version: int) -> None:
    owned = [TopicPartition("b", 3), TopicPartition("a", 10), TopicPartition("b", 1), TopicPartition("a", 9)]
    for said in (
        Subscription(["b", "a"], b"\1\2", owned, 5, "rack-1"),
        Subscription(["one"]),
        Subscription(["b", "a"], b"", owned),
    ):
        asked = f"subscription {version} {member_word('m', said)}"
        if said.user_data != b"":
            assert encode_subscription(said, version).hex() == answer(oracle, asked)
        read = decode_subscription(encode_subscription(said, version))
        assert (read.topics, read.user_data) == (sorted(said.topics), said.user_data)
        assert read.owned_partitions == (sorted(said.owned_partitions) if version > 0 else [])
        assert read.generation_id == (said.generation_id if version > 1 else -1)
        assert read.rack_id == (said.rack_id if version > 2 else None)
    for given in (Assignment(owned, b"\7"), Assignment([])):
        asked = f"assignment {version} {places(given.partitions)} {word(given.user_data)}"
        assert encode_assignment(given, version).hex() == answer(oracle, asked)
        read_back = decode_assignment(encode_assignment(given, version))
        assert sorted(read_back.partitions) == sorted(given.partitions)
        assert read_back.user_data == given.user_data


def answer(oracle: LineOracle, line: str) -> str:
    said = oracle.ask(line)
    assert said.startswith("ok "), said
    return said.removeprefix("ok ")
