"""Topics as tables of a real Spark: what is written is read, ranges mean what they say, and what is gone is told."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from pkafka.clients.producer import Producer
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.pipeline.session import explain
from pkafka.pipeline.topics.microbatches import MicroBatches
from pkafka.pipeline.topics.options import OptionError, stream_options
from pkafka.pipeline.topics.ranges import DataLossError
from pkafka.pipeline.topics.reading import TopicsReader, row_schema
from pkafka.pipeline.topics.streaming_unlimited import UnlimitedStreamReader
from pkafka.testing import Broker
from tests.spark import run_to_end, run_until
from tests.talk import Talk, good, wait_for

pytestmark = pytest.mark.timeout(900)

T0 = 1_700_000_000_000


@pytest.fixture
def servers(pkafka_broker: Broker) -> dict[str, str]:
    return {"kafka.bootstrap.servers": pkafka_broker.bootstrap}


def new_topic(talk: Talk, partitions: int = 1, **configs: object) -> str:
    topic = f"spark-{uuid.uuid4().hex[:8]}"
    talk.create(topic, partitions, **{"retention_ms": -1, **configs})  # some records are years old
    return topic


def fill(servers: dict[str, str], topic: str, counts: dict[int, int], *, first: int = 0) -> None:
    """Records ``<partition>-<number>``, a second apart from T0 on."""
    with Producer({"bootstrap.servers": servers["kafka.bootstrap.servers"]}) as producer:
        for partition, count in counts.items():
            for number in range(first, first + count):
                value = b"%d-%d" % (partition, number)
                producer.send(topic, value, partition=partition, timestamp_ms=T0 + number * 1_000)


def table(spark: SparkSession, servers: dict[str, str], topic: str, **options: str) -> DataFrame:
    return spark.read.format("pkafka").options(**servers, subscribe=topic, **options).load()


def read(spark: SparkSession, servers: dict[str, str], topic: str, **options: str) -> dict[int, list[int]]:
    """The offsets that a batch read gives, per partition, in the order in which they came."""
    found: dict[int, list[int]] = {}
    for row in table(spark, servers, topic, **options).select("partition", "offset").collect():
        found.setdefault(row.partition, []).append(row.offset)
    return found


def test_rows_are_those_of_sparks_own_source(
    spark: SparkSession, talk: Talk, servers: dict[str, str]
) -> None:
    topic = new_topic(talk, 2)
    with Producer({"bootstrap.servers": servers["kafka.bootstrap.servers"]}) as producer:
        producer.send(topic, b"v", b"k", partition=1, timestamp_ms=T0)
        producer.send(topic, None, partition=1, timestamp_ms=T0 + 1, headers=[("h", b"1"), ("h", None)])
    frame = table(spark, servers, topic, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = frame.orderBy("offset").selectExpr("*", "unix_millis(timestamp) as ms").drop("timestamp").collect()
    assert [tuple(row) for row in rows] == [
        (b"k", b"v", topic, 1, 0, 0, None, T0),
        (None, None, topic, 1, 1, 0, [Row(key="h", value=b"1"), Row(key="h", value=None)], T0 + 1),
    ]
    assert "headers" not in table(spark, servers, topic).columns


def test_a_schema_that_leaves_columns_out_reads_less_and_no_other_is_taken(
    spark: SparkSession, talk: Talk, servers: dict[str, str]
) -> None:
    topic = new_topic(talk)
    fill(servers, topic, {0: 2})
    options = {**servers, "subscribe": topic}
    few = spark.read.format("pkafka").schema("offset bigint, value binary").options(**options).load()
    assert few.collect() == [Row(offset=0, value=b"0-0"), Row(offset=1, value=b"0-1")]
    with pytest.raises(PySparkException, match="fixed schema"):
        spark.read.format("pkafka").schema("value string").options(**options).load().collect()


def test_ranges_of_a_batch(spark: SparkSession, talk: Talk, servers: dict[str, str]) -> None:
    topic = new_topic(talk, 2)
    fill(servers, topic, {0: 10, 1: 5})

    def offsets(*pairs: tuple[int, int]) -> str:
        return json.dumps({topic: dict(pairs)})

    assert read(spark, servers, topic) == {0: list(range(10)), 1: list(range(5))}
    specific = {"startingOffsets": offsets((0, 3), (1, -2)), "endingOffsets": offsets((0, 7), (1, -1))}
    assert read(spark, servers, topic, **specific) == {0: [3, 4, 5, 6], 1: [0, 1, 2, 3, 4]}
    times = {"startingTimestamp": str(T0 + 2_500), "endingTimestamp": str(T0 + 4_000)}
    assert read(spark, servers, topic, **times) == {0: [3], 1: [3]}
    by_partition = {
        "startingOffsetsByTimestamp": offsets((0, T0 + 8_000), (1, T0 + 4_000)),
        "endingOffsetsByTimestamp": offsets((0, T0 + 99_000), (1, T0 + 99_000)),
    }
    assert read(spark, servers, topic, **by_partition) == {0: [8, 9], 1: [4]}
    late = {"startingTimestamp": str(T0 + 7_000)}
    with pytest.raises(PySparkException) as caught:
        read(spark, servers, topic, **late)
    assert explain(caught.value) == (
        f"No offset matched from request of topic-partition {topic}-1 and timestamp {T0 + 7_000}."
    )
    assert read(spark, servers, topic, **late, startingOffsetsByTimestampStrategy="latest") == {0: [7, 8, 9]}


def test_topics_by_pattern_and_partitions_by_name(
    spark: SparkSession, talk: Talk, servers: dict[str, str]
) -> None:
    one, two = new_topic(talk), new_topic(talk, 2)
    fill(servers, one, {0: 2})
    fill(servers, two, {0: 1, 1: 3})
    frame = spark.read.format("pkafka").options(**servers)
    assert frame.option("subscribePattern", f"{one}|{two[:-1]}.").load().count() == 6
    assigned = (
        spark.read.format("pkafka").options(**servers).option("assign", json.dumps({two: [1], one: [0]}))
    )
    assert assigned.load().count() == 5
    both = spark.read.format("pkafka").options(**servers).option("subscribe", f"{one},{two}")
    assert both.load().count() == 6


def test_a_partition_that_does_not_exist_is_refused_when_a_read_is_planned(
    talk: Talk, servers: dict[str, str]
) -> None:
    topic = new_topic(talk, 2)
    fill(servers, topic, {0: 2})

    def assigned(*partitions: int, **options: str) -> dict[str, str]:
        patience = {"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "10"}
        return {**servers, **patience, "assign": json.dumps({topic: partitions}), **options}

    refused = pytest.raises(ApiError, match=f"^partition 9 of topic {topic} does not exist$")
    bounds = [
        {},
        {"startingTimestamp": "0"},
        {"startingOffsets": json.dumps({topic: {"0": 0, "9": 0}})},
        {"endingOffsets": json.dumps({topic: {"0": 1, "9": 1}})},
        {"startingOffsetsByTimestamp": json.dumps({topic: {"0": 0, "9": 0}})},
    ]
    for given in bounds:
        with refused:
            TopicsReader(assigned(0, 9, **given), row_schema(include_headers=False)).partitions()
        if "endingOffsets" not in given:
            stream = MicroBatches(stream_options(assigned(0, 9, **given)))
            with refused:
                stream.start()
            stream.close()
    # A stream that goes on from its checkpoint with another assignment: what it has read may be gone, nothing else.
    goes_on = MicroBatches(stream_options(assigned(0, 9)))
    with refused:
        goes_on.end({TopicPartition(topic, 0): 0}, is_limited=False)
    known = {TopicPartition(topic, 0): 0, TopicPartition(topic, 9): 5}
    assert goes_on.end(known, is_limited=False) == {TopicPartition(topic, 0): 2}
    with pytest.raises(DataLossError, match=f"{topic}-9 are gone"):
        goes_on.ranges(known, {TopicPartition(topic, 0): 2})
    goes_on.close()


def test_tasks_are_cut_as_the_options_say(spark: SparkSession, talk: Talk, servers: dict[str, str]) -> None:
    topic = new_topic(talk, 2)
    fill(servers, topic, {0: 90, 1: 10})
    for options, expected in (
        ({}, 2),
        ({"minPartitions": "4"}, 4),
        ({"maxRecordsPerPartition": "20"}, 6),
    ):
        frame = table(spark, servers, topic, **options)
        assert frame.rdd.getNumPartitions() == expected, options
        assert frame.count() == 100
    assert table(spark, servers, new_topic(talk)).count() == 0


def test_a_large_topic_is_read_in_its_order(spark: SparkSession, talk: Talk, servers: dict[str, str]) -> None:
    topic = new_topic(talk)
    count = 50_000
    with Producer(
        {"bootstrap.servers": servers["kafka.bootstrap.servers"], "compression.type": "lz4"}
    ) as each:
        each.send_batch(topic, [b"%d" % number for number in range(count)]).result(120)
    rows = table(spark, servers, topic, maxRecordsPerPartition="7001").selectExpr("offset", "string(value) v")
    assert [(row.offset, row.v) for row in rows.collect()] == [(n, str(n)) for n in range(count)]


def test_what_retention_removed_fails_a_query_unless_it_may_be_lost(
    spark: SparkSession, talk: Talk, servers: dict[str, str]
) -> None:
    topic = new_topic(talk)
    fill(servers, topic, {0: 10})
    good(talk.admin.delete_records({TopicPartition(topic, 0): 4})[TopicPartition(topic, 0)])
    asked = {"startingOffsets": json.dumps({topic: {"0": 1}}), "endingOffsets": json.dumps({topic: {"0": 6}})}
    with pytest.raises(PySparkException) as caught:
        read(spark, servers, topic, **asked)
    assert explain(caught.value).startswith(f"Cannot read offsets 1 to 6 of {topic}-0, which holds 4 to 10")
    assert read(spark, servers, topic, **asked, failOnDataLoss="false") == {0: [4, 5]}
    assert read(spark, servers, topic) == {0: [4, 5, 6, 7, 8, 9]}


def test_a_range_that_goes_after_it_was_planned(
    spark: SparkSession, talk: Talk, servers: dict[str, str]
) -> None:
    topic = new_topic(talk)
    fill(servers, topic, {0: 10})
    strict, lenient = table(spark, servers, topic), table(spark, servers, topic, failOnDataLoss="false")
    plans = [frame.rdd for frame in (strict, lenient)]  # offsets are looked up now
    assert [plan.getNumPartitions() for plan in plans] == [1, 1]
    good(talk.admin.delete_records({TopicPartition(topic, 0): 7})[TopicPartition(topic, 0)])
    with pytest.raises(Exception, match=f"Cannot fetch offset 0 of {topic}-0, which begins at 7"):
        plans[0].collect()
    assert [row.offset for row in plans[1].collect()] == [7, 8, 9]
    talk.delete(topic)
    wait_for(lambda: topic not in {each.name for each in talk.admin.list_topics()}, what="the deletion")
    with pytest.raises(Exception, match=f"Topic {topic} was deleted before offset 0"):
        plans[0].collect()
    assert plans[1].collect() == []


def test_what_cannot_be_is_said_in_a_line(spark: SparkSession, talk: Talk, servers: dict[str, str]) -> None:
    topic = new_topic(talk)
    fill(servers, topic, {0: 1})
    with pytest.raises(PySparkException) as caught:
        read(spark, servers, topic, startingOffsets=json.dumps({topic: {"0": 0, "1": 0}}))
    assert explain(caught.value).startswith(
        "If startingOffsets contains specific offsets, you must specify all"
    )
    with pytest.raises(PySparkException) as caught:
        read(spark, servers, f"{topic}-that-is-not-there", **{"fetchOffset.retryIntervalMs": "1"})
    assert explain(caught.value) == f"topic {topic}-that-is-not-there does not exist"
    with pytest.raises(PySparkException) as caught:
        read(spark, {"kafka.bootstrap.servers": "127.0.0.1:1"}, topic, **{"fetchOffset.numRetries": "1"})
    assert "127.0.0.1:1" in explain(caught.value)


# -- writing ----------------------------------------------------------------------------------------------


def write(frame: DataFrame, servers: dict[str, str], **options: str) -> None:
    frame.write.format("pkafka").mode("append").options(**servers, **options).save()


def test_rows_become_records(spark: SparkSession, talk: Talk, servers: dict[str, str]) -> None:
    one, two = new_topic(talk, 3), new_topic(talk, 3)
    rows: list[tuple[Any, ...]] = [
        (one, "k1", "v1", 2, [("h", bytearray(b"x"))]),
        (two, None, None, 0, None),
        (two, "k3", "v3", 1, []),
    ]
    columns = "topic string, key string, value string, partition int, headers array<struct<key:string,value:binary>>"
    write(spark.createDataFrame(rows, columns).coalesce(1), servers)
    (record,) = talk.read(one, 2)
    assert (record.key, record.value, record.headers) == (b"k1", b"v1", (("h", b"x"),))
    assert [(each.key, each.value) for each in talk.read(two, 0)] == [(None, None)]
    assert [(each.key, each.value) for each in talk.read(two, 1)] == [(b"k3", b"v3")]


def test_the_topic_option_wins_and_keys_choose_partitions(
    spark: SparkSession, talk: Talk, servers: dict[str, str]
) -> None:
    topic, by_client = new_topic(talk, 4), new_topic(talk, 4)
    frame = spark.range(2_000).selectExpr(
        "'elsewhere' topic", "binary(string(id % 50)) key", "string(id) value"
    )
    write(frame, servers, topic=topic)
    with Producer({"bootstrap.servers": servers["kafka.bootstrap.servers"]}) as producer:
        for number in range(50):
            producer.send(by_client, b"", b"%d" % number)
    for partition in range(4):
        keys = {record.key for record in talk.read(topic, partition)}
        assert keys == {record.key for record in talk.read(by_client, partition)}
    values = [int(record.value or b"") for partition in range(4) for record in talk.read(topic, partition)]
    assert sorted(values) == list(range(2_000))


def test_a_column_of_partitions(spark: SparkSession, talk: Talk, servers: dict[str, str]) -> None:
    topic = new_topic(talk, 2)
    frame = spark.range(10).selectExpr("string(id) value", "int(id % 2) partition")
    write(frame.coalesce(1), servers, topic=topic)
    assert [record.value for record in talk.read(topic, 1)] == [b"1", b"3", b"5", b"7", b"9"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("'v' value", {}, "topic option required when no 'topic' attribute is present"),
        ("'v' key", {"topic": "t"}, "Required attribute 'value' not found"),
        (
            "1 value",
            {"topic": "t"},
            "value attribute unsupported type int. value must be a(n) string or binary",
        ),
        ("'v' value, 1L partition", {"topic": "t"}, "partition attribute unsupported type bigint"),
        ("'v' value, string(null) topic", {}, "null topic present in the data"),
        (
            "'v' value",
            {"topic": "t", "kafka.value.serializer": "X"},
            "Kafka option 'value.serializer' is not",
        ),
    ],
)
def test_rows_that_cannot_become_records(
    columns: str, options: dict[str, str], message: str, spark: SparkSession, servers: dict[str, str]
) -> None:
    with pytest.raises(PySparkException) as caught:
        write(spark.range(1).selectExpr(*_split(columns)), servers, **options)
    assert message in str(caught.value)


def _split(columns: str) -> list[str]:
    return [each.strip() for each in columns.split(",")]


def test_nothing_is_replaced(spark: SparkSession, talk: Talk, servers: dict[str, str]) -> None:
    frame = spark.range(1).selectExpr("string(id) value")
    with pytest.raises(PySparkException, match="Save mode Overwrite not allowed for Kafka"):
        frame.write.format("pkafka").mode("overwrite").options(**servers, topic=new_topic(talk)).save()


def test_a_record_that_is_refused_fails_the_write(
    spark: SparkSession, talk: Talk, servers: dict[str, str]
) -> None:
    topic = new_topic(talk, max_message_bytes=1_000)
    frame = spark.range(1).selectExpr("repeat('x', 5000) value")
    with pytest.raises(PySparkException, match="The batch is larger than the server accepts"):
        write(frame, servers, topic=topic)


# -- streams ----------------------------------------------------------------------------------------------


def stream(spark: SparkSession, servers: dict[str, str], topic: str, directory: Path, **options: str) -> Any:
    """A stream of a topic's values into Parquet files, not started."""
    frame = spark.readStream.format("pkafka").options(**servers, subscribe=topic, **options).load()
    rows = frame.selectExpr("partition", "offset", "string(value) value")
    return (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .option("path", str(directory / "rows"))
    )


