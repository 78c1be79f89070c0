"""Options mean what they mean to Spark's own source, and what it refuses is refused in its words."""

import re

import pytest

from pkafka.model import TopicPartition
from pkafka.pipeline.topics.exactly_once import Transactions, TransactionScope
from pkafka.pipeline.topics.options import (
    Assigned,
    Bound,
    Matching,
    OneTime,
    OptionError,
    PartitionTimes,
    ReadOptions,
    SpecificOffsets,
    Subscribed,
    WriteOptions,
    batch_options,
    includes_headers,
    stream_options,
    write_options,
)

SERVERS = {"kafka.bootstrap.servers": "one:9092"}
ONCE = {**SERVERS, "delivery": "exactly-once"}
TOPIC = {**SERVERS, "subscribe": "t"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(**options: str) -> ReadOptions:
    return batch_options({**TOPIC, **options})


def stream(**options: str) -> ReadOptions:
    return stream_options({**TOPIC, **options})


def test_which_partitions_are_read() -> None:
    assert batch(subscribe=" a, b,,a ").strategy == Subscribed(("a", "b"))
    assert batch_options({**SERVERS, "subscribePattern": " t[0-9]+ "}).strategy == Matching(
        re.compile("t[0-9]+")
    )
    assigned = batch_options({**SERVERS, "assign": '{"t":[0,1]}'}).strategy
    assert assigned == Assigned(frozenset({T0, T1}))


def test_defaults_are_sparks() -> None:
    of_batch, of_stream = batch(), stream()
    assert (of_batch.starting, of_batch.ending) == (Bound.EARLIEST, Bound.LATEST)
    assert of_stream.starting is Bound.LATEST
    assert of_batch.fail_on_data_loss
    assert not of_batch.include_headers
    assert not of_batch.latest_where_no_match
    assert (of_batch.partitions_min, of_batch.records_max) == (None, None)
    assert of_stream.trigger_delay_max_ms == 15 * 60_000
    assert (of_stream.poll_timeout_ms, of_stream.attempts, of_stream.attempt_interval_ms) == (
        120_000,
        3,
        1_000,
    )


def test_names_of_options_have_no_case() -> None:
    found = batch_options(
        {
            "KAFKA.bootstrap.servers": "one:9092",
            "SUBSCRIBE": "t",
            "failondataloss": "FALSE",
            "minPartitions": "7",
            "maxrecordsperpartition": "9",
            "INCLUDEHEADERS": "True",
        }
    )
    assert not found.fail_on_data_loss
    assert found.include_headers
    assert (found.partitions_min, found.records_max) == (7, 9)
    assert includes_headers({"IncludeHeaders": "true"})


def test_keys_of_the_client() -> None:
    found = batch_options({**TOPIC, "kafka.isolation.level": "read_committed"}).consumer
    assert found == {
        "bootstrap.servers": "one:9092",
        "isolation.level": "read_committed",
        "auto.offset.reset": "none",
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
    }


def test_a_group_id_is_given_where_it_is_asked_for() -> None:
    assert batch(groupIdPrefix="mine").consumer["group.id"] == "mine-pkafka"
    both = batch_options({**TOPIC, "groupIdPrefix": "mine", "kafka.group.id": "yours"})
    assert both.consumer["group.id"] == "yours"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "Earliest"}, Bound.EARLIEST),
        ({"startingOffsets": " latest "}, Bound.LATEST),
        ({"startingOffsets": '{"t":{"0":23,"1":-2}}'}, SpecificOffsets({T0: 23, T1: -2})),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":1000}}', "startingOffsets": "latest"},
            PartitionTimes({T0: 1_000}),
        ),
        ({"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t":{"0":1}}'}, OneTime(5)),
    ],
)
def test_where_a_stream_starts(options: dict[str, str], expected: object) -> None:
    assert stream(**options).starting == expected


