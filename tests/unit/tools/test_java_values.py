"""Orders as Java and Scala have them; the expected ones were printed by Kafka's tools of 3.9.1."""

from pkafka.coordination.znode_json import string_hash
from pkafka.model import TopicPartition
from pkafka.tools.java_values import (
    entries_hash,
    in_grown_hash_order,
    in_hash_map_order,
    in_scala_hash_order,
    topic_partition_hash,
)


def test_quotas_in_the_order_of_kafkas_tool() -> None:
    keys = ["request_percentage", "controller_mutation_rate", "consumer_byte_rate", "producer_byte_rate"]
    assert in_hash_map_order(keys, string_hash) == [
        "producer_byte_rate",
        "consumer_byte_rate",
        "controller_mutation_rate",
        "request_percentage",
    ]
    addresses: list[frozenset[tuple[str, str | None]]] = [
        frozenset({("ip", name)}) for name in (None, "10.0.0.1", "localhost")
    ]
    assert in_hash_map_order(addresses, entries_hash) == [addresses[2], addresses[1], addresses[0]]
    assert in_hash_map_order([], string_hash) == []


def test_tables_of_java_grow_when_three_quarters_are_full() -> None:
    """Of 16 slots, 12 items leave 16; the thirteenth makes 32 of them."""
    numbers = [17, 1, 16]
    assert in_grown_hash_order(numbers, int) == [16, 17, 1]
    assert in_grown_hash_order([*numbers, *range(2, 11)], int)[:3] == [16, 17, 1]
    assert in_grown_hash_order([*numbers, *range(2, 12)], int)[:2] == [1, 2]


def test_tables_of_scala_grow_when_three_quarters_are_full() -> None:
    """Of 16 slots, 11 items leave 16; the twelfth makes 32 of them."""
    numbers = [17, 1, 16]
    assert in_scala_hash_order(numbers, int) == [16, 1, 17]
    assert in_scala_hash_order([*numbers, *range(2, 10)], int)[:3] == [16, 1, 17]
    assert in_scala_hash_order([*numbers, *range(2, 11)], int)[:2] == [1, 2]


def test_a_partitions_hash_is_javas() -> None:
    assert topic_partition_hash(TopicPartition("a", 2)) == 31 * 33 + 97
