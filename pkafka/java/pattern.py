r"""java.util.regex.Pattern: what it accepts and what that matches, by means of Python's re.

Much is written the same way and read differently: ``a{,2}`` and ``{`` are errors in Java, ``[a-z&&[^x]]`` is an
intersection, ``\d`` and ``(?i)`` are of ASCII, ``(?i)`` may stand anywhere, ``(?<name>...)`` is a group, ``\p{L}``,
``\h``, ``\Q...\E`` and ``\z`` exist. So the text is read by Java's grammar and written anew. What Python cannot match
is refused: a look behind of varying length, scripts and blocks of Unicode.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""A set of characters: first and last of each run, in order and apart from each other."""

_LAST: Final = sys.maxunicode
_LINE_ENDS: Final = r"\n\r\u0085\u2028\u2029"
_BEFORE_LAST_LINE_END: Final = r"(?=(?:\r\n|(?<!\r)\n|[\r\u0085\u2028\u2029])?\Z)"
_ESCAPED: Final = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_ANCHORS: Final = {
    "A": r"\A",
    "z": r"\Z",
    "Z": _BEFORE_LAST_LINE_END,
    "G": r"\A",
    "b": r"\b",
    "B": r"(?:\B|\A\Z)",
}
_REPEATED: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?\}", re.ASCII)
_GROUP_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_ALONE: Final = re.compile(
    r"[A-Za-z0-9]|\\[^A-Za-z0-9]|\[(?:[A-Za-z0-9-]|\\U[0-9a-f]{8})+\]", re.ASCII | re.DOTALL
)
_FLAGS: Final = "idmsuxU"
_REPEATS_MAX: Final = 2**31 - 1


class PatternError(ValueError):
    """The text is no regular expression of Java's, or one that cannot be had here."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Pattern.compile.

    Raises:
        PatternError: it is none.
    """
    translated = _Reader(text).pattern()
    try:
        return re.compile(translated)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"{error}: this cannot be matched here") from None


def split_by(pattern: re.Pattern[str], text: str) -> list[str]:
    """Pattern.split: nothing before a match of nothing at the beginning, and no empty pieces at the end."""
    pieces, start, at = [], 0, 0
    # Behind a match of nothing Java looks on at the next character; Python's finditer looks again at the same.
    while at <= len(text) and (found := pattern.search(text, at)) is not None:
        if found.end():
            pieces.append(text[start : found.start()])
            start = found.end()
        at = found.end() + (found.end() == found.start())
    if not start:
        return [text]
    pieces.append(text[start:])
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces


# -- sets of characters ------------------------------------------------------------------------------------


def _union(*sets: Ranges) -> Ranges:
    made: list[tuple[int, int]] = []
    for first, last in sorted(each for ranges in sets for each in ranges):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(made[-1][1], last))
        else:
            made.append((first, last))
    return tuple(made)


def _complement(ranges: Ranges) -> Ranges:
    made, start = [], 0
    for first, last in ranges:
        if first > start:
            made.append((start, first - 1))
        start = last + 1
    if start <= _LAST:
        made.append((start, _LAST))
    return tuple(made)


def _intersection(one: Ranges, other: Ranges) -> Ranges:
    return _complement(_union(_complement(one), _complement(other)))


def _chars(text: str) -> Ranges:
    return _union(tuple((ord(each), ord(each)) for each in text))


_DIGIT: Final[Ranges] = ((48, 57),)
_UPPER: Final[Ranges] = ((65, 90),)
_LOWER: Final[Ranges] = ((97, 122),)
_ALPHA: Final = _union(_UPPER, _LOWER)
_SPACE: Final[Ranges] = ((9, 13), (32, 32))
_HORIZONTAL: Final = _union(_chars(" \t\xa0\u1680\u180e\u202f\u205f\u3000"), ((0x2000, 0x200A),))
_VERTICAL: Final = _union(((10, 13),), _chars("\x85\u2028\u2029"))
_CLASSES: Final[dict[str, Ranges]] = {
    "d": _DIGIT,
    "s": _SPACE,
    "w": _union(_ALPHA, _DIGIT, _chars("_")),
    "h": _HORIZONTAL,
    "v": _VERTICAL,
}
_POSIX: Final[dict[str, Ranges]] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ((0, 127),),
    "Alpha": _ALPHA,
    "Digit": _DIGIT,
    "Alnum": _union(_ALPHA, _DIGIT),
    "Punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "Graph": ((33, 126),),
    "Print": ((32, 126),),
    "Blank": _chars(" \t"),
    "Cntrl": ((0, 31), (127, 127)),
    "XDigit": _union(_DIGIT, ((65, 70), (97, 102))),
    "Space": _SPACE,
}
_BY_CHARACTER: Final[dict[str, Callable[[str], bool]]] = {
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaAlphabetic": str.isalpha,
    "javaLetter": str.isalpha,
    "javaDigit": str.isdecimal,
    "javaLetterOrDigit": lambda each: each.isalpha() or each.isdecimal(),
    "isalphabetic": str.isalpha,
    "isletter": str.isalpha,
    "isdigit": str.isdecimal,
    "islowercase": str.islower,
    "isuppercase": str.isupper,
    "iswhite_space": str.isspace,
    "iswhitespace": str.isspace,
}
_CASED: Final = ("Lower", "Upper", "Lu", "Ll", "Lt", "javaLowerCase", "javaUpperCase")


