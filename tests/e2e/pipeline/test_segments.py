"""``spark.read.format("pkafka-log")`` in a real session: found without registering, split, narrowed, with damage."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pkafka.pipeline.segments.options import BATCH_COLUMNS, RECORD_COLUMNS
from pkafka.pipeline.session import explain
from tests.log_files import SegmentFile, name_of, old_segment, rich_segment
from tests.spark import END_S, of_program

pytestmark = pytest.mark.timeout(900)

PLAIN_SESSION = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
logs = spark.read.format("pkafka-log").load(sys.argv[1])
print(logs.count(), logs.where("offset >= 5 and topic = 't'").count())
print(spark.read.format("pkafka-log").option("startingOffset", 5).load(sys.argv[1]).count())
spark.stop()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory: a topic of every kind of batch, and one of 2000 batches in two segments."""
    made = tmp_path_factory.mktemp("data")
    for name in ("t-0", "many-1"):
        (made / name).mkdir()
    rich_segment().write(made / "t-0")
    for base in (0, 3000):
        segment = SegmentFile(base)
        for _ in range(1000):
            segment.records([(1_000 + segment.next_offset, None, b"x" * 100, ())] * 3)
        segment.write(made / "many-1")
    return made


def logs(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    return spark.read.format("pkafka-log").options(**{k: str(v) for k, v in options.items()}).load(str(path))


def test_a_table_has_the_columns_that_are_said(spark: SparkSession, data: Path) -> None:
    for rows, columns in (("records", RECORD_COLUMNS), ("batches", BATCH_COLUMNS)):
        table = logs(spark, data, rows=rows)
        assert {field.name: field.dataType.simpleString() for field in table.schema} == columns
    counted = logs(spark, data, rows="batches").groupBy("topic").count().collect()
    assert sorted(counted) == [("many", 2000), ("t", 18)]


def test_splits_are_read_by_many_tasks_and_each_record_once(spark: SparkSession, data: Path) -> None:
    table = logs(spark, data, topic="many", splitBytes=20_000, columns="offset,value,position")
    assert table.rdd.getNumPartitions() > 10
    assert [row.offset for row in table.orderBy("offset").collect()] == list(range(6000))


def test_conditions_are_pushed_down_to_segments_and_positions(spark: SparkSession, data: Path) -> None:
    table = logs(spark, data, splitBytes=20_000)
    narrow = table.where("topic = 'many' and partition = 1 and offset >= 3100 and offset < 3110")
    assert narrow.rdd.getNumPartitions() == 1
    assert sorted(row.offset for row in narrow.collect()) == list(range(3100, 3110))
    assert table.where("topic in ('many', 'none') and timestamp < '1970-01-01T00:00:01.030Z'").count() == 30
    assert (
        table.where(
            "topic = 'many' and timestamp between '1970-01-01T00:00:02Z' and '1970-01-01T00:00:03Z'"
        ).count()
        == 999  # those of the offsets from 1002 to 2000
    )


def test_the_options_do_the_same(spark: SparkSession, data: Path) -> None:
    table = logs(spark, data, topic="many", startingOffset=3100, endingOffset=3110)
    assert sorted(row.offset for row in table.collect()) == list(range(3100, 3110))
    times = logs(
        spark, data, startTimestamp="1970-01-01T00:00:02", endTimestamp=2003, columns="topic,timestamp"
    )
    assert times.where("topic = 'many'").count() == 3


def test_a_schema_says_what_is_decoded(spark: SparkSession, data: Path) -> None:
    reader = spark.read.format("pkafka-log").schema("value binary, offset bigint").option("topic", "t")
    first = reader.load(str(data)).orderBy("offset").first()
    assert first is not None
    assert first.asDict() == {"value": bytearray(b"v"), "offset": 0}


def test_old_formats_and_damage_are_read(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "old-0"
    directory.mkdir()
    path = old_segment().write(directory)
    count = logs(spark, tmp_path).where("error is null").count()
    path.write_bytes(path.read_bytes() + b"\0" * 40)
    found = logs(spark, tmp_path)
    assert found.where("error is null").count() == count
    (damaged,) = found.where("error is not null").collect()
    assert (damaged.topic, damaged.offset, damaged.position) == ("old", None, path.stat().st_size - 40)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("nothing", {}, "there is no such file or directory"),
        ("file.txt", {}, "is no segment: those are named by their first offset"),
        ("foreign", {}, "holds neither segments nor directories of partitions"),
        ("", {"topic": "absent"}, "there is no segment of the topic absent in "),
        ("", {"offset": "5"}, "there is no option offset; there are "),
        ("", {"columns": "size"}, "there is no column 'size' of records"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    path: str, options: dict[str, str], message: str, spark: SparkSession, data: Path
) -> None:
    (data / "file.txt").touch()
    (data / "foreign").mkdir(exist_ok=True)
    with pytest.raises(PySparkException) as caught:
        logs(spark, data / path, **options).collect()
    assert message in explain(caught.value)
    assert "\n" not in explain(caught.value)


def test_a_given_schema_must_fit(spark: SparkSession, data: Path) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.read.format("pkafka-log").schema("offset int").load(str(data)).collect()
    assert explain(caught.value).startswith(
        "there is no column offset of type int of records; there are key binary"
    )


def test_a_segment_that_is_gone_while_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    path = rich_segment().write(directory)
    table = logs(spark, tmp_path)
    plan = table.rdd.getNumPartitions()
    assert plan == 1
    path.rename(path.with_name(f"{name_of(0)}.deleted"))
    with pytest.raises(PySparkException) as caught:
        table.rdd.count()
    assert "is gone since the read was planned" in explain(caught.value)


@pytest.mark.nightly  # starts Spark in a program of its own
def test_a_plain_session_works_and_one_line_says_what_narrows_a_read(data: Path, tmp_path: Path) -> None:
    files = tmp_path / "files"
    environment = of_program(files)
    java = f"{environment['SPARK_SUBMIT_OPTS']} -Djava.io.tmpdir={files}"
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_SESSION, str(data)],
        capture_output=True,
        text=True,
        timeout=END_S,
        check=True,
        cwd=tmp_path,
        env={**environment, "SPARK_SUBMIT_OPTS": java, "PYSPARK_PYTHON": sys.executable},
    )
    everything, conditions, options = map(int, done.stdout.split())
    assert everything > options > conditions
    said = [line for line in done.stderr.splitlines() if line.startswith("pkafka-log: ")]
    assert set(said) == {
        "pkafka-log: all 3 segments are read; the options topic, partition, startingOffset, endingOffset, "
        "startTimestamp, endTimestamp leave segments out, as conditions do where "
        "spark.sql.python.filterPushdown.enabled is true"
    }
