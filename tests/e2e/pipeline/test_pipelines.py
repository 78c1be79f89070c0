"""Pipelines in a real Spark: mistakes are told with their line before data is touched, and rows arrive."""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pkafka.pipeline.definition import Pipeline, parse
from pkafka.pipeline.definition_yaml import PipelineError
from pkafka.pipeline.progress import Batch
from pkafka.pipeline.runner import run_batch, run_stream
from pkafka.pipeline.steps import build
from pkafka.pipeline.stream_files import FilesError
from pkafka.testing import Broker
from tests.talk import Talk

pytestmark = pytest.mark.timeout(900)

DERBY = "{driver: org.apache.derby.iapi.jdbc.AutoloadedDriver, url: 'jdbc:derby:DB;create=true', dbtable: DBTABLE}"


class Topics:
    """Topics of their own for a test."""

    def __init__(self, talk: Talk, broker: Broker) -> None:
        self._talk = talk
        self.servers = broker.bootstrap

    def new(self, *values: bytes) -> str:
        name = f"pipeline-{uuid.uuid4().hex[:8]}"
        self._talk.create(name, 2)
        self.send(name, *values)
        return name

    def send(self, name: str, *values: bytes) -> None:
        if values:
            self._talk.send(name, *values)

    def values(self, name: str) -> list[bytes]:
        records = [record for partition in (0, 1) for record in self._talk.read(name, partition)]
        return sorted(record.value or b"" for record in records)

    def options(self, **more: str) -> str:
        """A mapping in YAML."""
        return json.dumps({"kafka.bootstrap.servers": self.servers, **more})


@pytest.fixture
def topics(talk: Talk, pkafka_broker: Broker) -> Topics:
    return Topics(talk, pkafka_broker)


def read(text: str) -> Pipeline:
    return parse(text, name="test", values={}, environment={})


def run(spark: SparkSession, text: str) -> list[Batch]:
    """Run a pipeline to its end; the batches that were told."""
    pipeline = read(text)
    frame = build(spark, pipeline).frame
    told: list[Batch] = []
    if pipeline.is_stream:
        run_stream(frame, pipeline, on_batch=told.append, is_stopped=lambda: False)
    else:
        done = run_batch(frame, pipeline, is_stopped=lambda: False)
        assert done is not None
        told.append(done)
    return told


def ids(spark: SparkSession, path: Path, form: str = "parquet") -> list[int]:
    return sorted(row.id for row in spark.read.schema("id long").format(form).load(str(path)).collect())


def written_rows(batches: Sequence[Batch]) -> list[int | None]:
    return [each.rows_written for each in batches if each.rows_written != 0]


CSV = """\
source:
  format: csv
  path: IN
  schema: id long, name string
steps:
  - name: few
    sql: |
      select id,
             upper(name) as name
      from source
sink:
  format: parquet
  path: OUT
"""


