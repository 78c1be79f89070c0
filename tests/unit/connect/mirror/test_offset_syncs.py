"""Offset syncs: what is kept of them, how offsets are translated, and when they are sent."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.mirror.offset_syncs import SYNCS_PER_PARTITION, TOO_OLD, OffsetSyncStore
from pkafka.connect.mirror.records import OffsetSync
from pkafka.connect.mirror.sync_queue import OffsetSyncQueue, PartitionState
from pkafka.model import TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def store(*pairs: tuple[int, int], needs_end: bool = False, at_end: bool = True) -> OffsetSyncStore:
    made = OffsetSyncStore(needs_end=needs_end)
    for upstream, downstream in pairs:
        made.add(OffsetSync(T0, upstream, downstream))
    made.is_at_end = at_end
    return made


def test_an_offset_is_translated_to_one_behind_the_nearest_earlier_sync() -> None:
    syncs = store((100, 10), (200, 110))
    assert [syncs.translate(T0, each) for each in (99, 100, 101, 199, 200, 201, 10_000)] == [
        *(TOO_OLD, 10, 11, 11),
        *(110, 111, 111),
    ]


def test_nothing_is_translated_without_syncs_or_before_all_were_read() -> None:
    assert store((1, 1)).translate(T1, 5) is None
    assert store((1, 1), at_end=False).translate(T0, 5) is None


def test_a_source_that_went_back_makes_all_syncs_worthless() -> None:
    syncs = store((100, 10), (200, 110), (50, 150))
    assert [syncs.translate(T0, each) for each in (49, 50, 300)] == [TOO_OLD, 150, 151]


def test_without_checkpoints_only_the_last_sync_counts_of_those_that_were_there() -> None:
    syncs = store((100, 10), (200, 110), needs_end=True)
    assert [syncs.translate(T0, each) for each in (150, 200)] == [TOO_OLD, 110]
    syncs.add(OffsetSync(T0, 300, 210))
    assert [syncs.translate(T0, each) for each in (250, 300)] == [111, 210]


@given(st.lists(st.one_of(st.integers(1, 5), st.integers(1, 2**30)), min_size=1, max_size=120))
def test_the_syncs_that_are_kept_are_recent_and_apart(steps: list[int]) -> None:
    upstream, pairs = 0, []
    for step in steps:
        upstream += step
        pairs.append((upstream, upstream))
    kept = store(*pairs).syncs(T0)
    assert len(kept) == SYNCS_PER_PARTITION
    assert kept[0].upstream == upstream
    for near in range(SYNCS_PER_PARTITION):
        for far in range(near + 1, SYNCS_PER_PARTITION):
            assert kept[near].upstream <= kept[far].upstream + 2**far - 2**near
    for index, (one, other) in enumerate(pairwise(kept)):
        assert one is other or one.upstream >= other.upstream + 2 ** max(index - 2, 0)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_no_translation_skips_a_record(gaps: list[int]) -> None:
    """Records of the source are copied with gaps: of what is at or behind a group's offset, nothing is missed."""
    copied, upstream = [], 0
    for gap in gaps:
        upstream += gap + 1
        copied.append(upstream)
    syncs = store(*((offset, position) for position, offset in enumerate(copied)))
    for asked in range(upstream + 2):
        found = syncs.translate(T0, asked)
        assert found is not None
        assert all(position >= found for position, offset in enumerate(copied) if offset >= asked)


def test_a_sync_is_due_at_the_first_record_gaps_and_when_a_translation_is_too_far_behind() -> None:
    state = PartitionState(3)
    steps = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (9, 5), (10, 6), (11, 3), (0, 4)]
    assert [state.is_due(*each) for each in steps] == [
        *(True, False, False, False, True),
        *(True, False, True, True),
    ]


RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 3), st.integers(1, 12)), max_size=12)


@given(lag=st.integers(-2, 7), runs=RUNS)
def test_a_run_of_records_is_due_where_its_records_are(lag: int, runs: list[tuple[int, int, int]]) -> None:
    one, other = PartitionState(lag), PartitionState(lag)
    upstream = downstream = 0
    for gap, step, count in runs:
        upstream, downstream = upstream + gap, max(0, downstream + step)
        wanted = [index for index in range(count) if one.is_due(upstream + index, downstream + index)]
        assert other.dues(upstream, downstream, count) == wanted
        upstream, downstream = upstream + count, downstream + count


def test_a_queue_takes_a_run_as_its_records() -> None:
    one, other = OffsetSyncQueue(3), OffsetSyncQueue(3)
    for offset in range(10):
        one.note(T0, offset, offset + 5)
    for _ in other.note_run(T0, 0, 5, 10):
        pass
    for queue in (one, other):
        assert [queue.take(), queue.take()] == [OffsetSync(T0, 8, 13), None]
        queue.promote()
        assert queue.take() == OffsetSync(T0, 9, 14)


def test_a_queue_keeps_the_last_sync_of_each_partition() -> None:
    queue = OffsetSyncQueue(100, outstanding_max=2)
    for partition in (T0, T1):
        for offset in range(3):
            queue.note(partition, offset, offset)
    assert [queue.take(), queue.take(), queue.take()] == [OffsetSync(T0, 0, 0), OffsetSync(T1, 0, 0), None]
    queue.promote()
    assert queue.take() is None  # two are unacknowledged
    queue.settled()
    assert [queue.take(), queue.take()] == [OffsetSync(T0, 2, 2), None]
    queue.settled()
    assert [queue.take(), queue.take()] == [OffsetSync(T1, 2, 2), None]


def test_a_sync_that_is_due_takes_the_place_of_one_that_waits() -> None:
    queue = OffsetSyncQueue(2)
    for offset in range(4):
        queue.note(T0, offset, offset)
    queue.promote()
    assert [queue.take(), queue.take()] == [OffsetSync(T0, 3, 3), None]


@pytest.mark.parametrize(
    "key", [None, b"", b"\x00", b"\x00\x05ab\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00"]
)
def test_what_is_no_sync_is_refused(key: bytes | None) -> None:
    from pkafka.connect.mirror.records import RecordFormatError

    with pytest.raises(RecordFormatError):
        OffsetSync.of(key, bytes(16))
