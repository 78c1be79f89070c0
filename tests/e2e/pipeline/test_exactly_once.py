"""Rows that are written exactly once, in a real Spark: processes die, batches are repeated, runs fence each other."""

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pkafka.clients.producer import Producer
from pkafka.clients.producer.errors import ProducerFencedError
from pkafka.pipeline.definition import parse
from pkafka.pipeline.definition_yaml import PipelineError
from pkafka.pipeline.runner import run_stream
from pkafka.pipeline.steps import build
from pkafka.testing import Broker
from tests.dying_sink import DyingSink
from tests.spark import END_S, run_to_end
from tests.talk import Talk, wait_for

pytestmark = pytest.mark.timeout(900)

ONCE = {"delivery": "exactly-once"}


@pytest.fixture
def servers(pkafka_broker: Broker) -> dict[str, str]:
    return {"kafka.bootstrap.servers": pkafka_broker.bootstrap}


@pytest.fixture
def topics(talk: Talk, servers: dict[str, str]) -> tuple[str, str]:
    """A topic with 20 records in each of its two partitions, and one to copy them to."""
    source, copy = (f"once-{uuid.uuid4().hex[:8]}" for _ in range(2))
    for name in (source, copy):
        talk.create(name, 2)
    fill(servers, source, range(20))
    return source, copy


def fill(servers: dict[str, str], topic: str, numbers: range) -> None:
    with Producer({"bootstrap.servers": servers["kafka.bootstrap.servers"]}) as producer:
        for partition in (0, 1):
            producer.send_batch(topic, [b"%d" % number for number in numbers], partition=partition)


def read(spark: SparkSession, servers: dict[str, str], topic: str, level: str) -> list[list[int]]:
    """The values of the two partitions, in their order, as a transaction's readers have them."""
    options = {**servers, "subscribe": topic, "kafka.isolation.level": level}
    rows = spark.read.format("pkafka").options(**options).load().orderBy("offset")
    found: list[list[int]] = [[], []]
    for row in rows.selectExpr("partition", "int(string(value)) value").collect():
        found[row.partition].append(row.value)
    return found


def copying(
    spark: SparkSession,
    servers: dict[str, str],
    topics: tuple[str, str],
    checkpoint: Path,
    options: Mapping[str, str] = MappingProxyType({}),
    *,
    limit: int = 20,
) -> DataStreamWriter:
    """A stream from topic to topic, not started."""
    form = "dying" if "steps" in options else "pkafka"
    source, copy = topics
    rows = spark.readStream.format("pkafka").options(
        **servers, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=str(limit)
    )
    to = {**servers, **ONCE, **options, "topic": copy, "checkpointLocation": str(checkpoint)}
    return rows.load().select("key", "value", "partition").writeStream.format(form).options(**to)


@pytest.mark.nightly  # four streams, one after the other
def test_a_stream_whose_tasks_are_killed_writes_each_row_once(
    spark: SparkSession, servers: dict[str, str], topics: tuple[str, str], tmp_path: Path
) -> None:
    """Before the commit, while it is under way, and between it and the word to Spark; once, by another attempt."""
    spark.dataSource.register(DyingSink)
    (tmp_path / "steps").mkdir()
    deaths = {"steps": str(tmp_path / "steps"), "dieAt": "flushed,committing,committed"}
    # Here a task has one attempt, so a death ends the run; it may come to two at once.
    while not run_until_a_death(copying(spark, servers, topics, tmp_path / "state", deaths)):
        pass
    assert len(list((tmp_path / "steps").iterdir())) == 3
    assert read(spark, servers, topics[1], "read_committed") == [list(range(20))] * 2
    seen = Counter(read(spark, servers, topics[1], "read_uncommitted")[0])
    seen.update(read(spark, servers, topics[1], "read_uncommitted")[1])
    assert seen.total() > 40, "what the killed tasks had flushed is there for those who read all"


def run_until_a_death(writer: DataStreamWriter) -> bool:
    """Whether a stream came to its end."""
    try:
        run_to_end(writer)
    except PySparkException as error:
        if "Python worker exited unexpectedly" not in str(error):
            raise
        return False
    return True


