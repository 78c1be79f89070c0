"""What becomes of records that a step fails on."""

import threading
from collections.abc import Callable

import pytest

from pkafka.connect.data.records import SourceRecord
from pkafka.connect.errors import ConnectError, DataError, RetriableError
from pkafka.connect.tolerance import ErrorHandling, ErrorSettings, Failure, Stage

RECORD = SourceRecord("t", None, None, None, None, "v")


class Reports:
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []

    def report(self, failure: Failure) -> None:
        self.failures.append(failure)

    def close(self) -> None:
        pass


def failing(*errors: Exception) -> Callable[[], str]:
    """A step that fails so often, and then answers."""
    left = list(errors)

    def step() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return step


def handling(settings: ErrorSettings, *, stops: bool = False) -> tuple[ErrorHandling, Reports]:
    reports, stopping = Reports(), threading.Event()
    if stops:
        stopping.set()
    return ErrorHandling(settings, [reports], stopping), reports


def test_a_record_that_fails_ends_the_task_unless_that_is_tolerated() -> None:
    errors, reports = handling(ErrorSettings())
    with pytest.raises(ConnectError, match="Tolerance exceeded in error handler") as raised:
        errors.run(RECORD, Stage.VALUE_CONVERTER, "C", failing(DataError("bad")))
    assert str(raised.value.__cause__) == "bad"
    assert [each.stage for each in reports.failures] == [Stage.VALUE_CONVERTER]


def test_a_tolerated_record_is_reported_and_left_out() -> None:
    errors, reports = handling(ErrorSettings(tolerates_all=True))
    assert errors.run(RECORD, Stage.TRANSFORMATION, "T", failing(ValueError("any"))) is None
    assert (errors.skipped, len(reports.failures)) == (1, 1)
    assert errors.run(RECORD, Stage.TRANSFORMATION, "T", failing()) == "done"


def test_what_fails_outside_of_the_record_is_not_tolerated() -> None:
    errors, _reports = handling(ErrorSettings(tolerates_all=True))
    with pytest.raises(ValueError, match="any"):
        errors.run(RECORD, Stage.TASK_POLL, "T", failing(ValueError("any")))


def test_only_a_retriable_failure_is_tried_again() -> None:
    errors, reports = handling(ErrorSettings(retry_timeout_ms=-1, retry_delay_max_ms=1))
    twice = failing(RetriableError("soon"), RetriableError("soon"))
    assert errors.run(RECORD, Stage.TRANSFORMATION, "T", twice) == "done"
    assert (errors.retries, reports.failures) == (2, [])
    with pytest.raises(ConnectError):
        errors.run(RECORD, Stage.TRANSFORMATION, "T", failing(DataError("never")))


def test_tries_end_with_the_task() -> None:
    errors, reports = handling(ErrorSettings(retry_timeout_ms=-1, tolerates_all=True), stops=True)
    assert errors.run(RECORD, Stage.TRANSFORMATION, "T", failing(RetriableError("soon"))) is None
    assert len(reports.failures) == 1
