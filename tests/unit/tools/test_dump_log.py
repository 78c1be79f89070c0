"""Dumps of files made here: text, damage, torn tails, indexes that disagree."""

import struct
from pathlib import Path
from zlib import crc32

import pytest

from pkafka.cli import dump_log as command
from pkafka.records.ancient import encode_record
from pkafka.records.builder import build_batch
from pkafka.records.checksum import crc32c
from pkafka.tools.dump_log import Dump, DumpError, document_of, text_of

NAME = "00000000000000000005"


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Two batches of two records each, from offset 5 on."""
    path = tmp_path / f"{NAME}.log"
    batches = [
        build_batch([(10, b"k", b"v", (("h", b"x"),)), (11, None, None, ())], base_offset=5, leader_epoch=2),
        build_batch(
            [(12, None, b"w", ()), (13, None, b"z", ())],
            base_offset=7,
            producer_id=3,
            producer_epoch=0,
            base_sequence=0,
        ),
    ]
    path.write_bytes(b"".join(batches))
    (tmp_path / f"{NAME}.index").write_bytes(struct.pack(">ii", 3, len(batches[0])))
    (tmp_path / f"{NAME}.timeindex").write_bytes(struct.pack(">qi", 13, 3))
    return path


def lines(dump: Dump, path: Path, *, content: bool = False) -> list[str]:
    return [text_of(row, content=content) for row in dump.rows(path)]


def test_batches_are_shown_from_their_headers(segment: Path) -> None:
    dump = Dump()
    first, second, third = lines(dump, segment)
    assert first == "Log starting offset: 5"
    assert second.startswith(
        "baseOffset: 5 lastOffset: 6 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
        "partitionLeaderEpoch: 2 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        "position: 0 CreateTime: 11 size: "
    )
    assert third.endswith("isvalid: true")
    assert not dump.problems


def test_records_with_and_without_content(segment: Path) -> None:
    shown = lines(Dump(records=True), segment, content=True)
    record = (
        "| offset: 5 CreateTime: 10 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [h] key: k payload: v"
    )
    assert shown[2] == record
    assert shown[3] == "| offset: 6 CreateTime: 11 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []"
    assert lines(Dump(records=True), segment)[6].endswith("sequence: 1 headerKeys: []")


def test_a_damaged_batch_and_a_torn_tail_are_found(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[45] ^= 1
    segment.write_bytes(data[:-3])
    dump = Dump()
    shown = lines(dump, segment)
    assert shown[1].endswith("isvalid: false")
    assert shown[-1].endswith(f"invalid bytes at the end of {NAME}.log")
    assert len(dump.problems) == 2


def test_indexes_are_compared_with_the_log(segment: Path) -> None:
    index, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    dump = Dump()
    position = struct.unpack(">ii", index.read_bytes())[1]
    assert lines(dump, index) == [f"offset: 8 position: {position}"]
    assert lines(dump, times) == ["timestamp: 13 offset: 8"]
    assert not dump.problems
    index.write_bytes(struct.pack(">ii", 2, position) + bytes(80))
    times.write_bytes(struct.pack(">qiqi", 12, 3, 11, 1) + bytes(24))
    lines(dump, index)
    lines(dump, times)
    assert [problem.split(":")[0] for problem in dump.problems] == [
        "Mismatches in ",
        "Found timestamp mismatch in ",
        "Found out of order timestamp in ",
    ]


def test_aborted_transactions_and_snapshots(tmp_path: Path) -> None:
    aborted, snapshot = tmp_path / f"{NAME}.txnindex", tmp_path / f"{NAME}.snapshot"
    aborted.write_bytes(struct.pack(">hqqqq", 0, 1, 2, 3, 4))
    expected = "version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
    assert lines(Dump(), aborted) == [expected]
    body = struct.pack(">iqhiqiqiq", 1, 9, 0, 1, 6, 2, 77, -1, -1)
    snapshot.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    assert lines(Dump(), snapshot) == [
        "producerId: 9 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 77 firstSequence: 2147483647 lastSequence: 1 lastOffset: 6 offsetDelta: 2 timestamp: 77"
    ]
    snapshot.write_bytes(struct.pack(">hI", 1, 0) + body)
    dump = Dump()
    assert not lines(dump, snapshot)
    assert "corrupt" in dump.problems[0]


def test_segments_from_before_0_8(tmp_path: Path) -> None:
    old = tmp_path / f"{0:017}100.kafka"
    good = encode_record(b"hello") + encode_record(b"you")
    old.write_bytes(good)
    dump = Dump()
    assert lines(dump, old, content=True) == [
        "Log starting offset: 100",
        f"offset: 100 position: 0 version: 0 payloadSize: 5 crc: {crc32(b'hello')} isvalid: true payload: hello",
        f"offset: 114 position: 14 version: 0 payloadSize: 3 crc: {crc32(b'you')} isvalid: true payload: you",
    ]
    assert lines(dump, old)[1].endswith("isvalid: true")
    assert [document_of(row).get("value") for row in dump.rows(old)] == [None, "hello", "you"]
    assert not dump.problems
    old.write_bytes(good[:-1] + b"!" + bytes(5))
    assert lines(dump, old)[-1] == f"Found 5 invalid bytes at the end of {old.name}"
    assert [problem.partition(": ")[2] for problem in dump.problems] == [
        "the record at position 14 is not valid",
        "5 invalid bytes at the end",
    ]
    assert command.main.run(["--files", str(old)]) == 1


def test_files_that_cannot_be_dumped(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="does not exist"):
        lines(Dump(), tmp_path / "0.log")
    with pytest.raises(DumpError, match="base offset"):
        lines(Dump(), tmp_path / "x.log")


def test_the_command_ends_with_1_on_damage_and_takes_directories(
    segment: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert command.main.run(["--files", str(segment.parent)]) == 0
    assert capfdbinary.readouterr().out.count(b"Dumping ") == 3
    segment.write_bytes(segment.read_bytes()[:-1])
    assert command.main.run(["--files", str(segment), "--output", "jsonl"]) == 1