@pytest.mark.nightly  # two streams
def test_a_query_fences_one_with_its_prefix(
    spark: SparkSession, servers: dict[str, str], topics: tuple[str, str], tmp_path: Path
) -> None:
    spark.dataSource.register(DyingSink)
    (tmp_path / "steps").mkdir()
    prefix = {"transactionalIdPrefix": f"fenced-{topics[1]}"}
    held = {**prefix, "steps": str(tmp_path / "steps"), "holdAt": "stored"}
    zombie = copying(spark, servers, topics, tmp_path / "zombie", held).start()
    try:
        wait_for((tmp_path / "steps" / "stored").exists, timeout_s=END_S, what="a task that is held")
        run_to_end(copying(spark, servers, topics, tmp_path / "state", prefix))
        (tmp_path / "steps" / "go").touch()
        with pytest.raises(PySparkException, match=ProducerFencedError.__name__):
            zombie.awaitTermination(END_S)
    finally:
        zombie.stop()
    values = read(spark, servers, topics[1], "read_committed")
    # The zombie's other task was not held: what it has committed is its own, and once.
    assert sorted(map(len, values)) in ([20, 20], [20, 30])


@pytest.mark.nightly  # four streams, one after the other
def test_a_checkpoint_that_was_set_back_is_told(
    spark: SparkSession, servers: dict[str, str], topics: tuple[str, str], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    run_to_end(copying(spark, servers, topics, state))
    set_back(state, "1")
    with pytest.raises(PySparkException, match="an attempt at batch 1 that did not finish has written other"):
        run_to_end(copying(spark, servers, topics, state, limit=10))
    set_back(state, "1")
    run_to_end(copying(spark, servers, topics, state))  # the same rows as before
    set_back(state, "0")
    set_back(state, "1")
    with pytest.raises(PySparkException, match="batch 0 comes after batch 1"):
        run_to_end(copying(spark, servers, topics, state))
    assert read(spark, servers, topics[1], "read_committed") == [list(range(20))] * 2


def set_back(checkpoint: Path, batch: str) -> None:
    """Remove a micro-batch from what a checkpoint knows."""
    for log in ("offsets", "commits"):
        for name in (batch, f".{batch}.crc"):
            (checkpoint / log / name).unlink(missing_ok=True)


def numbers(spark: SparkSession, parts: int = 2) -> DataFrame:
    frame = spark.range(0, 20, numPartitions=parts)
    return frame.selectExpr("string(id % 10) value", "int(id / 10) partition")


def write(
    frame: DataFrame, servers: dict[str, str], topic: str, *, form: str = "pkafka", **options: str
) -> None:
    frame.write.format(form).mode("append").options(**servers, **ONCE, topic=topic, **options).save()


def test_a_numbered_batch_is_written_once(
    spark: SparkSession, talk: Talk, servers: dict[str, str], topics: tuple[str, str]
) -> None:
    copy, given = topics[1], {"transactionalIdPrefix": f"load-{topics[1]}"}
    for _ in range(2):
        write(numbers(spark), servers, copy, **given, batchId="7")
    assert read(spark, servers, copy, "read_committed") == [list(range(10))] * 2
    with pytest.raises(PySparkException, match="an attempt at batch 7 that did not finish"):
        write(numbers(spark, 1), servers, copy, **given, batchId="7")
    with pytest.raises(PySparkException, match="batch 6 comes after batch 7"):
        write(numbers(spark), servers, copy, **given, batchId="6")
    write(numbers(spark), servers, copy, **given, batchId="8")
    write(numbers(spark), servers, copy)  # without a number it is another one each time
    assert read(spark, servers, copy, "read_committed") == [list(range(10)) * 3] * 2


@pytest.mark.nightly  # in each change test_spark_tasks_once.py repeats attempts without Spark
def test_a_batch_whose_task_is_killed_is_written_once(
    spark: SparkSession, servers: dict[str, str], topics: tuple[str, str], tmp_path: Path
) -> None:
    """Before its commit, and when Spark has not heard of it; here such a death ends the write."""
    spark.dataSource.register(DyingSink)
    given = {"transactionalIdPrefix": f"load-{topics[1]}", "batchId": "0", "steps": str(tmp_path)}
    for step in ("stored", "committed"):
        with pytest.raises(Exception, match="Python worker exited unexpectedly"):
            write(numbers(spark), servers, topics[1], form="dying", **given, dieAt=step)
    write(numbers(spark), servers, topics[1], **given)
    assert read(spark, servers, topics[1], "read_committed") == [list(range(10))] * 2


def test_a_batch_as_one_transaction(
    spark: SparkSession, talk: Talk, servers: dict[str, str], topics: tuple[str, str]
) -> None:
    copy, given = topics[1], {"transactionScope": "batch", "transactionalIdPrefix": f"whole-{topics[1]}"}
    with pytest.raises(PySparkException, match="transactionScope=batch needs all rows in one task"):
        write(numbers(spark), servers, copy, **given)
    frame = spark.range(5).selectExpr("'x' || rand() value", "0 partition").coalesce(1)
    for _ in range(2):  # other rows each time
        write(frame, servers, copy, **given, batchId="1")
    assert len([record for record in talk.read(copy, 0) if (record.value or b"").startswith(b"x")]) == 5


def test_what_a_task_left_open_is_aborted_where_no_task_has_its_number_now(
    spark: SparkSession, servers: dict[str, str], topics: tuple[str, str]
) -> None:
    prefix = f"left-{topics[1]}"
    keys = {"bootstrap.servers": servers["kafka.bootstrap.servers"], "transactional.id": f"{prefix}-7"}
    with Producer(keys) as zombie:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topics[1], b"99", partition=0)
        zombie.flush()
        write(numbers(spark), servers, topics[1], transactionalIdPrefix=prefix)
        with pytest.raises(ProducerFencedError):
            zombie.commit_transaction()
    assert read(spark, servers, topics[1], "read_committed") == [list(range(10))] * 2


