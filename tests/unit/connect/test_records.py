"""Headers and records."""

import pytest

from pkafka.connect.data import Header, Headers, Schema, SinkRecord, SourceRecord
from pkafka.connect.errors import DataError


def test_headers_keep_their_order_and_repeat() -> None:
    headers = Headers().add("a", 1, Schema.INT8).add("b", 2).add("a", 3)
    assert [each.value for each in headers] == [1, 2, 3]
    assert headers.last_with_name("a") == Header("a", 3, None)
    assert [each.value for each in headers.all_with_name("a")] == [1, 3]
    assert len(headers.duplicate().remove("a")) == 1
    assert [each.value for each in headers.duplicate().retain_latest()] == [2, 3]
    assert [each.value for each in headers.duplicate().add("b", 4).retain_latest("b")] == [1, 3, 4]
    assert len(headers.duplicate().clear()) == 0
    assert len(headers) == 3


def test_records_and_headers_print_as_in_java() -> None:
    record = SinkRecord("t", 1, None, "k", Schema.INT8, 5, None, Headers().add("h", [1]), offset=9)
    assert str(record) == (
        "SinkRecord{kafkaOffset=9, timestampType=NoTimestampType, originalTopic=t, originalKafkaPartition=1, "
        "originalKafkaOffset=9} ConnectRecord{topic='t', kafkaPartition=1, key=k, keySchema=null, value=5, "
        "valueSchema=Schema{INT8}, timestamp=null, "
        "headers=ConnectHeaders(headers=[ConnectHeader(key=h, value=[1], schema=null)])}"
    )


def test_headers_fit_their_schemas() -> None:
    with pytest.raises(DataError, match=r"^The value x is not compatible with the schema Schema\{INT8\}$"):
        Headers().add("a", "x", Schema.INT8)
    with pytest.raises(DataError, match=r"^A null value requires an optional schema but was Schema\{INT8\}$"):
        Headers().add("a", None, Schema.INT8)


def test_headers_are_changed_one_by_one() -> None:
    headers = Headers().add("a", 1).add("b", 2)
    headers.apply(lambda header: None if header.key == "a" else header._replace(value=5))
    assert [(each.key, each.value) for each in headers] == [("b", 5)]


def test_a_new_record_is_the_old_one_but_for_what_is_given() -> None:
    record = SinkRecord("t", 1, None, "k", None, "v", 5, Headers().add("h", 1), offset=9)
    other = record.new_record(topic="u", value="w")
    assert (other.topic, other.value, other.key, other.offset) == ("u", "w", "k", 9)
    assert (other.original_topic, other.original_partition, other.original_offset) == ("t", 1, 9)
    other.headers.clear()
    assert len(record.headers) == 1


def test_a_source_record_says_where_it_comes_from() -> None:
    record = SourceRecord(
        "t", None, None, None, None, "v", source_partition={"f": "x"}, source_offset={"at": 3}
    )
    other = record.new_record(partition=2)
    assert (other.source_partition, other.source_offset, other.partition) == ({"f": "x"}, {"at": 3}, 2)
    assert str(record).startswith(
        "SourceRecord{sourcePartition={f=x}, sourceOffset={at=3}} ConnectRecord{topic='t', "
    )
