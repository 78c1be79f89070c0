"""A heap that is put right late says the same as one that is always right."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.server.groups.deadlines import DeadlineKind, Deadlines

SESSION_A = (DeadlineKind.SESSION, "a")
SESSION_B = (DeadlineKind.SESSION, "b")


def test_a_deadline_that_moved_is_due_at_its_last_time() -> None:
    deadlines = Deadlines()
    deadlines.set(SESSION_A, 10)
    deadlines.set(SESSION_A, 20)
    assert deadlines.earliest_ms == 10  # too early, by design
    assert deadlines.pop(10) is None
    assert deadlines.earliest_ms == 20
    deadlines.set(SESSION_A, 15)
    assert deadlines.earliest_ms == 15
    assert deadlines.pop(14) is None
    assert deadlines.pop(15) == SESSION_A
    assert deadlines.pop(99) is None
    assert deadlines.earliest_ms is None


def test_what_was_cancelled_is_not_due() -> None:
    deadlines = Deadlines()
    deadlines.set(SESSION_A, 10)
    deadlines.set(SESSION_B, 20)
    deadlines.cancel(SESSION_A)
    deadlines.cancel(SESSION_A)
    assert SESSION_A not in deadlines
    assert deadlines.earliest_ms == 20
    deadlines.set(SESSION_A, 30)
    assert deadlines.pop(25) == SESSION_B
    assert deadlines.pop(30) == SESSION_A
    deadlines.set(SESSION_A, 40)
    deadlines.clear()
    assert deadlines.earliest_ms is None
    assert SESSION_A not in deadlines


KEYS = st.tuples(st.sampled_from(DeadlineKind), st.sampled_from("ab"))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 50)),
        st.tuples(st.just("cancel"), KEYS, st.just(0)),
        st.tuples(st.just("pop"), st.just((DeadlineKind.JOIN, "a")), st.integers(0, 50)),
    ),
    max_size=40,
)


def memory_bytes(deadlines: Deadlines) -> int:
    """Of what it holds them in."""
    return sum(sys.getsizeof(getattr(deadlines, name)) for name in Deadlines.__slots__)


@pytest.mark.parametrize("ends", ["expire", "cancel"])
def test_nothing_is_held_for_deadlines_that_are_over(ends: str) -> None:
    deadlines = Deadlines()
    keys = [(DeadlineKind.PENDING, str(number)) for number in range(1_000)]
    for key in keys:
        deadlines.set(key, 10)
    assert memory_bytes(deadlines) > memory_bytes(Deadlines())
    for key in keys:
        if ends == "cancel":
            deadlines.cancel(key)
        else:
            deadlines.pop(10)
    assert memory_bytes(deadlines) == memory_bytes(Deadlines())


@given(steps=STEPS)
def test_it_does_what_a_dictionary_does(steps: list[tuple[str, tuple[DeadlineKind, str], int]]) -> None:
    deadlines, model = Deadlines(), dict[tuple[DeadlineKind, str], int]()
    for verb, key, at_ms in steps:
        if verb == "set":
            deadlines.set(key, at_ms)
            model[key] = at_ms
        elif verb == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            popped = set()
            while (due := deadlines.pop(at_ms)) is not None:
                popped.add(due)
            assert popped == {each for each, due_ms in model.items() if due_ms <= at_ms}
            model = {each: due_ms for each, due_ms in model.items() if due_ms > at_ms}
        earliest_ms = deadlines.earliest_ms
        assert (earliest_ms is None) == (not model)
        assert earliest_ms is None or earliest_ms <= min(model.values())
        assert all(each in deadlines for each in model)