def written(spark: SparkSession, directory: Path) -> list[tuple[int, int]]:
    frame = spark.read.schema("partition int, offset bigint, value string").parquet(str(directory / "rows"))
    return sorted((row.partition, row.offset) for row in frame.collect())


def test_a_stream_goes_on_where_its_checkpoint_ends(
    spark: SparkSession, talk: Talk, servers: dict[str, str], tmp_path: Path
) -> None:
    topic = new_topic(talk, 2)
    fill(servers, topic, {0: 6, 1: 3})
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "3"}
    progress = run_to_end(stream(spark, servers, topic, tmp_path, **options))
    batches = [each["numInputRows"] for each in progress if each["numInputRows"]]
    assert sum(batches) == 9
    assert max(batches) <= 3
    assert json.loads(progress[-1]["sources"][0]["endOffset"]) == {topic: {"0": 6, "1": 3}}
    talk_more = {0: 2}
    fill(servers, topic, talk_more, first=6)
    run_to_end(stream(spark, servers, topic, tmp_path, **options))
    assert written(spark, tmp_path) == [(0, n) for n in range(8)] + [(1, n) for n in range(3)]
    log = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(log[-1].read_text().splitlines()[2]) == {topic: {"0": 8, "1": 3}}


def test_a_stream_from_the_end_reads_what_comes_then(
    spark: SparkSession, talk: Talk, servers: dict[str, str], tmp_path: Path
) -> None:
    topic = new_topic(talk)
    fill(servers, topic, {0: 5})
    writer = stream(spark, servers, topic, tmp_path)
    query = run_until(writer, lambda _: (tmp_path / "checkpoint" / "commits" / "0").exists())
    try:
        fill(servers, topic, {0: 3}, first=5)
        query = run_until(
            writer, lambda each: sum(one["numInputRows"] for one in each.recentProgress) == 3, query
        )
    finally:
        query.stop()
    assert written(spark, tmp_path) == [(0, 5), (0, 6), (0, 7)]


