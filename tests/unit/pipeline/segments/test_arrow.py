"""The rows of segments: the same for every size of splits, with damage and without an index; and their columns."""

import struct
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pkafka.pipeline.segments import arrow
from pkafka.pipeline.segments.arrow import arrow_schema, batch_rows, record_rows
from pkafka.pipeline.segments.options import BATCH_COLUMNS, RECORD_COLUMNS, ROWS
from pkafka.pipeline.segments.plan import SourceError, Wanted, find_segments, plan
from pkafka.records.batch import write_crc
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.tools.logs.dump import Dump
from pkafka.tools.logs.rows import BatchRow, RecordRow
from pkafka.tools.logs.selection import EVERYTHING, Selection
from tests.log_files import SegmentFile, old_segment, rich_segment

WHOLE = 1 << 30
Row = dict[str, Any]


def read(
    directory: Path,
    *,
    split_bytes: int = WHOLE,
    rows: str = "records",
    columns: Sequence[str] = (),
    wanted: Wanted = Wanted(),  # noqa: B008 - immutable
) -> list[Row]:
    types: Mapping[str, str] = ROWS[rows]
    schema = arrow_schema(columns or tuple(types), types)
    splits = plan(find_segments([str(directory)]), wanted, split_bytes=split_bytes).splits
    make = batch_rows if rows == "batches" else record_rows
    found = [row for batch in make(splits, schema, wanted) for row in batch.to_pylist()]
    for row in found:
        row.pop("segment", None)
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A partition's directory."""
    path = tmp_path / "t-3"
    path.mkdir()
    return path


def test_the_types_are_those_that_spark_has_for_them() -> None:
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    plain = [BinaryType(), BooleanType(), IntegerType(), LongType(), StringType(), TimestampType()]
    kinds = {kind.simpleString(): kind for kind in (*plain, ArrayType(header))}
    for columns in (RECORD_COLUMNS, BATCH_COLUMNS):
        spark = StructType([StructField(name, kinds[kind]) for name, kind in columns.items()])
        assert arrow_schema(tuple(columns), columns) == to_arrow_schema(spark, timezone="UTC")


def test_every_kind_of_batch_reads_as_a_dump_has_it(directory: Path) -> None:
    rich_segment().write(directory)
    old_segment().write(directory)
    dumped: list[Row] = []
    for path in sorted(directory.glob("*.log")):
        batch: BatchRow | None = None
        for row in Dump(records=True).rows(path):
            if isinstance(row, BatchRow):
                batch = row
            elif isinstance(row, RecordRow):
                assert batch is not None
                header = batch.header
                dumped.append(
                    {
                        "key": row.record.key,
                        "value": row.record.value,
                        "topic": "t",
                        "partition": 3,
                        "offset": row.record.offset,
                        "timestamp": None
                        if row.record.timestamp < 0
                        else datetime.fromtimestamp(row.record.timestamp / 1000, UTC),
                        "timestampType": row.timestamp_type if row.magic else -1,
                        "headers": [{"key": key, "value": value} for key, value in row.record.headers]
                        or None,
                        "producerId": header.producer_id,
                        "producerEpoch": header.producer_epoch,
                        "sequence": row.sequence,
                        "transactional": header.magic == 2 and header.is_transactional,
                        "control": row.control is not None,
                        "codec": ("none", "gzip", "snappy", "lz4", "zstd")[header.codec],
                        "leaderEpoch": header.partition_leader_epoch,
                        "magic": row.magic,
                        "position": batch.position,
                        "error": None,
                    }
                )
    found = read(directory)
    for record, expected in zip(found, dumped, strict=True):
        first = record.pop("batchBaseOffset")
        assert first <= record["offset"]
        assert record == expected


def test_batches_as_rows(directory: Path) -> None:
    segment = rich_segment()
    segment.write(directory)
    found = read(directory, rows="batches")
    assert [(row["baseOffset"], row["lastOffset"], row["position"]) for row in found] == segment.places
    assert [row["size"] for row in found] == [
        end - start
        for start, end in zip(
            [place[2] for place in segment.places],
            [*(place[2] for place in segment.places[1:]), len(segment.data)],
            strict=True,
        )
    ]
    (horizon,) = [row for row in found if row["deleteHorizon"] is not None]
    assert horizon["baseTimestamp"] is None
    assert {row["codec"] for row in found} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert not any(row["error"] for row in found)


