"""The search for the records of a batch that a sink refuses: which calls it takes, and in which order."""

from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.data.records import SinkRecord
from pkafka.connect.pending_records import PendingRecords, place_of
from pkafka.model import TopicPartition


def record(offset: int, partition: int = 0) -> SinkRecord:
    return SinkRecord("t", partition, None, None, None, offset, offset=offset)


def search(count: int, bad: set[int]) -> tuple[list[int], list[int], int]:
    """What was taken, what was refused alone, and how many calls that took."""
    pending = PendingRecords()
    for offset in range(count):
        pending.add(record(offset))
    taken: list[int] = []
    refused: list[int] = []
    calls = 0
    while pending:
        part = [each.offset for each in pending.first]
        calls += 1
        if bad.isdisjoint(part):
            taken += part
            pending.settle()
        elif len(part) == 1:
            refused += part
            pending.settle()
        else:
            pending.halve()
    return taken, refused, calls


@given(st.integers(1, 300), st.sets(st.integers(0, 299), max_size=12))
def test_exactly_the_bad_records_are_found_and_the_others_are_taken_in_order(
    count: int, bad: set[int]
) -> None:
    taken, refused, calls = search(count, bad)
    there = sorted(each for each in bad if each < count)
    assert refused == there
    assert taken == [offset for offset in range(count) if offset not in bad]
    assert calls <= min(1 + 2 * max(len(there), 0) * ceil(log2(max(count, 2))), 2 * count - 1)


def test_a_batch_without_a_bad_record_takes_one_call() -> None:
    assert search(500, set())[2] == 1


def test_a_batch_of_bad_records_takes_less_than_two_calls_for_each() -> None:
    assert search(64, set(range(64)))[2] == 127


def test_records_of_lost_partitions_are_dropped_from_all_parts() -> None:
    pending = PendingRecords()
    for offset in range(8):
        pending.add(record(offset, offset % 2))
    pending.halve()
    pending.halve()
    pending.drop({TopicPartition("t", 1)})
    found = []
    while pending:
        found.append([each.offset for each in pending.first])
        pending.settle()
    assert found == [[0], [2], [4, 6]]
    pending.drop({TopicPartition("t", 0)})
    assert (len(pending), pending.first) == (0, ())


def test_a_part_of_which_nothing_is_left_is_gone() -> None:
    pending = PendingRecords()
    for offset in range(4):
        pending.add(record(offset, offset // 2))
    pending.halve()
    pending.drop({TopicPartition("t", 0)})
    assert [each.offset for each in pending.first] == [2, 3]
    assert len(pending) == 2


def test_a_record_is_known_by_where_it_was_read() -> None:
    sent = SinkRecord("other", 7, None, None, None, 1, offset=3, original_topic="t", original_partition=0)
    assert place_of(sent)[:2] == ("t", 0)