@pytest.fixture
def csv(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,a\n2,b\n")
    return CSV.replace("IN", str(tmp_path / "in")).replace("OUT", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("before", "after", "line", "told"),
    [
        (
            "upper(name)",
            "upper(names)",
            9,
            "`names` cannot be resolved. Did you mean one of the following? [`name`, `id`]",
        ),
        ("from source", "form source", 10, "Syntax error at or near 'form'"),
        ("from source", "from xsource", 10, "`xsource` cannot be found"),
        ("select id,", "select explode(id),", 8, "explode"),
        ("id long, name", "id lng, name", 2, "LNG"),
        ("  path: IN", "  path: IN-not", 2, "Path does not exist"),
        ("  path: OUT", "  path: OUT\n  partition-by: day", 12, "there is no column day"),
        ("upper(name) as name", "name, name", 12, "two columns name"),
        ("from source", "from source\n  - sql: drop view few", 11, "Syntax error at or near 'drop'"),
    ],
)
def test_mistakes_are_told_with_their_line(
    before: str, after: str, line: int, told: str, spark: SparkSession, csv: str, tmp_path: Path
) -> None:
    place = {"IN": str(tmp_path / "in"), "OUT": str(tmp_path / "out")}
    for name, path in place.items():
        before, after = before.replace(name, path), after.replace(name, path)
    assert before in csv
    with pytest.raises(PipelineError) as caught:
        build(spark, read(csv.replace(before, after)))
    (problem,) = caught.value.problems
    assert told in problem.message
    assert "\n" not in problem.message
    assert "SQLSTATE" not in problem.message
    assert problem.line == line, problem
    assert not (tmp_path / "out").exists()


def test_nothing_but_queries_is_done(spark: SparkSession, csv: str, tmp_path: Path) -> None:
    target = tmp_path / "written"
    insert = f"insert overwrite directory '{target}' using csv select 1"
    with pytest.raises(PipelineError):
        build(spark, read(csv.replace("  - name: few", f"  - sql: {insert}\n  - name: few")))
    assert not target.exists()


def test_what_a_stream_cannot_do_is_told_before_it_starts(
    spark: SparkSession, csv: str, tmp_path: Path
) -> None:
    text = csv.replace("from source", "from source group by all") + (
        f"mode: stream\ncheckpoint: {tmp_path / 'state'}\n"
    )
    with pytest.raises(PipelineError) as caught:
        build(spark, read(text))
    (problem,) = caught.value.problems
    assert "watermark" in problem.message
    assert not (tmp_path / "state").exists()


def test_rows_that_no_topic_takes(spark: SparkSession, csv: str) -> None:
    text = (
        csv[: csv.index("sink:")]
        + "sink: {format: pkafka, options: {topic: t, kafka.bootstrap.servers: 'b:1'}}\n"
    )
    with pytest.raises(PipelineError, match="Required attribute 'value' not found"):
        build(spark, read(text))


def test_the_tables_on_the_way(spark: SparkSession, csv: str) -> None:
    stages = build(spark, read(csv)).stages
    assert [(each.kind, each.name, each.format, each.columns) for each in stages] == [
        ("source", "source", "csv", ("id bigint", "name string")),
        ("step", "few", None, ("id bigint", "name string")),
        ("sink", "sink", "parquet", ("id bigint", "name string")),
    ]


def test_files_to_files(spark: SparkSession, csv: str, tmp_path: Path) -> None:
    (batch,) = run(spark, csv)
    assert (batch.rows_written, ids(spark, tmp_path / "out")) == (2, [1, 2])
    with pytest.raises(Exception, match="already exists"):
        run(spark, csv)
    parted = csv.replace(
        "path: " + str(tmp_path / "out"), f"path: {tmp_path / 'out'}\n  mode: overwrite\n  partition-by: name"
    )
    run(spark, parted)
    assert sorted(each.name for each in (tmp_path / "out").glob("name=*")) == ["name=A", "name=B"]


def test_topics_to_topics_and_on_to_files(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    first, second = topics.new(b"1", b"22", b"333"), topics.new()
    (batch,) = run(
        spark,
        f"source: {{format: pkafka, options: {topics.options(subscribe=first)}}}\n"
        "steps:\n  - sql: select concat(string(value), '!') value from source where length(value) > 1\n"
        f"sink: {{format: pkafka, options: {topics.options(topic=second)}}}\n",
    )
    assert topics.values(second) == [b"22!", b"333!"]
    assert batch.rows_written == 2
    text = (
        f"mode: stream\ntrigger: available-now\ncheckpoint: {tmp_path / 'state'}\n"
        f"source: {{format: pkafka, options: {topics.options(subscribe=first, startingOffsets='earliest')}}}\n"
        "steps:\n  - sql: select bigint(string(value)) id from source\n"
        f"sink: {{format: parquet, path: {tmp_path / 'out'}}}\n"
    )
    batches = run(spark, text)
    assert sum(each.rows_read or 0 for each in batches) == 3
    assert (written_rows(batches), batches[-1].lag) == ([3], 0)
    topics.send(first, b"4444")
    assert written_rows(run(spark, text)) == [1]
    assert run(spark, text) == []
    assert ids(spark, tmp_path / "out") == [1, 22, 333, 4444]
    with pytest.raises(FilesError, match="another checkpoint"):
        run(spark, text.replace("/state", "/other"))


@pytest.mark.nightly  # half a minute
def test_databases(spark: SparkSession, csv: str, topics: Topics, tmp_path: Path) -> None:
    derby = DERBY.replace("DB;", f"{tmp_path / 'database'};").replace("DBTABLE", "people")
    into = csv[: csv.index("sink:")] + f"sink: {{format: jdbc, options: {derby}}}\n"
    (batch,) = run(spark, into)
    assert batch.rows_written in (2, None)  # Spark counts nothing there
    stream = into.replace("select id,", "select id + 10 as id,")
    stream += f"mode: stream\ntrigger: available-now\ncheckpoint: {tmp_path / 'state'}\n"
    assert sum(each.rows_read or 0 for each in run(spark, stream)) == 2
    names = topics.new(b"1", b"12")
    text = (
        f"mode: stream\ntrigger: available-now\ncheckpoint: {tmp_path / 'joined'}\n"
        "sources:\n"
        f"  records: {{format: pkafka, options: {topics.options(subscribe=names, startingOffsets='earliest')}}}\n"
        f"  people: {{format: jdbc, static: true, options: {derby}}}\n"
        "steps:\n  - sql: select id, name from records join people on id = bigint(string(value))\n"
        f"sink: {{format: json, path: {tmp_path / 'out'}}}\n"
    )
    run(spark, text)
    assert ids(spark, tmp_path / "out", "json") == [1, 12]


def test_segments_to_files(
    spark: SparkSession, topics: Topics, pkafka_broker: Broker, tmp_path: Path
) -> None:
    topic = topics.new(b"5", b"6")
    text = (
        f"source: {{format: pkafka-log, path: {pkafka_broker.log_dir}, options: {{topic: {topic}}}}}\n"
        "steps:\n  - sql: select bigint(string(value)) id from source\n"
        f"sink: {{format: parquet, path: {tmp_path / 'out'}}}\n"
    )
    assert written_rows(run(spark, text)) == [2]
    assert ids(spark, tmp_path / "out") == [5, 6]
