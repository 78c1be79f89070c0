"""Text as Java's own classes read it, and as pkafka/java does: numbers, lines, properties, regular expressions."""

import base64
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkafka.java import numbers
from pkafka.java.pattern import PatternError, compile_pattern, split_by
from pkafka.java.properties import parse_properties
from pkafka.java.text import equals_ignore_case, lines, parse_boolean, split, trim
from tests.interop.line_oracle import LineOracle, line_oracle

MUCH = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
REFUSED = None

NUMBERS = st.text("0123456789+-_ ٣߁९x\t", max_size=12)
DOUBLES = st.one_of(
    st.text("0123456789.+-eEfFdDxXpPaNInfity _\t\0\x1f\xa0", max_size=7),
    st.sampled_from(
        ["NaN", "Infinity", "0x1p3", "0x.8P-2f", "1e400", "-0", "1e-400", "0x1p5000d", "4.9e-324"]
    ),
    st.floats().map(repr),
)
BLANK = st.text("a ,b\t\0\x1f\xa0\u2003\u3000\x85\u2028\n\r", max_size=8)
LETTERS = st.text(
    "kKsSiI\u0130\u0131\u017f\u212a\xdf\u1e9e\xb5\u03bc\u03a3\u03c2\u03c3\u01c5\u01c6true", max_size=4
)
PROPERTIES = st.text("ab=: \\\n\r\t\fu0041#!é", max_size=16)
OF_PATTERNS = r"""
a b c A B 0 1 9 . _ - ^ $ | ( ) [ ] { } * + ? , & \ #
\d \w \W \s \. \b \B \A \z \Z \Q \E \p{Alpha} \p{L} \pL \P{Lu} \p{javaLowerCase} \x41 \x{41} \u0041 \0101 \1 \2
\cA \h \R \v \e \y \- (?: (?i) (?i: (?= (?! (?<= (?<n> \k<n> (?> (?x) (?s) (?-i) (?m) ++ *+ ??
[a-c] [^a-c] && [[ ]] [a-z&&[^b]] []a] [a-] (a|b) (a) a-c {2} {1,2} {,2} {2,} {2,1}
"""
PIECES = [" ", *OF_PATTERNS.split()]
PATTERNS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
CUTTERS = st.lists(st.sampled_from([*"ab,|$^", r"\|", ",*", "(a|b)", "[ab]+", "", "b?"]), max_size=3).map(
    "".join
)
SUBJECTS = [
    *"abc0&{] ",
    "",
    "ab",
    "aa",
    "abc",
    "A",
    "AB",
    "a.b",
    "a-b",
    "01",
    "a_b",
    "aab",
    "aA",
    "a\n",
    "é",
    "\1",
]


@pytest.fixture(scope="module")
def java() -> Iterator[LineOracle]:
    with line_oracle(".", "TextOracle") as oracle:
        yield oracle


def asked(java: LineOracle, what: str, *texts: str) -> list[str] | None:
    """Java's answer; None: it refuses."""
    words = [what, *("=" + base64.b64encode(each.encode()).decode() for each in texts)]
    answer = java.ask(" ".join(words))
    if answer == "!":
        return REFUSED
    return [base64.b64decode(each[1:]).decode() for each in answer.split()[1:]]


def ours(read: Callable[..., Any], *texts: str) -> Any:
    try:
        return read(*texts)
    except ValueError:
        return REFUSED


@MUCH
@given(text=NUMBERS)
def test_whole_numbers(java: LineOracle, text: str) -> None:
    for what, bits in (("short", 16), ("int", 32), ("long", 64)):
        found = ours(partial(numbers.parse_integer, bits=bits), text)
        assert asked(java, what, text) == (REFUSED if found is None else [str(found)])


@MUCH
@given(text=DOUBLES)
def test_doubles(java: LineOracle, text: str) -> None:
    found = ours(numbers.parse_double, text)
    answer = asked(java, "double", text)
    if answer is REFUSED or found is None or found != found:
        assert (answer is REFUSED) == (found is None)
    else:
        (bits,) = struct.unpack(">Q", struct.pack(">d", found))
        assert answer == [f"{bits:x}"]


@MUCH
@given(digits=st.integers(-999_999, 999_999), exponent=st.integers(-300, 300))
def test_doubles_as_text(java: LineOracle, digits: int, exponent: int) -> None:
    text = f"{digits}e{exponent}"
    # Before its version 19 Java writes some doubles with more digits than they need.
    (said,) = asked(java, "double-text", text) or [""]
    written = numbers.double_text(float(text))
    assert written == said or (len(written) < len(said) and float(written) == float(said))


@MUCH
@given(text=BLANK)
def test_blanks_pieces_and_lines(java: LineOracle, text: str) -> None:
    assert asked(java, "trim", text) == [trim(text)]
    assert asked(java, "split", text, ",") == split(text, ",")
    assert asked(java, "lines", text) == lines(text)


@MUCH
@given(one=LETTERS, other=LETTERS)
def test_letters_of_any_case(java: LineOracle, one: str, other: str) -> None:
    for text in (other, one.upper(), one.lower(), one.swapcase()):
        assert asked(java, "ignore-case", one, text) == [str(equals_ignore_case(one, text)).lower()]
    for text in (one, "TRUE", "tRue", " true"):
        assert asked(java, "boolean", text) == [str(parse_boolean(text)).lower()]


@MUCH
@given(text=PROPERTIES)
def test_properties(java: LineOracle, text: str) -> None:
    found = ours(parse_properties, text)
    pairs = REFUSED if found is None else [each for key in sorted(found) for each in (key, found[key])]
    assert asked(java, "properties", text) == pairs


@MUCH
@given(text=PATTERNS)
def test_regular_expressions(java: LineOracle, text: str) -> None:
    answer = asked(java, "matches", text, *SUBJECTS)
    pattern, problem = compiled(text)
    if pattern is None:
        # Python's engine has no look behind of varying length.
        assert answer is REFUSED or "cannot be matched here" in problem
    else:
        assert answer == [str(pattern.fullmatch(each) is not None).lower() for each in SUBJECTS]


@MUCH
@given(text=CUTTERS, cut=st.text("ab,|", max_size=7))
def test_pieces_between_matches(java: LineOracle, text: str, cut: str) -> None:
    pattern, _ = compiled(text)
    answer = asked(java, "split-by", text, cut)
    assert answer == (REFUSED if pattern is None else split_by(pattern, cut))


def compiled(text: str) -> tuple[re.Pattern[str] | None, str]:
    try:
        return compile_pattern(text), ""
    except PatternError as error:
        return None, str(error)
