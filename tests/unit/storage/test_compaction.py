"""What compaction may touch and what it should: Kafka's rules, on facts."""

from dataclasses import dataclass, replace

import pytest

from pkafka.storage.compaction import (
    GROUP_SEGMENTS_MAX,
    CleanablePart,
    SourceSegment,
    cleanable_part,
    covering,
    groups_of_segments,
)
from pkafka.storage.config import LogConfig
from pkafka.storage.segment import RELATIVE_OFFSET_MAX

NOW = 1_000_000
COMPACT = LogConfig(cleanup_policy=("compact",))


@dataclass(frozen=True)
class Facts:
    base_offset: int
    size: int = 10
    max_timestamp: int = 0
    first_timestamp: int = 0


SEGMENTS = [Facts(0), Facts(100), Facts(200), Facts(300)]


def part(
    config: LogConfig = COMPACT,
    *,
    segments: list[Facts] = SEGMENTS,
    checkpoint: int | None = None,
    start: int = 0,
    end: int = 400,
    stable: int = 400,
) -> CleanablePart:
    return cleanable_part(
        segments,
        config,
        checkpoint=checkpoint,
        log_start_offset=start,
        log_end_offset=end,
        last_stable_offset=stable,
        now_ms=NOW,
    )


def test_everything_but_the_active_segment_is_dirty_at_first() -> None:
    found = part()
    assert (found.first_dirty, found.end, found.clean_bytes, found.dirty_bytes) == (0, 300, 0, 30)
    assert found.dirty_ratio == 1.0


def test_what_was_cleaned_is_not_dirty() -> None:
    found = part(checkpoint=200)
    assert (found.first_dirty, found.end, found.clean_bytes, found.dirty_bytes) == (200, 300, 20, 10)
    assert found.dirty_ratio == pytest.approx(1 / 3)


def test_nothing_is_dirty_when_the_checkpoint_is_in_the_active_segment() -> None:
    for checkpoint in (300, 350, 400):
        found = part(checkpoint=checkpoint)
        assert (found.dirty_bytes, found.dirty_ratio) == (0, 0.0)
        assert not found.is_due(0.0)


def test_a_segment_that_is_dirty_in_part_counts_on_both_sides_as_in_kafka() -> None:
    found = part(checkpoint=150)
    assert (found.clean_bytes, found.dirty_bytes) == (20, 20)


@pytest.mark.parametrize(("stable", "end"), [(400, 300), (300, 300), (250, 200), (200, 200), (50, 0)])
def test_nothing_behind_the_last_stable_offset(stable: int, end: int) -> None:
    assert part(stable=stable).end == end


def test_a_checkpoint_outside_of_the_log_is_forgotten() -> None:
    for checkpoint, start in ((50, 100), (500, 100)):
        found = part(checkpoint=checkpoint, start=start)
        assert found.first_dirty == 100
        assert found.has_lost_checkpoint
    assert not part(checkpoint=100, start=100).has_lost_checkpoint


def test_records_younger_than_the_least_lag_wait_with_all_behind_them() -> None:
    config = replace(COMPACT, min_compaction_lag_ms=1000)
    segments = [Facts(0), replace(Facts(100), max_timestamp=NOW - 999), Facts(200), Facts(300)]
    assert part(config, segments=segments).end == 100
    assert part(replace(config, min_compaction_lag_ms=999), segments=segments).end == 300
    assert part(config, segments=segments, checkpoint=200).end == 300, "what is clean has no lag any more"


def test_records_older_than_the_largest_lag_are_due_however_clean_the_log_is() -> None:
    config = replace(COMPACT, max_compaction_lag_ms=1000)
    segments = [Facts(0, 10_000), replace(Facts(100), first_timestamp=NOW - 1500), Facts(200), Facts(300)]
    found = part(config, segments=segments, checkpoint=100)
    assert found.delay_ms == 500
    assert found.dirty_ratio < 0.5
    assert found.is_due(0.5)
    assert not part(config, segments=segments, checkpoint=300).is_due(0.5)
    assert part(segments=segments, checkpoint=100).delay_ms == 0


def test_segments_without_timestamps_are_never_late() -> None:
    config = replace(COMPACT, max_compaction_lag_ms=1000)
    segments = [replace(one, first_timestamp=-1) for one in SEGMENTS]
    assert part(config, segments=segments).delay_ms == 0


def test_due_is_above_the_ratio_and_not_at_it() -> None:
    assert not part(checkpoint=150).is_due(0.5)
    assert part(checkpoint=150).is_due(0.49)


def test_a_single_segment_is_the_active_one() -> None:
    found = part(segments=[Facts(0)], end=10, stable=10)
    assert (found.end, found.dirty_bytes, found.dirty_ratio) == (0, 0, 0.0)


def test_covering_begins_with_the_segment_that_holds_the_offset() -> None:
    assert [one.base_offset for one in covering(SEGMENTS, 150)] == [100, 200, 300]
    assert [one.base_offset for one in covering(SEGMENTS, 300)] == [300]
    assert [one.base_offset for one in covering(SEGMENTS[1:], 5)] == [100, 200, 300]
    assert covering([], 5) == []


def sources(*sizes: int, index: int = 0, time_index: int = 0, step: int = 100) -> list[SourceSegment]:
    return [SourceSegment(place * step, size, index, time_index, 0) for place, size in enumerate(sizes)]


def grouped(
    segments: list[SourceSegment], *, bytes_max: int = 100, index_max: int = 100, end: int = 10_000
) -> list[int]:
    groups = groups_of_segments(segments, bytes_max=bytes_max, index_bytes_max=index_max, end=end)
    assert [one for group in groups for one in group] == segments
    return [len(group) for group in groups]


def test_neighbours_are_grouped_up_to_the_size_of_a_segment() -> None:
    assert grouped(sources(50, 50, 1, 99, 100, 200, 1)) == [2, 2, 1, 1, 1]
    assert grouped([]) == []


def test_indexes_limit_a_group_too() -> None:
    assert grouped(sources(1, 1, 1, 1, index=50)) == [2, 2]
    assert grouped(sources(1, 1, 1, 1, time_index=40)) == [2, 2]


def test_offsets_of_a_group_stay_in_reach_of_its_base() -> None:
    step = RELATIVE_OFFSET_MAX
    assert grouped(sources(1, 1, 1, step=step // 2), end=3 * (step // 2)) == [2, 1]
    assert grouped(sources(1, 1, step=10), end=RELATIVE_OFFSET_MAX + 1) == [2]
    assert grouped(sources(1, 1, step=10), end=RELATIVE_OFFSET_MAX + 2) == [1, 1]
    assert grouped(sources(1, 0, 0, step=step)) == [3], "what is empty has no offsets"


def test_not_too_many_are_renamed_at_once() -> None:
    assert grouped(sources(*[0] * (GROUP_SEGMENTS_MAX + 1)))[0] == GROUP_SEGMENTS_MAX
