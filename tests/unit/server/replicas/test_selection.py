"""From which replica a consumer reads (KIP-392)."""

from pkafka.server.config.rules import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from pkafka.server.replicas.selection import ReplicaView, always_the_leader, in_the_same_rack, selector_of

LEADER = ReplicaView(1, "a", 100, 0)


def test_the_nearest_and_of_those_the_furthest() -> None:
    replicas = [
        LEADER,
        ReplicaView(2, "b", 90, 5),
        ReplicaView(3, "b", 95, 50),
        ReplicaView(4, "b", 95, 10),
        ReplicaView(5, "c", 99, 0),
    ]
    assert in_the_same_rack("b", LEADER, replicas) == 4
    assert in_the_same_rack("c", LEADER, replicas) == 5
    assert in_the_same_rack("a", LEADER, replicas) == 1
    assert in_the_same_rack("d", LEADER, replicas) == 1
    assert in_the_same_rack("", LEADER, replicas) == 1


def test_the_leader_when_it_is_as_near() -> None:
    assert in_the_same_rack("a", LEADER, [ReplicaView(2, "a", 200, 0), LEADER]) == 1


def test_names_are_kafkas() -> None:
    assert selector_of(None) is None
    assert selector_of(RACK_AWARE_SELECTOR) is in_the_same_rack
    assert selector_of(LEADER_SELECTOR) is always_the_leader
