"""What int() refuses is a digit for str.isdigit(), such as a superscript two: who asks that asks isascii() too."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_digits_are_decimal_or_ascii() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "pkafka").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ".isdigit()" in line and ".isascii()" not in line
    ]
    assert found == []
