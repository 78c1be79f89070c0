"""What a drill says, from what both clusters say."""

from collections.abc import Mapping, Sequence

from pkafka.connect.mirror.records import Checkpoint, OffsetSync
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.drill import Drill, Facts, Position, drill, problems_of
from pkafka.tools.mirroring.layout import Layout, Pair

SOURCE, TARGET = TopicPartition("t", 0), TopicPartition("A.t", 0)
PAIR = Pair(SOURCE, TARGET)


def drilled(
    *,
    syncs: Sequence[tuple[int, int]] = ((0, 100), (50, 150)),
    committed: int = 70,
    checkpoint: int | None = None,
    copied: int | None = None,
    ends: tuple[int, int] = (90, 180),
    missing: Mapping[str, int] | None = None,
) -> Drill:
    gone = tuple(
        Pair(TopicPartition(topic, number), TopicPartition(f"A.{topic}", number))
        for topic, number in (missing or {}).items()
    )
    checkpoints = {}
    if checkpoint is not None:
        checkpoints["g", TARGET] = Checkpoint("g", TARGET, committed, checkpoint)
    facts = Facts(
        Layout((PAIR,), gone),
        {SOURCE: (0, ends[0])},
        {TARGET: (100, ends[1])},
        {SOURCE: [OffsetSync(SOURCE, *each) for each in syncs]},
        checkpoints,
        {"g": {SOURCE: committed, TopicPartition("other", 0): 5}},
        {} if copied is None else {"g": {TARGET: copied}},
    )
    return drill(facts)


def test_a_group_reads_again_what_lies_between_its_checkpoint_and_its_place() -> None:
    (found,) = drilled(checkpoint=151).positions
    assert found == Position("g", PAIR, 70, 151, "checkpoint", 19, 0)


def test_an_offset_that_is_committed_on_the_target_counts_more_than_a_checkpoint() -> None:
    (found,) = drilled(checkpoint=151, copied=160).positions
    assert found == Position("g", PAIR, 70, 160, "group", 10, 0)


def test_a_group_behind_its_place_would_skip_records() -> None:
    found = drilled(copied=175)
    assert found.positions == (Position("g", PAIR, 70, 175, "group", 0, 5),)
    assert problems_of(found, lag_max=None, re_read_max=None) == [
        "group g in t-0: it would never read 5 record(s)"
    ]


def test_what_is_not_copied_is_lost() -> None:
    (copy,) = drilled().copies
    assert (copy.lag, copy.has_syncs) == (10, True)
    (copy,) = drilled(syncs=[]).copies
    assert (copy.lag, copy.has_syncs) == (10, False)


def test_a_group_that_has_read_what_is_not_copied_goes_on_at_the_end_of_the_copy() -> None:
    (found,) = drilled(committed=90, copied=180).positions
    assert (found.re_read, found.skipped) == (0, 0)


def test_how_much_is_read_again_is_not_known_without_syncs() -> None:
    (found,) = drilled(syncs=[], copied=160).positions
    assert found.re_read is None


def test_a_target_is_ready_within_the_limits_that_were_given() -> None:
    found = drilled(checkpoint=151)
    assert problems_of(found, lag_max=None, re_read_max=None) == []
    assert problems_of(found, lag_max=10, re_read_max=19) == []
    assert problems_of(found, lag_max=9, re_read_max=18) == [
        "t-0: 10 offset(s) are not copied",
        "group g in t-0: it would read 19 record(s) again",
    ]


def test_topics_without_a_copy_and_groups_without_a_position_are_problems() -> None:
    found = drilled(missing={"u": 0})
    assert problems_of(found, lag_max=None, re_read_max=None) == [
        "topic u is not mirrored, or not all of its partitions",
        "group g in t-0: it has no position on the target",
    ]
