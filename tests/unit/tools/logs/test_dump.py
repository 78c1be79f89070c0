"""Dumps of files made here: text, damage, torn tails, indexes that disagree."""

import struct
from pathlib import Path
from zlib import crc32

import pytest

from pkafka.cli import dump_log as command
from pkafka.records.ancient import encode_record
from pkafka.records.builder import build_batch
from pkafka.records.checksum import crc32c
from pkafka.records.columns import RecordColumns
from pkafka.tools.logs import segment_walk
from pkafka.tools.logs.dump import Dump, kinds_in, record_rows, records_of
from pkafka.tools.logs.records.decoders import PayloadForm, content_in
from pkafka.tools.logs.records.plain_text import batch_line, record_lines, valid_text
from pkafka.tools.logs.rows import FIELDS, RecordRow, document_of, text_of
from pkafka.tools.logs.segment_walk import SegmentWalk
from pkafka.tools.logs.selection import Selection
from pkafka.tools.logs.side_files import DumpError
from tests.log_files import RECORDS, SegmentFile, name_of, old_segment, rich_segment, write_rich_files

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
    return b"".join(dump.text(path, content=content)).decode().splitlines()


def problems(dump: Dump) -> list[str]:
    return dump.findings.sentences()


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
    assert not problems(dump)


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
    assert len(problems(dump)) == dump.findings.damage == 2


