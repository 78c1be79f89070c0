"""pk-top without a cluster: what fits on a screen, and wrong flags."""

import pytest

from pkafka.cli import top
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.top import _shares, _short


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0 k"),
        (123_456, "123 k"),
        (5_400_000.0, "5.4 M"),
        (None, "-"),
        (2e15, "2000.0 T"),
    ],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert _short(value) == text


def test_a_screen_is_shared_and_small_tables_are_shown_whole() -> None:
    counts = {"brokers": 3, "topics": 500, "groups": 40}
    assert _shares(counts, 1000) == counts
    assert _shares(counts, 23) == {"brokers": 3, "groups": 10, "topics": 10}
    assert _shares(counts, 0) == {"brokers": 3, "groups": 3, "topics": 3}


@pytest.mark.parametrize(
    "flags", [["--interval", "0"], ["--interval", "x"], ["--group", "("], ["--count", "0"]]
)
def test_wrong_flags_are_usage_errors(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert top.main.run(["--bootstrap-server", "127.0.0.1:1", *flags]) == ExitStatus.USAGE
    assert capsys.readouterr().err.count("\n") == 1
