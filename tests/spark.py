"""Spark for tests: one session that all tests of a process share. Only tests/conftest.py imports its fixture."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pkafka.tools.zookeeper.server import find_java
from tests.class_archives import oracle_root, with_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL_JVMS: Final = {
    # The second compiler pays off after minutes. Derby, a database inside Spark's JVM, would write into the checkout.
    "SPARK_SUBMIT_OPTS": f"{_SMALL} -Dderby.stream.error.file=/dev/null",
    "SPARK_LAUNCHER_OPTS": _SMALL,
}
"""Variables that Spark's own start scripts read: every JVM of Spark's that a test starts is small."""

_TRAINING: Final = """
import sys
from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
files = sys.argv[1]
rows = session.range(1_000).selectExpr("id", "id % 3 AS part", "string(id) AS text", "timestamp_millis(id) AS time")
rows.createOrReplaceTempView("rows")
counted = session.sql("SELECT part, count(*) AS n, max(text) AS last FROM rows GROUP BY part ORDER BY part")
counted.join(rows, "part").count()
counted.rdd.map(tuple).collect()
rows.write.json(f"{files}/json")
rows.write.parquet(f"{files}/parquet")
stream = session.readStream.schema(rows.schema).json(f"{files}/json").groupBy("part").count().writeStream
stream = stream.outputMode("complete").format("memory").queryName("counts").trigger(availableNow=True)
stream.option("checkpointLocation", f"{files}/checkpoint").start().awaitTermination()
session.stop()
"""
"""What loads the classes that most of Spark's JVMs need."""

ARCHIVE_VARIABLE: Final = "PKAFKA_SPARK_ARCHIVE"
"""Set where many JVMs are going to be started."""

THREADS: Final = 3
"""Of the shared session: as many as the load tests have generators."""
END_S: Final = 300
"""How long a test waits for work of Spark's that takes a few seconds where nothing else runs."""
_SETTINGS: Final = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
_OF_A_SESSION: Final = ("PYSPARK_", "SPARK_AUTH_", "SPARK_BUFFER_")


@cache
def use_class_archive() -> None:
    """Have the JVMs of Spark's that this process and its programs start from now on map their classes from a file.

    Making the file takes as long as some ten starts without it, so only a run with many of them makes one.
    """
    if not os.environ.get(ARCHIVE_VARIABLE):
        return
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    jars = sorted((Path(found.origin).parent / "jars").glob("*.jar"))

    def train(flags: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as files:
            environment = {
                **_own(Path(files) / "spark"),
                "SPARK_SUBMIT_OPTS": " ".join([SMALL_JVMS["SPARK_SUBMIT_OPTS"], *flags]),
                "PYSPARK_PYTHON": sys.executable,
            }
            program = [sys.executable, "-c", _TRAINING, files]
            subprocess.run(
                program, check=True, capture_output=True, timeout=END_S, cwd=files, env=environment
            )

    flags = with_archive(oracle_root() / "archives", "spark", find_java(), jars, train)
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([SMALL_JVMS["SPARK_SUBMIT_OPTS"], *flags])


class Sessions:
    """The session of this process: Spark allows one at a time, and starting one takes seconds of all cores.

    Args:
        directory: where it has its files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running = ExitStack()
        self._session: SparkSession | None = None
        self._settings: Mapping[str, str] = {}

    def get(self, settings: Mapping[str, str] | None = None) -> "SparkSession":
        """The session with these settings, which ends one with others."""
        use_class_archive()
        if self._session is None or self._settings != (settings or {}):
            self.end()
            self._start(settings or {})
        assert self._session is not None
        return self._session

    def end(self) -> None:
        """Leave the process to a test that starts Spark itself."""
        self._session = None
        self._running.close()

    def _start(self, settings: Mapping[str, str]) -> None:
        from pkafka.pipeline.session import spark_session

        interrupted = signal.getsignal(signal.SIGINT)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(self._directory))
            started = spark_session("tests", master=f"local[{THREADS}]", settings={**_SETTINGS, **settings})
            self._session = self._running.enter_context(started)
        signal.signal(signal.SIGINT, interrupted)  # the tests of other modules run while it waits
        self._settings = settings


@pytest.fixture(scope="session")
def spark_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """What gives tests the session of their process."""
    sessions = Sessions(tmp_path_factory.mktemp("spark"))
    yield sessions
    sessions.end()


def share(session: "SparkSession", patch: pytest.MonkeyPatch) -> None:
    """Have commands that run in this process take a session: a JVM of their own would be most of their time.

    What depends on that, programs show.
    """
    from pkafka.pipeline.session import one_line_errors

    @contextmanager
    def shared(_name: str, **_how: object) -> Iterator["SparkSession"]:
        with one_line_errors():
            yield session

    patch.setattr("pkafka.pipeline.session.spark_session", shared)


def of_program(files: Path) -> dict[str, str]:
    """The environment for a program that starts Spark: nothing of the session of this process.

    Args:
        files: the directory, which is made, for its temporary files.
    """
    use_class_archive()
    return _own(files)


def _own(files: Path) -> dict[str, str]:
    files.mkdir(exist_ok=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_SESSION)}
    return {**own, "TMPDIR": str(files)}


def run_until(
    writer: "DataStreamWriter",
    is_so: "Callable[[StreamingQuery], bool]",
    query: "StreamingQuery | None" = None,
) -> "StreamingQuery":
    """Run a stream, or go on with it, until something is so; it runs then.

    Where what reads it in Python started too late, as :func:`run_to_end` says, it is started again.
    """
    from pkafka.pipeline.runner import STARTED_LATE

    ends_s = time.monotonic() + END_S
    query = query or writer.start()
    while not is_so(query):
        error = query.exception()
        if error is not None:
            if STARTED_LATE not in str(error):
                raise error
            query = writer.start()
        assert time.monotonic() < ends_s
        time.sleep(0.03)
    return query


def run_to_end(writer: "DataStreamWriter") -> "list[StreamingQueryProgress]":
    """Run a stream that is not started until it has read what is there; its progress.

    Spark gives what reads it in Python ten seconds to start, which no setting changes and a machine that runs other
    tests may not have; nothing has happened then, and the stream is started again.
    """
    from pyspark.errors import StreamingQueryException

    from pkafka.pipeline.runner import STARTED_LATE

    ends_s = time.monotonic() + END_S
    while True:
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(END_S)
        except StreamingQueryException as error:
            if STARTED_LATE not in str(error) or time.monotonic() > ends_s:
                raise
        else:
            return list(query.recentProgress)
