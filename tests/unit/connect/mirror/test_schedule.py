"""A thread that does what a connector does now and then."""

import threading
from collections.abc import Iterator

import pytest

from pkafka.connect.errors import ConnectError
from pkafka.connect.mirror.schedule import Schedule


@pytest.fixture
def schedule() -> Iterator[Schedule]:
    made = Schedule("test", retry_s=0.001)
    yield made
    made.close()


class Counted:
    """Counts its calls; fails in some."""

    def __init__(self, wanted: int, failures: int = 0) -> None:
        self.count = 0
        self.reached = threading.Event()
        self._wanted = wanted
        self._failures = failures

    def __call__(self) -> None:
        self.count += 1
        if self.count <= self._failures:
            raise ConnectError("not yet")
        if self.count >= self._wanted:
            self.reached.set()


def test_a_task_is_done_and_waited_for(schedule: Schedule) -> None:
    task = Counted(1)
    assert schedule.run(task, "it", 30)
    assert task.count == 1


def test_a_task_that_fails_or_takes_too_long_is_not_done(schedule: Schedule) -> None:
    assert not schedule.run(Counted(2, failures=1), "failing", 30)
    going_on = threading.Event()

    def waits() -> None:
        going_on.wait(30)

    assert not schedule.run(waits, "slow", 0.001)
    going_on.set()


def test_a_task_is_repeated_although_it_fails(schedule: Schedule) -> None:
    task = Counted(4, failures=2)
    schedule.every(task, "often", 0.001)
    assert task.reached.wait(30)


def test_what_has_failed_is_tried_until_it_is_done(schedule: Schedule) -> None:
    task = Counted(3, failures=2)
    schedule.until_done(task, "first")
    assert task.reached.wait(30)
    assert schedule.run(lambda: None, "after it", 30)
    assert task.count == 3


def test_what_has_no_interval_is_never_done(schedule: Schedule) -> None:
    task = Counted(1)
    schedule.every(task, "never", None)
    assert schedule.run(lambda: None, "after it", 30)
    assert task.count == 0
