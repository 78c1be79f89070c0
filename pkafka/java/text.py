"""String.trim, split, equalsIgnoreCase and Boolean.parseBoolean; the lines of a BufferedReader."""

import re
from typing import Final

_BLANKS_BETWEEN: Final = r"(?a:\s+)"
_SPACES: Final = " \t\n\v\f\r"
BLANKS: Final = "".join(map(chr, range(0x21)))
"""What String.trim takes away: U+0020 and all below it, and nothing above it, such as U+00A0 or U+2003."""


def trim(text: str) -> str:
    """String.trim."""
    return text.strip(BLANKS)


def split(text: str, separator: str) -> list[str]:
    """String.split by a separator that means itself: empty pieces at the end do not count."""
    if not text:
        return [""]
    pieces = text.split(separator)
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces


def split_list(text: str) -> list[str]:
    r"""The pieces between commas, empty ones too, without the blanks around the commas: what ``\s*,\s*`` parts."""
    return [piece.strip(_SPACES) for piece in text.split(",")]


def split_blanks(text: str) -> list[str]:
    r"""The pieces between blanks of ASCII: what ``\s+`` parts."""
    return split(re.sub(_BLANKS_BETWEEN, " ", text), " ")


def lines(text: str) -> list[str]:
    r"""What BufferedReader.readLine gives: ends of lines are \n, \r and \r\n, not U+0085, U+2028 and the like."""
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not found[-1]:
        found.pop()
    return found


def equals_ignore_case(one: str, other: str) -> bool:
    """String.equalsIgnoreCase: character by character, whatever the locale; none becomes two."""
    return len(one) == len(other) and all(map(_same_letter, one, other))


def _same_letter(one: str, other: str) -> bool:
    if one == other:
        return True
    upper_one, upper_other = _upper(one), _upper(other)
    return upper_one == upper_other or upper_one.lower()[:1] == upper_other.lower()[:1]


def _upper(letter: str) -> str:
    changed = letter.upper()
    return changed if len(changed) == 1 else letter


def parse_boolean(text: str | None) -> bool:
    """Boolean.parseBoolean: whether it is "true" in any case; blanks around it make it false."""
    return text is not None and equals_ignore_case(text, "true")
