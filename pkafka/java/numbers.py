"""Integer.parseInt and its kin, and Double.parseDouble.

Python's int() and float() take what these refuse (blanks, underscores, "inf") and refuse what these take ("1f").
"""

import re
from math import inf
from typing import Final

from pkafka.java.text import trim

# Patterns are compiled when they are first needed: every command imports this.
_INTEGER: Final = r"[+-]?\d+"
_DIGITS_END: Final = "\uffff"
_LONGEST: Final = 64  # far more than any number in range has, zeros in front left out
_DECIMAL: Final = r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)"
_HEXADECIMAL: Final = r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"


def double_text(value: float) -> str:
    """Double.toString: with an exponent below 1e-3 and from 1e7 on."""
    if value != value:
        return "NaN"
    if value in (inf, -inf):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def parse_integer(text: str, bits: int) -> int:
    """Short.parseShort, Integer.parseInt and Long.parseLong, by the number of bits.

    Digits are the decimal digits of any script in the basic plane, behind one sign at most.

    Raises:
        ValueError: it is no number, or out of range.
    """
    if re.fullmatch(_INTEGER, text) is None or max(text) > _DIGITS_END:
        raise ValueError(f'For input string: "{text}"')
    limit = 1 << (bits - 1)
    digits = text.lstrip("+-").lstrip("0") or "0"
    number = limit if len(digits) > _LONGEST else int(digits) * (-1 if text[0] == "-" else 1)
    if not -limit <= number < limit:
        raise ValueError(f'For input string: "{text}"')
    return number


def parse_int(text: str) -> int:
    """Integer.parseInt.

    Raises:
        ValueError: it is no number of 32 bits.
    """
    return parse_integer(text, 32)


def parse_long(text: str) -> int:
    """Long.parseLong.

    Raises:
        ValueError: it is no number of 64 bits.
    """
    return parse_integer(text, 64)


def parse_double(text: str) -> float:
    """Double.parseDouble, which takes blanks around the number.

    Raises:
        ValueError: it is no number.
    """
    trimmed = trim(text)
    hexadecimal = re.fullmatch(_HEXADECIMAL, trimmed)
    if hexadecimal is not None:
        try:
            return float.fromhex(hexadecimal[1])
        except OverflowError:
            return -inf if trimmed.startswith("-") else inf
    if re.fullmatch(_DECIMAL, trimmed) is None:
        raise ValueError(f'For input string: "{trimmed}"' if trimmed else "empty String")
    return float(
        trimmed.removesuffix("Infinity") + "inf" if trimmed.endswith("y") else trimmed.rstrip("fFdD")
    )
