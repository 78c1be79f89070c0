"""Logs that storage wrote are sound; each kind of damage is found, where it is, and nothing else is said."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from pkafka.cli.verify_log import main
from pkafka.records.builder import build_batch
from pkafka.tools.logs.dump import Dump
from pkafka.tools.logs.side_files import producers_in
from pkafka.tools.logs.verification.log import verify_data_directory, verify_log
from pkafka.tools.logs.verification.report import LogReport
from tests.log_files import SegmentFile, empty_batch, name_of, old_segment, rich_segment, snapshot_of
from tests.unit.storage.makers import NOW, World, append, end_transaction

PLAIN = [(1000 + number, None, b"value", ()) for number in range(5)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The directory of a log of several segments: plain batches, two producers, transactions that end both ways."""
    world = World(tmp_path)
    log = world.create()
    for sequence, committed in enumerate((True, False, False)):
        append(log, b"in it", pid=9, epoch=0, sequence=sequence, transactional=True)
        append(log, b"between", timestamp=NOW + sequence)
        end_transaction(log, 9, 0, committed=committed)
    append(log, b"open", pid=9, epoch=0, sequence=3, transactional=True)
    for number in range(16):
        time, epoch = NOW + 100 + number * 10, number // 6
        append(log, b"some value", b"another one", timestamp=time, leader_epoch=epoch)
        append(log, b"x" * 30, timestamp=time, leader_epoch=epoch, pid=7, epoch=1, sequence=number)
    log.close()
    return world.directory


def checked(directory: Path, *, deep: bool = False) -> LogReport:
    return verify_log(sorted(directory.glob("*.log")), is_whole=True, deep=deep)


def damage(report: LogReport) -> list[str]:
    return [f"{problem.check}: {problem.message}" for problem in report.problems if problem.is_damage]


def test_a_log_that_was_closed_is_sound(log: Path) -> None:
    report = checked(log, deep=True)
    assert report.problems == []
    assert (report.segments > 4, report.first_offset, report.next_offset) == (True, 0, 58)
    assert report.records == 58
    assert report.size_bytes == sum(path.stat().st_size for path in log.glob("*.log"))
    assert list(log.glob("*.snapshot"))
    assert list(log.glob("*.txnindex"))
    for path in log.iterdir():
        dump = Dump(records=True)
        assert list(dump.rows(path))
        assert dump.findings.sentences() == []


def test_a_producer_that_was_fenced_has_no_batches_any_more(tmp_path: Path) -> None:
    """The coordinator aborts with an epoch that nobody has written with."""
    world = World(tmp_path)
    log = world.create()
    append(log, b"one", b"two", pid=9, epoch=0, sequence=0, transactional=True)
    end_transaction(log, 9, 1, committed=False)
    log.close()
    (snapshot,) = [path for path in world.paths(".snapshot") if path.stat().st_size > 10]
    (row,) = producers_in(snapshot.read_bytes())
    assert (row.producer_epoch, row.last_offset, row.offset_delta) == (1, -1, 0)
    assert checked(world.directory).problems == []


def test_the_rest_of_a_log_whose_beginning_was_deleted_is_sound(log: Path) -> None:
    first, second, *_ = sorted(log.glob("*.log"))
    for path in log.glob(f"{first.stem}*"):
        path.unlink()
    (log / "leader-epoch-checkpoint").write_text(f"0\n3\n0 {int(second.stem)}\n1 28\n2 46\n")
    report = checked(log)
    assert report.problems == []
    assert report.first_offset == int(second.stem)


def test_segments_alone_and_old_ones(log: Path, tmp_path: Path) -> None:
    for path in sorted(log.glob("*.log")):
        assert not verify_log([path], is_whole=False).damage
    old = old_segment().write(tmp_path)
    old.with_suffix(".index").unlink()
    report = verify_log([old], is_whole=True, deep=True)
    assert (report.damage, report.remarks, report.records) == (0, 2, 18)
    assert (report.first_offset, report.next_offset) == (100, 136)


