"""``format("kafka")``, Spark's own connector, and ``format("pkafka")``, in one session on one broker of pkafka.

Spark's own is both under test, as a client of the broker, and the oracle: what it reads, writes and refuses, the other
does.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.interop import kafka as oracle
from tests.spark import Sessions, run_to_end
from tests.talk import Talk, good, talking

pytestmark = pytest.mark.timeout(900)

FORMATS: Final = ("kafka", "pkafka")
T0: Final = 1_700_000_000_000
ROWS: Final = "partition", "offset"


@pytest.fixture
def spark(spark_sessions: Sessions) -> SparkSession:
    """A session with Spark's own connector."""
    try:
        class_path = oracle.jars("spark")
    except oracle.OracleUnavailableError as missing:
        pytest.skip(str(missing))
    found = sorted(Path(os.path.dirname(class_path)).glob("*.jar"))
    return spark_sessions.get({"spark.jars": ",".join(map(str, found))})


@pytest.fixture
def talk(pkafka: Broker | None) -> Iterator[Talk]:
    if pkafka is None:
        pytest.skip("pkafka is left out")
    with talking(pkafka.bootstrap) as talk:
        yield talk


@pytest.fixture
def servers(pkafka: Broker | None) -> dict[str, str]:
    assert pkafka is not None
    return {"kafka.bootstrap.servers": pkafka.bootstrap}


@pytest.fixture
def filled(talk: Talk, servers: dict[str, str], topic: str) -> str:
    """Three partitions with records of many kinds: no key, no value, headers, every codec, several batches."""
    talk.create(topic, 3, retention_ms=-1)  # the records are years old
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        keys = {"bootstrap.servers": servers["kafka.bootstrap.servers"], "compression.type": codec}
        with Producer(keys) as producer:
            for index in range(20):
                producer.send(
                    topic,
                    None if index == 3 else b"%s-%d" % (codec.encode(), index),
                    None if index % 2 else b"k%d" % index,
                    partition=index % 2,
                    timestamp_ms=T0 + number * 60_000 + index * 1_000,
                    headers=[("h", b"%d" % index), ("e", b""), ("n", None)] if index % 5 == 0 else (),
                )
    return topic


def contents(talk: Talk, topic: str, partitions: int = 1) -> list[tuple[Any, ...]]:
    """Keys, values and headers of a topic, in the same order for all topics that have the same."""
    records = [record for partition in range(partitions) for record in talk.read(topic, partition)]
    return sorted((each.key or b"", each.value or b"", each.headers) for each in records)


def load(spark: SparkSession, form: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(form).options(**options).load()


def rows_of_both(spark: SparkSession, options: dict[str, str]) -> list[Row]:
    """What a batch read gives, once it is the same from both."""
    theirs, ours = (load(spark, form, options) for form in FORMATS)
    assert theirs.schema == ours.schema
    found = [frame.orderBy(*ROWS).collect() for frame in (theirs, ours)]
    assert found[0] == found[1]
    return found[1]


def test_the_same_rows_and_the_same_schema(spark: SparkSession, servers: dict[str, str], filled: str) -> None:
    assert len(rows_of_both(spark, {**servers, "subscribe": filled})) == 100
    assert len(rows_of_both(spark, {**servers, "subscribe": filled, "includeHeaders": "true"})) == 100


def test_the_same_ranges(spark: SparkSession, servers: dict[str, str], filled: str) -> None:
    def each(zero: int, one: int, two: int) -> str:
        return json.dumps({filled: {"0": zero, "1": one, "2": two}})

    for options in (
        {"startingOffsets": each(7, -2, -2), "endingOffsets": each(30, 12, -1)},
        {
            "startingTimestamp": str(T0 + 61_500),
            "endingTimestamp": str(T0 + 120_000),
            "assign": json.dumps({filled: [0, 1]}),
        },
        {
            "startingOffsetsByTimestamp": each(T0 + 200_000, T0, T0),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {"endingOffsetsByTimestamp": each(T0 + 1, T0 + 70_000, T0)},
        {"subscribePattern": f"{filled[:-2]}.."},
    ):
        strategy = {} if "assign" in options or "subscribePattern" in options else {"subscribe": filled}
        assert rows_of_both(spark, {**servers, **strategy, **options}), options


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.nightly),
        pytest.param({"minPartitions": "2"}, marks=pytest.mark.nightly),
        {"minPartitions": "7"},
        pytest.param({"minPartitions": "20"}, marks=pytest.mark.nightly),
        {"maxRecordsPerPartition": "30", "minPartitions": "5"},
    ],
)
def test_the_same_tasks(  # but for maxRecordsPerPartition alone, which Spark's own ignores in such a batch
    options: dict[str, str], spark: SparkSession, servers: dict[str, str], filled: str
) -> None:
    def cut(form: str) -> list[tuple[int, list[int]]]:
        """What each task reads: a partition, and offsets of it."""
        frame = load(spark, form, {**servers, "subscribe": filled, **options})
        found: dict[tuple[int, int], list[int]] = {}
        for row in frame.selectExpr("spark_partition_id() task", "partition", "offset").collect():
            found.setdefault((row.task, row.partition), []).append(row.offset)
        return sorted((partition, offsets) for (_, partition), offsets in found.items())

    assert cut("pkafka") == cut("kafka")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "t", "assign": "{}"},
        {"subscribe": ","},
        {"assign": "t"},
        {"subscribe": "t", "startingOffsets": "latest"},
        {"subscribe": "t", "endingOffsets": "earliest"},
        {"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'},
        {"subscribe": "t", "startingOffsets": "earlyest"},
        {"subscribe": "t", "startingTimestamp": "now"},
        {"subscribe": "t", "minPartitions": "0"},
        {"subscribe": "t", "maxRecordsPerPartition": "0"},
        {"subscribe": "t", "kafka.auto.offset.reset": "none"},
        {"subscribe": "t", "kafka.key.deserializer": "X"},
        {"subscribe": "t", "kafka.enable.auto.commit": "true"},
        {"subscribe": "t", "minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"},
    ],
)
def test_the_same_refusals(options: dict[str, str], spark: SparkSession, servers: dict[str, str]) -> None:
    said = []
    for form in FORMATS:
        with pytest.raises(PySparkException) as caught:
            load(spark, form, {**servers, **options}).collect()
        said.append(" ".join(str(caught.value).split()))
    # Ours stands in the traceback of a Python worker; the first sentence, without the list of options, is theirs.
    sentence = (
        said[0].rpartition("IllegalArgumentException: ")[2].split(". ")[0].split(": ")[0].split(" got ")[0]
    )
    assert sentence.rstrip(".") in said[1]


