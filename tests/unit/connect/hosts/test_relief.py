"""When a process of tasks is too busy, and which tasks leave it."""

from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.hosts.relief import Load, Watch, leavers
from pkafka.connect.states import TaskName

A, B = TaskName("a", 0), TaskName("b", 0)


def watched(*used_s: float) -> Watch:
    """A process looked at each five seconds, that has used so many seconds of CPU in between."""
    watch, cpu_s = Watch(), 0.0
    watch.look(0.0, Load(cpu_s, {}))
    for number, each in enumerate(used_s, 1):
        cpu_s += each
        watch.look(number * 5.0, Load(cpu_s, {A: number * 7}))
    return watch


def test_a_process_is_busy_when_it_was_at_two_looks_in_a_row() -> None:
    assert not watched().is_busy
    assert not watched(5.0).is_busy
    assert watched(4.0, 4.0).is_busy
    assert not watched(4.0, 3.0).is_busy
    assert not watched(4.0, 3.0, 5.0).is_busy
    assert watched(0.1, 4.0, 9.0).is_busy


def test_a_process_that_was_relieved_is_looked_at_anew() -> None:
    watch = watched(5.0, 5.0)
    watch.begin_again()
    watch.look(15.0, Load(15.0, {}))
    assert not watch.is_busy
    watch.look(20.0, Load(20.0, {}))
    assert watch.is_busy


def test_shares_are_of_the_time_between_looks() -> None:
    watch = watched(1.0, 1.0)
    watch.look(15.0, Load(3.0, {A: 20, B: 5}))
    assert watch.shares == {A: 6, B: 5}


def test_those_that_leave_have_half_of_the_work() -> None:
    tasks = [TaskName("c", number) for number in range(5)]
    assert leavers(dict(zip(tasks, (100, 0, 60, 50, 0), strict=True))) == [tasks[2], tasks[3]]
    assert leavers(dict.fromkeys(tasks, 0)) == [tasks[1], tasks[3]]


@given(
    st.dictionaries(
        st.builds(TaskName, st.sampled_from("abc"), st.integers(0, 9)), st.integers(0, 50), min_size=2
    )
)
def test_some_leave_and_some_stay(shares: dict[TaskName, int]) -> None:
    leaving = leavers(shares)
    assert 0 < len(leaving) < len(shares)
    gone = sum(shares[each] for each in leaving)
    assert abs(sum(shares.values()) - 2 * gone) <= max(shares.values())