@pytest.mark.parametrize("column", RECORD_COLUMNS)
def test_a_column_alone_is_what_it_is_among_all(column: str, directory: Path) -> None:
    rich_segment().write(directory)
    old_segment().write(directory)
    if column == "segment":
        return
    assert [row[column] for row in read(directory, columns=[column])] == [
        row[column] for row in read(directory)
    ]


def test_what_no_column_needs_is_not_decoded(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = SegmentFile()
    segment.records([(1, b"k", b"v", ())] * 3, codec=Codec.ZSTD, timestamp_type=1)
    segment.write(directory)
    names = [name for name in RECORD_COLUMNS if name not in ("key", "value", "headers", "segment")]
    expected = read(directory, columns=names)
    monkeypatch.setattr(arrow, "decode_columns_at", None)
    assert read(directory, columns=names) == expected
    with pytest.raises(TypeError):
        read(directory, columns=["value"])


def test_times_that_spark_cannot_have_are_null(directory: Path) -> None:
    segment = SegmentFile()
    segment.records([(each, None, b"", ()) for each in (0, 2**60, 1)])
    segment.write(directory)
    assert [row["timestamp"] for row in read(directory)] == [
        datetime(1970, 1, 1, tzinfo=UTC),
        None,
        datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC),
    ]


def test_damage_is_a_row_and_reading_goes_on(directory: Path) -> None:
    segment = SegmentFile()
    for number in range(6):
        segment.records([(1, None, b"%d" % number, ())] * 2)
    path = segment.write(directory)
    data = bytearray(segment.data)
    places = [place[2] for place in segment.places]
    data[places[1] + 64] ^= 1  # in its records
    data[places[3] + 8] = 0x7F  # in its length
    path.write_bytes(data[:-5])
    rows = read(directory)
    assert [(row["offset"], row["position"], row["error"]) for row in rows] == [
        (0, 0, None),
        (1, 0, None),
        (None, places[1], "wrong checksum"),
        (4, places[2], None),
        (5, places[2], None),
        (None, places[3], f"{places[4] - places[3]} bytes are no batch: too few bytes for a batch"),
        (8, places[4], None),
        (9, places[4], None),
        (None, places[5], f"{len(data) - 5 - places[5]} bytes are no batch: too few bytes for a batch"),
    ]
    assert {(row["topic"], row["partition"]) for row in rows} == {("t", 3)}
    batches = read(directory, rows="batches")
    assert [row["error"] for row in batches] == [
        None,
        "wrong checksum",
        None,
        "no batch: too few bytes for a batch",
        None,
        "no batch: too few bytes for a batch",
    ]
    assert batches[1]["baseOffset"] == 2


def test_records_that_cannot_be_decoded_are_a_row(directory: Path) -> None:
    batch = bytearray(build_batch([(1, None, b"x" * 50, ())] * 2, base_offset=0))
    batch[61] = 0x7F  # the length of the first record
    write_crc(batch, 0, len(batch))
    segment = SegmentFile()
    segment.add(batch, 2)
    segment.records([(1, None, b"", ())])
    segment.write(directory)
    first, second = read(directory)
    assert first["error"]
    assert first["offset"] is None
    assert second["offset"] == 2


def test_a_segment_that_is_gone_is_told(directory: Path) -> None:
    path = rich_segment().write(directory)
    splits = plan(find_segments([str(directory)]), Wanted()).splits
    path.unlink()
    with pytest.raises(
        SourceError, match="is gone since the read was planned: retention or compaction removed it"
    ):
        list(record_rows(splits, arrow_schema(["offset"], RECORD_COLUMNS), Wanted()))


# -- any size of splits -----------------------------------------------------------------------------------------------

