"""Who sends what when, and when a test has failed."""

from fractions import Fraction
from itertools import count, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.tools.load.perf_test.plan import (
    NS,
    Plan,
    PlanError,
    Schedule,
    Task,
    is_hopeless,
    is_too_many,
    shared_out,
    task_of,
)

RATES = st.fractions(min_value=Fraction(1, 10), max_value=2_000_000, max_denominator=1000)
STAGGERS = st.fractions(min_value=0, max_value=Fraction(99, 100), max_denominator=100)


@given(RATES, STAGGERS, st.integers(0, 1_000_000))
def test_groups_keep_the_rate(rate: Fraction, stagger: Fraction, number: int) -> None:
    """So many groups have as many records as the rate says, to less than one."""
    schedule = Schedule(rate, stagger=stagger)
    due_ns = schedule.group(number).due_ns
    begin_ns = schedule.group(0).due_ns
    expected = (due_ns - begin_ns) * rate / NS
    step = max(Fraction(1), rate / 1000)
    assert expected - 1 <= schedule.due_by(due_ns) <= expected + step + 1


@given(RATES, STAGGERS, st.integers(0, 3 * NS))
def test_what_is_due_is_the_sum_of_the_groups(rate: Fraction, stagger: Fraction, elapsed_ns: int) -> None:
    schedule = Schedule(rate, stagger=stagger)
    groups = takewhile(lambda group: group.due_ns <= elapsed_ns, map(schedule.group, count()))
    assert schedule.due_by(elapsed_ns) == sum(group.records for group in groups)


def test_slow_schedules_go_record_by_record_and_fast_ones_by_the_millisecond() -> None:
    slow = Schedule(Fraction(4))
    assert [slow.group(number) for number in range(3)] == [(0, 1), (NS // 4, 1), (NS // 2, 1)]
    fast = Schedule(Fraction(2500))
    assert [fast.group(number) for number in range(4)] == [
        (0, 2),
        (NS // 1000, 3),
        (NS // 500, 2),
        (3 * NS // 1000, 3),
    ]


def test_producers_take_turns() -> None:
    plan = Plan("t", producers=2, duration_s=1, rate=10)
    schedules = [plan.schedule_of(producer) for producer in range(2)]
    due = [schedule.group(number).due_ns for schedule in schedules if schedule for number in range(5)]
    assert sorted(due) == [each * NS // 10 for each in range(10)]
    assert Plan("t", duration_s=1).schedule_of(0) is None


@given(RATES, st.integers(1, 12), st.integers(0, 3 * NS))
def test_all_producers_together_keep_the_rate(rate: Fraction, producers: int, elapsed_ns: int) -> None:
    """Each to less than a group of its own, however long it takes: shares of a rate are not rounded."""
    plan = Plan("t", producers=producers, duration_s=1, rate=float(rate))
    asked = Fraction(plan.rate or 0).limit_denominator(1_000_000)
    schedules = [schedule for number in range(producers) if (schedule := plan.schedule_of(number))]
    assert sum(schedule.rate for schedule in schedules) == asked
    due = sum(schedule.due_by(elapsed_ns) for schedule in schedules)
    group = asked / producers / 1000 + 1
    rounded = asked / NS  # moments are whole nanoseconds
    assert abs(due - elapsed_ns * asked / NS) <= producers * group + rounded


@given(st.integers(1, 50), st.integers(0, 10_000))
def test_all_producers_together_have_all_records(producers: int, more: int) -> None:
    plan = Plan("t", producers=producers, records=producers + more)
    shares = [plan.records_of(number) or 0 for number in range(producers)]
    assert sum(shares) == producers + more
    assert max(shares) - min(shares) <= 1


def test_records_are_shared_out() -> None:
    plan = Plan("t", producers=3, records=11)
    assert [plan.records_of(producer) for producer in range(3)] == [4, 4, 3]
    assert Plan("t", duration_s=1).records_of(0) is None
    assert shared_out([2, 0, 1], 2) == [[0, 2], [1]]
    assert shared_out([0], 2) == [[0], []]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Plan("t", duration_s=2), None),
        (Plan("t", duration_s=2, warmup_s=1, rate=10), 30),
        (Plan("t", duration_s=2, rate=10, records=5), 5),
        (Plan("t", records=5), 5),
    ],
)
def test_how_many_there_will_be(plan: Plan, expected: int | None) -> None:
    assert plan.records_expected() == expected


def test_hope_ends_when_the_rest_cannot_make_good() -> None:
    strict, long = Plan("t", duration_s=5), Plan("t", duration_s=5, max_error_rate=0.5)
    known = Plan("t", records=1000, max_error_rate=0.01)
    assert (is_hopeless(strict, 0), is_hopeless(strict, 1)) == (False, True)
    assert not is_hopeless(long, 10**9)
    assert (is_hopeless(known, 10), is_hopeless(known, 11)) == (False, True)
    assert (is_too_many(known, 1, 100), is_too_many(known, 2, 100)) == (False, True)


def test_a_task_goes_through_a_pipe() -> None:
    plan = Plan("t", records=9, headers=(("a", "b"),), rate=1.5)
    task = Task("consume", 1, plan, {"acks": "all"}, "00" * 8, ((0, 5), (2, 7)))
    assert task_of(task.to_json()) == task
    assert "\n" not in task.to_json()


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (Plan("t", producers=0, consumers=0, duration_s=1), "producer or a consumer"),
        (Plan("t"), "needs an end"),
        (Plan("t", producers=3, records=2), "fewer records"),
        (Plan("t", duration_s=0.0), "positive"),
        (Plan("t", duration_s=-1.0), "positive"),
        (Plan("t", duration_s=1, warmup_s=-1), "positive"),
        (Plan("t", duration_s=1, interval_s=0), "positive"),
        (Plan("t", duration_s=1, rate=0), "rate has to be positive"),
        (Plan("t", duration_s=1, max_error_rate=2), "between 0 and 1"),
        (Plan("t", duration_s=1, payload_file="f", payload_template="t"), "not from both"),
    ],
)
def test_nonsense_is_refused(plan: Plan, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        plan.check()


def test_sense_is_not() -> None:
    Plan("t", duration_s=1).check()
    Plan("t", producers=0, records=5).check()
