"""One session of Spark's that several streams of a process share: it starts with the first and ends with the last.

Each gets a session of its own in it, with its own names of tables and its own settings of SQL.
"""

import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from pkafka.pipeline import session as sessions
from pkafka.pipeline.session import SparkJobError, SparkUnavailableError, one_line_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME: Final = "pkafka-connect"
_DEATH_S: Final = 0.25
_OF_SQL: Final = "spark.sql."
_STATIC: Final = ("spark.sql.extensions", "spark.sql.warehouse.dir", "spark.sql.catalogImplementation")


class _Running:
    """The session that is shared.

    Args:
        master: where it works.
        settings: with which it starts.
    """

    def __init__(self, master: str, settings: Mapping[str, str]) -> None:
        self.master = master
        self.settings = settings
        self.users = 0
        self._ending = ExitStack()
        self.session: SparkSession = self._ending.enter_context(
            sessions.spark_session(_NAME, master=master, settings=settings)
        )

    def is_dead(self) -> bool:
        """Whether its JVM has ended by itself."""
        process = self._process()
        return process is not None and process.poll() is not None

    def is_dying(self) -> bool:
        """Whether it has, or does so in this moment: its connections are closed before it is gone."""
        process = self._process()
        try:
            return process is not None and process.wait(_DEATH_S) is not None
        except subprocess.TimeoutExpired:
            return False

    def _process(self) -> "subprocess.Popen[bytes] | None":
        gateway = self.session.sparkContext._gateway
        return None if gateway is None else gateway.proc

    def end(self) -> None:
        """End it; more than once is fine."""
        self._ending.close()


_lock = threading.Lock()
_running: _Running | None = None


@contextmanager
def leased(master: str, settings: Mapping[str, str]) -> "Iterator[SparkSession]":
    """A session for one stream, for as long as the block lasts. Any thread may ask for one.

    Args:
        master: ``local[n]``, or the address of a cluster of Spark's.
        settings: keys of Spark's.

    Raises:
        SparkUnavailableError: Spark does not start, or runs for other streams on another master or with other settings.
        SparkJobError: an error of Spark's came out of the block.
    """
    mine = _taken(master, settings)
    try:
        with one_line_errors():
            session = mine.session.newSession()
            _make_active(session)
            for key, value in settings.items():
                if not _is_of_start(key):
                    session.conf.set(key, value)
            yield session
    except (SparkJobError, ConnectionError) as error:
        if not mine.is_dying():
            raise
        raise SparkJobError("Spark's JVM ended, with the pipelines of this process that share it") from error
    finally:
        _give_back(mine)


def _make_active(session: "SparkSession") -> None:
    """Have this thread look for tables and data sources in a session."""
    assert session._jvm is not None
    session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def _taken(master: str, settings: Mapping[str, str]) -> _Running:
    global _running
    with _lock:
        if _running is not None and _running.is_dead():
            _running.end()
            _running = None
        at_start = {key: value for key, value in settings.items() if _is_of_start(key)}
        if _running is None:
            _running = _Running(master, at_start)
        _refuse_others(_running, master, at_start)
        _running.users += 1
        return _running


def _give_back(mine: _Running) -> None:
    global _running
    with _lock:
        mine.users -= 1
        if mine.users == 0 and mine is _running:
            _running = None
            mine.end()


def _is_of_start(key: str) -> bool:
    """Whether a setting counts for all that share the session."""
    return not key.startswith(_OF_SQL) or key in _STATIC


def _refuse_others(running: _Running, master: str, at_start: Mapping[str, str]) -> None:
    """Raise an error where a stream wants another session than the one that is shared."""
    if running.master != master:
        raise SparkUnavailableError(
            f"Spark runs on {running.master} for other pipelines of this process, which share it: not on {master}"
        )
    for key, value in at_start.items():
        if running.settings.get(key) != value:
            raise SparkUnavailableError(
                f"Spark runs without {key}={value} for other pipelines of this process, which share it"
            )