payloads = st.one_of(st.none(), st.binary(max_size=60))
batches: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    records=st.lists(
        st.tuples(st.integers(0, 50), payloads, payloads, st.sampled_from([(), (("h", b"x"), ("i", None))])),
        min_size=1,
        max_size=4,
    ),
    codec=st.sampled_from(Codec),
    gap=st.integers(0, 2),
    marker=st.booleans(),
)
damages = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True), st.sampled_from(["flip", "zeros", "length"]), st.integers(1, 255)
    ),
    max_size=3,
)
indexes = st.one_of(st.none(), st.integers(1, 3), st.binary(max_size=40))


def segment_of(drawn: Sequence[dict[str, Any]]) -> SegmentFile:
    segment = SegmentFile(7)
    for each in drawn:
        segment.next_offset += each["gap"]
        if each["marker"]:
            marker = build_end_marker(
                committed=True,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=1,
                base_offset=segment.next_offset,
            )
            segment.add(marker, 1)
        segment.records(each["records"], codec=each["codec"])
    return segment


def written(
    segment: SegmentFile, index: int | bytes | None, damage: Sequence[tuple[float, str, int]], cut: int
) -> tempfile.TemporaryDirectory[str]:
    """A data directory with the segment in it; an index of every n-th batch, none, or any bytes for one."""
    made = tempfile.TemporaryDirectory()
    directory = Path(made.name) / "t-0"
    directory.mkdir()
    path = segment.write(directory)
    side = path.with_suffix(".index")
    if index is None:
        side.unlink()
    elif isinstance(index, bytes):
        side.write_bytes(index)
    else:
        entries = [
            struct.pack(">ii", last - 7, position) for _, last, position in segment.places[index::index]
        ]
        side.write_bytes(b"".join(entries))
    data = segment.data.copy()
    for where, how, value in damage:
        at = int(where * len(data))
        if how == "flip":
            data[at] ^= value
        elif how == "zeros":
            data[at : at + value] = bytes(len(data[at : at + value]))
        else:
            # The length of a batch as if it ended where another one does.
            place = min(range(len(segment.places)), key=lambda each: abs(segment.places[each][2] - at))
            ends = [each[2] for each in segment.places[place + 1 :]] + [len(data)]
            begin = segment.places[place][2]
            data[begin + 8 : begin + 12] = struct.pack(">i", ends[value % len(ends)] - begin - 12)
    path.write_bytes(data[: len(data) - cut])
    return made


@given(st.lists(batches, min_size=1, max_size=12), indexes, damages, st.integers(0, 30))
def test_any_size_of_splits_gives_the_same_rows(
    drawn: list[dict[str, Any]], index: int | bytes | None, damage: list[tuple[float, str, int]], cut: int
) -> None:
    segment = segment_of(drawn)
    with written(segment, index, damage, cut) as name:
        for rows in ROWS:
            expected = read(Path(name), rows=rows)
            for split_bytes in (1, 150, 400, 1000):
                assert read(Path(name), rows=rows, split_bytes=split_bytes) == expected
        if not damage and not cut:
            offsets = [row["offset"] for row in read(Path(name))]
            assert sorted(set(offsets)) == offsets
            assert len(offsets) == sum(len(each["records"]) + each["marker"] for each in drawn)


@given(
    st.lists(batches, min_size=1, max_size=8),
    indexes,
    st.tuples(*[st.one_of(st.none(), st.integers(0, 40))] * 4),
    st.sampled_from([1, 300, WHOLE]),
)
def test_bounds_leave_out_what_they_say(
    drawn: list[dict[str, Any]], index: int | bytes | None, bounds: tuple[int | None, ...], split_bytes: int
) -> None:
    selection = Selection(*bounds)
    with written(segment_of(drawn), index, (), 0) as name:
        everything = read(Path(name))
        found = read(Path(name), wanted=Wanted(records=selection), split_bytes=split_bytes)
    assert found == [
        row for row in everything if selection.has(row["offset"], round(row["timestamp"].timestamp() * 1000))
    ]
    assert selection != EVERYTHING or found == everything


def test_one_large_batch_and_many_small_ones(directory: Path) -> None:
    segment = SegmentFile()
    segment.records([(1, None, b"x" * 100_000, ())] * 90)
    for _ in range(300):
        segment.records([(1, None, b"y", ())] * 100)
    segment.write(directory)
    assert [row["offset"] for row in read(directory, columns=["offset", "value"])] == list(range(30_090))
