"""A load test whose generators are tasks of Spark's: the driver's side of it, and what an executor does.

Spark only puts the generators on its executors. Each opens a connection to the driver and says the same as a process
of a test without Spark (:mod:`pkafka.tools.load.perf_test.generator`). So one program leads both kinds of test: all
generators begin at one moment, windows are reported while they come, and Ctrl-C ends the test with a report. No record
goes through the JVM.

Machines have clocks of their own. Before it is ready a task asks the driver for its time and finds out how far the two
are apart, so no clock need be set right; every time of a test is one of the driver's.
"""

import contextlib
import json
import os
import platform
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from pkafka.pipeline.session import LOCAL, SparkJobError, explain, one_line_errors, spark_session
from pkafka.tools.load.perf_test.fleet import Fleet, GeneratorError, Member, Said
from pkafka.tools.load.perf_test.generator import Leader, work
from pkafka.tools.load.perf_test.measuring import Difference, difference
from pkafka.tools.load.perf_test.plan import Plan, PlanError, Task, task_of
from pkafka.tools.load.perf_test.report import PERCENTS, Document

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_SETTINGS: Final[Mapping[str, str]] = {
    # A second attempt would be a generator that begins in the middle of a test.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
}
_FROM_FILE: Final = "file:"
_CONNECT_S: Final = 10.0
_END_S: Final = 5.0
_QUESTIONS: Final = 20
_HELLO_BYTES_MAX: Final = 4_096
_REASON_S: Final = 3.0


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

    def fleet(self, tasks: Sequence[Task]) -> "Executors":
        """The generators for these tasks."""
        context = self._context
        for each in {file for task in tasks for file in _files(task.plan)}:
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


# -- the driver's side -------------------------------------------------------------------------------------


class Order(NamedTuple):
    """What a task of Spark's needs to know: where the driver is, how it knows the task, and the generator's task."""

    host: str
    port: int
    token: str
    number: int
    task: str

    def to_json(self) -> str:
        """For :func:`carry_out`."""
        return json.dumps(self)


class Executors(Fleet):
    """Generators that come to the driver from wherever Spark put them.

    Args:
        tasks: a generator for each.
        launch: has :func:`carry_out` called for each order, all at the same time, and returns when all are done.
        cancel: makes it return before.
        host: how the driver is called elsewhere.
        bind: the address at which it listens.
    """

    ready_s = 120.0

    def __init__(
        self,
        tasks: Sequence[Task],
        launch: Callable[[Sequence[str]], None],
        cancel: Callable[[], None],
        *,
        host: str,
        bind: str,
    ) -> None:
        super().__init__()
        self._launch = launch
        self._cancel = cancel
        self._token = secrets.token_hex(16)
        self._failure: str | None = None
        self._executors = [_Executor(task, self._reason) for task in tasks]
        self._members.extend(self._executors)
        self._guests: list[_Guest] = []
        host, bind = host.strip("[]"), bind.strip("[]")
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._door = socket.create_server((bind, 0), family=family, backlog=len(tasks))
        self._door.setblocking(False)
        self._selector.register(self._door, selectors.EVENT_READ)
        port = self._door.getsockname()[1]
        orders = [
            Order(host, port, self._token, number, task.to_json()).to_json()
            for number, task in enumerate(tasks)
        ]
        self._job = threading.Thread(target=self._run, args=(orders,), name="perf-spark", daemon=True)
        self._job.start()

    def listen(self, timeout_s: float) -> Iterator[Said]:
        """As of every fleet; where Spark gave a task up, its reason."""
        yield from super().listen(timeout_s)
        # A generator that is done said so before its task ended: that may still be on the way.
        if self._failure is not None and self.working and not self._selector.select(0):
            raise GeneratorError(self._failure)

    def not_ready(self) -> str:
        """How many tasks are there, which says whether Spark or the cluster lets one wait."""
        come = sum(each.has_come for each in self._executors)
        if come < len(self._executors):
            tasks = len(self._executors)
            return (
                f"Spark started {come} of {tasks} tasks within {self.ready_s:.0f} s: are so many cores free?"
            )
        return super().not_ready()

    def close(self) -> None:
        """End all of them: generators end with their connections, and tasks that never ran end with their job."""
        is_unfinished = self.working > 0
        self._door.close()
        for guest in self._guests:
            guest.close()
        for executor in self._executors:
            executor.close()
        if is_unfinished:
            self._cancel()
        self._job.join(_END_S)
        if self._job.is_alive():
            self._cancel()
            self._job.join(_END_S)
        self._selector.close()

    def _run(self, orders: Sequence[str]) -> None:
        try:
            self._launch(orders)
            self._failure = "Spark ended the tasks of the test"
        except Exception as error:  # noqa: BLE001 - whatever came of the job, the test has to know
            self._failure = explain(error)

    def _reason(self) -> str:
        """Why a task ended; Spark knows a little later than its connection."""
        self._job.join(_REASON_S)
        return self._failure or "its executor, or the way to it, is gone"

    def _read(self, source: object) -> Iterator[Said]:
        if source is self._door:
            with contextlib.suppress(BlockingIOError, ConnectionError):  # it thought better of it
                guest = _Guest(self._door.accept()[0])
                self._guests.append(guest)
                self._selector.register(guest, selectors.EVENT_READ)
        elif isinstance(source, _Guest):
            self._let_in(source)
        else:
            yield from super()._read(source)

    def _let_in(self, guest: "_Guest") -> None:
        """Find out which generator a connection belongs to, once it has said so."""
        hello = guest.hello()
        if hello is None:
            return
        self._selector.unregister(guest)
        self._guests.remove(guest)
        if not secrets.compare_digest(str(hello.get("token")).encode(), self._token.encode()):
            guest.close()
            return
        executor = self._executors[hello["number"]]
        executor.came(guest.connection)
        self._selector.register(executor, selectors.EVENT_READ)


