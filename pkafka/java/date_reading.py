"""How SimpleDateFormat reads the fields of a date, leniently, and what time they make."""

from collections.abc import Sequence
from typing import Final

from pkafka.java.calendar import MILLIS_PER_DAY, civil_from_days, days_from_civil

_MONTH_NAMES: Final = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_DAY_NAMES: Final = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_ZONES: Final = {
    "coordinated universal time": 0,
    "utc": 0,
    "est": -5,
    "edt": -4,
    "cst": -6,
    "cdt": -5,
    "mst": -7,
    "mdt": -6,
    "pst": -8,
    "pdt": -7,
}
_HALF_DAYS: Final = ("am", "pm")


class UnreadableError(ValueError):
    """The text has no such field here."""


class Fields:
    """What was read of a date, in that order: of two fields that contradict each other, the later one counts."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}
        self.offset_ms = 0
        self.ambiguous_year = False

    def set(self, field: str, value: int) -> None:
        """Note a field; it is the latest now."""
        self._values.pop(field, None)
        self._values[field] = value

    def millis(self, century_start_ms: int) -> int:
        """The time, in milliseconds since 1970."""
        if self.ambiguous_year:
            self._place_in_century(century_start_ms)
        return _wrapped(self._days() * MILLIS_PER_DAY + self._of_day() - self.offset_ms, 64)

    def _place_in_century(self, start_ms: int) -> None:
        start_year = civil_from_days(start_ms // MILLIS_PER_DAY)[0]
        short = self._values["y"]
        year = start_year // 100 * 100 + short + (100 if short < start_year % 100 else 0)
        self._values["y"] = year
        if short == start_year % 100:
            self.ambiguous_year = False
            if self.millis(start_ms) < start_ms:
                self._values["y"] = year + 100
        self.ambiguous_year = False

    def _days(self) -> int:
        values = self._values
        year = values.get("y", 1970)
        if values.get("G") == 0:
            year = 1 - year
        order = list(values)
        if "D" in values and ("d" not in values or order.index("D") > order.index("d")):
            return days_from_civil(year, 1, 1) + values["D"] - 1
        return days_from_civil(year, values.get("M", 0) + 1, values.get("d", 1))

    def _of_day(self) -> int:
        values = self._values
        smaller = values.get("m", 0) * _MINUTE_MS + values.get("s", 0) * 1000 + values.get("S", 0)
        return self._hours() * _HOUR_MS + smaller

    def _hours(self) -> int:
        values = self._values
        order = list(values)
        if "H" in values:
            halves = {"K", "a"} <= values.keys()
            if not halves or order.index("H") > max(order.index("K"), order.index("a")):
                return values["H"]
        return values.get("K", 0) + 12 * values.get("a", 0)


def read_field(
    fields: Fields, letter: str, count: int, text: str, at: int, exactly: int | None, *, before_minus: bool
) -> int:
    """Read one field.

    Args:
        letter: of the pattern, ``count`` times.
        at: where it begins in the text; blanks are passed over.
        exactly: how many characters it has, when digits of another field follow.
        before_minus: whether the pattern has a minus after it, which is then no sign.

    Returns:
        Where it ends.

    Raises:
        UnreadableError: it is not there.
    """
    start = at
    while at < len(text) and text[at] in " \t":
        at += 1
    if at >= len(text):
        raise UnreadableError
    if letter in "GEaML" and not (letter in "ML" and count <= 2):
        return _read_name(fields, letter, text, start)  # blanks are no part of names
    if letter in "zZX":
        return _read_zone(fields, letter, count, text, at)
    end = None if exactly is None else start + exactly
    if end is not None and end > len(text):
        raise UnreadableError
    value, end_of_number = _read_number(text, at, end, before_minus=before_minus)
    if letter == "y":
        _set_year(fields, value, count, text[at:end_of_number])
    else:
        _set_number(fields, letter, value)
    return end_of_number


def _set_year(fields: Fields, value: int, count: int, digits: str) -> None:
    fields.ambiguous_year = count <= 2 and len(digits) == 2 and digits.isdecimal()
    fields.set("y", value)


def _set_number(fields: Fields, letter: str, value: int) -> None:
    match letter:
        case "M" | "L":
            fields.set("M", value - 1)
        case "k":
            fields.set("H", 0 if value == 24 else value)
        case "h":
            fields.set("K", 0 if value == 12 else value)
        case _:
            fields.set(letter, value)


def _read_number(text: str, at: int, end: int | None, *, before_minus: bool) -> tuple[int, int]:
    last = len(text) if end is None else end
    digits_at = at + (at < last and text[at] == "-")
    stop = digits_at
    while stop < last and text[stop].isdecimal():
        stop += 1
    if stop == digits_at:
        raise UnreadableError
    value = int(text[digits_at:stop])
    # Number.intValue: of a long its last 32 bits, of a double the largest.
    value = _wrapped(value, 32) if value < 1 << 63 else (1 << 31) - 1
    if digits_at == at:
        return value, stop
    if before_minus and stop < len(text) and text[stop] != "-":
        return value, stop - 1
    return -value, stop


def _wrapped(number: int, bits: int) -> int:
    """The lowest bits of a number, with a sign."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _read_name(fields: Fields, letter: str, text: str, at: int) -> int:
    match letter:
        case "G":
            index, end = _longest(("bc", "ad"), text, at)
        case "a":
            index, end = _longest(_HALF_DAYS, text, at)
        case "E":
            index, end = _longest([*_DAY_NAMES, *(name[:3] for name in _DAY_NAMES)], text, at)
        case _:
            index, end = _longest([*_MONTH_NAMES, *(name[:3] for name in _MONTH_NAMES)], text, at)
            letter, index = "M", index % 12
    fields.set(letter, index)
    return end