def test_rows_that_name_their_topics(
    spark: SparkSession, talk: Talk, servers: dict[str, str], topics: tuple[str, str]
) -> None:
    frame = spark.range(4).selectExpr(f"if(id < 2, '{topics[0]}', '{topics[1]}') topic", "'own' value")
    given = {"transactionalIdPrefix": f"named-{topics[1]}", "batchId": "0"}
    for _ in range(2):
        frame.write.format("pkafka").mode("append").options(**servers, **ONCE, **given).save()
    counts = [
        sum(record.value == b"own" for partition in (0, 1) for record in talk.read(name, partition))
        for name in topics
    ]
    assert counts == [2, 2]


def test_pipelines(
    spark: SparkSession, talk: Talk, servers: dict[str, str], topics: tuple[str, str], tmp_path: Path
) -> None:
    """An option of the sink says it; one transaction for each batch, where the option says that."""
    source, copy = topics
    text = json.dumps(
        {
            "mode": "stream",
            "trigger": "available-now",
            "checkpoint": str(tmp_path / "state"),
            "source": {
                "format": "pkafka",
                "options": {**servers, "subscribe": source, "startingOffsets": "earliest"},
            },
            "steps": [{"sql": "select value, partition from source"}],
            "sink": {
                "format": "pkafka",
                "options": {**servers, **ONCE, "topic": copy, "transactionScope": "batch"},
            },
        }
    )
    run_pipeline(spark, text)
    assert read(spark, servers, copy, "read_committed") == [list(range(20))] * 2
    with pytest.raises(PipelineError, match="transactionScope must be task or batch"):
        run_pipeline(spark, text.replace('"batch"', '"all"'))
    with pytest.raises(PipelineError, match="batchId not valid in streaming queries"):
        run_pipeline(
            spark, text.replace('"transactionScope": "batch"', '"transactionalIdPrefix": "a", "batchId": "1"')
        )


def run_pipeline(spark: SparkSession, text: str) -> None:
    pipeline = parse(text, name="once", values={}, environment={})
    told: list[Any] = []
    run_stream(build(spark, pipeline).frame, pipeline, on_batch=told.append, is_stopped=lambda: False)
