"""A Spark session for one command: quiet, started once, ended with its JVM. What goes wrong in it is told in a line.

Only this module starts Spark. A data source in a session of the user's own uses nothing of it.
"""

import importlib.util
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from pkafka.errors import PkafkaError
from pkafka.tools.zookeeper.server import ZooKeeperUnavailableError, find_java

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
"""The master of a session on all cores of this machine."""

_PYSPARK_OLDEST: Final = (4, 1)
_INSTALL: Final = "pip install 'pkafka[spark]' brings it"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_LOGGERS_OF_ERRORS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""They write errors of queries to standard error as JSON; the caller gets the error as well."""
_LOOK_INTERVAL_S: Final = 0.25
_JVM_STOP_TIMEOUT_S: Final = 10.0
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_WAREHOUSE: Final = "warehouse"
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Off by default in Spark; a data source of pkafka works without it too.
    "spark.sql.python.filterPushdown.enabled": "true",
}
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Tasks, shuffles and what is collected share it.
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
    # Spark's 200 are for clusters; on one machine most of them would be tasks with nothing to do.
    "spark.sql.shuffle.partitions": "8",
}
# Where the traceback of a Python worker ends: the class of the error, with its module, and what it says.
_PYTHON_ERROR: Final = re.compile(r"^((?:\w+\.)*[A-Z]\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_PYTHONS: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_CALLED: Final = "An error occurred while calling "
_NOTE: Final = re.compile(r"pkafka(-\w+)?: ")
_NOT_A_REASON: Final = re.compile(r"WARNING|Using Spark's default|Setting default log level|\s*at |\s*$")


class SparkUnavailableError(PkafkaError):
    """Spark cannot be started here; the text says what is missing and what installs it."""


class SparkJobError(PkafkaError):
    """A job of Spark's failed; the text is what its own error comes to in one line."""


