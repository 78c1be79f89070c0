"""Assignors: what they promise, worked by hand; tests/interop compares thousands of groups with Kafka's."""

from collections.abc import Mapping

import pytest

from pkafka.clients.consumer.assignors.api import (
    Assignment,
    Assignor,
    PartitionRacks,
    RebalanceProtocol,
    Subscription,
)
from pkafka.clients.consumer.assignors.configured import load_assignors
from pkafka.clients.consumer.assignors.java_order import group_order, hash_order, text_hash
from pkafka.clients.consumer.assignors.range_assignor import RangeAssignor
from pkafka.clients.consumer.assignors.round_robin import RoundRobinAssignor
from pkafka.clients.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor, decode_claim
from pkafka.clients.consumer.assignors.wire import decode_assignment, decode_subscription, encode_subscription
from pkafka.errors import ConfigError, ProtocolError
from pkafka.model import TopicPartition

STICKY: list[type[Assignor]] = [StickyAssignor, CooperativeStickyAssignor]


def topic(size: int, *racks: str) -> list[PartitionRacks]:
    return [
        PartitionRacks(number, frozenset(racks[number].split("/")) if racks else frozenset())
        for number in range(size)
    ]


def assigned(
    assignor: Assignor, partitions: dict[str, list[PartitionRacks]], subscriptions: dict[str, Subscription]
) -> dict[str, str]:
    return {
        member: " ".join(f"{each.topic}{each.partition}" for each in given.partitions)
        for member, given in assignor.assign(partitions, subscriptions).items()
    }


def test_range_cuts_each_topic_and_the_first_members_get_one_more() -> None:
    both = Subscription(["a", "b", "absent"])
    assert assigned(RangeAssignor(), {"a": topic(5), "b": topic(3)}, {"x": both, "y": both}) == {
        "x": "a0 a1 a2 b0 b1",
        "y": "a3 a4 b2",
    }


def test_range_gives_nothing_to_members_beyond_the_partitions() -> None:
    one = Subscription(["a"])
    assert assigned(RangeAssignor(), {"a": topic(1)}, {"x": one, "y": one}) == {"x": "a0", "y": ""}


def test_static_members_keep_their_place_under_new_member_ids() -> None:
    def said(instance: str | None) -> Subscription:
        return Subscription(["a"], group_instance_id=instance)

    for cls, first, second in ((RangeAssignor, "a0 a1", "a2"), (RoundRobinAssignor, "a0 a2", "a1")):
        old = {"m1": said("i2"), "m2": said("i1"), "m0": said(None)}
        assert assigned(cls(), {"a": topic(5)}, old)["m0"] != "a0 a1"
        pair = {"z": said("i1"), "y": said("i2")}
        assert assigned(cls(), {"a": topic(3)}, pair) == {"z": first, "y": second}


def test_range_follows_racks_as_far_as_ranges_stay_even() -> None:
    partitions = {"a": topic(4, "r1", "r2", "r2", "r2")}
    members = {"x": Subscription(["a"], rack_id="r2"), "y": Subscription(["a"], rack_id="r1")}
    assert assigned(RangeAssignor(), partitions, members) == {"x": "a1 a2", "y": "a0 a3"}


def test_round_robin_passes_over_members_without_the_topic() -> None:
    members = {"x": Subscription(["a"]), "y": Subscription(["a", "b"])}
    assert assigned(RoundRobinAssignor(), {"a": topic(3), "b": topic(2)}, members) == {
        "x": "a0 a2",
        "y": "a1 b0 b1",
    }


def joined(
    assignor: Assignor, *topics: str, given: Assignment | None = None, generation: int = -1
) -> Subscription:
    if given is not None:
        assignor.on_assignment(given, generation)
    return Subscription(
        list(topics),
        assignor.subscription_user_data(topics),
        [] if given is None else given.partitions,
        generation,
    )


@pytest.mark.parametrize("cls", STICKY, ids=lambda cls: cls.name)
def test_sticky_moves_no_more_than_evenness_needs(cls: type[Assignor]) -> None:
    partitions = {"a": topic(4), "b": topic(2)}
    first = cls().assign(partitions, {name: joined(cls(), "a", "b") for name in "xy"})
    assert sorted(len(each.partitions) for each in first.values()) == [3, 3]
    members = {name: joined(cls(), "a", "b", given=first[name], generation=1) for name in "xy"}
    second = cls().assign(partitions, members | {"z": joined(cls(), "a", "b")})
    for name in "xy":
        assert len(second[name].partitions) == 2
        assert set(second[name].partitions) < set(first[name].partitions)


def test_cooperative_gives_a_moving_partition_only_when_it_was_given_up() -> None:
    cls = CooperativeStickyAssignor
    partitions = {"a": topic(4)}
    held = {"x": Assignment([TopicPartition("a", number) for number in range(4)])}
    members = {"x": joined(cls(), "a", given=held["x"], generation=1), "y": joined(cls(), "a")}
    first = cls().assign(partitions, members)
    assert [len(first[name].partitions) for name in "xy"] == [2, 0]
    members = {name: joined(cls(), "a", given=first[name], generation=2) for name in "xy"}
    second = cls().assign(partitions, members)
    assert second["x"] == first["x"]
    assert set(second["y"].partitions) == set(held["x"].partitions) - set(first["x"].partitions)