def _longest(names: Sequence[str], text: str, at: int) -> tuple[int, int]:
    lowered = text[at : at + 30].lower()
    found = [(len(name), index) for index, name in enumerate(names) if lowered.startswith(name)]
    if not found:
        raise UnreadableError
    length, index = max(found)
    return index, at + length


def _read_zone(fields: Fields, letter: str, count: int, text: str, at: int) -> int:
    if letter == "X":
        if text[at] == "Z":
            return at + 1
        return _read_offset(fields, text, at, minutes=count > 1, colon=count == 3)
    if text[at] in "+-":
        return _read_offset(fields, text, at, minutes=True, colon=False)
    if text[at : at + 3].lower() == "gmt":
        at += 3
        if at < len(text) and text[at] in "+-":
            return _read_offset(fields, text, at, minutes=True, colon=True)
        return at
    index, end = _longest(list(_ZONES), text, at)
    fields.offset_ms = list(_ZONES.values())[index] * _HOUR_MS
    return end


def _read_offset(fields: Fields, text: str, at: int, *, minutes: bool, colon: bool) -> int:
    if text[at] not in "+-":
        raise UnreadableError
    sign = -1 if text[at] == "-" else 1
    at += 1
    hours, at = _two_digits(text, at, or_one=colon)
    if hours > 23:
        raise UnreadableError
    spare = 0
    if minutes:
        if colon:
            if text[at : at + 1] != ":":
                raise UnreadableError
            at += 1
        spare, at = _two_digits(text, at, or_one=False)
        if spare > 59:
            raise UnreadableError
    fields.offset_ms = sign * (hours * _HOUR_MS + spare * _MINUTE_MS)
    return at


def _two_digits(text: str, at: int, *, or_one: bool) -> tuple[int, int]:
    digits = text[at : at + 2]
    if len(digits) == 2 and digits.isascii() and digits.isdigit():
        return int(digits), at + 2
    if or_one and digits[:1].isascii() and digits[:1].isdigit():
        return int(digits[0]), at + 1
    raise UnreadableError
