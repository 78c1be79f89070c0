"""What other threads ask the herder's thread to do."""

import pytest

from pkafka.connect.distributed.requests import Requests


class Times:
    """A clock that a test sets, and a count of calls to wake up."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.woken = 0
        self.requests = Requests(lambda: self.now_s, self._wake)

    def _wake(self) -> None:
        self.woken += 1


def test_the_earliest_comes_first_and_equals_in_their_order() -> None:
    times, done = Times(), list[str]()
    times.requests.submit(lambda: done.append("later"), 5.0)
    times.requests.submit(lambda: done.append("first"))
    times.requests.submit(lambda: done.append("second"))
    assert times.requests.run_due() == 105.0
    assert done == ["first", "second"]
    times.now_s = 105.0
    assert times.requests.run_due() is None
    assert done == ["first", "second", "later"]


def test_the_thread_is_woken_for_what_is_earlier_than_all_before() -> None:
    times = Times()
    times.requests.submit(lambda: None, 5.0)
    assert times.woken == 1
    times.requests.submit(lambda: None, 9.0)
    assert times.woken == 1
    times.requests.submit(lambda: None)
    assert times.woken == 2


def test_what_an_action_gives_or_raises_is_the_futures() -> None:
    times = Times()
    good = times.requests.submit(lambda: 7)
    bad = times.requests.submit(lambda: 1 // 0)
    times.requests.run_due()
    assert good.result(0) == 7
    with pytest.raises(ZeroDivisionError):
        bad.result(0)


def test_an_action_may_submit_another_that_is_done_at_once() -> None:
    times, done = Times(), list[str]()

    def outer() -> None:
        times.requests.submit(lambda: done.append("inner"))
        done.append("outer")

    times.requests.submit(outer)
    assert times.requests.run_due() is None
    assert done == ["outer", "inner"]


def test_who_has_given_up_is_left_out() -> None:
    times, done = Times(), list[str]()
    times.requests.submit(lambda: done.append("no")).cancel()
    assert times.requests.run_due() is None
    assert not done


def test_after_the_end_all_are_told() -> None:
    times = Times()
    before = times.requests.submit(lambda: None)
    times.requests.close(RuntimeError("shutting down"))
    after = times.requests.submit(lambda: None)
    for future in (before, after):
        with pytest.raises(RuntimeError, match="shutting down"):
            future.result(0)
    assert times.requests.run_due() is None
