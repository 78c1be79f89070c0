"""Which records of the source a copy has already: found by what they are, not by their number."""

from collections.abc import Iterable

import pytest

from pkafka.clients.consumer import RawBatch
from pkafka.model import TopicPartition
from pkafka.records.builder import build_batch
from pkafka.tools.mirroring.back_fill.tail import Tail


def batch(numbers: Iterable[int], *, late_ms: int = 0, base_offset: int = 0) -> RawBatch:
    rows = [(1_000 + late_ms + each, b"k", b"%d" % each, (("h", b"x"),)) for each in numbers]
    return RawBatch(
        TopicPartition("t", 0), bytes(build_batch(rows, base_offset=base_offset)), 0, len(rows), len(rows), 0
    )


@pytest.mark.parametrize("copied", range(6))
def test_records_are_there_up_to_the_first_that_is_not(copied: int) -> None:
    tail = Tail()
    if copied:
        tail.add(batch(range(copied)))
    assert tail.there(batch(range(5))) == min(copied, 5)


def test_what_the_source_has_lost_since_is_passed_over() -> None:
    tail = Tail()
    tail.add(batch(range(10)))
    assert tail.there(batch([3, 4, 8])) == 3
    assert tail.there(batch([10, 11])) == 0


def test_where_the_last_record_is_that_was_found() -> None:
    tail = Tail()
    tail.add(batch(range(10), base_offset=700))
    assert tail.last_found is None
    tail.there(batch([3, 4, 8]))
    assert tail.last_found == 708
    tail.there(batch([20]))
    assert tail.last_found == 708


def test_what_comes_late_counts_too() -> None:
    tail = Tail()
    tail.add(batch(range(3)))
    source = batch(range(8))
    assert tail.there(source) == 3
    tail.add(batch(range(3, 5)))
    assert tail.there(source, 3) == 5


def test_records_that_are_alike_are_told_apart_by_their_time() -> None:
    tail = Tail()
    tail.add(batch(range(3)))
    assert tail.there(batch(range(3), late_ms=1)) == 0
    tail = Tail(ignores_timestamps=True)
    tail.add(batch(range(3)))
    assert tail.there(batch(range(3), late_ms=1)) == 3
