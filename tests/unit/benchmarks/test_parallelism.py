"""What the figures of more and more partitions, or readers, say."""

import pytest

from benchmarks.parallelism import advice, gain_ends_at, idle_readers
from benchmarks.scale import Row


@pytest.mark.parametrize(
    ("rates", "enough"),
    [
        ({1: 100.0, 2: 190.0, 4: 380.0, 6: 385.0}, 4),
        ({1: 100.0, 2: 190.0, 4: 380.0, 6: 300.0}, 4),  # more of them are slower
        ({1: 100.0, 12: 109.0}, 1),  # by chance
        ({1: 100.0, 12: 80.0, 100: 130.0}, 100),
        ({5: 1.0}, 5),
    ],
)
def test_the_gain_ends_where_no_larger_number_is_faster(rates: dict[int, float], enough: int) -> None:
    assert gain_ends_at(rates) == enough


def test_the_advice_says_where_each_lever_has_its_end() -> None:
    rows = [
        *(Row("partitions", str(count), rate, "MB/s produced") for count, rate in ((1, 500), (12, 400))),
        Row("partitions", "12 (kept)", 300, "open files"),
        *(Row("consumers of 4 partitions", str(count), count * 100, "MB/s consumed") for count in (1, 2, 4)),
        Row("consumers of 4 partitions", "6", 401, "MB/s consumed"),
        Row("consumers of 4 partitions", "6", 2, "idle readers"),
    ]
    assert list(advice(rows)) == [
        "partitions: 1 are enough, 500 MB/s produced; none of the larger numbers gives a tenth more",
        "consumers of 4 partitions: 4 are enough, 400 MB/s consumed; none of the larger numbers gives a tenth more",
    ]
    assert list(advice(rows[:1])) == [
        "partitions: the most is with 1, 500 MB/s produced; what more would give was not tried"
    ]


def test_readers_without_a_record_are_idle() -> None:
    rows = [
        {"side": "consume", "records": 10},
        {"side": "consume", "records": 0},
        {"side": "produce", "records": 0},
    ]
    assert idle_readers(rows) == 1