@pytest.mark.nightly  # half a minute: Spark tries each task again
def test_partitions_that_do_not_exist_are_refused(
    spark: SparkSession, servers: dict[str, str], filled: str
) -> None:
    def each(*partitions: int) -> str:
        return json.dumps({filled: {str(number): 1 for number in partitions}})

    assign = json.dumps({filled: [0, 9]})
    by_both = (
        {"subscribe": filled, "startingOffsets": each(0, 1, 2, 9)},
        {"subscribe": filled, "endingOffsets": each(0, 1, 2, 9)},
        {"subscribe": filled, "startingOffsetsByTimestamp": each(0, 1, 2, 9)},
        {"subscribe": filled, "endingOffsetsByTimestamp": each(0, 1, 2, 9)},
        {"assign": assign, "startingOffsets": each(0, 9)},
        {"assign": json.dumps({filled: [0]}), "startingOffsets": each(0, 9)},
        {"assign": json.dumps({filled: [0], f"{filled}-not": [0]})},
    )
    for options in by_both:
        for form in FORMATS:
            with pytest.raises(Exception, match=r"don't match what are assigned|does not|specify all"):
                load(spark, form, {**servers, **options}).collect()
    # Spark's own reads what there is of an assignment, and says nothing.
    assert load(spark, "kafka", {**servers, "assign": assign}).count() == 50
    with pytest.raises(PySparkException, match=f"partition 9 of topic {filled} does not exist"):
        load(spark, "pkafka", {**servers, "assign": assign}).collect()


@pytest.mark.nightly  # a producer waits for such a partition, as it may come
def test_a_row_for_a_partition_that_does_not_exist_fails_the_write(
    spark: SparkSession, servers: dict[str, str], filled: str
) -> None:
    options = {**servers, "topic": filled, "kafka.max.block.ms": "8000"}
    for partition, text in (
        (9, f"Partition 9 of topic {filled} with partition count 3 is not present in metadata after 8000 ms"),
        (-1, "Invalid partition: -1"),
    ):
        for form in FORMATS:
            frame = spark.sql(f"select 'v' value, {partition} partition")
            with pytest.raises(Exception, match=text):
                frame.write.format(form).mode("append").options(**options).save()


def test_what_is_gone_is_lost_to_both(
    spark: SparkSession, talk: Talk, servers: dict[str, str], filled: str
) -> None:
    partition = TopicPartition(filled, 0)
    good(talk.admin.delete_records({partition: 20})[partition])
    options = {
        **servers,
        "assign": json.dumps({filled: [0]}),
        "startingOffsets": json.dumps({filled: {"0": 5}}),
    }
    for form in FORMATS:
        with pytest.raises(Exception, match="Some data may have been lost"):
            load(spark, form, options).collect()
    found = rows_of_both(spark, {**options, "failOnDataLoss": "false"})
    assert [row.offset for row in found] == list(range(20, 50))


