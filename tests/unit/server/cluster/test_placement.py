"""Replica placement: laws that every placement keeps, and the very choices of Kafka's AdminUtils for a fixed start."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ApiError, ErrorCode
from pkafka.server.cluster.placement import alternate_racks, place_replicas


@given(
    brokers=st.integers(1, 8),
    partitions=st.integers(1, 40),
    factor=st.integers(1, 8),
    racks=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_laws(brokers: int, partitions: int, factor: int, racks: int, seed: int) -> None:
    factor = min(factor, brokers)
    rack_of = {broker: f"r{broker % racks}" if racks else None for broker in range(brokers)}
    placed = place_replicas(
        rack_of, partitions=partitions, replication_factor=factor, rng=random.Random(seed)
    )
    assert sorted(placed) == list(range(partitions))
    for replicas in placed.values():
        assert len(replicas) == len(set(replicas)) == factor
        # As many racks as there can be.
        if racks:
            assert len({rack_of[one] for one in replicas}) == min(factor, len(set(rack_of.values())))
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in range(brokers)) <= 1


def test_the_example_of_kafkas_documentation() -> None:
    # Five brokers, ten partitions, three replicas, first broker 0: AdminUtils.assignReplicasToBrokers.
    racks: dict[int, str | None] = dict.fromkeys(range(5))
    placed = place_replicas(racks, partitions=10, replication_factor=3, fixed_start=0)
    assert list(placed.values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_the_rack_example_of_kafkas_documentation() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate_racks(racks) == [0, 3, 1, 5, 4, 2]
    placed = place_replicas(racks, partitions=7, replication_factor=3, fixed_start=0)
    assert list(placed.values()) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


def test_added_partitions_go_on_where_the_topic_stopped() -> None:
    racks: dict[int, str | None] = dict.fromkeys(range(3))
    whole = place_replicas(racks, partitions=3, replication_factor=2, fixed_start=1)
    more = place_replicas(racks, partitions=2, replication_factor=2, fixed_start=1, first_partition=1)
    assert more == {1: whole[1], 2: whole[2]}


@pytest.mark.parametrize(
    ("partitions", "factor", "racks", "code"),
    [
        (0, 1, {0: None}, ErrorCode.INVALID_PARTITIONS),
        (1, 0, {0: None}, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, {0: None}, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 1, {}, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 1, {0: "a", 1: None}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_refusals(partitions: int, factor: int, racks: dict[int, str | None], code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refusal:
        place_replicas(racks, partitions=partitions, replication_factor=factor)
    assert refusal.value.code is code
