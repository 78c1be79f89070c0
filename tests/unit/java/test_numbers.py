"""Numbers as Java reads and writes them; a JVM is asked for many more in tests/interop/test_java_text.py."""

from math import inf, isnan, nan

import pytest

from pkafka.java.numbers import double_text, parse_double, parse_int, parse_integer, parse_long


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("007", 7),
        ("٣", 3),
        ("0" * 5_000 + "1", 1),
        ("-2147483648", -(2**31)),
    ],
)
def test_whole_numbers_are_read(text: str, number: int) -> None:
    assert parse_int(text) == parse_long(text) == number


@pytest.mark.parametrize(
    "text",
    ["", " 5", "5 ", "1_000", "+", "+-5", "2147483648", "0x5", "5.0", "\u00b2", "\U0001d7d9", "9" * 5_000],
)
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="For input string"):
        parse_int(text)


def test_the_bits_are_the_range() -> None:
    assert parse_long("9223372036854775807") == 2**63 - 1
    for text, bits in (("9223372036854775808", 64), ("32768", 16), ("-32769", 16)):
        with pytest.raises(ValueError, match=text):
            parse_integer(text, bits)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1024.0, "1024.0"),
        (10.5, "10.5"),
        (0.001, "0.001"),
        (1e-4, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678901.0, "1.2345678901E10"),
        (-2.5e-7, "-2.5E-7"),
        (inf, "Infinity"),
        (-inf, "-Infinity"),
        (nan, "NaN"),
    ],
)
def test_doubles_are_written(value: float, text: str) -> None:
    assert double_text(value) == text


def test_doubles_are_read() -> None:
    texts = {
        "1e9": 1e9,
        " 2 ": 2.0,
        "1.5f": 1.5,
        "3D": 3.0,
        ".5": 0.5,
        "1.": 1.0,
        "-0": 0.0,
        "+Infinity": inf,
        "\t-1e400\0": -inf,
        "0x1.8p1f": 3.0,
        "-0x1P9999": -inf,
    }
    assert {text: parse_double(text) for text in texts} == texts
    assert isnan(parse_double("NaN"))
    for text in ("", "x", "1_0", "nan", "inf", "٣", "1 2", "0x10", ".", "1e", "0x1p", "٣.0"):
        with pytest.raises(ValueError, match=r"For input string|empty String"):
            parse_double(text)
