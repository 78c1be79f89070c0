"""The old assignment strategies. That Kafka 0.8.2.2 computes the same is shown by groups with both (tests/interop)."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.legacy.assignors import assign_range, assign_round_robin
from pkafka.coordination.znodes_consumers import ConsumerThread
from pkafka.model import TopicPartition

C1, C2 = "g_c1", "g_c2"


def threads(*counts: tuple[str, int]) -> list[ConsumerThread]:
    return [ConsumerThread(name, number) for name, count in counts for number in range(count)]


def names(assignment: dict[TopicPartition, ConsumerThread]) -> dict[str, str]:
    return {str(partition): str(thread) for partition, thread in assignment.items()}


def test_range_gives_the_first_threads_one_more() -> None:
    assignment = assign_range({"t": threads((C2, 2), (C1, 2))}, {"t": [4, 3, 2, 1, 0]})
    assert names(assignment) == {
        "t-0": "g_c1-0",
        "t-1": "g_c1-0",
        "t-2": "g_c1-1",
        "t-3": "g_c2-0",
        "t-4": "g_c2-1",
    }


def test_range_orders_threads_by_their_names() -> None:
    """As text: the eleventh thread comes before the third."""
    assignment = assign_range({"t": threads((C1, 11))}, {"t": list(range(11))})
    assert names(assignment)["t-2"] == "g_c1-10"


def test_range_treats_every_topic_for_itself() -> None:
    assignment = assign_range(
        {"a": threads((C1, 1), (C2, 1)), "b": threads((C2, 1))}, {"a": [0], "b": [0, 1]}
    )
    assert names(assignment) == {"a-0": "g_c1-0", "b-0": "g_c2-0", "b-1": "g_c2-0"}


def test_a_topic_that_does_not_exist_is_nobodys() -> None:
    for assign in (assign_range, assign_round_robin):
        assert assign({"t": threads((C1, 1))}, {"t": []}) == {}


def test_roundrobin_deals_in_the_order_of_hashes() -> None:
    # Java: "[t,0]".hashCode() and the next ones grow by 31; "[u,0]" comes later.
    assignment = assign_round_robin(
        {"t": threads((C1, 1), (C2, 1)), "u": threads((C1, 1), (C2, 1))}, {"t": [0, 1, 2], "u": [0]}
    )
    assert names(assignment) == {"t-0": "g_c1-0", "t-1": "g_c2-0", "t-2": "g_c1-0", "u-0": "g_c2-0"}


def test_roundrobin_passes_over_who_does_not_read_a_topic() -> None:
    assignment = assign_round_robin(
        {"t": threads((C1, 1)), "u": threads((C1, 1), (C2, 1))}, {"t": [0, 1], "u": [0, 1]}
    )
    assert names(assignment) == {"t-0": "g_c1-0", "t-1": "g_c1-0", "u-0": "g_c2-0", "u-1": "g_c1-0"}


SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("tuvw"),
    st.lists(
        st.builds(ConsumerThread, st.sampled_from(["a", "b", "c"]), st.integers(0, 12)),
        min_size=1,
        unique=True,
    ),
    min_size=1,
)
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in "tuvw"})


@given(SUBSCRIPTIONS, COUNTS)
def test_every_partition_has_one_reader_who_wants_it(
    subscriptions: dict[str, list[ConsumerThread]], counts: dict[str, int]
) -> None:
    partitions = {topic: list(range(counts[topic])) for topic in subscriptions}
    everything = {TopicPartition(topic, number) for topic, row in partitions.items() for number in row}
    for assign in (assign_range, assign_round_robin):
        assignment = assign(subscriptions, partitions)
        assert assignment.keys() == everything
        assert all(thread in subscriptions[partition.topic] for partition, thread in assignment.items())
        # Members compute it alone: the order in which they hear of each other must not matter.
        assert assignment == assign({topic: row[::-1] for topic, row in subscriptions.items()}, partitions)


@given(st.integers(1, 20), st.integers(0, 50))
def test_with_equal_subscriptions_shares_differ_by_one(count: int, partitions: int) -> None:
    for assign in (assign_range, assign_round_robin):
        assignment = assign({"t": threads((C1, count))}, {"t": list(range(partitions))})
        shares = Counter(assignment.values())
        assert (
            max(shares.values(), default=0) - min((shares[each] for each in threads((C1, count))), default=0)
            <= 1
        )
