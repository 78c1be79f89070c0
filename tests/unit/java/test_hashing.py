"""The order of Java's hash tables."""

from pkafka.java.hashing import hash_order, string_hash


def test_hashes_are_those_of_java() -> None:
    assert string_hash("") == 0
    assert string_hash("topic") == 110546223
    assert string_hash("polygenelubricants") == 0x80000000
    assert string_hash("\U0001f600") == (0xD83D * 31 + 0xDE00)


def test_names_come_in_the_order_of_their_buckets() -> None:
    assert hash_order(["topic", "partition", "cluster"]) == ["cluster", "partition", "topic"]
    assert hash_order(["group", "topic", "partition"]) == ["partition", "topic", "group"]
    assert hash_order(["REQUESTED", "REQUIRED"]) == ["REQUIRED", "REQUESTED"]