def changed(path: Path, position: int, value: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[position : position + len(value)] = value
    path.write_bytes(data)


def of(log: Path, suffix: str, number: int = 0) -> Path:
    return sorted(log.glob(f"*{suffix}"))[number]


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


ONE_FAULT_EACH: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit": (
        lambda log: changed(of(log, ".log"), 70, b"\xff"),
        "batches: bytes 0 to 72 (73 bytes): the checksum is wrong, offsets 0 to 0 are lost",
    ),
    "an index with half an entry": (
        lambda log: of(log, ".index").write_bytes(of(log, ".index").read_bytes() + b"abc"),
        "offset index: its size, ",
    ),
    "an index entry between batches": (
        lambda log: changed(of(log, ".index"), 4, struct.pack(">i", 100)),
        "offset index: offset ",
    ),
    "an index entry of an earlier offset": (
        lambda log: changed(of(log, ".index"), 0, struct.pack(">i", 1)),
        "offset index: offset 1 at position ",
    ),
    "an index that goes down": (
        lambda log: changed(of(log, ".index"), 8, struct.pack(">i", 1)),
        "offset index: entry 1, ",
    ),
    "an index behind the end": (
        lambda log: of(log, ".index").write_bytes(
            of(log, ".index").read_bytes() + struct.pack(">ii", 500, 60_000)
        ),
        "offset index: offset 500 at position 60000, behind the end of the log",
    ),
    "a time that the log has not": (
        lambda log: changed(of(log, ".timeindex"), 0, struct.pack(">q", NOW - 1)),
        f"time index: timestamp {NOW - 1} at offset ",
    ),
    "aborted transactions that nobody aborted": (
        lambda log: changed(of(log, ".txnindex"), 10, struct.pack(">q", 30)),
        "aborted transactions: producer 9: offsets ",
    ),
    "aborted transactions that are cut off": (
        lambda log: cut(of(log, ".txnindex"), 40),
        "aborted transactions: the last entry is cut off",
    ),
    "a snapshot with a wrong checksum": (
        lambda log: changed(of(log, ".snapshot"), 12, b"\xff"),
        "producers: Snapshot is corrupt (CRC is no longer valid)",
    ),
    "epochs that are not the log's": (
        lambda log: (log / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 46\n"),
        "leader epochs: epoch 0 at offset 28, where the log has epoch 1",
    ),
    "an epoch behind the end": (
        lambda log: (log / "leader-epoch-checkpoint").write_text("0\n4\n0 0\n1 28\n2 46\n9 700\n"),
        "leader epochs: epoch 9 begins at 700, behind the end of the log at 58",
    ),
    "no legal epochs": (
        lambda log: (log / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n"),
        "leader epochs: damaged leader epoch checkpoint",
    ),
    "no legal id": (
        lambda log: (log / "partition.metadata").write_text("version: 5\n"),
        "topic id: ",
    ),
    "a batch that is cut off": (
        lambda log: cut(of(log, ".log", -1), of(log, ".log", -1).stat().st_size - 1),
        "batches: bytes ",
    ),
}


@pytest.mark.parametrize("name", ONE_FAULT_EACH)
def test_every_fault_is_found(log: Path, name: str) -> None:
    spoil, text = ONE_FAULT_EACH[name]
    spoil(log)
    found = damage(checked(log))
    assert any(each.startswith(text) for each in found), found
    # What follows from it may be found too, but nothing that has nothing to do with it.
    assert len({each.partition(":")[0] for each in found}) <= 3
    assert main.run(["--files", str(log)]) == 1


def test_a_snapshot_is_compared_with_the_log(log: Path) -> None:
    path = of(log, ".snapshot", 1)
    offset = int(path.stem)
    (whole,) = [row for row in producers_in(path.read_bytes()) if row.producer_id == 7]
    others = (8, 0, 1, 2, 0, NOW, -1, -1), (6, 0, 1, offset, 0, 1, -1, -1)
    path.write_bytes(snapshot_of(whole._replace(last_sequence=99), *others))
    assert damage(checked(log)) == [
        f"producers: producer 7: last sequence 99, in the log {whole.last_sequence}",
        "producers: producer 8 has written offset 2, but not in this log",
        f"producers: producer 6 has written offset {offset}, which is not before {offset}",
    ]


def segment_with(directory: Path, damaged: bytes, *, then: int = 1) -> tuple[LogReport, int]:
    """A segment of three batches, with other bytes between the first and the next; where these begin."""
    segment = SegmentFile()
    segment.records(PLAIN)
    start = len(segment.data)
    segment.data += damaged
    segment.next_offset += 5 * (then - 1)
    segment.records(PLAIN)
    segment.records(PLAIN)
    path = directory / name_of(0)
    path.write_bytes(segment.data)
    return verify_log([path], is_whole=True), start


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (bytes(3_000_000), "a batch cannot have a length of 0 bytes"),
        (b"\xff" * 70, "no message format has the magic -1"),
        (b"\2" * 5_000, "too few bytes for a batch"),
        (bytes(build_batch(PLAIN, base_offset=5))[:-3], "a checksum that is wrong"),
        (bytes(16) + b"\7" + bytes(60), "a batch cannot have a length of 0 bytes"),
    ],
    ids=["zeros", "ones", "twos", "a batch without its end", "no magic"],
)
def test_the_next_plausible_batch_is_found_behind_damage(tmp_path: Path, damaged: bytes, reason: str) -> None:
    report, start = segment_with(tmp_path, damaged, then=2)
    size = len(damaged)
    assert damage(report) == [
        f"batches: bytes {start} to {start + size - 1} ({size} bytes): {reason}, offsets 5 to 9 are lost"
    ]
    (problem,) = [each for each in report.problems if each.is_damage]
    assert (problem.position, problem.size) == (start, len(damaged))
    assert (report.batches, report.next_offset) == (3, 20)


