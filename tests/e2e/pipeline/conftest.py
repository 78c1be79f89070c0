"""The session of Spark's that these tests share, also the commands that they run in this process."""

from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
from pyspark.sql import SparkSession

from pkafka.testing import Broker
from tests.spark import Sessions, share
from tests.talk import Talk, talking

RunCommand = Callable[..., tuple[str, str]]


class Command(Protocol):
    """A command or a group of them."""

    def run(self, args: list[str]) -> int: ...


@pytest.fixture
def spark(spark_sessions: Sessions) -> SparkSession:
    """A session on all cores, as a command has it."""
    return spark_sessions.get()


@pytest.fixture
def talk(pkafka_broker: Broker) -> Iterator[Talk]:
    """A way to talk to the broker that these tests share with others."""
    with talking(pkafka_broker.bootstrap) as talk:
        yield talk


@pytest.fixture
def run_command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> RunCommand:
    """``run_command(command, *words, status=0)``: what a command prints to standard output and standard error.

    It runs in this process and takes the session of the tests.
    """
    share(spark, monkeypatch)

    def run(command: Command, *words: object, status: int = 0) -> tuple[str, str]:
        found = command.run([str(word) for word in words])
        out, err = capfd.readouterr()
        assert found == status, err
        return out, err

    return run
