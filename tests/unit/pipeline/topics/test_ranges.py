"""Ranges of offsets are cut as Spark's own source cuts them, and nothing is lost or read twice by that."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.model import TopicPartition
from pkafka.pipeline.topics.ranges import OffsetRange, from_json, limited, split, to_json

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 10)


def sizes(pieces: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(each.partition, each.size) for each in pieces]


def of(*counts: int) -> list[OffsetRange]:
    """One range from offset 100 on for each count, of partitions 0, 1, ..."""
    return [OffsetRange("t", index, 100, 100 + count) for index, count in enumerate(counts)]


def test_one_task_per_partition_and_none_for_an_empty_range() -> None:
    assert split([*of(5, 0, 3), OffsetRange("t", 3, 9, 4)]) == [
        OffsetRange("t", 0, 100, 105),
        OffsetRange("t", 2, 100, 103),
    ]


@pytest.mark.parametrize(
    ("counts", "partitions_min", "expected"),
    [
        ([5, 5], 2, [(0, 5), (1, 5)]),
        ([5, 5], 1, [(0, 5), (1, 5)]),
        ([5, 5], 4, [(0, 2), (0, 3), (1, 2), (1, 3)]),
        # 3 of 8 is 37.5 %, and so on: shares are rounded half up.
        ([4], 3, [(0, 1), (0, 1), (0, 2)]),
        # A small partition stays whole, and does not count where the large one is shared out.
        ([10_000, 1], 4, [(0, 3_333), (0, 3_333), (0, 3_334), (1, 1)]),
        ([1, 5, 1], 4, [(0, 1), (1, 2), (1, 3), (2, 1)]),
        # More pieces than offsets are not to be had.
        ([2], 5, [(0, 1), (0, 1)]),
    ],
)
def test_min_partitions(counts: list[int], partitions_min: int, expected: list[tuple[int, int]]) -> None:
    assert sizes(split(of(*counts), partitions_min=partitions_min)) == expected


def test_max_records_per_partition() -> None:
    assert sizes(split(of(10, 3), records_max=4)) == [(0, 3), (0, 3), (0, 4), (1, 3)]


def test_min_partitions_cuts_on_where_max_records_left_too_few() -> None:
    assert sizes(split(of(10), partitions_min=2, records_max=4)) == [(0, 3), (0, 3), (0, 4)]
    assert len(split(of(100), partitions_min=10, records_max=50)) == 10


@given(
    counts=st.lists(st.integers(0, 50), min_size=1, max_size=5),
    partitions_min=st.none() | st.integers(1, 40),
    records_max=st.none() | st.integers(1, 20),
)
def test_pieces_follow_each_other_without_gap_or_overlap(
    counts: list[int], partitions_min: int | None, records_max: int | None
) -> None:
    ranges = of(*counts)
    pieces = split(ranges, partitions_min=partitions_min, records_max=records_max)
    for each in ranges:
        mine = [piece for piece in pieces if piece.partition == each.partition]
        assert [offset for piece in mine for offset in range(piece.start, piece.end)] == list(
            range(each.start, each.end)
        )
    assert all(piece.size > 0 for piece in pieces)
    if records_max is not None:
        assert all(piece.size <= records_max for piece in pieces)


def test_a_limit_is_shared_by_what_there_is_to_read() -> None:
    start, end = {A: 0, B: 0, C: 50}, {A: 1_000, B: 3_000, C: 50}
    assert limited(start, end, 100) == {A: 25, B: 75, C: 50}
    assert limited(start, end, 100_000) == end


def test_no_partition_starves_below_a_limit() -> None:
    assert limited({A: 0, B: 0}, {A: 1, B: 1_000_000}, 10) == {A: 1, B: 9}


def test_a_partition_without_a_start_is_read_to_its_end() -> None:
    assert limited({A: 0}, {A: 100, B: 7}, 10) == {A: 10, B: 7}


def test_the_form_of_offsets_is_that_of_sparks_checkpoints() -> None:
    offsets = {C: 7, B: 23, A: 42, TopicPartition("b", 2): 1}
    text = json.dumps(to_json(offsets), separators=(",", ":"))
    assert text == '{"a":{"0":42,"1":23},"b":{"2":1,"10":7}}'
    assert from_json(json.loads(text)) == offsets
