"""The split of requests' times adds up, however many of them waited."""

from hypothesis import given
from hypothesis import strategies as st

from pkafka.server.metrics.request_times import RequestTimes, RequestTimeSums

TIMES = st.integers(0, 2**40)


@given(st.lists(TIMES, max_size=20), st.lists(st.tuples(TIMES, TIMES), max_size=20))
def test_local_and_remote_times_make_the_whole(at_once: list[int], waited: list[tuple[int, int]]) -> None:
    one, other = RequestTimes(), RequestTimes()
    for time in at_once:
        one.at_once.record(time)
    for local, remote in waited:
        other.waited(local, local + remote)
    sums = RequestTimeSums()
    for each in (one, other):
        sums.add(each.export())
    assert sums.total.count == sums.local.count == sums.remote.count == len(at_once) + len(waited)
    assert sums.local.total == sum(at_once) + sum(local for local, _ in waited)
    assert sums.remote.total == sum(remote for _, remote in waited)
    assert sums.total.total == sums.local.total + sums.remote.total
    assert sums.remote.largest == max((remote for _, remote in waited), default=0)


def test_a_remote_time_is_nothing_for_who_did_not_wait() -> None:
    times = RequestTimes()
    for _ in range(99):
        times.at_once.record(1000)
    times.waited(1000, 1_001_000)
    sums = RequestTimeSums()
    sums.add(times.export())
    assert sums.remote.percentiles((0.5, 0.98)) == [0, 0]
    assert sums.remote.percentiles((0.999,)) == [1_000_000]