def test_a_length_that_is_wrong_does_not_hide_what_follows(tmp_path: Path) -> None:
    """The length is outside the checksum: the batch seems to reach far into the others."""
    segment = SegmentFile()
    for _ in range(5):
        segment.records(PLAIN)
    size = len(segment.data) // 5
    path = tmp_path / name_of(0)
    path.write_bytes(segment.data)
    changed(path, size + 8, struct.pack(">i", size * 2 - 12 + 5))
    report = verify_log([path], is_whole=True)
    assert damage(report) == [
        f"batches: bytes {size} to {2 * size - 1} ({size} bytes): a checksum that is wrong, offsets 5 to 9 are lost"
    ]


def test_gaps_are_damage_unless_the_log_is_compacted(tmp_path: Path) -> None:
    report, _ = segment_with(tmp_path, b"", then=3)
    assert damage(report) == ["offsets: offsets 5 to 14 are missing in front of the batch at position 121"]
    assert not verify_log([tmp_path / name_of(0)], is_whole=True, is_compacted=True).damage
    (tmp_path / name_of(0)).write_bytes(
        (tmp_path / name_of(0)).read_bytes() + empty_batch(25, 3, leader_epoch=-1, producer_id=4)
    )
    report = verify_log([tmp_path / name_of(0)], is_whole=True)
    assert report.is_compacted
    assert (report.damage, report.remarks) == (0, 3)
    assert not damage(report)
    assert main.run(["--files", str(tmp_path)]) == 0


