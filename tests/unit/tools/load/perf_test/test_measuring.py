"""Windows: what belongs to which, and what the warm-up has no part in."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pkafka.tools.load.perf_test.measuring import (
    Clock,
    Difference,
    Recorder,
    Window,
    difference,
    window_of_json,
)

MS = 1_000_000
CLOCK = Clock(start_ns=0, measured_ns=1000 * MS, end_ns=None, interval_ns=500 * MS)


def test_windows_are_numbered_from_the_end_of_the_warm_up() -> None:
    assert [CLOCK.window_of(each * MS) for each in (0, 499, 500, 999, 1000, 1499, 1500)] == [
        *(-2, -2, -1, -1, 0, 0, 1)
    ]


def test_counts_belong_to_when_and_times_to_what_was_due_after_the_warm_up() -> None:
    recorder = Recorder(CLOCK)
    recorder.arrived(900 * MS, 5, 500, [(890 * MS, 5)])
    recorder.arrived(1100 * MS, 7, 700, [(990 * MS, 3), (1000 * MS, 4)])
    recorder.failed(1200 * MS, 2, ValueError("first"))
    recorder.failed(1300 * MS, 1, ValueError("second"))
    windows = recorder.take()
    assert sorted(windows) == [-1, 0]
    assert (windows[-1].records, windows[-1].latency.total) == (5, 0)
    assert (windows[0].records, windows[0].size_bytes, windows[0].failed) == (7, 700, 3)
    assert windows[0].latency.total == 4
    assert 100_000 <= windows[0].latency.percentile_us(50) <= 100_100
    assert recorder.first_error == "first"
    assert recorder.last_ns == 1300 * MS


def test_how_late_the_generator_was_is_not_what_the_broker_needed() -> None:
    recorder = Recorder(CLOCK)
    recorder.handed_over(900 * MS, 500 * MS, 9)
    recorder.handed_over(1005 * MS, 1000 * MS, 9)
    (window,) = recorder.take().values()
    assert (window.lag.total, window.latency.total) == (9, 0)
    assert 5000 <= window.lag.max_us() < 5010


def test_windows_are_taken_once_when_they_are_over() -> None:
    recorder = Recorder(CLOCK)
    recorder.arrived(1100 * MS, 1, 1, ())
    recorder.arrived(1600 * MS, 2, 2, ())
    assert recorder.take(before_ns=1499 * MS) == {}
    assert list(recorder.take(before_ns=1500 * MS)) == [0]
    assert [window.records for window in recorder.take().values()] == [2]
    assert recorder.take() == {}


def test_a_window_goes_through_a_pipe() -> None:
    window = Window()
    window.records, window.size_bytes, window.failed = 3, 300, 1
    window.latency.record(5000, 3)
    window.lag.record(7, 2)
    window.committed, window.aborted, window.aborted_records = 4, 2, 9
    window.ending.record(70, 4)
    again = window_of_json(json.loads(json.dumps(window.to_json())))
    assert again.to_json() == window.to_json()
    again.add(window)
    assert (again.records, again.latency.total, again.lag.total) == (6, 6, 4)
    assert (again.committed, again.aborted, again.aborted_records, again.ending.total) == (8, 4, 18, 8)


def test_transactions_are_counted_and_commits_timed() -> None:
    recorder = Recorder(CLOCK)
    recorder.ended(1600 * MS, 30, 5, is_committed=True)
    recorder.ended(1700 * MS, 900, 7, is_committed=False)
    (window,) = recorder.take().values()
    assert (window.committed, window.aborted, window.aborted_records) == (1, 1, 7)
    assert (window.ending.total, window.ending.max_us()) == (1, 30)
    assert recorder.last_ns == 1700 * MS


def test_a_clock_of_another_machine_says_the_same_times() -> None:
    clock = CLOCK._replace(end_ns=3000 * MS, epoch_ns=1_700_000_000_000 * MS)
    other = clock.shifted(-700 * MS)
    assert other == Clock(-700 * MS, 300 * MS, 2300 * MS, 500 * MS, clock.epoch_ns)
    assert CLOCK.shifted(5).end_ns is None
    assert other.window_of(800 * MS) == clock.window_of(1500 * MS) == 1
    assert other.timestamp_ms(-700 * MS) == clock.timestamp_ms(0) == 1_700_000_000_000
    assert other.moment_of(clock.timestamp_ms(1234 * MS)) == 534 * MS


@given(
    st.integers(-(10**15), 10**15),
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**8), st.integers(0, 10**8)), min_size=1),
)
def test_clocks_are_compared_as_well_as_the_quickest_answer_allows(
    ahead_ns: int, questions: list[tuple[int, int, int]]
) -> None:
    """Whatever way takes how long: the clocks are never further apart than is said."""
    asked = [(at + ahead_ns, at + there, at + ahead_ns + there + back) for at, there, back in questions]
    found = difference(asked)
    assert abs(found.ahead_ns - ahead_ns) <= 2 * found.error_ns + 1
    assert found.error_ns == (min(there + back for _, there, back in questions) + 1) // 2


def test_clocks_that_may_be_one_are_taken_for_one() -> None:
    assert difference([(100, 140, 200), (300, 390, 400)]) == Difference(0, 50)
    assert difference([(100, 90, 110)]) == Difference(15, 5)
