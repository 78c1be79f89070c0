"""java.text.SimpleDateFormat, in UTC and with English names.

A format is read into pieces; what Java refuses is refused. Weeks begin on Sunday, and the first week of a year has one
day of it at least, as in the United States. Reading dates by weeks, or by a name of a day alone, is refused here, and
so are names of time zones but those of UTC and of the United States.
"""

from dataclasses import dataclass
from typing import Final

from pkafka.java.calendar import MILLIS_PER_DAY, civil_from_days, days_from_civil
from pkafka.java.date_reading import Fields, UnreadableError, read_field

LETTERS: Final = "GyMdkHmsSEDFwWahKzZYuXL"
MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ZONE_LETTERS_MAX: Final = 3
_OF_WEEKS: Final = frozenset("YwWF")
_NUMBERS: Final = frozenset("ydkHmsSDFwWhKYu")


class DateFormatError(ValueError):
    """The pattern is none of Java's, or the text does not match it."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands for itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Element:
    """A letter of the pattern, and how often it stands there."""

    letter: str
    count: int

    @property
    def is_number(self) -> bool:
        """Whether it is written in digits."""
        return self.letter in _NUMBERS or (self.letter in "ML" and self.count <= 2)


class SimpleDateFormat:
    """A pattern of Java's.

    Args:
        pattern: as ``yyyy-MM-dd``.
        century_start_ms: where the hundred years begin of which years of two digits are, in milliseconds since 1970;
            Java's begin eighty years ago.

    Raises:
        DateFormatError: it is none of Java's.
    """

    def __init__(self, pattern: str, *, century_start_ms: int = 0) -> None:
        self.pattern: Final = pattern
        self._century_start_ms = century_start_ms
        self._pieces = _pieces_of(pattern)

    def format(self, millis: int) -> str:
        """The text of a time, in milliseconds since 1970."""
        moment = _Moment(millis)
        return "".join(each.text if isinstance(each, Literal) else moment.text(each) for each in self._pieces)

    def parse(self, text: str) -> int:
        """The time that a text begins with, in milliseconds since 1970; what follows is not looked at.

        Raises:
            DateFormatError: it does not match, or such dates cannot be read here.
        """
        self._refuse_weeks()
        fields, at = Fields(), 0
        for index, piece in enumerate(self._pieces):
            if isinstance(piece, Literal):
                if not text.startswith(piece.text, at):
                    raise DateFormatError(f'Unparseable date: "{text}"')
                at += len(piece.text)
                continue
            following = self._pieces[index + 1] if index + 1 < len(self._pieces) else None
            exactly = piece.count if isinstance(following, Element) and following.is_number else None
            before_minus = isinstance(following, Literal) and following.text.startswith("-")
            try:
                at = read_field(
                    fields, piece.letter, piece.count, text, at, exactly, before_minus=before_minus
                )
            except UnreadableError:
                raise DateFormatError(f'Unparseable date: "{text}"') from None
        return fields.millis(self._century_start_ms)

    def _refuse_weeks(self) -> None:
        letters = {each.letter for each in self._pieces if isinstance(each, Element)}
        if letters & _OF_WEEKS or (letters & {"E", "u"} and not letters & {"d", "D"}):
            raise DateFormatError("dates cannot be read by weeks here")


def _pieces_of(pattern: str) -> list[Literal | Element]:
    pieces: list[Literal | Element] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            text, at = _quoted(pattern, at)
        elif letter.isascii() and letter.isalpha():
            if letter not in LETTERS:
                raise DateFormatError(f"Illegal pattern character '{letter}'")
            end = at
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            if letter == "X" and end - at > _ZONE_LETTERS_MAX:
                raise DateFormatError(f"invalid ISO 8601 format: length={end - at}")
            pieces.append(Element(letter, end - at))
            at = end
            continue
        else:
            text, at = letter, at + 1
        _add_literal(pieces, text)
    return pieces


def _add_literal(pieces: list[Literal | Element], text: str) -> None:
    if pieces and isinstance(pieces[-1], Literal):
        pieces[-1] = Literal(pieces[-1].text + text)
    elif text:
        pieces.append(Literal(text))


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    """The text of a quotation that begins at ``at``, and where it ends; two quotes are one, inside and outside."""
    if pattern.startswith("''", at):
        return "'", at + 2
    text, at = "", at + 1
    while at < len(pattern):
        if pattern.startswith("''", at):
            text, at = text + "'", at + 2
        elif pattern[at] == "'":
            return text, at + 1
        else:
            text, at = text + pattern[at], at + 1
    raise DateFormatError("Unterminated quote")


class _Moment:
    """A time, in the fields of a calendar."""

    def __init__(self, millis: int) -> None:
        self.days, self.of_day = divmod(millis, MILLIS_PER_DAY)
        self.year, self.month, self.day = civil_from_days(self.days)

    def text(self, element: Element) -> str:
        """What stands for a letter of the pattern."""
        letter, count = element.letter, element.count
        if letter in "yY":
            year = self._shown_year() if letter == "y" else self._week_year()
            return f"{year % 100:02}" if count == 2 else f"{year:0{count}}"
        if letter in "ML" and count >= 3:
            return MONTHS[self.month - 1][: None if count >= 4 else 3]
        named = self._named(letter, count)
        return f"{self._number(letter):0{count}}" if named is None else named

    def _named(self, letter: str, count: int) -> str | None:
        match letter:
            case "G":
                return "AD" if self.year > 0 else "BC"
            case "E":
                return DAYS[self._weekday()][: None if count >= 4 else 3]
            case "a":
                return "AM" if self.of_day < MILLIS_PER_DAY // 2 else "PM"
            case "z":
                return "Coordinated Universal Time" if count >= 4 else "UTC"
            case "Z":
                return "+0000"
            case "X":
                return "Z"
        return None

    def _number(self, letter: str) -> int:
        hour = self.of_day // 3_600_000
        match letter:
            case "M" | "L":
                return self.month
            case "d":
                return self.day
            case "H":
                return hour
            case "k":
                return hour or 24
            case "K":
                return hour % 12
            case "h":
                return hour % 12 or 12
            case "m":
                return self.of_day // 60_000 % 60
            case "s":
                return self.of_day // 1000 % 60
            case "S":
                return self.of_day % 1000
            case "u":
                return self._weekday() + 1
        return self._of_year_or_month(letter)

    def _of_year_or_month(self, letter: str) -> int:
        of_year = self.days - days_from_civil(self.year, 1, 1)
        match letter:
            case "D":
                return of_year + 1
            case "F":
                return (self.day - 1) // 7 + 1
            case "W":
                return (self.day - 1 + self._from_sunday(self.days - self.day + 1)) // 7 + 1
        if self._week_year() != self._shown_year():
            return 1
        return (of_year + self._from_sunday(self.days - of_year)) // 7 + 1

    def _shown_year(self) -> int:
        return self.year if self.year > 0 else 1 - self.year

    def _weekday(self) -> int:
        """Since Monday; 1 January 1970 was a Thursday."""
        return (self.days + 3) % 7

    @staticmethod
    def _from_sunday(days: int) -> int:
        return (days + 4) % 7

    def _week_year(self) -> int:
        sunday = self.days - self._from_sunday(self.days)
        return self.year + 1 if sunday + 6 >= days_from_civil(self.year + 1, 1, 1) else self._shown_year()