@pytest.mark.parametrize("cls", STICKY, ids=lambda cls: cls.name)
@pytest.mark.parametrize("other", [["a"], ["a", "b"]], ids=["equal", "different"])
def test_sticky_forgets_partitions_that_are_gone(cls: type[Assignor], other: list[str]) -> None:
    held = Assignment([TopicPartition("a", 7), TopicPartition("gone", 0), TopicPartition("a", 1)])
    members = {
        "x": joined(cls(), "a", given=held, generation=1),
        "y": joined(cls(), *other, given=Assignment([]), generation=1),
    }
    given = cls().assign({"a": topic(2), "b": topic(0)}, members)
    assert given["x"].partitions == [TopicPartition("a", 1)]
    assert given["y"].partitions == [TopicPartition("a", 0)]


@pytest.mark.parametrize("cls", STICKY, ids=lambda cls: cls.name)
def test_sticky_assigns_to_a_thousand_members(cls: type[Assignor]) -> None:
    partitions = {f"t{number}": topic(100) for number in range(20)}
    members = {f"member-{number}": joined(cls(), *partitions) for number in range(1_000)}
    first = cls().assign(partitions, members)
    assert {len(each.partitions) for each in first.values()} == {2}
    left = {name: joined(cls(), *partitions, given=first[name], generation=1) for name in list(members)[:900]}
    second = cls().assign(partitions, left)
    assert {len(each.partitions) for each in second.values()} == {2, 3}
    assert all(set(first[name].partitions) <= set(second[name].partitions) for name in left)


def test_the_cooperative_assignor_can_be_used_eagerly_too() -> None:
    assert max(CooperativeStickyAssignor.supported_protocols) is RebalanceProtocol.COOPERATIVE
    assert min(CooperativeStickyAssignor.supported_protocols) is RebalanceProtocol.EAGER
    assert list(StickyAssignor.supported_protocols) == [RebalanceProtocol.EAGER]


def test_user_data_of_version_0_and_broken_ones_are_read() -> None:
    v0 = bytes.fromhex("00000001 0001 61 00000002 00000004 00000002")
    assert decode_claim(v0) == ([TopicPartition("a", 4), TopicPartition("a", 2)], -1)
    assert decode_claim(v0 + bytes.fromhex("00000009")).generation == 9
    for end in range(len(v0)):
        assert decode_claim(v0[:end]) == ((), -1)
    assert decode_claim(bytes.fromhex("7fffffff") + v0) == ((), -1)


def test_subscriptions_of_versions_to_come_are_read_as_the_highest() -> None:
    data = b"\x00\x09" + encode_subscription(Subscription(["a"], generation_id=3))[2:] + b"more"
    assert decode_subscription(data).generation_id == 3


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", b"\x00\x01\x00"])
def test_what_is_no_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_subscription(data)
    with pytest.raises(ProtocolError):
        decode_assignment(data)


def test_hashes_are_javas() -> None:
    assert text_hash("") == 0
    assert text_hash("hello") == 99162322
    assert text_hash("ß\U0001f600") == (223 * 31 * 31 + 0xD83D * 31 + 0xDE00) % 2**32
    assert hash_order(["b", "q", "0", "a"]) == ["0", "q", "a", "b"]
    assert group_order(["b", "q", "0", "a"]) == ["0", "a", "q", "b"]


class Tenacious(RangeAssignor):
    """Somebody's own."""

    name = "tenacious"
    supported_protocols = (RebalanceProtocol.COOPERATIVE,)
    configs: Mapping[str, object] = {}

    def configure(self, configs: Mapping[str, object]) -> None:
        self.configs = configs


def test_assignors_are_named_as_in_kafka_or_are_ones_own() -> None:
    java = "org.apache.kafka.clients.consumer."
    loaded, protocol = load_assignors(f"{java}RangeAssignor, {java}CooperativeStickyAssignor", {})
    assert [type(each) for each in loaded] == [RangeAssignor, CooperativeStickyAssignor]
    assert protocol is RebalanceProtocol.EAGER
    (own, sticky), protocol = load_assignors([Tenacious, "CooperativeStickyAssignor"], {"rack": "r"})
    assert (own.name, sticky.name, protocol) == (
        "tenacious",
        "cooperative-sticky",
        RebalanceProtocol.COOPERATIVE,
    )
    assert isinstance(own, Tenacious)
    assert own.configs == {"rack": "r"}


@pytest.mark.parametrize(
    "named",
    [[], "RangeAssignor,RangeAssignor", [Tenacious, RangeAssignor], [int], "no.such.Assignor"],
    ids=str,
)
def test_assignors_that_do_not_go_together_are_refused(named: object) -> None:
    with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy"):
        load_assignors(named, {})
