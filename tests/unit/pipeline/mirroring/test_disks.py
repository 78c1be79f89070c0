"""What is left of a cluster is read as its consumers would have read it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pkafka.model import TopicPartition
from pkafka.pipeline.mirroring import disks
from pkafka.pipeline.mirroring.disks import DamagedLogError, DeadCluster
from pkafka.pipeline.mirroring.transactions import Aborted, aborted_in
from pkafka.pipeline.segments.plan import find_segments
from pkafka.records.control import build_end_marker
from pkafka.storage.checkpoints import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, encode_offsets
from tests.log_files import SegmentFile, old_segment

T0 = TopicPartition("t", 0)


def rows(start: int, count: int) -> list[tuple[int, bytes | None, bytes | None, tuple[()]]]:
    return [(each, b"k", b"%d" % each, ()) for each in range(start, start + count)]


def write(directory: Path, *segments: SegmentFile, topic: str = "t-0", **marks: int) -> Path:
    """A log directory with one partition; ``high`` and ``low`` are in its checkpoints."""
    (directory / topic).mkdir(parents=True)
    for each in segments:
        each.write(directory / topic)
    for name, file in (("high", HIGH_WATERMARK_FILE), ("low", LOG_START_OFFSET_FILE)):
        if name in marks:
            (directory / file).write_bytes(encode_offsets({T0: marks[name]}))
    return directory


def plain(base: int, batches: int, size: int = 4) -> SegmentFile:
    segment = SegmentFile(base)
    for _ in range(batches):
        segment.records(rows(segment.next_offset, size))
    return segment


def values(cluster: DeadCluster, start: int | None = None) -> list[bytes | None]:
    ((first, end),) = cluster.bounds([T0]).values()
    batches = cluster.log(T0).batches(first if start is None else start, end)
    return [record.value for batch in batches for record in batch.records()]


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % each for each in range(start, end)]


def test_the_longest_log_is_read_up_to_the_highest_high_watermark(tmp_path: Path) -> None:
    one = write(tmp_path / "1", plain(0, 3), plain(12, 2), high=12)
    other = write(tmp_path / "2", plain(0, 3), plain(12, 4), high=16)
    cluster = DeadCluster.of([str(one), str(other)])
    assert cluster.partitions() == {"t": [0]}
    assert cluster.bounds([T0]) == {T0: (0, 16)}
    assert "12 offset(s) above" in cluster.notes()[-1]
    assert values(cluster) == numbers(0, 16)
    assert values(cluster, 14) == numbers(14, 16)
    assert values(DeadCluster.of([str(one), str(other)], takes_all=True)) == numbers(0, 28)


def test_without_a_high_watermark_all_right_batches_count(tmp_path: Path) -> None:
    torn = plain(0, 3)
    torn.data += torn.data[:50]
    assert values(DeadCluster.of([str(write(tmp_path / "1", torn))])) == numbers(0, 12)


def test_what_was_deleted_before_is_not_read(tmp_path: Path) -> None:
    directory = write(tmp_path / "1", plain(8, 3), plain(20, 3), low=22)
    assert values(DeadCluster.of([str(directory)])) == numbers(22, 32)


def transaction(
    segment: SegmentFile, producer: int, *parts: int, committed: bool | None = None
) -> Iterator[int]:
    """Batches of a producer, and a marker unless the transaction stays open; steps, so that others come between."""
    for sequence, count in enumerate(parts):
        at = segment.next_offset
        segment.records(
            rows(at, count),
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        yield at
    if committed is not None:
        marker = build_end_marker(
            committed=committed,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=1,
            timestamp_ms=1,
            base_offset=segment.next_offset,
            leader_epoch=0,
        )
        segment.add(marker, 1)


def in_turn(*steps: Iterator[int]) -> None:
    """Take the steps of transactions in turn."""
    left: Sequence[Iterator[int]] = steps
    while left:
        left = [each for each in left if next(each, None) is not None]


@pytest.mark.parametrize("piece_bytes", [1, 200, 1 << 20])
def test_only_what_was_committed_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(disks, "_PIECE_BYTES", piece_bytes)
    first = plain(0, 1)
    in_turn(
        transaction(first, 1, 2, 2, committed=False),  # offsets 4, 5, 10, 11; its marker is at 13
        transaction(first, 2, 1, 1, committed=True),  # 6, 12; 14
        transaction(first, 3, 3),  # 7 to 9, and no end
    )
    second = SegmentFile(first.next_offset)
    in_turn(transaction(second, 1, 2, committed=True))  # 15, 16; 17
    second.records(rows(second.next_offset, 1))
    directory = write(tmp_path / "1", first, second)
    assert aborted_in(find_segments([str(directory)]), 1_000) == [Aborted(1, 4, 13), Aborted(3, 7, None)]
    assert values(DeadCluster.of([str(directory)])) == [*numbers(0, 4), b"6", b"12", b"15", b"16", b"18"]


def test_messages_of_old_formats_are_read(tmp_path: Path) -> None:
    segment = old_segment()
    read = values(DeadCluster.of([str(write(tmp_path / "1", segment))]))
    assert len(read) == segment.next_offset - segment.base


def test_damage_below_the_high_watermark_is_an_error(tmp_path: Path) -> None:
    damaged = plain(0, 3)
    damaged.data[damaged.places[1][2] + 30] ^= 1
    cluster = DeadCluster.of([str(write(tmp_path / "1", damaged, plain(12, 1), high=16))])
    with pytest.raises(DamagedLogError, match="is damaged"):
        values(cluster)


def test_a_log_in_the_middle_that_ends_early_is_an_error(tmp_path: Path) -> None:
    cut = plain(0, 3)
    del cut.data[-10:]
    cluster = DeadCluster.of([str(write(tmp_path / "1", cut, plain(12, 1)))])
    with pytest.raises(DamagedLogError, match="there is no batch at position"):
        values(cluster)
