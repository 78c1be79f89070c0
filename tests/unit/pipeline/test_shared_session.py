"""One session for several streams: when it starts and ends, and who cannot share it. Spark is not there."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from pkafka.pipeline import session as sessions
from pkafka.pipeline.session import SparkJobError, SparkUnavailableError
from pkafka.pipeline.shared_session import leased


class Spark:
    """Stands for Spark: notes sessions that start and end, and settings of those in them."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Mapping[str, str]]] = []
        self.ended = 0
        self.set: list[dict[str, str]] = []
        self.status: int | None = None
        self.error: Exception | None = None

    @contextmanager
    def session(self, _name: str, *, master: str, settings: Mapping[str, str]) -> Iterator[Any]:
        if self.error is not None:
            raise self.error
        assert len(self.started) == self.ended, "two sessions at a time"
        self.started.append((master, settings))
        process = SimpleNamespace(poll=lambda: self.status, wait=self._wait)
        context = SimpleNamespace(_gateway=SimpleNamespace(proc=process))
        yield SimpleNamespace(sparkContext=context, newSession=self._new)
        self.ended += 1

    def _wait(self, timeout_s: float) -> int:
        if self.status is None:
            raise subprocess.TimeoutExpired("java", timeout_s)
        return self.status

    def _new(self) -> Any:
        self.set.append({})
        conf = SimpleNamespace(set=self.set[-1].__setitem__)
        return SimpleNamespace(conf=conf, _jvm=MagicMock(), _jsparkSession=None)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spark]:
    spark = Spark()
    monkeypatch.setattr(sessions, "spark_session", spark.session)
    yield spark
    assert spark.ended == len(spark.started), "a session was left"


def test_the_first_starts_it_and_the_last_ends_it(spark: Spark) -> None:
    with leased("local[1]", {"spark.sql.shuffle.partitions": "2"}):
        with leased("local[1]", {"spark.sql.shuffle.partitions": "3"}):
            assert spark.started == [("local[1]", {})]
        assert spark.ended == 0
        assert spark.set == [{"spark.sql.shuffle.partitions": each} for each in "23"]
    assert spark.ended == 1
    with leased("local[2]", {}):
        assert spark.started[1:] == [("local[2]", {})]


def test_what_counts_for_all_has_to_be_the_same(spark: Spark) -> None:
    mine = {"spark.driver.memory": "1g", "spark.sql.extensions": "a.B"}
    with leased("local[1]", mine), leased("local[1]", {}), leased("local[1]", mine):
        assert spark.started == [("local[1]", mine)]
        with pytest.raises(SparkUnavailableError, match=r"runs without spark\.driver\.memory=2g for other"):
            leased("local[1]", {"spark.driver.memory": "2g"}).__enter__()
        with pytest.raises(SparkUnavailableError, match=r"runs on local\[1\] for other .* not on local\[2\]"):
            leased("local[2]", {}).__enter__()


def test_after_an_error_nothing_is_left(spark: Spark) -> None:
    from pyspark.errors import PySparkRuntimeError

    with pytest.raises(SparkJobError, match="it went wrong"), leased("local[1]", {}):
        raise PySparkRuntimeError("it went wrong")
    assert spark.ended == 1
    spark.error = SparkUnavailableError("no Java")
    with pytest.raises(SparkUnavailableError, match="no Java"):
        leased("local[1]", {}).__enter__()
    spark.error = None
    with leased("local[1]", {}):
        assert len(spark.started) == 2


def test_one_whose_jvm_has_died_is_started_anew(spark: Spark) -> None:
    with leased("local[1]", {}):
        spark.status = -9
        again = leased("local[1]", {})
        again.__enter__()
        spark.status = None
        assert (len(spark.started), spark.ended) == (2, 1)
    assert spark.ended == 1, "the first took the second's session with it"
    again.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [(-9, SparkJobError, "Spark's JVM ended, with the pipelines"), (None, ConnectionRefusedError, "refused")],
)
def test_the_death_of_the_jvm_is_told(
    spark: Spark, status: int | None, kind: type[Exception], told: str
) -> None:
    def lose_the_connection() -> None:
        with leased("local[1]", {}):
            spark.status = status
            raise ConnectionRefusedError(111, "refused")

    with pytest.raises(kind, match=told):
        lose_the_connection()