def test_a_cleaner_checkpoint_says_that_a_log_is_compacted(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    segment_with(partition, b"", then=3)
    assert main.run(["--files", str(partition)]) == 1
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 15\n")
    assert main.run(["--files", str(partition)]) == 0
    assert main.run(["--files", str(tmp_path)]) == 0
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    assert main.run(["--files", str(partition), "--compacted"]) == 0


def test_offsets_that_overlap_or_belong_elsewhere(tmp_path: Path) -> None:
    segment = SegmentFile()
    segment.records(PLAIN)
    segment.next_offset = 2
    segment.records(PLAIN)
    path = segment.write(tmp_path)
    (tmp_path / name_of(4)).write_bytes(build_batch(PLAIN, base_offset=3))
    report = verify_log([path, tmp_path / name_of(4)], is_whole=True)
    assert (
        damage(report)
        == [
            "offsets: the batch begins at offset 2, but 5 comes next",
            "offsets: offsets 2 to 6 in the segment of 0 to 3",
            "offsets: offsets 0 to 4 in the segment of 0 to 3",
            "offsets: it begins at 4, but 7 comes next",
            "offsets: the batch begins at offset 3, but 7 comes next",
        ]
        or len(damage(report)) == 5
    )


def test_an_offset_that_is_wrong_does_not_make_all_behind_it_wrong(tmp_path: Path) -> None:
    """The base offset of a batch is outside its checksum."""
    segment = SegmentFile()
    for _ in range(9):
        segment.records(PLAIN)
    path = tmp_path / name_of(0)
    path.write_bytes(segment.data)
    begin, end = segment.places[3][2], segment.places[4][2]
    changed(path, begin + 5, b"\1")
    report = verify_log([path], is_whole=True)
    assert damage(report) == [
        f"offsets: the batch begins at offset 20, but {(1 << 16) + 20} comes next",
        f"offsets: offsets 15 to {(1 << 16) + 14} are missing in front of the batch at position {begin}",
    ]
    assert [problem.position for problem in report.problems if problem.is_damage] == [end, begin]
    assert report.next_offset == 45


def test_what_is_allocated_in_advance_is_no_damage(log: Path) -> None:
    active = of(log, ".log", -1)
    active.write_bytes(active.read_bytes() + bytes(5_000_000))
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        path = active.with_suffix(suffix)
        path.write_bytes(path.read_bytes() + bytes(size * 100))
    report = checked(log)
    assert report.damage == 0
    assert [problem.message for problem in report.problems] == ["5000000 bytes are allocated in advance"]


def test_records_that_cannot_be_decoded_are_found_only_by_a_deep_check(tmp_path: Path) -> None:
    from pkafka.records.batch import BATCH_OVERHEAD, write_crc

    data = build_batch(PLAIN)
    data[BATCH_OVERHEAD] = 0x7F
    write_crc(data, 0, len(data))
    (tmp_path / name_of(0)).write_bytes(data)
    assert main.run(["--files", str(tmp_path)]) == 0
    assert main.run(["--files", str(tmp_path), "--deep-iteration"]) == 1


def test_control_records_of_every_kind_are_no_damage(tmp_path: Path) -> None:
    report = verify_log([rich_segment().write(tmp_path)], is_whole=True, deep=True)
    assert [each for each in damage(report) if not each.startswith("aborted transactions")] == []


def test_checkpoints_are_compared_with_the_logs(tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\na 0 5\nb 1 71\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nc 0 5\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("broken")
    (tmp_path / "meta.properties").write_text("broken")
    report = verify_data_directory(tmp_path, {"a-0": (0, 5), "b-1": (0, 70)})
    assert [(each.file, each.is_damage) for each in report.problems] == [
        ("meta.properties", True),
        ("recovery-point-offset-checkpoint", True),
        ("log-start-offset-checkpoint", True),
        ("replication-offset-checkpoint", False),
    ]
    assert "b-1 is at 71, but its log ends at 70" in report.problems[1].message


def test_a_data_directory_is_checked_whole(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = log.parent
    (data / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 58\n")
    assert main.run(["--files", str(data)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{log}: sound: ")
    assert second == f"{data}: sound: the files of the directory itself"
    changed(of(log, ".log"), 80, b"\xff")
    assert main.run(["--files", str(data)]) == 1
    captured = capsys.readouterr()
    assert "damaged, " in captured.out
    assert captured.err == "pk-verify-log: 1 of 2 log(s) damaged\n"
    assert main.run(["--files", f"{data}/nothing*"]) == 1
