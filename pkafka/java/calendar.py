"""java.util.GregorianCalendar in UTC: the Julian calendar before 15 October 1582, the Gregorian one from then on."""

from typing import Final

MILLIS_PER_DAY: Final = 86_400_000
_CUTOVER: Final = -141_427
"""The first day of the Gregorian calendar, in days since 1970."""
_CUTOVER_YEAR: Final = 1582
_GREGORIAN_SHIFT: Final = 719_468  # days from 1 March of the year 0 to 1970
_JULIAN_SHIFT: Final = 719_470
_DAYS_OF_ERA: Final = 146_097
_DAYS_OF_FOUR_YEARS: Final = 1461


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day.

    Args:
        days: since 1970.

    Returns:
        The year is 0 for 1 BC, and below 0 before; months and days begin with 1.
    """
    if days >= _CUTOVER:
        era, of_era = divmod(days + _GREGORIAN_SHIFT, _DAYS_OF_ERA)
        year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
        of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        year = year_of_era + era * 400
    else:
        era, of_era = divmod(days + _JULIAN_SHIFT, _DAYS_OF_FOUR_YEARS)
        year_of_era = (of_era - of_era // 1460) // 365
        of_year = of_era - 365 * year_of_era
        year = year_of_era + era * 4
    # Years begin in March here, so that the day that some years have more is their last.
    month_from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + (3 if month_from_march < 10 else -9)
    return year + (month <= 2), month, day


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date, leniently: month 13 is next January, day 0 the end of the month before."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    gregorian = _gregorian_days(year, month) + day - 1
    if year > _CUTOVER_YEAR or (year == _CUTOVER_YEAR and gregorian >= _CUTOVER):
        return gregorian
    return _julian_days(year, month) + day - 1


def _gregorian_days(year: int, month: int) -> int:
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    days = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + _days_from_march(month)
    return era * _DAYS_OF_ERA + days - _GREGORIAN_SHIFT


def _julian_days(year: int, month: int) -> int:
    year -= month <= 2
    era, year_of_era = divmod(year, 4)
    return era * _DAYS_OF_FOUR_YEARS + year_of_era * 365 + _days_from_march(month) - _JULIAN_SHIFT


def _days_from_march(month: int) -> int:
    return (153 * (month + (9 if month <= 2 else -3)) + 2) // 5
