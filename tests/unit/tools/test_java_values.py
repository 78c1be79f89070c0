"""Doubles and orders as Java has them; the expected ones were printed by kafka-configs.sh 3.9.1 and a JVM."""

from math import inf, isnan, nan

import pytest

from pkafka.coordination.znode_json import string_hash
from pkafka.tools.java_values import entries_hash, in_hash_map_order, java_double, parse_java_double


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1024.0, "1024.0"),
        (10.5, "10.5"),
        (0.001, "0.001"),
        (1e-4, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678901.0, "1.2345678901E10"),
        (-2.5e-7, "-2.5E-7"),
        (inf, "Infinity"),
        (-inf, "-Infinity"),
        (nan, "NaN"),
    ],
)
def test_doubles_are_written(value: float, text: str) -> None:
    assert java_double(value) == text


def test_doubles_are_read() -> None:
    texts = {
        "1e9": 1e9,
        " 2 ": 2.0,
        "1.5f": 1.5,
        "3D": 3.0,
        ".5": 0.5,
        "1.": 1.0,
        "-0": 0.0,
        "+Infinity": inf,
    }
    assert {text: parse_java_double(text) for text in texts} == texts
    assert isnan(parse_java_double("NaN"))
    for text in ("", "x", "1_0", "nan", "inf", "٣", "1 2", "0x10"):
        with pytest.raises(ValueError, match="is no number"):
            parse_java_double(text)


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
