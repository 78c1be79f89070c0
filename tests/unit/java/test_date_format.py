"""SimpleDateFormat: what patterns mean, and which are none."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.java.calendar import civil_from_days, days_from_civil
from pkafka.java.date_format import DateFormatError, SimpleDateFormat

MOMENT = 1_234_567_890_123  # Friday 13 February 2009, 23:31:30.123
DAYS = st.integers(-10_000_000, 10_000_000)


@given(DAYS)
def test_days_have_one_date_each(day: int) -> None:
    assert days_from_civil(*civil_from_days(day)) == day


@given(st.dates(min_value=datetime.date(1582, 10, 15)))
def test_dates_are_gregorian_from_1582_on(date: datetime.date) -> None:
    assert civil_from_days(date.toordinal() - 719_163) == (date.year, date.month, date.day)


def test_the_day_before_the_gregorian_calendar_is_of_the_julian_one() -> None:
    assert civil_from_days(-141_428) == (1582, 10, 4)
    assert civil_from_days(-141_427) == (1582, 10, 15)
    assert days_from_civil(1, 1, 1) == -719_164
    assert civil_from_days(-719_165) == (0, 12, 31)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "2009-02-13T23:31:30.123Z"),
        ("yy/M/d", "09/2/13"),
        ("MMM MMMM LLL L", "Feb February Feb 2"),
        ("EEE EEEE E u", "Fri Friday Fri 5"),
        ("hh:mm a KK k H", "11:31 PM 11 23 23"),
        ("D DDD F W w YYYY", "44 044 2 2 7 2009"),
        ("z zzzz Z X XX XXX", "UTC Coordinated Universal Time +0000 Z Z Z"),
        ("G '' 'o''clock'", "AD ' o'clock"),
        ("é-SSSSS", "é-00123"),
    ],
)
def test_letters_of_patterns(pattern: str, text: str) -> None:
    assert SimpleDateFormat(pattern).format(MOMENT) == text


@pytest.mark.parametrize(("millis", "text"), [(0, "12 AM 0 24 0"), (43_200_000, "12 PM 0 12 12")])
def test_midnight_and_noon(millis: int, text: str) -> None:
    assert SimpleDateFormat("h a K k H").format(millis) == text


def test_a_week_belongs_to_the_year_of_its_saturday() -> None:
    format = SimpleDateFormat("YYYY w")
    assert format.format(days_from_civil(2008, 12, 27) * 86_400_000) == "2008 52"
    assert format.format(days_from_civil(2008, 12, 28) * 86_400_000) == "2009 1"


@pytest.mark.parametrize(
    ("pattern", "message"), [("b", "Illegal pattern character 'b'"), ("'a", "Unterminated quote")]
)
def test_what_is_no_pattern_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(DateFormatError, match=message):
        SimpleDateFormat(pattern)


@given(st.integers(-60_000_000_000_000, 250_000_000_000_000))
def test_what_is_written_is_read(millis: int) -> None:
    format = SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss.SSSX G")
    assert format.parse(format.format(millis)) == millis


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yyyyMMdd", "20090213", "2009-02-13 00:00"),
        ("yyyy-MM-dd", "2009-2-3 and more", "2009-02-03 00:00"),
        ("yyyy-MM-dd", "2009-14-32", "2010-03-04 00:00"),
        ("EEE, dd MMM yyyy hh:mm a", "fri, 13 february 2009 12:05 pm", "2009-02-13 12:05"),
        ("yyyy D", "2009 44", "2009-02-13 00:00"),
        ("yyyy-MM-dd HH:mm Z", "2009-02-13 23:31 +0130", "2009-02-13 22:01"),
        ("yyyy-MM-dd HH:mm z", "2009-02-13 23:31 EST", "2009-02-14 04:31"),
        ("yyyy-MM-dd HH:mm z", "2009-02-13 23:31 GMT-1:00", "2009-02-14 00:31"),
        ("yyyy-MM-dd HH:mm XXX", "2009-02-13 23:31 -02:00", "2009-02-14 01:31"),
        ("kk:mm", "24:10", "1970-01-01 00:10"),
        ("HH:mm hh a", "05:10 07 PM", "1970-01-01 19:10"),
        ("yy", "05", "2005-01-01 00:00"),
        ("yy", "95", "1995-01-01 00:00"),
        ("yy", "2005", "2005-01-01 00:00"),
    ],
)
def test_reading_is_lenient(pattern: str, text: str, expected: str) -> None:
    # A hundred years from 1946 on, as in the year 2026.
    read = SimpleDateFormat(pattern, century_start_ms=days_from_civil(1946, 6, 1) * 86_400_000).parse(text)
    assert SimpleDateFormat("yyyy-MM-dd HH:mm").format(read) == expected


@pytest.mark.parametrize(("text", "year"), [("46-05-31", 2046), ("46-06-01", 1946), ("45-12-31", 2045)])
def test_years_of_two_digits_are_of_the_century_around(text: str, year: int) -> None:
    format = SimpleDateFormat("yy-MM-dd", century_start_ms=days_from_civil(1946, 6, 1) * 86_400_000)
    assert civil_from_days(format.parse(text) // 86_400_000)[0] == year


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2009/02/13"),
        ("yyyyMMdd", "200902"),
        ("HH", ""),
        ("HH", "  "),
        ("MMM", "foo"),
        ("a", "xm"),
        ("Z", "+01"),
        ("XXX", "+0100"),
        ("X", "1"),
        ("z", "Mars"),
        ("yyyy w", "2009 7"),
        ("EEE", "Fri"),
    ],
)
def test_what_does_not_match_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(DateFormatError):
        SimpleDateFormat(pattern).parse(text)
