"""pk-perf-test: how times and shares are written, and what a report ends the command with."""

import signal
from typing import Any

import click
import pytest

from pkafka.cli import perf_test
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.signals import Signals
from pkafka.tools.load.perf_test.plan import Plan

PLAN = Plan("t", duration_s=1, max_error_rate=0.1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5), ("0.5", 0.5), ("250ms", 0.25), ("1.5s", 1.5), ("2m", 120), ("1h", 3600)]
)
def test_times(text: str, seconds: float) -> None:
    assert perf_test._seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "soon", "-5", "5d", "1.2.3", "5 s", "1e3", "nan", "inf"])
def test_no_times(text: str) -> None:
    with pytest.raises(click.UsageError, match="is no time"):
        perf_test._seconds(text)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), ("150%", 1.5), ("0", 0)])
def test_shares(text: str, share: float) -> None:
    assert perf_test._share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "%", "-5%", "much", "inf", "nan"])
def test_no_shares(text: str) -> None:
    with pytest.raises(click.UsageError, match="is no share"):
        perf_test._share(text)


def report(*, failed: int = 0, missing: int = 0, status: str = "complete") -> dict[str, Any]:
    row = {"side": "produce", "records": 90, "warm_up_records": 0, "failed": failed}
    return {"results": [row], "missing": missing, "status": status, "error": "why"}


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        (report(), ExitStatus.OK, ""),
        (report(failed=10), ExitStatus.OK, ""),
        (report(failed=11), ExitStatus.FAILURE, "11 of 101 records could not be sent: why"),
        (report(missing=1), ExitStatus.FAILURE, "1 acknowledged records were not read"),
        (report(status="failed"), ExitStatus.FAILURE, "why"),
    ],
)
def test_what_a_report_ends_with(
    found: dict[str, Any], status: ExitStatus, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perf_test._status(found, PLAN, Signals()) is status
    assert capsys.readouterr().err == (f"pk-perf-test: {said}\n" if said else "")


def test_a_signal_is_what_a_report_ends_with_whatever_it_says() -> None:
    with Signals() as signals:
        signal.raise_signal(signal.SIGTERM)
        assert signals.came()
        assert perf_test._status(report(failed=50), PLAN, signals) is ExitStatus.TERMINATED
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
