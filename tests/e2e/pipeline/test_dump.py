"""pk-dump-log --spark: the text, rows and findings of the plain dump, whatever the parts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pkafka.pipeline import dump
from pkafka.pipeline.dump import SparkDump
from pkafka.tools.logs.dump import Dump
from pkafka.tools.logs.records.decoders import PLAIN, PayloadForm, content_in
from pkafka.tools.logs.segment_walk import NO_LIMIT
from pkafka.tools.logs.selection import EVERYTHING, Selection
from pkafka.tools.logs.side_files import DumpError
from tests.differences import first_difference
from tests.log_files import SegmentFile, name_of, rich_segment, write_rich_files

pytestmark = pytest.mark.timeout(900)

PART_BYTES = 400


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every kind of file, damage of every kind, an index that is not there, a gap between two parts."""
    directory = tmp_path_factory.mktemp("orders") / "orders-0"
    directory.mkdir()
    write_rich_files(directory)
    whole = rich_segment()
    data, places = bytes(whole.data), [position for _, _, position in whole.places]
    index = (directory / name_of(0, ".index")).read_bytes()

    def damaged(number: int, content: bytes | bytearray) -> None:
        (directory / name_of(number)).write_bytes(content)
        (directory / name_of(number, ".index")).write_bytes(index)

    flipped = bytearray(data)
    flipped[places[2] + 80] ^= 1
    damaged(1, flipped)
    damaged(2, data[: places[6]] + b"junk" + data[places[6] :])
    damaged(3, data[:-9])
    misled = bytearray(data)
    misled[places[4] + 11] ^= 64
    damaged(4, misled)
    (directory / name_of(5)).write_bytes(data)
    gaps = SegmentFile(6)
    for _ in range(40):
        gaps.records([(1, b"k", b"v" * 30, ())] * 2)
        gaps.next_offset += 1
    gaps.write(directory)
    return sorted(directory.iterdir())


def everything(dumped: Dump, files: list[Path], **how: object) -> tuple[str, list[str], int]:
    text = b"".join(block for path in files for block in dumped.text(path, **how))  # type: ignore[arg-type] # its flags
    return text.decode(), list(dumped.findings.lines()), dumped.findings.damage


@pytest.mark.parametrize(
    ("records", "selection", "resync", "bytes_max", "content"),
    [
        (False, EVERYTHING, False, NO_LIMIT, PLAIN),
        (True, EVERYTHING, False, NO_LIMIT, PLAIN),
        (True, EVERYTHING, True, NO_LIMIT, content_in(PayloadForm.HEX)),
        (True, Selection(10, 40, None, 2000), False, NO_LIMIT, PLAIN),
        (True, EVERYTHING, False, 700, PLAIN),
    ],
    ids=["batches", "records", "past damage", "a range", "the first bytes"],
)
def test_text_and_findings_are_those_of_the_plain_dump(
    records: bool,
    selection: Selection,
    resync: bool,
    bytes_max: int,
    content: object,
    spark: SparkSession,
    files: list[Path],
) -> None:
    plain = Dump(records=records, selection=selection, resync=resync, bytes_max=bytes_max)
    by_spark = SparkDump(
        records=records,
        selection=selection,
        resync=resync,
        bytes_max=bytes_max,
        session=spark,
        files=files,
        part_bytes=PART_BYTES,
    )
    expected = everything(plain, files, content=records, by=content)
    found = everything(by_spark, files, content=records, by=content)
    assert not first_difference(found, expected)
    assert by_spark.unindexed == [path for path in files if path.name == name_of(5)] or bytes_max == 700


def test_rows_are_those_of_the_plain_dump(spark: SparkSession, files: list[Path]) -> None:
    plain = Dump(records=True, resync=True)
    by_spark = SparkDump(records=True, resync=True, session=spark, files=files, part_bytes=PART_BYTES)
    expected = [row for path in files for row in plain.rows(path)]
    assert not first_difference([row for path in files for row in by_spark.rows(path)], expected)
    assert by_spark.findings.sentences() == plain.findings.sentences()


def test_a_file_that_is_not_there_is_told_as_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / name_of(0)
    with pytest.raises(DumpError, match="does not exist"):
        list(SparkDump(session=spark, files=[path]).text(path, content=False))


@pytest.mark.parametrize("way", ["local", "spark://elsewhere"])
def test_text_comes_by_files_on_one_machine_and_by_spark_else_and_leaves_nothing(
    way: str, spark: SparkSession, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(dump, "_ON_THIS_MACHINE", way)
    taken: list[type] = []
    take = dump._taken

    def note(items: list[object] | Path) -> Iterator[object]:
        taken.append(type(items))
        return take(items)

    monkeypatch.setattr(dump, "_taken", note)
    by_spark = SparkDump(records=True, session=spark, files=files, part_bytes=PART_BYTES)
    assert everything(by_spark, files, content=True) == everything(Dump(records=True), files, content=True)
    assert {issubclass(each, Path) for each in taken} == {way == "local"}
    assert not list(tmp_path.iterdir())


def test_a_dump_that_is_left_early_leaves_nothing(
    spark: SparkSession, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    by_spark = SparkDump(records=True, session=spark, files=files, part_bytes=PART_BYTES)
    segment = next(path for path in files if path.suffix == ".log")
    text = by_spark.text(segment, content=True)
    next(text)
    assert list(tmp_path.iterdir())
    text.close()  # type: ignore[attr-defined] # it is a generator
    by_spark.close()
    assert not list(tmp_path.iterdir())
