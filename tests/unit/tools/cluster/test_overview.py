"""What a look at a cluster shows, and what moved since the one before."""

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.tools.cluster.broker_traffic import Traffic
from pkafka.tools.cluster.overview import BrokerLook, GroupLook, Look, PartitionLook, overview
from pkafka.tools.transactions.holders import HeldPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
INTERNAL = TopicPartition("__consumer_offsets", 0)


def partition(end: int | None, *, leader: int | None = 1, size: int | None = 100) -> PartitionLook:
    return PartitionLook(
        leader, (1, 2), (1,) if leader == 1 else (1, 2), 0 if end is not None else None, end, size
    )


def look(at_s: float, a0: int, a1: int | None, committed: int) -> Look:
    return Look(
        at_s,
        "cluster",
        (BrokerLook(1, "one:9092", None, True, 300), BrokerLook(2, "two:9092", "r", False, None)),
        {
            A0: partition(a0, size=a0 * 10),
            A1: partition(a1, leader=None if a1 is None else 2),
            B0: partition(5, leader=2, size=None),
            INTERNAL: partition(7),
        },
        {
            "g": GroupLook("Stable", 2, {A0: committed, B0: 9, TopicPartition("gone", 0): 3}),
            "lost": ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        },
    )


def test_a_first_look_has_no_rates() -> None:
    found = overview(look(10, 50, 20, 30))
    assert [(row.topic, row.partitions, row.records) for row in found.topics] == [("a", 2, 70), ("b", 1, 5)]
    rows = (found.brokers, found.topics, found.groups)
    assert {row.records_per_s for some in rows for row in some} == {None}
    assert found.summary["records_per_s"] is None
    (group,) = found.groups
    assert (group.group, group.state, group.members, group.topics, group.lag) == ("g", "Stable", 2, 3, 20)


def test_rates_are_what_moved_between_two_looks() -> None:
    found = overview(look(14, 90, 20, 50), look(10, 50, 20, 30))
    a, b = found.topics
    assert (a.records_per_s, a.bytes_per_s) == (10, 100)
    assert (b.records_per_s, b.bytes_per_s) == (0, None)
    assert found.groups[0].records_per_s == 5
    assert [(row.leaders, row.records_per_s) for row in found.brokers] == [(2, 10), (2, 0)]
    assert found.summary["records_per_s"] == 10


def test_replicas_that_are_being_added_are_not_missed() -> None:
    grows = PartitionLook(1, (1, 2), (1,), 0, 5, 100, (2,))
    lost = PartitionLook(1, (1, 2, 3), (1,), 0, 5, 100, (2,))
    found = overview(Look(10, "cluster", (), {A0: grows, A1: lost}, {}))
    assert found.summary["under_replicated"] == 1


def test_a_partition_without_a_leader_is_offline_and_not_counted() -> None:
    found = overview(look(14, 90, None, 50), look(10, 50, 20, 30))
    assert [(row.offline, row.under_replicated, row.records) for row in found.topics] == [
        (1, 1, 90),
        (0, 0, 5),
    ]
    assert found.topics[0].records_per_s == 10
    assert found.summary["offline"] == 1


def test_a_topic_that_was_made_anew_or_emptied_does_not_run_backwards() -> None:
    assert overview(look(14, 10, 20, 5), look(10, 50, 20, 30)).topics[0].records_per_s == 0
    assert overview(look(10, 60, 20, 5), look(10, 50, 20, 30)).topics[0].records_per_s is None


def test_partitions_of_one_topic_and_internal_topics() -> None:
    found = overview(look(10, 50, 20, 30), topic="a")
    assert [(row.partition, row.leader, row.partitions) for row in found.topics] == [(0, 1, 1), (1, 2, 1)]
    assert [row.topic for row in overview(look(10, 50, 20, 30), internal=True).topics][-1] == INTERNAL.topic
    assert overview(look(10, 50, 20, 30), topic="nowhere").topics == ()


def with_traffic(at_s: float, a0: int, traffic: Traffic | None) -> Look:
    found = look(at_s, a0, 20, 30)
    return found._replace(
        brokers=(found.brokers[0]._replace(traffic=traffic), *found.brokers[1:]),
    )


def test_bytes_of_brokers_are_what_these_counted() -> None:
    now, before = (
        with_traffic(14, 90, Traffic(14.5, 5_000, 900)),
        with_traffic(10, 50, Traffic(10.5, 1_000, 500)),
    )
    one, two = overview(now, before).brokers
    assert (one.bytes_in_per_s, one.bytes_out_per_s, one.bytes_from) == (1_000, 100, "metrics")
    # It led nothing whose size is known by growth: a1 stood still.
    assert (two.bytes_in_per_s, two.bytes_out_per_s, two.bytes_from) == (0, None, "sizes")


def test_bytes_in_of_a_broker_that_does_not_count_are_what_its_partitions_grew_by() -> None:
    one = overview(with_traffic(14, 90, None), with_traffic(10, 50, None)).brokers[0]
    assert (one.bytes_in_per_s, one.bytes_out_per_s, one.bytes_from) == (100, None, "sizes")


def test_rates_of_sizes_count_from_when_sizes_were_told() -> None:
    now, before = look(14, 90, 20, 50), look(10, 50, 20, 30)
    found = overview(now._replace(sizes_at_s=14.5), before._replace(sizes_at_s=12.5))
    assert (found.topics[0].records_per_s, found.topics[0].bytes_per_s) == (10, 200)


def test_a_broker_that_began_anew_does_not_run_backwards() -> None:
    now, before = with_traffic(14, 90, Traffic(14, 100, 900)), with_traffic(10, 50, Traffic(10.5, 1_000, 500))
    assert overview(now, before).brokers[0].bytes_from == "sizes"
    assert overview(with_traffic(10, 50, Traffic(10, 1, 1))).brokers[0].bytes_from is None


def test_what_holds_readers_back_is_shown_when_it_did_so_before() -> None:
    def held(name: TopicPartition, stable: int, age_ms: int) -> HeldPartition:
        return HeldPartition(name, stable, 9, None, None, age_ms)

    def seen(*partitions: HeldPartition) -> Look:
        return look(10, 50, 20, 30)._replace(held=partitions)

    now = seen(held(A0, 3, 5), held(A1, 4, 7), held(B0, 2, 6), held(INTERNAL, 1, 9))
    assert [each.partition for each in overview(now).held] == [A1, B0, A0]
    before = seen(held(A0, 3, 5), held(A1, 2, 5), held(INTERNAL, 1, 5))
    assert [each.partition for each in overview(now, before).held] == [A0]
    assert [each.partition for each in overview(now, before, internal=True).held] == [INTERNAL, A0]
    assert overview(now, seen()).held == ()
