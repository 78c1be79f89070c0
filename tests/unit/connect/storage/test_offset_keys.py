"""Keys and values of source offsets: the bytes of Java, in the order of its hash table."""

import pytest

from pkafka.connect.errors import DataError
from pkafka.connect.storage.offset_keys import (
    decode_key,
    decode_offset,
    encode_key,
    encode_offset,
    in_java_order,
)


def test_names_stand_in_the_order_of_a_hash_table_of_java() -> None:
    # As MirrorMaker 2 of Apache Kafka writes its own.
    assert encode_key("m", {"topic": "t", "partition": 1, "cluster": "A"}) == (
        b'["m",{"cluster":"A","partition":1,"topic":"t"}]'
    )
    assert list(in_java_order({"kafka_topic": 1, "kafka_partition": 2})) == ["kafka_partition", "kafka_topic"]


def test_an_offset_is_json_without_a_schema() -> None:
    assert encode_offset({"position": 6}) == b'{"position":6}'
    assert encode_offset(None) is None
    assert decode_offset(b'{"position":6}') == {"position": 6}
    assert decode_offset(None) is None


def test_what_is_no_key_is_none() -> None:
    assert decode_key(b'["c",{"a":1}]') == ("c", {"a": 1})
    for strange in (b"", b"{}", b'["c"]', b'["c",1]', b"[1,{}]", b"\xff"):
        assert decode_key(strange) is None


@pytest.mark.parametrize("value", [[1], {"a": 1}, b"bytes"])
def test_a_place_has_plain_values_only(value: object) -> None:
    with pytest.raises(DataError, match="Offsets may only contain primitive types"):
        encode_key("c", {"name": value})


def test_an_offset_that_is_no_object_is_refused() -> None:
    for strange in (b"1", b"[1]", b"{"):
        with pytest.raises(DataError):
            decode_offset(strange)