@contextmanager
def spark_session(
    name: str,
    *,
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> "Iterator[SparkSession]":
    """A session that lasts as long as the block, with a JVM of its own that ends with it.

    What the JVM and its workers write to standard error is not shown, except the last word of a JVM that does not
    start or ends too soon, and what data sources of pkafka have to say. Its files lie in a directory of their own below
    that of temporary files, which is removed with it, however it ends.

    Args:
        name: of the application, as Spark's own pages show it.
        master: ``local[n]``, or the address of a cluster of Spark's.
        settings: keys of Spark's, over those of this module; options for the driver's Java come after this module's.
        on_note: called at the end with each line that a data source of pkafka wrote to standard error on this machine.

    Raises:
        SparkUnavailableError: pyspark, pyarrow or Java is missing or too old, or Spark does not start.
        SparkJobError: an error of Spark's came out of the block, or its JVM ended before the block did.
    """
    _require_pyspark()
    try:
        find_java()
    except ZooKeeperUnavailableError as error:
        raise SparkUnavailableError(f"Spark needs Java 17 or newer: {error}") from error
    # Of a pandas that is newer than pyspark knows; nothing here uses pandas.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    from pyspark import SparkConf
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for name_of_logger in _LOGGERS_OF_ERRORS:
        PySparkLogger.getLogger(name_of_logger).disabled = True
    local = _LOCAL_SETTINGS if master.startswith("local") else {}
    values = {"spark.master": master, "spark.app.name": name, **_SETTINGS, **local, **(settings or {})}
    with (
        tempfile.TemporaryDirectory(prefix="pk-spark-", ignore_cleanup_errors=True) as files,
        tempfile.TemporaryFile() as said,
        _interrupts_kept(),
        _this_python(),
        _py4j_not_logged(),
    ):
        values.setdefault("spark.sql.warehouse.dir", f"file:{files}/{_WAREHOUSE}")
        values[_JAVA_OPTIONS] = f"{_java_options(files)} {values.get(_JAVA_OPTIONS, '')}".strip()
        conf = SparkConf(loadDefaults=False).setAll(list(values.items()))
        session = SparkSession(_started(conf, said, files))
        gateway = session.sparkContext._gateway
        try:
            with _end_of_jvm_told(gateway, said), one_line_errors():
                yield session
        finally:
            _stop(session, gateway)
            for line in dict.fromkeys(filter(_NOTE.match, _lines(said))):
                if on_note is not None:
                    on_note(line)


@contextmanager
def task_progress(session: "SparkSession", update: Callable[[int, int], None]) -> Iterator[None]:
    """Tell how many tasks of the jobs in the block are done, a few times a second.

    Args:
        session: whose jobs.
        update: called with (tasks done, tasks known so far), from a thread of its own.
    """
    tracker = session.sparkContext.statusTracker()
    stages: dict[int, tuple[int, int]] = {}
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(_LOOK_INTERVAL_S):
            active = tracker.getActiveStageIds()
            for stage in active:
                info = tracker.getStageInfo(stage)
                if info is not None:
                    stages[stage] = info.numCompletedTasks, info.numTasks
            for stage in stages.keys() - set(active):
                stages[stage] = stages[stage][1], stages[stage][1]
            update(sum(done for done, _ in stages.values()), sum(known for _, known in stages.values()))

    watcher = threading.Thread(target=look, name="progress of tasks", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Raise errors of Spark's in the block, which have stack traces of a JVM, as errors of one line.

    Raises:
        SparkJobError: in the place of what Spark raised.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkJobError(explain(error)) from error


def explain(error: Exception) -> str:
    """One line for an error of Spark's: where it comes from Python code, what that said.

    The name of the class is left out where it is pkafka's own: its text is written for the user of the command.
    """
    text = str(error).strip()
    for kind, message in reversed(_PYTHON_ERROR.findall(text)):
        if not kind.startswith(("org.", "java.", "py4j.", "pyspark.")):
            return str(message) if kind.startswith("pkafka.") else f"{kind}: {message}"
    lines = text.splitlines() or [type(error).__name__]
    # Of an error of the JVM py4j says first what Python called.
    return lines[1].removeprefix(": ") if lines[0].startswith(_CALLED) and len(lines) > 1 else lines[0]


def _require_pyspark() -> None:
    for module in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            raise SparkUnavailableError(f"{module} is not installed: {_INSTALL}")
    import pyspark

    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if found < _PYSPARK_OLDEST:
        oldest = ".".join(map(str, _PYSPARK_OLDEST))
        raise SparkUnavailableError(
            f"pyspark {pyspark.__version__} is too old, {oldest} or newer is needed: {_INSTALL}"
        )


def _java_options(files: str) -> str:
    """Where the JVM has what it logs, and its files: blocks, what tasks need, libraries."""
    return f'-Dlog4j2.configurationFile={_LOGGING.as_uri()} "-Djava.io.tmpdir={files}"'


def _started(conf: "SparkConf", said: IO[bytes], files: str) -> "SparkContext":
    """A context in a JVM of its own, which writes to ``said`` and has its files in ``files``."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        raise SparkUnavailableError("this process has a Spark session already")
    try:
        gateway = launch_gateway(conf, {"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]
    except Exception as error:
        raise SparkUnavailableError(f"Spark does not start: {_last_words(said) or explain(error)}") from error
    try:
        # Should this program be killed, the JVM removes them: the last one named first.
        for path in (files, f"{files}/{_WAREHOUSE}"):
            gateway.jvm.java.io.File(path).deleteOnExit()
        return SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        _end_jvm(gateway)
        raise SparkUnavailableError(f"Spark does not start: {explain(error)}") from error


@contextmanager
def _end_of_jvm_told(gateway: Any, said: IO[bytes]) -> Iterator[None]:  # noqa: ANN401 - py4j has no types
    """Raise an error of one line when the JVM ends in the block: it was killed, mostly because memory ran out.

    Raises:
        SparkJobError: it did; in the place of what the lost connection raised.
    """
    try:
        yield
    except (SparkJobError, ConnectionError) as error:
        status = _status_of_jvm(gateway)
        if status is None:
            raise
        reason = signal.Signals(-status).name if status < 0 else _last_words(said) or f"status {status}"
        raise SparkJobError(f"Spark's JVM ended before its work was done: {reason}") from error


def _status_of_jvm(gateway: Any) -> int | None:  # noqa: ANN401 - py4j has no types
    """How the JVM ended; None while it runs."""
    if gateway.proc is None:  # started by spark-submit, not by us
        return None
    with suppress(subprocess.TimeoutExpired):
        # Its connections are closed a moment before it is gone.
        return int(gateway.proc.wait(_LOOK_INTERVAL_S))
    return None


def _stop(session: "SparkSession", gateway: Any) -> None:  # noqa: ANN401 - py4j has no types
    """Stop a session and end its JVM, if that is still there."""
    from py4j.protocol import Py4JError

    try:
        if gateway.proc is not None and gateway.proc.poll() is not None:
            session.sparkContext._jsc = None  # so that only this process's part of it is stopped
            with suppress(ConnectionError, Py4JError):
                session.stop()
        else:
            session.stop()
    finally:
        _end_jvm(gateway)


def _end_jvm(gateway: Any) -> None:  # noqa: ANN401 - py4j has no types
    """End the JVM behind a gateway, which pyspark would leave until this process ends; the next session has its own."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    if process is None:  # started by spark-submit, not by us
        return
    process.stdin.close()
    try:
        process.wait(_JVM_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_words(said: IO[bytes]) -> str:
    """The last line of a JVM that ended which may be a reason."""
    return next((line.strip() for line in reversed(_lines(said)) if not _NOT_A_REASON.match(line)), "")


def _lines(said: IO[bytes]) -> list[str]:
    said.seek(0)
    return said.read().decode(errors="replace").splitlines()


@contextmanager
def _this_python() -> Iterator[None]:
    """Have the JVM's workers run this Python, which has pkafka, unless another one is named.

    By the environment: the JVM looks for data sources before it asks its own settings for a Python.
    """
    missing = [name for name in _PYTHONS if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, sys.executable))
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


@contextmanager
def _py4j_not_logged() -> Iterator[None]:
    """Leave out what py4j logs about a JVM that went away, with tracebacks: py4j raises the same."""

    def is_not_py4js(record: logging.LogRecord) -> bool:
        return Path(record.pathname).parent.name != "py4j"

    root = logging.getLogger()
    root.addFilter(is_not_py4js)
    try:
        yield
    finally:
        root.removeFilter(is_not_py4js)


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Restore the handler of Ctrl-C: a context of Spark's takes it for good."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        with suppress(ValueError):  # not in the main thread, where Spark takes nothing either
            signal.signal(signal.SIGINT, handler)