def test_what_transactions_aborted_and_their_markers(
    spark: SparkSession, talk: Talk, servers: dict[str, str], topic: str
) -> None:
    talk.create(topic)
    bootstrap = servers["kafka.bootstrap.servers"]
    with Producer({"bootstrap.servers": bootstrap, "transactional.id": topic}) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number)
            producer.flush()
            if number % 3 == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    options = {**servers, "subscribe": topic}
    assert len(rows_of_both(spark, options)) == 6
    committed = rows_of_both(spark, {**options, "kafka.isolation.level": "read_committed"})
    assert [row.value for row in committed] == [b"0", b"1", b"3", b"4"]


def test_both_write_the_same_records(
    spark: SparkSession, talk: Talk, servers: dict[str, str], filled: str, topic: str
) -> None:
    frame = load(spark, "kafka", {**servers, "subscribe": filled, "includeHeaders": "true"}).drop("topic")
    found = []
    for form in FORMATS:
        copy = f"{topic}-by-{form}"
        talk.create(copy, 3)
        frame.write.format(form).mode("append").options(**servers, topic=copy).save()
        found.append(contents(talk, copy, 3))
    assert found[0] == found[1]
    assert len(found[1]) == 100


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ("'v' value", {}),
        ("'k' key", {"topic": "t"}),
        ("1 value", {"topic": "t"}),
        ("'v' value, 1D partition", {"topic": "t"}),
        ("'v' value, array('x') headers", {"topic": "t"}),
    ],
)
def test_the_same_rows_are_refused(
    row: str, options: dict[str, str], spark: SparkSession, servers: dict[str, str]
) -> None:
    frame = spark.sql(f"select {row}")
    said = []
    for form in FORMATS:
        with pytest.raises(PySparkException) as caught:
            frame.write.format(form).mode("append").options(**servers, **options).save()
        said.append(str(caught.value))
    sentence = said[0].split("\n")[0].split("] ")[-1].rstrip(". ").split(". ")[0]
    assert sentence in said[1]


class Copy:
    """Streams that copy what is in a topic to another, with one checkpoint."""

    def __init__(
        self, spark: SparkSession, servers: dict[str, str], source: str, copy: str, path: Path
    ) -> None:
        self._spark = spark
        self._from = {**servers, "subscribe": source, "startingOffsets": "earliest", "includeHeaders": "true"}
        self._to = {**servers, "topic": copy, "checkpointLocation": str(path / "checkpoint")}

    def run(self, source: str, sink: str, **options: str) -> list[dict[str, Any]]:
        """Copy what is there and end; the progress of the batches that had rows."""
        read = self._spark.readStream.format(source).options(**self._from, **options).load()
        rows = read.select("key", "value", "headers").writeStream.format(sink).options(**self._to)
        return [each for each in run_to_end(rows) if each["numInputRows"]]


@pytest.fixture
def copy(talk: Talk, topic: str) -> str:
    """A topic to copy to."""
    copy = f"{topic}-copy"
    talk.create(copy)
    return copy


@pytest.fixture
def stream(spark: SparkSession, servers: dict[str, str], filled: str, copy: str, tmp_path: Path) -> Copy:
    return Copy(spark, servers, filled, copy, tmp_path)


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("pkafka", "pkafka"),
        *(pytest.param(*ends, marks=pytest.mark.nightly) for ends in (FORMATS, FORMATS[::-1])),
    ],
)
def test_streams(source: str, sink: str, stream: Copy, talk: Talk, filled: str, copy: str) -> None:
    progress = stream.run(source, sink, maxOffsetsPerTrigger="30")
    assert [json.loads(each["sources"][0]["endOffset"])[filled] for each in progress] == [
        {"0": 15, "1": 15, "2": 0},
        {"0": 30, "1": 30, "2": 0},
        {"0": 45, "1": 45, "2": 0},
        {"0": 50, "1": 50, "2": 0},
    ]
    assert contents(talk, copy) == contents(talk, filled, 3)


@pytest.mark.parametrize(("first", "then"), [FORMATS, FORMATS[::-1]])
def test_a_query_moves_from_one_to_the_other_with_its_checkpoint(
    first: str, then: str, stream: Copy, talk: Talk, filled: str, copy: str
) -> None:
    stream.run(first, "pkafka")
    talk.send(filled, b"more")
    progress = stream.run(then, "pkafka")
    assert [each["numInputRows"] for each in progress] == [1]
    assert contents(talk, copy) == contents(talk, filled, 3)
