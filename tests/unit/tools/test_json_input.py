"""Files that a person wrote, and what is said of those that say nothing."""

import json

import pytest

from pkafka.model import TopicPartition
from pkafka.tools.json_input import JsonInputError, field, json_list, list_field, parse_object, partition_of


@pytest.mark.parametrize("value", [-(2**31), 0, 2**31 - 1])
def test_a_number_has_32_bits(value: int) -> None:
    assert field({"n": value}, "n", int) == value
    assert list_field({"n": [value]}, "n", int) == [value]


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 99_999_999_999])
def test_a_number_beyond_32_bits_is_refused_in_kafkas_words(value: int) -> None:
    for read in (lambda: field({"n": value}, "n", int), lambda: list_field({"n": [value]}, "n", int)):
        with pytest.raises(JsonInputError) as caught:
            read()
        assert caught.value.words == f"Expected `Integer` value, received {value}"


def test_a_partition_is_counted_from_0() -> None:
    assert partition_of({"topic": "t", "partition": 0}) == TopicPartition("t", 0)
    with pytest.raises(JsonInputError, match="Topic t can have no partition -1: they are counted from 0"):
        partition_of({"topic": "t", "partition": -1})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"version":NaN}', "NaN is no number in JSON"),
        (b'{"a":[-Infinity]}', "-Infinity is no number in JSON"),
        (b'{"a":' + b"9" * 5_000 + b"}", "integer string conversion"),
    ],
)
def test_what_pythons_reader_takes_or_chokes_on_is_no_json(data: bytes, why: str) -> None:
    with pytest.raises(JsonInputError, match=why) as caught:
        parse_object(data)
    assert caught.value.words == "The input string is not a valid JSON"


def test_what_is_read_and_too_deep_to_show_is_refused_all_the_same() -> None:
    deep: object = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(JsonInputError, match=r"Expected `String` value, received \[\.\.\.\]"):
        list_field({"names": [deep]}, "names", str)
    with pytest.raises(JsonInputError, match=r"Expected JSON array, received \{\.\.\.\}"):
        json_list({"a": deep})


def test_text_that_nobody_can_print_is_refused() -> None:
    row = json.loads(r'{"topic":"\ud800"}')
    with pytest.raises(JsonInputError) as caught:
        field(row, "topic", str)
    assert caught.value.words == r'Expected `String` value, received "\ud800"'