class _Guest:
    """A connection that has not said yet to which generator it belongs."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = b""

    def fileno(self) -> int:
        return self.connection.fileno()

    def hello(self) -> Mapping[str, Any] | None:
        """The first line once it is whole, else None; an empty mapping where a stranger said it."""
        data = b""
        with contextlib.suppress(ConnectionError):
            data = self.connection.recv(_HELLO_BYTES_MAX)
        self._buffer += data
        line, end, rest = self._buffer.partition(b"\n")
        if data and not end and len(line) < _HELLO_BYTES_MAX:
            return None
        try:
            # A task waits for an answer before it says more.
            found = json.loads(line) if end and not rest else None
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}

    def close(self) -> None:
        self.connection.close()


class _Executor(Member):
    def __init__(self, task: Task, why_ended: Callable[[], str]) -> None:
        super().__init__(task)
        self._why_ended = why_ended
        self._connection: socket.socket | None = None

    @property
    def has_come(self) -> bool:
        return self._connection is not None

    def came(self, connection: socket.socket) -> None:
        self._connection = connection
        _prepare(connection)
        self.tell(json.dumps({"kind": "welcome"}))

    def fileno(self) -> int:
        assert self._connection is not None
        return self._connection.fileno()

    def tell(self, line: str) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.sendall(line.encode() + b"\n")

    def fate(self) -> str:
        return f"ended: {self._why_ended()}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


# -- the executor's side -----------------------------------------------------------------------------------


def carry_out(orders: Iterable[str]) -> None:
    """Be the generators of these orders, which is one for a task of Spark's.

    Raises:
        GeneratorError: the driver cannot be reached from here.
    """
    for text in orders:
        order = Order(*json.loads(text))
        try:
            connection = socket.create_connection((order.host, order.port), timeout=_CONNECT_S)
        except OSError as error:
            place = f"{order.host}:{order.port}"
            raise GeneratorError(f"{platform.node()} does not reach the driver at {place}: {error}") from None
        _prepare(connection)
        with connection, connection.makefile("r", encoding="utf-8") as lines:
            try:
                _talk(order, connection, lines)
            finally:
                # A thread that listens to the connection waits in it, and keeps it from being closed.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def _talk(order: Order, connection: socket.socket, lines: TextIO) -> None:
    def say(line: str) -> None:
        connection.sendall(line.encode())

    say(json.dumps({"token": order.token, "number": order.number}) + "\n")
    if not lines.readline():
        raise GeneratorError("the driver expects nobody any more")
    leader = Leader(lines, say, compare_clocks(lines, say))
    work(_with_files_from_spark(task_of(order.task)), leader)


def compare_clocks(lines: TextIO, say: Callable[[str], None]) -> Difference:
    """Ask the leader for its time, several times; see :func:`difference`."""
    asked = []
    for _ in range(_QUESTIONS):
        before_ns = time.monotonic_ns()
        say('{"kind": "time"}\n')
        answer = lines.readline()
        after_ns = time.monotonic_ns()
        if not answer:
            raise GeneratorError("the driver is gone")
        asked.append((before_ns, int(json.loads(answer)["now_ns"]), after_ns))
    return difference(asked)


def _prepare(connection: socket.socket) -> None:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A machine that is gone says nothing, and its generators would go on for ever.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _files(plan: Plan) -> Iterator[str]:
    """The files of the driver's machine that generators read."""
    if plan.payload_file is not None:
        yield plan.payload_file
    if plan.record_size.startswith(_FROM_FILE):
        yield plan.record_size.removeprefix(_FROM_FILE)


