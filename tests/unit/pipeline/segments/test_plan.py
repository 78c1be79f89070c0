"""Which segments paths stand for, and where splits begin."""

import struct
from pathlib import Path

import pytest

from pkafka.pipeline.segments.plan import (
    Segment,
    SourceError,
    Split,
    Wanted,
    find_segments,
    groups,
    plan,
)
from pkafka.tools.logs.selection import Selection
from tests.log_files import SegmentFile, name_of


def log(directory: Path, *bases: int, batches: int = 10) -> Path:
    """A partition's directory with segments from these offsets on, an index entry for each batch but the first."""
    directory.mkdir(parents=True)
    for base in bases:
        segment = SegmentFile(base)
        for _ in range(batches):
            segment.records([(1, b"k", b"v" * 20, ())] * 2)
        segment.write(directory)
    return directory


def found(*paths: object) -> list[tuple[str | None, int | None, int, int | None]]:
    return [
        (each.topic, each.partition, each.base_offset, each.end_offset)
        for each in find_segments(map(str, paths))
    ]


def splits(directory: Path, split_bytes: int, wanted: Wanted = Wanted()) -> list[Split]:  # noqa: B008 - immutable
    made = plan(find_segments([str(directory)]), wanted, split_bytes=split_bytes)
    assert not made.unindexed
    return made.splits


def test_directories_patterns_and_files(tmp_path: Path) -> None:
    for name in ("b-10", "b-2", "a-0"):
        log(tmp_path / name, 0, 20)
    log(tmp_path / f"a-1.{'0' * 32}-delete", 0)
    log(tmp_path / f"a-1.{'0' * 32}-future", 0)
    (tmp_path / "meta.properties").touch()
    (tmp_path / "c-0").mkdir()
    b2, b10 = [("b", 2, 0, 20), ("b", 2, 20, None)], [("b", 10, 0, 20), ("b", 10, 20, None)]
    a0 = [("a", 0, 0, 20), ("a", 0, 20, None)]
    assert found(tmp_path) == [*a0, *b2, *b10]
    assert found(tmp_path / "*") == [*a0, *b10, *b2]
    assert found(tmp_path / "b-*", tmp_path) == [*b10, *b2, *a0]
    assert found(tmp_path / "b-2" / name_of(0)) == [("b", 2, 0, 20)]
    assert found(tmp_path / "b-2" / "*") == b2
    assert found(tmp_path / f"a-1.{'0' * 32}-delete") == [("a", 1, 0, None)]


def test_a_data_directory_may_be_named_like_a_partition(tmp_path: Path) -> None:
    log(tmp_path / "kafka-0" / "t-0", 5)
    assert found(tmp_path / "kafka-0") == [("t", 0, 5, None)]
    assert found(tmp_path / "*") == [("t", 0, 5, None)]
    (tmp_path / "empty-0").mkdir()
    assert found(tmp_path / "empty-0") == []


def test_segments_of_no_partition_have_no_topic(tmp_path: Path) -> None:
    log(tmp_path / "copied", 5)
    assert found(tmp_path / "copied") == [(None, None, 5, None)]


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.txt").touch()
    (tmp_path / "deep").mkdir()
    for name, message in (
        ("none", "there is no such file or directory"),
        ("*.nothing", "no file fits this pattern"),
        ("some.txt", "is no segment: those are named by their first offset"),
        ("deep", "holds neither segments nor directories of partitions"),
    ):
        with pytest.raises(SourceError) as caught:
            find_segments([str(tmp_path / name)])
        assert message in str(caught.value)