def test_indexes_are_compared_with_the_log(segment: Path) -> None:
    index, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    dump = Dump()
    position = struct.unpack(">ii", index.read_bytes())[1]
    assert lines(dump, index) == [f"offset: 8 position: {position}"]
    assert lines(dump, times) == ["timestamp: 13 offset: 8"]
    assert not problems(dump)
    index.write_bytes(struct.pack(">ii", 2, position) + bytes(80))
    times.write_bytes(struct.pack(">qiqi", 12, 3, 11, 1) + bytes(24))
    lines(dump, index)
    lines(dump, times)
    assert [problem.split(":")[0].partition("/")[0] for problem in problems(dump)] == [
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
    assert "corrupt" in problems(dump)[0]


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
    assert not problems(dump)
    old.write_bytes(good[:-1] + b"!" + bytes(5))
    assert lines(dump, old)[-1] == f"Found 5 invalid bytes at the end of {old.name}"
    assert [problem.partition(": ")[2] for problem in problems(dump)] == [
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


@pytest.fixture
def rich(tmp_path: Path) -> Path:
    """A segment with batches of every kind."""
    return rich_segment().write(tmp_path)


@pytest.mark.parametrize("content", [False, True])
def test_columns_and_rows_give_the_same_lines(rich: Path, content: bool) -> None:
    """The fast way and the general one."""
    for batch in SegmentWalk(rich):
        records = records_of(batch)
        row = next(row for row in Dump().rows(rich) if getattr(row, "position", -1) == batch.position)
        assert batch_line(batch).decode() == f"{text_of(row, content=False)}\n"
        if records is None or isinstance(records, list):
            continue
        shapes = [records, records.part(0, 1), records.part(3, 5)]
        keyless = without_keys(records)
        for columns in (*shapes, keyless):
            rows = record_rows(batch.header, columns)
            texts = [f"{text_of(row, content=content)}\n" for row in rows]
            assert valid_text(record_lines(columns, batch.header, content=content)).decode() == "".join(texts)


def without_keys(columns: RecordColumns) -> RecordColumns:
    """The same records without keys and headers, none of their values null."""
    values: list[bytes | None] = [value or b"" for value in columns.values]
    return RecordColumns(columns.offsets, columns.timestamps, None, values)


def test_the_values_of_headers_and_the_forms_of_payloads(rich: Path) -> None:
    def shown(form: PayloadForm, **how: bool) -> list[str]:
        content = content_in(form)
        return b"".join(Dump(records=True).text(rich, content=True, by=content, **how)).decode().splitlines()

    assert shown(PayloadForm.TEXT, header_values=True)[2].endswith(
        'headerKeys: [h,a,b] headers: [{"name":"h","value":"x"},{"name":"a,b","value":null}] key: k payload: v'
    )
    assert shown(PayloadForm.HEX)[3].endswith(" payload: 7061796c6f6164fffe")
    assert shown(PayloadForm.BASE64)[3].endswith(" payload: cGF5bG9hZP/+")
    assert shown(PayloadForm.TEXT)[3].endswith(
        " payload: payload\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    )


def test_json_payloads_are_json_in_documents_too(tmp_path: Path) -> None:
    path = tmp_path / name_of(0)
    values = [b'{"a": [1, 2.50]}', b"no json", b"\xff", b"17"]
    path.write_bytes(build_batch([(1, None, value, ()) for value in values]))
    content = content_in(PayloadForm.JSON)
    texts = (
        b"".join(Dump(records=True).text(path, content=True, metadata=False, by=content))
        .decode()
        .splitlines()
    )
    assert texts[2:] == [' payload: {"a":[1,2.5]}', " payload: no json", " payload: \ufffd", " payload: 17"]
    rows = [document_of(row, documents=content.documents) for row in Dump(records=True).rows(path)]
    assert [row["value"] for row in rows[2:]] == [{"a": [1, 2.5]}, "no json", {"base64": "/w=="}, 17]


def test_every_document_has_the_fields_that_are_promised(tmp_path: Path) -> None:
    write_rich_files(tmp_path)
    seen = set()
    for path in sorted(tmp_path.iterdir()):
        kinds = {*kinds_in(path, records=True), "note"}
        for row in Dump(records=True).rows(path):
            document = document_of(row)
            kind = str(document.pop("kind"))
            seen.add(kind)
            assert kind in kinds
            assert tuple(document) == FIELDS[kind]
    assert seen == FIELDS.keys() - {"ancient", "checkpoint", "damage"}


def test_a_selection_leaves_out_records_and_batches(rich: Path) -> None:
    def offsets(selection: Selection, *, records: bool = True) -> list[int]:
        dump = Dump(records=records, selection=selection)
        rows = [document_of(row) for row in dump.rows(rich)]
        name = "offset" if records else "base_offset"
        return [int(str(row[name])) for row in rows if name in row]

    assert offsets(Selection(3, 12)) == list(range(3, 12))
    assert offsets(Selection(3, 11), records=False) == [0, 5, 10]
    assert offsets(Selection(offset_from=48)) == [48, 49]
    assert offsets(Selection(offset_to=1)) == [0]
    assert offsets(Selection(0, 10, 1002, 1003)) == [3, 8]
    assert offsets(Selection(time_from=3000)) == [45, 46, 47, 48, 49]
    assert offsets(Selection(time_to=1000)) == [2, 7, 12, 17, 22, 32]
    assert offsets(Selection(offset_from=500)) == []


def test_a_dump_goes_on_behind_damage_if_told_to(tmp_path: Path) -> None:
    segment = rich_segment()
    begin, end = segment.places[2][2], segment.places[4][2]
    data = bytes(segment.data)
    path = tmp_path / name_of(0)
    path.write_bytes(data[:begin] + bytes(1000) + data[end:])
    plain = Dump()
    assert len(lines(plain, path)) == 3
    assert "a batch cannot have a length of 0 bytes" in problems(plain)[0]
    dump = Dump(resync=True)
    shown = lines(dump, path)
    assert (
        shown[3]
        == f"Passed over 1000 damaged bytes at position {begin}: a batch cannot have a length of 0 bytes"
    )
    assert len(shown) == 1 + len(segment.places) - 2 + 1
    rows = [document_of(row) for row in Dump(resync=True).rows(path)]
    assert {"kind": "damage", "position": begin, "size": 1000, "reason": shown[3].partition(": ")[2]} in rows


def test_an_index_entry_for_what_was_appended_in_one_go_is_no_damage(tmp_path: Path) -> None:
    """As followers before Kafka 3.9.1 wrote it: the last offset of several batches at the position of the first."""
    segment = SegmentFile()
    for _ in range(3):
        segment.records(RECORDS)  # type: ignore[arg-type] # with headers
    path = segment.write(tmp_path)
    (_, _, position), (_, last, _) = segment.places[1:]
    path.with_suffix(".index").write_bytes(struct.pack(">ii", last, position))
    dump = Dump()
    lines(dump, path.with_suffix(".index"))
    assert len(problems(dump)) == 1
    assert dump.findings.damage == 0


def test_very_many_findings_are_counted_but_not_kept(tmp_path: Path) -> None:
    path = tmp_path / name_of(0)
    records = [build_batch([(1, None, b"", ())], base_offset=2 * number) for number in range(20_000)]
    path.write_bytes(b"".join(records))
    dump = Dump(records=True)
    assert len(lines(dump, path)) == 1 + 2 * len(records)
    told = list(dump.findings.lines())
    assert told[0] == f"Non-consecutive offsets in {path}"
    assert told[1] == f"  {2 * 20_000 - 4} is followed by {2 * 20_000 - 2}"
    assert told[-1] == "  and 9999 more"
    assert len(told) == 10_002
    assert dump.findings.damage == 0


def test_checkpoints_and_properties(tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\na 0 5\nb.c 11 70\n")
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n1\n4 9\n")
    (tmp_path / "meta.properties").write_text("#\n#Thu Jan 01\nbroker.id=3\nversion=0\ncluster.id=abc\n")
    assert lines(Dump(), tmp_path / "recovery-point-offset-checkpoint") == [
        "topic: a partition: 0 offset: 5",
        "topic: b.c partition: 11 offset: 70",
    ]
    assert lines(Dump(), tmp_path / "leader-epoch-checkpoint") == ["epoch: 4 startOffset: 9"]
    (tmp_path / "leader-epoch-checkpoint").write_text("")
    assert lines(Dump(), tmp_path / "leader-epoch-checkpoint") == []
    assert lines(Dump(), tmp_path / "meta.properties") == ["version: 0", "broker.id: 3", "cluster.id: abc"]
    for name in ("recovery-point-offset-checkpoint", "leader-epoch-checkpoint", "meta.properties"):
        (tmp_path / name).write_text("7\nx\n")
        dump = Dump()
        assert lines(dump, tmp_path / name) == []
        assert dump.findings.damage == 1


def test_a_range_of_offsets_begins_where_the_index_leads_and_ends_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = SegmentFile(100)
    for _ in range(200):
        segment.records(RECORDS)  # type: ignore[arg-type] # with headers
    path = segment.write(tmp_path)
    monkeypatch.setattr(segment_walk, "WINDOW_BYTES", 500)
    size = path.stat().st_size
    for first in (0, 100, 103, 555, 1_099, 5_000):
        for count in (0, 1, 7):
            read: list[int] = []
            dump = Dump(records=True, selection=Selection(first, first + count), on_read=read.append)
            offsets = [row.record.offset for row in dump.rows(path) if isinstance(row, RecordRow)]
            assert offsets == [offset for offset in range(100, 1_100) if first <= offset < first + count]
            assert not problems(dump)
            assert sum(read) < size / 20
    # An index that leads too far is not believed.
    path.with_suffix(".index").write_bytes(struct.pack(">ii", 1, segment.places[50][2]))
    dump = Dump(records=True, selection=Selection(103, 105))
    assert [row.record.offset for row in dump.rows(path) if isinstance(row, RecordRow)] == [103, 104]


def test_a_range_of_offsets_within_old_wrappers(tmp_path: Path) -> None:
    path = old_segment().write(tmp_path)
    for first in range(100, 136):
        dump = Dump(records=True, selection=Selection(first, first + 1))
        assert [row.record.offset for row in dump.rows(path) if isinstance(row, RecordRow)] == [first]


def test_indexes_that_a_broker_would_not_keep(segment: Path) -> None:
    index, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")

    def checked(path: Path, data: bytes) -> list[str]:
        path.write_bytes(data)
        dump = Dump(sanity_only=True)
        return [*lines(dump, path), *problems(dump)]

    for path, whole in ((index, index.read_bytes()), (times, times.read_bytes())):
        assert checked(path, whole) == [f"{path} passed sanity check."]
        assert "is not a multiple of" in checked(path, whole + b"abc")[0]
    assert checked(index, b"") == [f"{index} is empty."]
    assert checked(times, b"") == [f"{times} passed sanity check."]
    assert "is below the base offset 5" in checked(index, struct.pack(">ii", -1, 0))[0]
    assert "is below the base offset 5" in checked(times, struct.pack(">qi", 7, -1))[0]
    assert "is before its first, 7" in checked(times, struct.pack(">qiqi", 7, 1, 6, 2))[0]


def test_an_index_that_leads_nowhere_and_one_without_entries(segment: Path) -> None:
    index, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    index.write_bytes(struct.pack(">ii", 1, 9_999))
    dump = Dump()
    assert lines(dump, index) == ["offset: 6 position: 9999"]
    assert problems(dump) == [f"{index}: no batch is at position 9999, where offset 6 points"]
    index.write_bytes(bytes(80))
    times.write_bytes(bytes(120))
    dump = Dump()
    assert lines(dump, index) == ["offset: 5 position: 0"]
    assert lines(dump, times) == ["timestamp: 0 offset: 5"]
    assert dump.findings.damage == 0