def _with_files_from_spark(task: Task) -> Task:
    """The same task with its files where Spark has put them on this machine."""
    plan = task.plan
    if not list(_files(plan)):
        return task
    from pyspark import SparkFiles

    if plan.payload_file is not None:
        plan = replace(plan, payload_file=SparkFiles.get(Path(plan.payload_file).name))
    if plan.record_size.startswith(_FROM_FILE):
        plan = replace(plan, record_size=_FROM_FILE + SparkFiles.get(Path(plan.record_size).name))
    return task._replace(plan=plan)


# -- the report as tables ----------------------------------------------------------------------------------


_TEST: Final = ("started_at", "topic", "status")
_PERCENTILES: Final = tuple(f"p{percent:g}_ms".replace(".", "_") for percent in PERCENTS)
_FIGURES: Final = (
    *("records", "size_bytes", "failed", "warm_up_records", "seconds", "records_per_s", "mib_per_s"),
    *("latency_mean_ms", *_PERCENTILES, "latency_max_ms", "cpu_us_per_record"),
)
_COLUMNS: Final = {
    "results": (*_TEST, "side", "processes", *_FIGURES),
    "generators": (*_TEST, "side", "number", "host", "pid", "late_ms", "clock_error_ms", *_FIGURES),
    "series": (
        *(*_TEST, "at_s", "seconds", "produced", "produced_mib", "failed", "consumed", "consumed_mib"),
        *(
            f"{side}_{percentile}_ms"
            for side in ("produce", "end_to_end")
            for percentile in ("p50", "p99", "p99_9")
        ),
    ),
}
_TEXTS: Final = frozenset({"topic", "status", "side", "host"})
_WHOLE: Final = frozenset(
    {
        "records",
        "size_bytes",
        "failed",
        "warm_up_records",
        "processes",
        "number",
        "pid",
        "produced",
        "consumed",
    }
)


def tables(report: Document) -> "dict[str, pa.Table]":
    """The rows of a report by name of their list, each with the test they belong to; percentiles are columns."""
    import pyarrow as pa

    test = {
        "started_at": datetime.fromisoformat(report["started_at"]),
        "topic": report["configuration"]["topic"],
        "status": report["status"],
    }
    made = {}
    for name in ("results", "generators", "series"):
        rows = [_flat({**test, **row}) for row in report[name]]
        columns = _COLUMNS[name]
        schema = pa.schema([(column, _type(column)) for column in columns])
        made[name] = pa.Table.from_pylist(rows, schema=schema)
    return made


def _type(column: str) -> "pa.DataType":
    import pyarrow as pa

    if column == "started_at":
        return pa.timestamp("us", tz="UTC")
    if column in _TEXTS:
        return pa.string()
    return pa.int64() if column in _WHOLE else pa.float64()


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without rows in it, and no dots in names, which SQL would take for something else."""
    found = {name.replace(".", "_"): value for name, value in row.items() if name != "percentiles_ms"}
    for percent, value in row.get("percentiles_ms", {}).items():
        found[f"p{percent}_ms".replace(".", "_")] = value
    return found
