"""Matcher.replaceFirst."""

import pytest

from pkafka.java.pattern import PatternError, compile_pattern
from pkafka.java.replacement import replace_first


@pytest.mark.parametrize(
    ("regex", "text", "replacement", "expected"),
    [
        ("(t)(.*)", "tab", "$2-$1", "ab-t"),
        ("(t)(.*)", "tab", "$12", "t2"),
        ("(?<n>t).*", "tab", "${n}x", "tx"),
        ("t", "tat", r"\$1\\", r"$1\at"),
        ("t|ta", "ta", "x", "xa"),
        ("(a)?t", "t", "[$1]", "[]"),
        ("x", "tab", "y", "tab"),
    ],
)
def test_groups_and_escapes(regex: str, text: str, replacement: str, expected: str) -> None:
    assert replace_first(compile_pattern(regex), text, replacement) == expected


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        ("$9", "No group 9"),
        ("$", "group index is missing"),
        ("$x", "Illegal group reference"),
        ("${n", "missing trailing"),
        ("${z}", r"No group with name \{z\}"),
        ("\\", "character to be escaped is missing"),
    ],
)
def test_what_refers_to_nothing_is_refused(replacement: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        replace_first(compile_pattern("(?<n>t)"), "t", replacement)
