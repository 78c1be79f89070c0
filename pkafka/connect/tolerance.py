"""What becomes of a record that a step fails on: it is tried again, reported and left out, or it ends the task.

One :class:`ErrorHandling` belongs to one task and is used by its thread (``RetryWithToleranceOperator``, KIP-298).
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar

from pkafka.clients.consumer import ConsumerRecord
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.errors import ConnectError, RetriableError

ResultT = TypeVar("ResultT")

_FIRST_DELAY_MS: Final = 300
_FOREVER: Final = -1


class Stage(Enum):
    """The steps of a record."""

    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    TASK_PUT = "TASK_PUT"


_TOLERABLE: Final = frozenset(
    {Stage.TRANSFORMATION, Stage.KEY_CONVERTER, Stage.VALUE_CONVERTER, Stage.HEADER_CONVERTER}
)
"""Steps in which any exception may be one record's fault; in the others only a RetriableError is."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One record that a step failed on."""

    record: ConsumerRecord | SourceRecord
    """As it was read: raw from Kafka, or as the source gave it."""
    stage: Stage
    executing: str
    """The class that failed."""
    error: Exception
    attempts: int


class Reporter(Protocol):
    """Writes failures somewhere."""

    def report(self, failure: Failure) -> None:
        """Write one.

        Raises:
            ConnectError: it cannot be written, and must not be lost.
        """

    def close(self) -> None:
        """Let go of what it holds."""


@dataclass(frozen=True, slots=True)
class ErrorSettings:
    """The keys ``errors.*`` of a connector."""

    tolerates_all: bool = False
    retry_timeout_ms: int = 0
    """How long a failed step is tried again; -1: for ever."""
    retry_delay_max_ms: int = 60_000


class ErrorHandling:
    """Runs the steps of a task's records.

    Args:
        settings: of the connector.
        reporters: get every failure.
        stopping: set when the task is to end: waits end then.
    """

    def __init__(
        self, settings: ErrorSettings, reporters: Sequence[Reporter], stopping: threading.Event
    ) -> None:
        self.settings = settings
        self._reporters = reporters
        self._stopping = stopping
        self.failures = 0
        """Steps that failed, each try counted."""
        self.skipped = 0
        self.retries = 0
        self.reported = 0

    @property
    def tolerates_all(self) -> bool:
        """Whether a record may be left out."""
        return self.settings.tolerates_all

    def run(
        self, record: ConsumerRecord | SourceRecord, stage: Stage, executing: str, step: Callable[[], ResultT]
    ) -> ResultT | None:
        """Run one step.

        Returns:
            Its result; None: it failed, and the record is left out.

        Raises:
            ConnectError: it failed, and failures are not tolerated.
        """
        began_s = time.monotonic()
        attempts = 0
        while True:
            attempts += 1
            try:
                return step()
            except RetriableError as error:
                self.failures += 1
                if not self._may_retry(began_s):
                    self.fail(Failure(record, stage, executing, error, attempts))
                    return None
                self.retries += 1
                if self._stopping.wait(self._delay_s(attempts, began_s)):
                    self.fail(Failure(record, stage, executing, error, attempts))
                    return None
            except Exception as error:
                self.failures += 1
                if stage not in _TOLERABLE:
                    raise
                self.fail(Failure(record, stage, executing, error, attempts))
                return None

    def fail(self, failure: Failure) -> None:
        """Report a failure, and leave its record out.

        Raises:
            ConnectError: failures are not tolerated.
        """
        self.report(failure)
        if not self.tolerates_all:
            raise ConnectError("Tolerance exceeded in error handler") from failure.error
        self.skipped += 1

    def report(self, failure: Failure) -> None:
        """Give a failure to all reporters."""
        self.reported += 1
        for reporter in self._reporters:
            reporter.report(failure)

    def close(self) -> None:
        """Let go of the reporters."""
        for reporter in self._reporters:
            reporter.close()

    def _may_retry(self, began_s: float) -> bool:
        limit_ms = self.settings.retry_timeout_ms
        return limit_ms == _FOREVER or (time.monotonic() - began_s) * 1000 < limit_ms

    def _delay_s(self, attempts: int, began_s: float) -> float:
        delay_ms = float(_FIRST_DELAY_MS << min(attempts - 1, 30))
        most_ms = self.settings.retry_delay_max_ms
        if delay_ms > most_ms:
            delay_ms = random.uniform(0, most_ms)  # noqa: S311 - spreads retries, hides nothing
        if self.settings.retry_timeout_ms != _FOREVER:
            left_ms = self.settings.retry_timeout_ms - (time.monotonic() - began_s) * 1000
            delay_ms = min(delay_ms, max(left_ms, 0))
        return delay_ms / 1000
