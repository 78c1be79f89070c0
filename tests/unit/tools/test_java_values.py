"""Orders as Java has them; the expected ones were printed by kafka-configs.sh 3.9.1."""

from pkafka.coordination.znode_json import string_hash
from pkafka.tools.java_values import entries_hash, in_hash_map_order


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
