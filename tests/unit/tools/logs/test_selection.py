"""Ranges as a person writes them."""

import pytest

from pkafka.tools.logs.selection import RangeError, offset_range, time_range

DAY = 1_704_067_200_000  # 2024-01-01


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3:9", (3, 9)), ("3:", (3, None)), (":9", (None, 9)), ("4:4", (4, 4)), (" 1 : 2 ", (1, 2))],
)
def test_ranges_of_offsets(text: str, expected: tuple[int | None, int | None]) -> None:
    assert offset_range(text) == expected


@pytest.mark.parametrize("text", ["", ":", "5", "a:b", "9:3", "1:2:3", "-1:4"])
def test_what_is_no_range_of_offsets(text: str) -> None:
    with pytest.raises(RangeError):
        offset_range(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000:2000", (1000, 2000)),
        ("1000:", (1000, None)),
        (":2024-01-01", (None, DAY)),
        ("2024-01-01:2024-01-02", (DAY, DAY + 86_400_000)),
        ("2024-01-01T10:30:00Z:2024-01-01T10:31:00.250Z", (DAY + 37_800_000, DAY + 37_860_250)),
        ("2024-01-01T10:30:", (DAY + 37_800_000, None)),
        ("2024-01-01T02:00+02:00:2024-01-01T00:30:00", (DAY, DAY + 1_800_000)),
        (":2024-01-01T10:30", (None, DAY + 37_800_000)),
        (f"2024-01-01T10:30:00:{DAY * 2}", (DAY + 37_800_000, DAY * 2)),
    ],
)
def test_ranges_of_times(text: str, expected: tuple[int | None, int | None]) -> None:
    assert time_range(text) == expected


@pytest.mark.parametrize("text", ["", ":", "5", "2024-01-01T10:30", "soon:later", "2024-01-02:2024-01-01"])
def test_what_is_no_range_of_times(text: str) -> None:
    with pytest.raises(RangeError, match="is none"):
        time_range(text)
