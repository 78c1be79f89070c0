"""The session of Spark's that these tests share, also the commands that they run in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import pytest
from pyspark.sql import SparkSession

from pkafka.pipeline.session import one_line_errors
from tests.spark import Sessions

RunCommand = Callable[..., tuple[str, str]]


class Command(Protocol):
    """A command or a group of them."""

    def run(self, args: list[str]) -> int: ...


@pytest.fixture
def spark(spark_sessions: Sessions) -> SparkSession:
    """A session on all cores, as a command has it."""
    return spark_sessions.get()


@pytest.fixture
def run_command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> RunCommand:
    """``run_command(command, *words, status=0)``: what a command prints to standard output and standard error.

    It runs in this process and takes the session of the tests: a JVM of its own would be most of the time. What
    depends on that, programs show.
    """

    @contextmanager
    def shared(_name: str, **_how: object) -> Iterator[SparkSession]:
        with one_line_errors():
            yield spark

    monkeypatch.setattr("pkafka.pipeline.session.spark_session", shared)

    def run(command: Command, *words: object, status: int = 0) -> tuple[str, str]:
        found = command.run([str(word) for word in words])
        out, err = capfd.readouterr()
        assert found == status, err
        return out, err

    return run
