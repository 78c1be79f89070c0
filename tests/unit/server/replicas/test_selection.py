"""From which replica a consumer reads (KIP-392)."""

import pytest

from pkafka.errors import ConfigError
from pkafka.server.replicas.selection import ReplicaView, in_the_same_rack, selector_of

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


def test_a_selector_that_is_not_there_is_refused() -> None:
    assert selector_of(None) is None
    with pytest.raises(ConfigError, match=r"replica\.selector\.class.*RackAwareReplicaSelector"):
        selector_of("com.example.Mine")
