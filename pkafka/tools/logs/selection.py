"""Which part of a log is wanted: ranges of offsets and of times, as a person writes them."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.records.batch import BatchHeader


class RangeError(PkafkaError):
    """A range is not written as one."""


class Selection(NamedTuple):
    """Which part of a log to show: offsets, and times in ms, from the first up to the second but without it.

    None is no bound.
    """

    offset_from: int | None = None
    offset_to: int | None = None
    time_from: int | None = None
    time_to: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self == EVERYTHING

    def may_have(self, header: BatchHeader) -> bool:
        """Whether a batch may hold a record that is wanted, as far as its header says."""
        # The offset of a wrapper of an old format is that of its last message; where it begins only its messages know.
        is_wrapper = header.magic < 2 and header.codec != 0
        return (
            (self.offset_from is None or header.last_offset >= self.offset_from)
            and (self.offset_to is None or is_wrapper or header.base_offset < self.offset_to)
            and (self.time_from is None or header.max_timestamp >= self.time_from)
            and (self.time_to is None or min(header.base_timestamp, header.max_timestamp) < self.time_to)
        )

    def has(self, offset: int | None, timestamp: int | None = None) -> bool:
        """Whether a record, or an entry of an index, is wanted. What is not known does not leave it out."""
        return _within(offset, self.offset_from, self.offset_to) and _within(
            timestamp, self.time_from, self.time_to
        )


def _within(value: int | None, first: int | None, end: int | None) -> bool:
    return value is None or ((first is None or value >= first) and (end is None or value < end))


EVERYTHING: Final = Selection()


def offset_range(text: str) -> tuple[int | None, int | None]:
    """``A:B``, ``A:`` or ``:B``.

    Raises:
        RangeError: it is none of them.
    """
    first, colon, end = text.partition(":")
    parts = [first.strip(), end.strip()]
    if not colon or not any(parts) or not all(map(_is_number, filter(None, parts))):
        raise RangeError(f"a range of offsets is A:B, A: or :B, not {text!r}")
    found = [int(part) if part else None for part in parts]
    if found[0] is not None and found[1] is not None and found[1] < found[0]:
        raise RangeError(f"the range of offsets {text} ends before it begins")
    return found[0], found[1]


def _is_number(text: str) -> bool:
    """Whether it is one from 0 on, and not beyond what an offset or a time can be."""
    return text.isdecimal() and len(text.lstrip("0")) <= _DIGITS_MAX


_DIGITS_MAX: Final = 19


def time_range(text: str) -> tuple[int | None, int | None]:
    """``A:B``, ``A:`` or ``:B``, in ms, each as a number of ms or as ISO 8601 (in UTC unless it says otherwise).

    An ISO time has colons of its own: the one between the two is that which leaves a time on either side.

    Raises:
        RangeError: it is none of them, or could be read in two ways.
    """
    found: list[tuple[int | None, int | None]] = []
    for place, letter in enumerate(text):
        if letter != ":":
            continue
        try:
            first, end = moment_ms(text[:place]), moment_ms(text[place + 1 :])
        except ValueError:
            continue
        if (first, end) != (None, None) and (first is None or end is None or first <= end):
            found.append((first, end))
    if len(found) != 1:
        what = "could be read in two ways" if found else "is none"
        raise RangeError(f"a range of times is A:B, A: or :B, each in ms or as ISO 8601; {text!r} {what}")
    return found[0]


def moment_ms(text: str) -> int | None:
    """A time in ms, written as a number of ms or as ISO 8601, in UTC unless it says otherwise; None for no text.

    Raises:
        ValueError: it is neither.
    """
    text = text.strip()
    if not text:
        return None
    if _is_number(text):
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