def test_a_stream_into_a_topic(
    spark: SparkSession, talk: Talk, servers: dict[str, str], tmp_path: Path
) -> None:
    topic, copy = new_topic(talk, 2), new_topic(talk, 2)
    fill(servers, topic, {0: 20, 1: 30})
    frame = spark.readStream.format("pkafka").options(
        **servers, subscribe=topic, startingOffsets="earliest", minPartitions="4"
    )
    rows = frame.load().select("key", "value", "partition")
    query = rows.writeStream.format("pkafka").options(
        **servers, topic=copy, checkpointLocation=str(tmp_path / "checkpoint")
    )
    run_to_end(query)
    for partition in range(2):
        before, after = (
            sorted(record.value or b"" for record in talk.read(name, partition)) for name in (topic, copy)
        )
        assert before == after


def test_a_stream_whose_topic_goes_fails_unless_that_may_be(
    spark: SparkSession, talk: Talk, servers: dict[str, str], tmp_path: Path
) -> None:
    stays, goes = new_topic(talk), new_topic(talk)
    for topic in (stays, goes):
        fill(servers, topic, {0: 2})
    both = f"{stays},{goes}"
    options = {"startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "1"}
    run_to_end(stream(spark, servers, both, tmp_path, **options))
    talk.delete(goes)
    wait_for(lambda: goes not in {each.name for each in talk.admin.list_topics()}, what="the deletion")
    fill(servers, stays, {0: 1}, first=2)
    with pytest.raises(PySparkException, match=f"{goes}-0 are gone"):
        run_to_end(stream(spark, servers, both, tmp_path, **options))
    run_to_end(stream(spark, servers, both, tmp_path, **options, failOnDataLoss="false"))
    assert written(spark, tmp_path) == [(0, 0), (0, 0), (0, 1), (0, 1), (0, 2)]


def test_a_stream_has_no_custom_schema_and_no_end(
    spark: SparkSession, servers: dict[str, str], tmp_path: Path
) -> None:
    query = stream(spark, servers, "t", tmp_path, endingOffsets="latest")
    with pytest.raises(PySparkException, match="ending offset not valid in streaming queries"):
        run_to_end(query)
    schema = StructType([StructField("payload", BinaryType())])
    with pytest.raises(PySparkException, match="fixed schema"):
        run_to_end(
            spark.readStream.format("pkafka")
            .schema(schema)
            .options(**servers, subscribe="t")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "other"))
        )


def test_a_stream_under_a_pyspark_without_limits(talk: Talk, servers: dict[str, str]) -> None:
    """As PySpark 4.1 calls its reader."""
    topic = new_topic(talk, 2)
    fill(servers, topic, {0: 3, 1: 2})
    options = {**servers, "subscribe": topic, "startingOffsets": "earliest"}
    schema = row_schema(include_headers=False)
    reader = UnlimitedStreamReader(options, schema)
    try:
        start, end = reader.initialOffset(), reader.latestOffset()
        assert (start, end) == ({topic: {"0": 0, "1": 0}}, {topic: {"0": 3, "1": 2}})
        batches = [batch for each in reader.partitions(start, end) for batch in reader.read(each)]
        assert [value for batch in batches for value in batch.column("value").to_pylist()] == [
            b"0-0",
            b"0-1",
            b"0-2",
            b"1-0",
            b"1-1",
        ]
    finally:
        reader.stop()
    with pytest.raises(OptionError, match=r"need PySpark 4\.2 or newer"):
        UnlimitedStreamReader({**options, "maxOffsetsPerTrigger": "1"}, schema)