def test_where_a_batch_ends() -> None:
    assert batch(endingOffsets='{"t":{"0":-1}}').ending == SpecificOffsets({T0: -1})
    assert batch(endingTimestamp="77").ending == OneTime(77)
    assert batch(endingOffsetsByTimestamp='{"t":{"1":8}}').ending == PartitionTimes({T1: 8})


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("500ms", 500), ("10s", 10_000), ("2min", 120_000), ("3", 3), ("1d", 86_400_000)],
)
def test_spans_of_time(text: str, expected_ms: int) -> None:
    assert stream(maxTriggerDelay=text).trigger_delay_max_ms == expected_ms


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            SERVERS,
            "One of the following options must be specified for Kafka source: subscribe, subscribepattern, ",
        ),
        ({**TOPIC, "assign": "{}"}, "Only one of the following options can be specified for Kafka source"),
        (
            {**SERVERS, "subscribe": " , "},
            "No topics to subscribe to as specified value for option 'subscribe' is ' , '",
        ),
        ({**SERVERS, "subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({**SERVERS, "subscribePattern": "("}, "subscribePattern is no regular expression"),
        (
            {**SERVERS, "assign": "t"},
            "No topicpartitions to assign as specified value for option 'assign' is 't'",
        ),
        (
            {**SERVERS, "assign": '{"t":["0"]}'},
            'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"t":["0"]}',
        ),
        (
            {"subscribe": "t"},
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer",
        ),
        ({**TOPIC, "minPartitions": "0"}, "minPartitions must be positive"),
        ({**TOPIC, "minPartitions": "many"}, "minpartitions must be a whole number, got many"),
        ({**TOPIC, "maxRecordsPerPartition": "-1"}, "maxrecordsperpartition must be positive"),
        ({**TOPIC, "kafka.auto.offset.reset": "latest"}, "Kafka option 'auto.offset.reset' is not supported"),
        (
            {**TOPIC, "kafka.key.deserializer": "X"},
            "Kafka option 'key.deserializer' is not supported as keys",
        ),
        (
            {**TOPIC, "kafka.value.deserializer": "X"},
            "Kafka option 'value.deserializer' is not supported as values",
        ),
        ({**TOPIC, "kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
        ({**TOPIC, "kafka.interceptor.classes": "X"}, "Kafka option 'interceptor.classes' is not supported"),
        (
            {**TOPIC, "minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"},
            "minOffsetPerTrigger(3) is higher than the maxOffsetsPerTrigger(2)",
        ),
        (
            {**TOPIC, "startingOffsetsByTimestampStrategy": "none"},
            "startingOffsetsByTimestampStrategy must be error or latest",
        ),
        ({**TOPIC, "startingTimestamp": "noon"}, "Expected a single long value, got noon"),
        (
            {**TOPIC, "startingOffsets": "[]"},
            'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got []',
        ),
        ({**TOPIC, "startingOffsetsByTimestamp": '{"t":1}'}, 'Expected e.g. {"topicA": {"0": 123456789'),
        ({**TOPIC, "failOnDataLoss": "yes"}, "failondataloss must be true or false, got yes"),
    ],
)
def test_what_every_read_refuses(options: dict[str, str], message: str) -> None:
    for parse in (batch_options, stream_options):
        with pytest.raises(OptionError) as caught:
            parse(options)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        (
            {"startingOffsets": '{"t":{"0":-1}}'},
            "startingOffsets for t-0 can't be latest for batch queries on Kafka",
        ),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        (
            {"endingOffsets": '{"t":{"0":-2}}'},
            "ending offset for t-0 can't be earliest for batch queries on Kafka",
        ),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
            "start offset 5 is greater than the end offset 4 for topic t partition 0",
        ),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":9}}'},
            "different topic partitions for starting offsets [t-0] and ending offsets [t-1]",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"0":4}}'},
            "start timestamp 5 is greater than the end timestamp 4",
        ),
    ],
)
def test_what_a_batch_refuses(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        batch(**options)
    assert message in str(caught.value)


def test_the_ends_of_logs_are_no_numbers_to_compare() -> None:
    batch(startingOffsets='{"t":{"0":5}}', endingOffsets='{"t":{"0":-1}}')
    batch(startingOffsets='{"t":{"0":-2}}', endingOffsets='{"t":{"0":4}}')


@pytest.mark.parametrize("option", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    with pytest.raises(OptionError, match=r"^ending (offset|timestamp) not valid in streaming queries$"):
        stream(**{option: "latest"})


def test_a_write() -> None:
    found = write_options({**SERVERS, "topic": " t ", "kafka.acks": "all"})
    assert found == WriteOptions("t", {"bootstrap.servers": "one:9092", "acks": "all"})
    assert write_options(SERVERS).topic is None


def test_a_write_exactly_once() -> None:
    def transactions(**options: str) -> Transactions | None:
        return write_options({**SERVERS, **options}).transactions

    assert transactions(delivery="at-least-once") is None
    assert transactions(delivery="Exactly-Once") == Transactions(None, TransactionScope.TASK, None)
    of_batch = {"delivery": "exactly-once", "transactionScope": "batch", "transactionalIdPrefix": " load "}
    assert transactions(**of_batch, batchId="7") == Transactions("load", TransactionScope.BATCH, 7)


def test_a_stream_counts_its_batches_itself() -> None:
    options = {**SERVERS, "delivery": "exactly-once", "transactionalIdPrefix": "a", "batchId": "7"}
    with pytest.raises(OptionError, match="batchId not valid in streaming queries"):
        write_options(options, is_stream=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "t"}, "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer"),
        ({**SERVERS, "kafka.key.serializer": "X"}, "Kafka option 'key.serializer' is not supported as keys"),
        (
            {**SERVERS, "kafka.value.serializer": "X"},
            "Kafka option 'value.serializer' is not supported as value",
        ),
        ({**SERVERS, "kafka.transactional.id": "x"}, "Kafka option 'transactional.id' is not supported"),
        ({**SERVERS, "delivery": "once"}, "delivery must be at-least-once or exactly-once, got once"),
        ({**SERVERS, "transactionalIdPrefix": "x"}, "transactionalIdPrefix needs delivery=exactly-once"),
        ({**SERVERS, "batchId": "1"}, "batchId needs delivery=exactly-once"),
        ({**ONCE, "transactionalIdPrefix": " "}, "transactionalIdPrefix is empty"),
        ({**ONCE, "transactionScope": "job"}, "transactionScope must be task or batch, got job"),
        ({**ONCE, "batchId": "1"}, "batchId must not be negative, and needs transactionalIdPrefix"),
        ({**ONCE, "transactionalIdPrefix": "x", "batchId": "-1"}, "batchId must not be negative"),
    ],
)
def test_what_a_write_refuses(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        write_options(options)
    assert message in str(caught.value)
