"""A session of Spark's: it starts quietly, counts tasks, fails in one line and leaves nothing behind."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from pkafka.pipeline.session import (
    SparkJobError,
    SparkUnavailableError,
    one_line_errors,
    spark_session,
    task_progress,
)
from tests.spark import of_program

pytestmark = pytest.mark.timeout(900)

PROGRAM = """
import os, signal, sys
from pkafka.pipeline.session import SparkJobError, spark_session

handler = signal.getsignal(signal.SIGINT)
for ending in ("the JVM's", "this program's"):
    try:
        with spark_session("test", master="local[1]") as spark:
            spark.range(3).createTempView("numbers")
            print(spark.sql("select count(*) from numbers").first()[0])
            jvm = spark.sparkContext._gateway.proc.pid
            print(jvm, flush=True)
            if ending == "this program's":
                sys.stdin.read()
            os.kill(jvm, signal.SIGKILL)
            spark.range(3).count()
    except SparkJobError as error:
        print(error)
        print(signal.getsignal(signal.SIGINT) is handler, os.listdir("."), os.listdir(os.environ["TMPDIR"]))
"""


def test_tasks_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    all_known = tmp_path / "all-known"

    def note(done: int, known: int) -> None:
        seen.append((done, known))
        if known == 4:
            all_known.touch()

    def wait(numbers: object) -> list[int]:
        while not all_known.exists():
            time.sleep(0.02)
        return [0]

    with task_progress(spark, note):
        assert spark.sparkContext.parallelize(range(4), 4).mapPartitions(wait).collect() == [0] * 4
    assert max(known for _, known in seen) == 4
    assert all(done <= known for done, known in seen)


def test_a_process_has_one_session(spark: SparkSession) -> None:
    with pytest.raises(SparkUnavailableError, match="already"), spark_session("another"):
        pass
    assert spark.range(3).count() == 3


def test_errors_are_one_line(spark: SparkSession) -> None:
    def fails(numbers: object) -> list[int]:
        raise ValueError("seven is too many")

    with pytest.raises(SparkJobError) as caught, one_line_errors():
        spark.sparkContext.parallelize([1], 1).mapPartitions(fails).collect()
    assert str(caught.value) == "ValueError: seven is too many"


@pytest.mark.nightly  # starts Spark in a program of its own
def test_it_says_nothing_and_leaves_nothing_however_it_ends(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=here,
        env=of_program(tmp_path / "files"),
    )
    with program:
        assert program.stdout is not None
        said = [program.stdout.readline().rstrip("\n") for _ in range(6)]
        second = psutil.Process(int(said[5]))
        program.kill()
        assert program.stderr is not None
        assert program.stderr.read() == ""
    assert said[0] == said[4] == "3"
    assert said[2] == "Spark's JVM ended before its work was done: SIGKILL"
    assert said[3] == "True [] []"
    assert said[1] != said[5], "each session has a JVM of its own"
    second.wait(300)
    assert (list(here.iterdir()), list((tmp_path / "files").iterdir())) == ([], [])