@cache
def _where(name: str) -> Ranges | None:
    """The characters of a category of Unicode or of a property; None when there is none of that name."""
    wanted = _BY_CHARACTER.get(name) or _BY_CHARACTER.get(name.lower())
    if wanted is None:
        category = name.removeprefix("Is").removeprefix("general_category=").removeprefix("gc=")
        known = {unicodedata.category(chr(each)) for each in range(0x3000)} | {"Co", "Cs", "Lo"}
        if category == "LC":
            return _union(*(_where(each) or () for each in ("Lu", "Ll", "Lt")))
        if category not in known and category not in {each[0] for each in known}:
            return None
        return _scan(lambda each: unicodedata.category(each).startswith(category))
    return _scan(wanted)


def _scan(wanted: Callable[[str], bool]) -> Ranges:
    return _union(tuple((each, each) for each in range(_LAST + 1) if wanted(chr(each))))


def _any_case(ranges: Ranges, *, unicode: bool) -> Ranges:
    """With the other case of each letter: of ASCII alone, unless asked for all."""
    others = []
    for first, last in ranges:
        for each in range(first, min(last, _LAST if unicode else 127) + 1):
            letter = chr(each)
            others += [ord(other) for other in (letter.upper(), letter.lower()) if len(other) == 1]
    return _union(ranges, tuple((each, each) for each in others))


def _text_of(ranges: Ranges) -> str:
    """A class of Python's."""
    if not ranges:
        return "(?!)"
    if ranges == ((0, _LAST),):
        return r"[\s\S]"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    return "[" + "".join(f"{_code(first)}-{_code(last)}" for first, last in ranges) + "]"


def _code(character: int) -> str:
    letter = chr(character)
    return letter if letter.isascii() and letter.isalnum() else f"\\U{character:08x}"


# -- the grammar -------------------------------------------------------------------------------------------


