"""Which partition is the copy of which, and where the two are compared from."""

from pkafka.connect.mirror.policies import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from pkafka.connect.mirror.records import OffsetSync
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.layout import Beginning, Pair, beginning_of, layout_of, topics_to_mirror

T0 = TopicPartition("t", 0)


def pair(topic: str, copy: str, number: int) -> Pair:
    return Pair(TopicPartition(topic, number), TopicPartition(copy, number))


def test_copies_are_found_by_the_names_of_the_policy() -> None:
    for policy, copy in ((DefaultReplicationPolicy(), "A.t"), (IdentityReplicationPolicy(), "t")):
        named: ReplicationPolicy = policy
        found = layout_of({"t": 2, "gone": 1}, {copy: 1}, named, "A")
        assert found.pairs == (pair("t", copy, 0),)
        gone = copy.replace("t", "gone")
        assert found.missing == (pair("gone", gone, 0), pair("t", copy, 1))


def test_internal_topics_heartbeats_and_copies_of_the_targets_own_are_not_mirrored() -> None:
    names = ["t", "__consumer_offsets", "mm2-offset-syncs.B.internal", "heartbeats", "B.u", "C.u"]
    assert topics_to_mirror(names, DefaultReplicationPolicy(), "B") == ["C.u", "t"]


def test_logs_are_compared_from_the_first_sync_that_both_still_have() -> None:
    syncs = [OffsetSync(T0, up, down) for up, down in ((0, 5), (10, 12), (20, 21), (30, 31))]
    assert beginning_of(syncs, 0, 5) == Beginning(0, 5, True)
    assert beginning_of(syncs, 15, 5) == Beginning(20, 21, True)
    assert beginning_of(syncs, 0, 30) == Beginning(30, 31, True)
    assert beginning_of(syncs, 40, 2) == Beginning(40, 2, False)
    assert beginning_of([], 3, 4) == Beginning(3, 4, False)
