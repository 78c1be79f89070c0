"""What follows when a process ends under its tasks."""

import signal

import pytest

from pkafka.connect.hosts.deaths import WINDOW_S, Deaths, how_it_ended
from pkafka.connect.states import TaskName

TASK = TaskName("c", 0)


def test_a_task_starts_again_so_often() -> None:
    deaths = Deaths(3)
    assert [deaths.may_start_again(TASK, now_s) for now_s in (0, 1, 2, 3)] == [True, True, True, False]


def test_after_the_last_time_whoever_starts_it_begins_anew() -> None:
    deaths = Deaths(1)
    assert [deaths.may_start_again(TASK, 0) for _ in range(4)] == [True, False, True, False]


def test_each_is_counted_by_itself() -> None:
    deaths = Deaths(1)
    assert deaths.may_start_again(TASK, 0)
    assert deaths.may_start_again(TaskName("c", 1), 0)
    assert deaths.may_start_again("c", 0)
    assert not deaths.may_start_again(TASK, 1)


def test_what_is_long_ago_counts_no_more() -> None:
    deaths = Deaths(1)
    assert deaths.may_start_again(TASK, 0)
    assert deaths.may_start_again(TASK, WINDOW_S)
    assert not deaths.may_start_again(TASK, 2 * WINDOW_S - 1)


def test_nothing_starts_again_where_that_is_not_wanted() -> None:
    assert not Deaths(0).may_start_again(TASK, 0)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (signal.SIGKILL, "was ended by signal 9 (SIGKILL)"),
        (signal.SIGSEGV | 0x80, "was ended by signal 11 (SIGSEGV)"),
        (50, "was ended by signal 50"),
        (3 << 8, "has ended with exit code 3"),
        (0, "has ended with exit code 0"),
        (None, "has ended"),
    ],
)
def test_ends_are_told_in_words(status: int | None, text: str) -> None:
    assert how_it_ended(status) == text