class _Reader:
    """Reads a regular expression of Java's once, from its first character to its last."""

    def __init__(self, text: str) -> None:
        self._text = _without_quotations(text)
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = 0
        self._names: set[str] = set()

    def pattern(self) -> str:
        made = self._alternatives()
        if self._at < len(self._text):
            raise self._error("Unmatched closing ')'")
        return made

    def _error(self, problem: str) -> PatternError:
        return PatternError(f"{problem} near index {self._at}")

    def _peek(self) -> str:
        """The next character, "" at the end; blanks and comments do not count where (?x) says so."""
        while "x" in self._flags and self._at < len(self._text):
            if self._text[self._at] in " \t\n\x0b\f\r":
                self._at += 1
            elif self._text[self._at] == "#":
                while self._at < len(self._text) and self._text[self._at] not in "\n\r\u0085\u2028\u2029":
                    self._at += 1
            else:
                break
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str = "") -> str:
        found = self._text[self._at : self._at + 1]
        if not found or (expected and found != expected):
            raise self._error(f"{expected or 'More'} was expected")
        self._at += 1
        return found

    def _accept(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _alternatives(self) -> str:
        pieces: list[str] = []
        while True:
            next_one = self._peek()
            if next_one in ("", ")"):
                return "".join(pieces)
            if next_one == "|":
                self._at += 1
                pieces.append("|")
            elif next_one in "*+?":
                raise self._error(f"Dangling meta character '{next_one}'")
            else:
                atom = self._atom()
                if atom is not None:
                    pieces.append(self._repeated(atom))

    def _repeated(self, atom: str) -> str:
        sign = self._peek()
        if sign and sign in "*+?":
            self._at += 1
            quantifier = sign
        elif sign == "{":
            quantifier = self._bounds()
        else:
            return atom
        if self._accept("?"):
            quantifier += "?"
        elif self._accept("+"):
            quantifier += "+"
        return f"{atom if _ALONE.fullmatch(atom) else f'(?:{atom})'}{quantifier}"

    def _bounds(self) -> str:
        found = _REPEATED.match(self._text, self._at)
        if found is None:
            digit = self._text[self._at + 1 : self._at + 2]
            raise self._error("Unclosed counted closure" if digit.isdecimal() else "Illegal repetition")
        least, most = int(found[1]), int(found[3] or found[1])
        if max(least, most) > _REPEATS_MAX or (found[3] and most < least):
            raise self._error("Illegal repetition range")
        self._at = found.end()
        return found[0]

    def _atom(self) -> str | None:
        """What a quantifier could be for; None: only flags, which have none."""
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return _text_of(self._class())
        if character == "\\":
            return self._escape()
        if character == "{":
            self._at -= 1  # so many times nothing, which Java takes
            return ""
        if character == ".":
            if "s" in self._flags:
                return r"[\s\S]"
            return r"[^\n]" if "d" in self._flags else f"[^{_LINE_ENDS}]"
        if character == "^":
            return self._line_start()
        if character == "$":
            return self._line_end()
        return self._one(ord(character))

    def _line_start(self) -> str:
        if "m" not in self._flags:
            return r"\A"
        ends = r"\n" if "d" in self._flags else rf"(?!(?<=\r)\n)(?<=[{_LINE_ENDS}])"
        return r"(?:\A|(?<=\n))(?!\Z)" if "d" in self._flags else rf"(?:\A|{ends})(?!\Z)"

    def _line_end(self) -> str:
        is_unix = "d" in self._flags
        if "m" in self._flags:
            return r"(?=\n|\Z)" if is_unix else r"(?:(?=[\r\u0085\u2028\u2029])|(?<!\r)(?=\n)|\Z)"
        return r"(?=\n?\Z)" if is_unix else _BEFORE_LAST_LINE_END

    def _one(self, character: int) -> str:
        return _text_of(self._cased(((character, character),)))

    def _cased(self, ranges: Ranges) -> Ranges:
        return _any_case(ranges, unicode="u" in self._flags) if "i" in self._flags else ranges

    # -- groups

    def _group(self) -> str | None:
        flags = self._flags
        if not self._accept("?"):
            self._groups += 1
            opening = "("
        else:
            opening = self._special_group()
            if not opening:  # (?i), for the rest of the group around it
                return None
        inside = self._alternatives()
        if not self._accept(")"):
            raise self._error("Unclosed group")
        self._flags = flags
        return f"{opening}{inside})"

    def _special_group(self) -> str:
        for opening in (":", "=", "!", ">", "<=", "<!"):
            if self._accept(opening):
                return f"(?{opening}"
        if self._accept("<"):
            found = _GROUP_NAME.match(self._text, self._at)
            if found is None or not self._text.startswith(">", found.end()):
                raise self._error("a group's name is letters and digits, and then >")
            if found[0] in self._names:
                raise self._error(f"Named capturing group <{found[0]}> is already defined")
            self._at = found.end() + 1
            self._names.add(found[0])
            self._groups += 1
            return f"(?P<{found[0]}>"
        on, off, is_on = set[str](), set[str](), True
        while (letter := self._take()) not in ":)":
            if letter == "-" and is_on:
                is_on = False
            elif letter in _FLAGS:
                (on if is_on else off).add(letter)
            else:
                raise self._error("Unknown inline modifier")
        if "U" in on:
            raise self._error("(?U) is not known here")
        self._flags = (self._flags | on) - off
        return "(?:" if letter == ":" else ""

    # -- escapes

    def _escape(self) -> str:
        letter = self._take()
        if letter in _ANCHORS:
            if letter == "b" and self._accept("{g}"):
                raise self._error(r"\b{g} is not known here")
            return _ANCHORS[letter]
        if letter == "R":
            return r"(?:\r\n|[\n\x0b\f\r\u0085\u2028\u2029])"
        if letter == "k":
            return self._named_reference()
        if letter in "123456789":
            return self._reference(letter)
        return _text_of(self._set_of(letter))

    def _named_reference(self) -> str:
        end = self._text.find(">", self._at)
        name = self._text[self._at + 1 : end]
        if not self._accept("<") or name not in self._names:
            raise self._error("\\k is not followed by <name> of a group before it")
        self._at = end + 1
        return f"(?P={name})"

    def _reference(self, digit: str) -> str:
        number = int(digit)
        while self._peek().isascii() and self._peek().isdigit():
            longer = number * 10 + int(self._peek())
            if longer > self._groups:
                break
            number = longer
            self._at += 1
        # To a group that is not there, or not there yet: it never matches.
        return f"(?:\\{number})" if number <= self._groups else "(?!)"

    def _set_of(self, letter: str) -> Ranges:
        """What an escape that stands for characters stands for, in a class or outside of one."""
        if letter.lower() in _CLASSES:
            ranges = _CLASSES[letter.lower()]
            return ranges if letter.islower() else _complement(ranges)
        if letter in "pP":
            ranges = self._property()
            return ranges if letter == "p" else _complement(ranges)
        character = self._character(letter)
        return self._cased(((character, character),))

    def _character(self, letter: str) -> int:
        if letter in _ESCAPED:
            return _ESCAPED[letter]
        if letter == "0":
            found = re.compile("[0-3][0-7]{2}|[0-7]{1,2}").match(self._text, self._at)
            if found is None:
                raise self._error("Illegal octal escape sequence")
            self._at = found.end()
            return int(found[0], 8)
        if letter == "c":
            return ord(self._take()) ^ 64
        if letter == "x" or letter == "u":
            return self._hexadecimal(letter)
        if letter == "N":
            end = self._text.find("}", self._at)
            try:
                character = ord(unicodedata.lookup(self._text[self._at + 1 : end]))
            except (KeyError, TypeError):
                raise self._error("Unknown character name") from None
            self._at = end + 1
            return character
        if letter.isascii() and letter.isalpha():
            raise self._error("Illegal/unsupported escape sequence")
        return ord(letter)

    def _hexadecimal(self, letter: str) -> int:
        form = r"[0-9a-fA-F]{4}" if letter == "u" else r"\{([0-9a-fA-F]+)\}|[0-9a-fA-F]{2}"
        found = re.compile(form).match(self._text, self._at)
        if found is None:
            kind = "Unicode" if letter == "u" else "hexadecimal"
            raise self._error(f"Illegal {kind} escape sequence")
        self._at = found.end()
        character = int(found[0].strip("{}"), 16)
        if character > _LAST:
            raise self._error("Hexadecimal codepoint is too big")
        following = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(self._text, self._at)
        if letter == "u" and 0xD800 <= character < 0xDC00 and following is not None:
            self._at = following.end()
            return 0x10000 + ((character - 0xD800) << 10) + int(following[1], 16) - 0xDC00
        return character

    def _property(self) -> Ranges:
        if self._accept("{"):
            end = self._text.find("}", self._at)
            if end < 0:
                raise self._error("Unclosed character family")
            name = self._text[self._at : end]
            self._at = end + 1
        else:
            name = self._take()
        if "i" in self._flags and name in _CASED:
            return _union(*(_POSIX.get(each) or _where(each) or () for each in _cases_of(name)))
        found = _POSIX.get(name) or _where(name)
        if found is None:
            raise self._error(f"Unknown character property name {{{name}}}, or one that is not known here")
        return found

    # -- classes

    def _class(self) -> Ranges:
        """What stands between [ and ]: unions, and intersections of these."""
        is_negated = self._accept("^")
        parts: list[Ranges] = []
        union: Ranges | None = None
        while True:
            character = self._peek()
            if not character:
                raise self._error("Unclosed character class")
            if character == "]" and (union is not None or parts):
                self._at += 1
                break
            if self._accept("&&"):
                while self._accept("&"):
                    pass
                if union is not None:
                    parts.append(union)
                union = None
                if self._peek() == "]" and not parts:
                    raise self._error("Bad class syntax")
                continue
            self._at += 1
            item = self._class() if character == "[" else self._item(character)
            union = item if union is None else _union(union, item)
        if union is not None:
            parts.append(union)
        made = parts[0]
        for each in parts[1:]:
            made = _intersection(made, each)
        return _complement(made) if is_negated else made

    def _item(self, character: str) -> Ranges:
        """A character, a range or an escape in a class."""
        if character == "\\":
            letter = self._take()
            if letter.lower() in _CLASSES or letter in "pP":
                return self._set_of(letter)
            first = self._character(letter)
        else:
            first = ord(character)
        rest = self._text[self._at : self._at + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] in "[]":
            return self._cased(((first, first),))
        self._at += 1
        end = self._take()
        last = self._character(self._take()) if end == "\\" else ord(end)
        if last < first:
            raise self._error("Illegal character range")
        return self._cased(((first, last),))


def _cases_of(name: str) -> Iterable[str]:
    if name in ("Lower", "Upper"):
        return ("Lower", "Upper")
    return ("javaLowerCase", "javaUpperCase") if name.startswith("java") else ("Lu", "Ll", "Lt")


def _without_quotations(text: str) -> str:
    r"""With what stands between \Q and \E escaped character by character."""
    made, at = [], 0
    while at < len(text):
        if text.startswith(r"\Q", at):
            end = text.find(r"\E", at)
            quoted = text[at + 2 : end if end >= 0 else len(text)]
            made += [
                each if (each.isascii() and each.isalnum()) or not each.isascii() else f"\\{each}"
                for each in quoted
            ]
            at = end + 2 if end >= 0 else len(text)
        else:
            width = 2 if text[at] == "\\" else 1
            made.append(text[at : at + width])
            at += width
    return "".join(made)
