"""What compares large things for other tests finds every difference, and no other."""

from copy import deepcopy
from typing import Any

import pytest

from tests.differences import differences, first_difference, first_difference_of_all

SAME: list[Any] = [
    "",
    "a",
    "a\nb\n",
    [],
    [1, [2, {"x": b"y"}]],
    {},
    {"a": [1], "b": {"c": "d\ne"}},
    (1, 2),
    None,
]


@pytest.mark.parametrize("number", range(len(SAME)))
def test_nothing_differs_from_itself_alone(number: int) -> None:
    for other, value in enumerate(SAME):
        assert bool(first_difference(SAME[number], deepcopy(value))) == (other != number)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3], [1, 5, 4], "[1]: 2 != 5"),
        ([1], [1, 2, 3], "[1]: 2 only in the second; 1 and 3 in all"),
        ([1, 2], [1], "[1]: 2 only in the first; 2 and 1 in all"),
        ({"a": 1}, {"b": 1}, "['a']: only in the first"),
        ({}, {"b": 1}, "['b']: only in the second"),
        ({"a": {"b": [0, "x"]}}, {"a": {"b": [0, "y"]}}, "['a']['b'][1]: 'x' != 'y'"),
        ("one\ntwo\n", "one\ntwo", "[2]: '' only in the first; 3 and 2 in all"),
        (b"x" * 1000, b"y", f": {b'x' * 298!r}"[:302] + "... (1003 characters) != b'y'"),
    ],
)
def test_the_first_difference_is_told_with_its_place(one: object, other: object, expected: str) -> None:
    assert first_difference(one, other) == expected


def test_all_differences_are_told_in_order() -> None:
    assert list(differences([1, 2, 3], [4, 2, 5, 6])) == [
        "[0]: 1 != 4",
        "[2]: 3 != 5",
        "[3]: 6 only in the second; 3 and 4 in all",
    ]
    assert first_difference_of_all(["a", "a", "b"]) == ": 'a' != 'b'"
    assert not first_difference_of_all([[1], [1], [1]])
