"""The loop and the figures of the consumer's load tool."""

from datetime import datetime
from typing import cast

import pytest

from pkafka.clients.consumer import Chunk, Consumer
from pkafka.model import TopicPartition
from pkafka.records.columns import RecordColumns
from pkafka.tools.load.consumer_perf import ConsumerStats, Progress, java_date_format, run_consumer

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6_789)


class Polls:
    """A consumer that gives what it was told, then nothing."""

    def __init__(self, *counts: int) -> None:
        self._counts = list(counts)

    def poll_chunks(self, timeout_ms: int, *, records_max: int) -> list[Chunk]:
        if not self._counts:
            return []
        columns = RecordColumns.of([(0, 0, b"key", b"value", ())] * self._counts.pop(0))
        return [Chunk(TopicPartition("t", 0), columns, 0, 0)]


def run(polls: Polls, *, records: int, interval_ms: int = 10_000) -> tuple[ConsumerStats, list[Progress]]:
    seen: list[Progress] = []
    stats = run_consumer(
        cast(Consumer, polls),
        records=records,
        silence_max_ms=20,
        interval_ms=interval_ms,
        on_interval=seen.append,
    )
    return stats, seen


def test_a_run_ends_with_the_poll_that_brings_enough() -> None:
    stats, _ = run(Polls(500, 500, 500), records=600)
    assert stats.records == 1_000
    assert stats.mib == 1_000 * 8 / 2**20


def test_a_run_ends_when_no_record_comes() -> None:
    stats, _ = run(Polls(3), records=600)
    assert stats.records == 3
    assert stats.elapsed_ms >= 20


def test_intervals_say_what_came_in_them() -> None:
    _, seen = run(Polls(1, 2, 3), records=6, interval_ms=0)
    assert [each.records for each in seen] == [1, 3, 6]
    assert [each.interval_records for each in seen] == [1, 2, 3]


def test_rates_of_no_time_are_not_numbers() -> None:
    stats = ConsumerStats(MOMENT, MOMENT, 1.0, 10, 0)
    assert str(stats.mib_per_second) == "nan"
    assert ConsumerStats(MOMENT, MOMENT, 1.0, 10, 500).records_per_second == 20


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-01-02 03:04:05:006"),
        ("HHmmss", "030405"),
        ("yy.MM 'o''clock' 100%", "26.01 o'clock 100%"),
    ],
)
def test_dates_are_written_by_javas_patterns(pattern: str, text: str) -> None:
    assert java_date_format(pattern)(MOMENT) == text


@pytest.mark.parametrize("pattern", ["EEE", "yyyyy", "hh:mm a"])
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not supported"):
        java_date_format(pattern)
