"""Spark for a load test: its session, its tasks, and the files that it writes."""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pkafka.pipeline.load.executors import Executors
from pkafka.pipeline.load.tables import tables
from pkafka.pipeline.load.task import carry_out, files_of
from pkafka.pipeline.session import LOCAL, SparkJobError, one_line_errors, spark_session
from pkafka.tools.load.perf_test.plan import Plan, PlanError, Task
from pkafka.tools.load.perf_test.report import Document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS: Final[Mapping[str, str]] = {
    # A second attempt would be a generator that begins in the middle of a test.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
}


class SparkLoad:
    """Spark, to make load with.

    Args:
        session: where the tasks run.
    """

    def __init__(self, session: "SparkSession") -> None:
        self._context = session.sparkContext
        # What its tables run in; without this, tasks of one's own run in whatever python3 is.
        self._context.pythonExec = self._context.getConf().get(
            "spark.pyspark.python", self._context.pythonExec
        )

    @property
    def master(self) -> str:
        """Whose executors they are."""
        return str(self._context.master)

    def check(self, plan: Plan) -> None:
        """See that all generators can run at the same time, where that is known: a cluster may still grow.

        Raises:
            PlanError: Spark has fewer threads on this machine.
        """
        slots, generators = self._context.defaultParallelism, plan.producers + plan.consumers
        if self.master.partition("[")[0] == "local" and slots < generators:
            raise PlanError(f"{self.master} runs {slots} tasks at a time, and this test has {generators}")

    def fleet(self, tasks: Sequence[Task]) -> Executors:
        """The generators for these tasks."""
        context = self._context
        for each in {file for task in tasks for file in files_of(task.plan)}:
            context.addFile(each)
        host = context.getConf().get("spark.driver.host")
        bind = context.getConf().get("spark.driver.bindAddress", host)
        assert host is not None
        assert bind is not None

        def launch(orders: Sequence[str]) -> None:
            context.parallelize(orders, len(orders)).foreachPartition(carry_out)

        return Executors(tasks, launch, context.cancelAllJobs, host=host, bind=bind)

    def prepare_tables(self, path: str) -> None:
        """Make the directory for :meth:`write_tables` before a test, so that a failure shows before the test runs.

        Raises:
            SparkJobError: it cannot be made.
        """
        with _writing(path):
            files, where = self._files_at(path)
            files.mkdirs(where)

    def write_tables(self, report: Document, path: str) -> None:
        """Add a report to the Parquet tables ``results``, ``generators`` and ``series`` below a path, a file to each.

        Args:
            path: wherever Spark can write. Files are named after the moment when the test began.

        Raises:
            SparkJobError: it cannot.
        """
        import pyarrow as pa
        from pyarrow import parquet

        # Spark's own writer would need several jobs, and seconds, for a few rows.
        name = datetime.fromisoformat(report["started_at"]).strftime("%Y%m%dT%H%M%S.%fZ")
        for table, rows in tables(report).items():
            data = pa.BufferOutputStream()
            parquet.write_table(rows, data)
            with _writing(path):
                files, where = self._files_at(
                    f"{path.rstrip('/')}/{table}/{name}-{secrets.token_hex(4)}.parquet"
                )
                stream = files.create(where, False)
                stream.write(data.getvalue().to_pybytes())
                stream.close()

    def _files_at(self, path: str) -> tuple[Any, Any]:
        """Hadoop's file system of a path, and the path as it knows it."""
        jvm = self._context._jvm
        assert jvm is not None
        where = jvm.org.apache.hadoop.fs.Path(path)
        return where.getFileSystem(self._context._jsc.hadoopConfiguration()), where


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Raise what goes wrong in the block as an error of one line.

    Raises:
        SparkJobError: something did.
    """
    try:
        with one_line_errors():
            yield
    except SparkJobError as error:
        # The first line names a method, the second one the exception of the JVM and what it says.
        _, _, reason = str(error.__cause__).partition("\n: ")[2].partition("\n")[0].partition(": ")
        raise SparkJobError(f"{path} cannot be written: {reason or error}") from None


@contextmanager
def spark_load(master: str, plan: Plan, *, on_note: Callable[[str], None]) -> Iterator[SparkLoad]:
    """Spark for a load test, as long as the block lasts.

    Args:
        master: of Spark. ``local[*]`` has a thread for every generator, however few cores there are.
        on_note: told what Spark has to say.

    Raises:
        SparkUnavailableError: it cannot be started here.
        PlanError: it cannot run that many generators.
    """
    if master == LOCAL:
        master = f"local[{max(os.cpu_count() or 1, plan.producers + plan.consumers)}]"
    with spark_session("pk-perf-test", master=master, settings=_SETTINGS, on_note=on_note) as session:
        spark = SparkLoad(session)
        spark.check(plan)
        yield spark
