"""Where the records of new batches have come from, whatever batches they were read in."""

from pkafka.clients.consumer import RawBatch
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.back_fill.runs import Run, Runs


def batch(first: int, count: int, following: int | None = None) -> RawBatch:
    """A batch without bytes; with an offset behind it: one whose records stood otherwise in the log."""
    end = first + count if following is None else following
    return RawBatch(TopicPartition("t", 0), b"", first, end, count, 0, following is not None)


def test_a_batch_that_goes_as_it_is_is_one_run() -> None:
    runs = Runs()
    runs.add(batch(7, 5))
    assert runs.take(5) == [Run(7, 0, 5)]


def test_small_batches_go_together_and_large_ones_are_divided() -> None:
    runs = Runs()
    for first in (0, 2, 10):
        runs.add(batch(first, 2))
    assert runs.take(5) == [Run(0, 0, 2), Run(2, 2, 2), Run(10, 4, 1)]
    assert runs.take(1) == [Run(11, 0, 1)]


def test_of_a_batch_with_holes_the_first_record_is_known_and_how_far_the_source_was_read() -> None:
    runs = Runs()
    runs.add(batch(4, 3, following=9))
    runs.add(batch(9, 1))
    assert runs.take(4) == [Run(4, 0, 1), Run(8, 2, 1), Run(9, 3, 1)]
    runs.add(batch(20, 1, following=30))
    assert runs.take(1) == [Run(20, 0, 1), Run(29, 0, 1)]


def test_a_batch_with_holes_may_be_divided_too() -> None:
    runs = Runs()
    runs.add(batch(4, 4, following=9))
    assert runs.take(2) == [Run(4, 0, 1)]
    assert runs.take(2) == [Run(8, 1, 1)]


def test_records_that_are_skipped_are_in_no_run() -> None:
    runs = Runs()
    runs.add(batch(4, 4), skipped=3)
    runs.add(batch(10, 4, following=20), skipped=2)
    # Where the third record of that batch stood nobody knows.
    assert runs.take(3) == [Run(7, 0, 1), Run(19, 2, 1)]
