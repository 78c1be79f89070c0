"""A session of Spark's: it starts quietly, counts tasks, fails in one line and leaves nothing behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pkafka.pipeline.session import SparkJobError, SparkUnavailableError, spark_session, task_progress

SCRIPT = """
from pkafka.pipeline.session import spark_session
with spark_session("test", master="local[1]") as spark:
    print(spark.range(3).count())
"""


def test_a_session_counts_tasks_fails_in_one_line_and_ends_with_its_jvm() -> None:
    before = signal.getsignal(signal.SIGINT)
    jvms = java_children()
    seen: list[tuple[int, int]] = []

    def slow(numbers: object) -> list[int]:
        time.sleep(0.4)
        return [0]

    with spark_session("test", master="local[2]") as spark:
        with task_progress(spark, lambda done, known: seen.append((done, known))):
            assert spark.sparkContext.parallelize(range(4), 4).mapPartitions(slow).collect() == [0] * 4
        with pytest.raises(SparkUnavailableError) as caught, spark_session("another"):
            pass
    assert "already" in str(caught.value)
    assert max(known for _, known in seen) == 4
    assert all(done <= known for done, known in seen)
    assert signal.getsignal(signal.SIGINT) is before
    assert java_children() <= jvms


def java_children() -> set[psutil.Process]:
    """The JVMs below this process: other tests' too."""
    return {each for each in psutil.Process().children(recursive=True) if each.name() == "java"}


def test_errors_are_one_line() -> None:
    def fails(numbers: object) -> list[int]:
        raise ValueError("seven is too many")

    with pytest.raises(SparkJobError) as caught, spark_session("test", master="local[1]") as spark:
        spark.sparkContext.parallelize([1], 1).mapPartitions(fails).collect()
    assert str(caught.value) == "ValueError: seven is too many"


def test_nothing_is_said_but_what_the_program_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100, check=True, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("3\n", "")
    assert not list(tmp_path.iterdir())
