"""Windows: what belongs to which, and what the warm-up has no part in."""

import json

from pkafka.tools.perf_test.measuring import Clock, Recorder, Window, window_of_json

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
    again = window_of_json(json.loads(json.dumps(window.to_json())))
    assert again.to_json() == window.to_json()
    again.add(window)
    assert (again.records, again.latency.total, again.lag.total) == (6, 6, 4)