def test_splits_begin_where_the_index_leads(tmp_path: Path) -> None:
    directory = log(tmp_path / "t-0", 0)
    (segment,) = find_segments([str(directory)])
    size = segment.size // 10
    parts = splits(directory, 3 * size)
    assert [(each.start // size, each.stop // size) for each in parts] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert [(each.start, each.stop) for each in splits(directory, segment.size)] == [(0, segment.size)]
    # An index need not lead to each batch, nor be whole; that of a segment that is written to ends in zeros.
    index = directory / name_of(0, ".index")
    entries = index.read_bytes()
    index.write_bytes(entries[16:24] + entries[40:48] + bytes(800))
    assert [each.start // size for each in splits(directory, size)] == [0, 3, 6]


@pytest.mark.parametrize("content", [None, b"", bytes(80), b"\1\2\3", struct.pack(">iiii", 3, 50, 1, 70)])
def test_without_a_right_index_batches_are_looked_at(content: bytes | None, tmp_path: Path) -> None:
    directory = log(tmp_path / "t-0", 0)
    index = directory / name_of(0, ".index")
    if content is None:
        index.unlink()
    else:
        index.write_bytes(content)
    segments = find_segments([str(directory)])
    size = segments[0].size // 10
    made = plan(segments, Wanted(), split_bytes=4 * size)
    assert made.unindexed == [segments[0].path]
    assert [each.start // size for each in made.splits] == [0, 4, 8]
    assert plan(segments, Wanted(), split_bytes=10 * size).unindexed == []


def test_an_index_of_another_segment_is_wrong(tmp_path: Path) -> None:
    directory = log(tmp_path / "t-0", 0)
    other = log(tmp_path / "u-0", 0, batches=3)
    segment = SegmentFile()
    for size in (7, 30, 1):
        segment.records([(1, None, b"x" * size, ())])
    segment.write(other)
    (directory / name_of(0, ".index")).write_bytes((other / name_of(0, ".index")).read_bytes())
    assert plan(find_segments([str(directory)]), Wanted(), split_bytes=100).unindexed


def test_a_damaged_batch_is_no_boundary(tmp_path: Path) -> None:
    directory = log(tmp_path / "t-0", 0)
    path = directory / name_of(0)
    data = bytearray(path.read_bytes())
    size = len(data) // 10
    data[3 * size + 70] ^= 1
    path.write_bytes(data)
    assert [each.start // size for each in splits(directory, 3 * size)] == [0, 4, 7]


def test_bounds_leave_out_segments_and_parts(tmp_path: Path) -> None:
    directory = log(tmp_path / "t-0", 0, 20, 40)
    size = find_segments([str(directory)])[0].size // 10

    def parts(first: int | None, end: int | None) -> list[tuple[int, int, int]]:
        found = splits(directory, 1 << 30, Wanted(records=Selection(first, end)))
        return [(each.segment.base_offset, each.start // size, each.stop // size) for each in found]

    assert parts(20, 40) == [(20, 0, 10)]
    # Offsets 30 and 31 are in batch 5 of their segment. An entry tells the last offset of a batch, so it is found one
    # batch early at one end and one late at the other.
    assert parts(30, 32) == [(20, 4, 7)]
    assert parts(None, 1) == [(0, 0, 2)]
    assert parts(59, None) == [(40, 9, 10)]
    assert parts(1000, None) == [(40, 9, 10)]
    assert splits(directory, 1 << 30, Wanted(topics=frozenset({"u"}))) == []
    assert splits(directory, 1 << 30, Wanted(partitions=frozenset({1}))) == []


def test_small_splits_go_together() -> None:
    segment = Segment("t", 0, "x", 0, None, 100)
    parts = [Split(segment, 0, size) for size in (10, 20, 80, 30, 200, 5, 5)]
    sizes = [[each.stop for each in group] for group in groups(parts, 100)]
    assert sizes == [[10, 20], [80], [30], [200], [5, 5]]


def test_a_segment_that_is_gone(tmp_path: Path) -> None:
    directory = log(tmp_path / "t-0", 0)
    segments = find_segments([str(directory)])
    (directory / name_of(0)).unlink()
    with pytest.raises(SourceError, match="is gone since the read was planned"):
        plan(segments, Wanted(), split_bytes=10)


def test_the_time_index_leaves_out_segments_that_are_too_old(tmp_path: Path) -> None:
    directory = log(tmp_path / "t-0", 0, 20, 40)
    for base in (0, 20, 40):
        (directory / name_of(base, ".timeindex")).write_bytes(struct.pack(">qi", 1, 19))

    def bases(first: int) -> list[int]:
        found = splits(directory, 1 << 30, Wanted(records=Selection(time_from=first)))
        return [each.segment.base_offset for each in found]

    assert bases(1) == [0, 20, 40]
    assert bases(2) == [40]  # what is written to may have later records than its index says
    # Entries that say what the batch of their offset does not are not believed.
    (directory / name_of(0, ".timeindex")).write_bytes(struct.pack(">qi", 0, 19))
    (directory / name_of(20, ".timeindex")).write_bytes(struct.pack(">qi", 1, 2_000))
    assert bases(2) == [0, 20, 40]
    (directory / name_of(0, ".timeindex")).write_bytes(bytes(120))
    (directory / name_of(20, ".timeindex")).unlink()
    assert bases(2) == [0, 20, 40]
