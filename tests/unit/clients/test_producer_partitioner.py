"""How partitions are chosen: by key, sticky, by the length of queues, in turn."""

from collections import Counter

import pytest

from pkafka.clients.cluster import ClusterView, PartitionView, TopicView
from pkafka.clients.producer.partitioner import RoundRobinPartitioner, Sticky, Weights, partition_of_key
from pkafka.errors import ErrorCode


def test_equal_keys_share_a_partition_as_in_kafka() -> None:
    # toPositive(Utils.murmur2("foobar")) of 3.9.1 is 1357151166.
    assert partition_of_key(b"foobar", 12) == 1357151166 % 12


def test_a_turn_ends_with_a_full_batch_or_after_twice_its_bytes() -> None:
    sticky = Sticky(100)
    sticky.start(3)
    assert not sticky.take(60, batch_is_full=False)
    assert not sticky.take(60, batch_is_full=False)
    assert sticky.take(0, batch_is_full=True)
    sticky.start(4)
    assert not sticky.take(99, batch_is_full=True)
    assert not sticky.take(100, batch_is_full=False)
    assert sticky.take(1, batch_is_full=False)


@pytest.mark.parametrize(
    ("sizes", "ids", "count"),
    [([], [], 3), ([5], [0], 1), ([2, 2, 2], [0, 1, 2], 3)],
)
def test_an_even_choice_needs_no_weights(sizes: list[int], ids: list[int], count: int) -> None:
    assert Weights.of_queues(sizes, ids, count) is None


def test_short_queues_are_preferred_as_in_kafka() -> None:
    # The example of BuiltInPartitioner.updatePartitionLoadStats: 0, 3, 1 become the weights 4, 1, 3.
    weights = Weights.of_queues([0, 3, 1], [7, 8, 9], 3)
    assert weights is not None
    drawn = iter(range(8))
    assert Counter(weights.choose(lambda _: next(drawn)) for _ in range(8)) == {7: 4, 8: 1, 9: 3}
    # Of equal queues a choice is needed too, where a partition without a leader must be left out.
    assert Weights.of_queues([2, 2], [0, 2], 3) is not None


def test_round_robin_takes_the_next_one_that_has_a_leader() -> None:
    partitions = [
        PartitionView(number, leader, 0, [1], [1], [], ErrorCode.NONE)
        for number, leader in enumerate([1, -1, 1])
    ]
    view = ClusterView(topics={"t": TopicView("t", bytes(16), False, partitions, ErrorCode.NONE)})
    chooser = RoundRobinPartitioner()
    assert [chooser.partition("t", None, b"k", None, None, view) for _ in range(4)] == [0, 2, 0, 2]
