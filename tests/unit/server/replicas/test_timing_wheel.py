"""The timing wheel: a task comes out once, at its time."""

from hypothesis import given
from hypothesis import strategies as st

from pkafka.server.replicas.timing_wheel import TimerTask, TimingWheel


def nothing() -> None:
    """A task that only has to be due."""


def task_at(expires_ms: int) -> TimerTask:
    return TimerTask(expires_ms, nothing)


def test_a_task_that_is_due_already_is_the_callers() -> None:
    wheel = TimingWheel(100)
    assert not wheel.add(task_at(100))


def test_a_task_comes_out_at_its_time_and_not_before() -> None:
    wheel = TimingWheel(0)
    task = task_at(5)
    assert wheel.add(task)
    assert wheel.advance(4) == []
    assert wheel.advance(5) == [task]
    assert wheel.advance(100) == []


def test_a_far_task_falls_down_through_the_wheels() -> None:
    wheel = TimingWheel(0)
    far = task_at(123_456)
    wheel.add(far)
    expiries = []
    while (expiry := wheel.next_expiry_ms()) is not None:
        expiries.append(expiry)
        if wheel.advance(expiry):
            break
    assert expiries[-1] == 123_456
    assert len(expiries) <= 5  # one stop per wheel, no ticking in between


def test_cancelled_tasks_never_come_out_and_leave_no_slot_in_use() -> None:
    wheel = TimingWheel(0)
    task = task_at(30)
    wheel.add(task)
    task.cancel()
    assert wheel.next_expiry_ms() is None
    assert wheel.advance(1000) == []
    task.cancel()  # twice is harmless


def test_the_wheel_serves_again_after_its_slots_came_round() -> None:
    wheel = TimingWheel(0)
    for start in range(0, 400, 20):
        task = task_at(start + 19)
        assert wheel.add(task)
        assert wheel.advance(start + 20) == [task]


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(-50, 200_000), max_size=60),
    st.lists(st.integers(1, 5_000), max_size=60),
)
def test_every_task_is_due_exactly_once_at_the_first_advance_past_its_time(
    start: int, delays: list[int], steps: list[int]
) -> None:
    wheel = TimingWheel(start)
    waiting = {}
    for delay in delays:
        task = task_at(start + delay)
        if wheel.add(task):
            waiting[task] = start + delay
        else:
            assert delay <= 0
    now = start
    for step in [*steps, 300_000]:
        now += step
        due = wheel.advance(now)
        assert len(due) == len(set(due))
        assert {waiting.pop(task) <= now for task in due} <= {True}
        assert all(expiry > now for expiry in waiting.values())
    assert not waiting
