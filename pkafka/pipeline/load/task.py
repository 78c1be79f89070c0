"""What a task of Spark's does in a load test: it is a generator that the driver leads over a connection.

Machines have clocks of their own. Before it is ready a task asks the driver for its time and finds out how far the two
are apart, so no clock need be set right; every time of a test is one of the driver's.
"""

import contextlib
import json
import platform
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from pkafka.tools.load.perf_test.fleet import GeneratorError
from pkafka.tools.load.perf_test.generator import Leader, work
from pkafka.tools.load.perf_test.measuring import Difference, difference
from pkafka.tools.load.perf_test.plan import Plan, Task, task_of

_FROM_FILE: Final = "file:"
_CONNECT_S: Final = 10.0
_QUESTIONS: Final = 20


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
        set_up(connection)
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
        raise GeneratorError("the driver does not expect this generator any more")
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


def set_up(connection: socket.socket) -> None:
    """Make a connection send at once, and notice when the other machine is gone."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A machine that is gone says nothing, and its generators would go on for ever.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def files_of(plan: Plan) -> Iterator[str]:
    """The files of the driver's machine that generators read."""
    if plan.payload_file is not None:
        yield plan.payload_file
    if plan.record_size.startswith(_FROM_FILE):
        yield plan.record_size.removeprefix(_FROM_FILE)


def _with_files_from_spark(task: Task) -> Task:
    """The same task with its files where Spark has put them on this machine."""
    plan = task.plan
    if not list(files_of(plan)):
        return task
    from pyspark import SparkFiles

    if plan.payload_file is not None:
        plan = replace(plan, payload_file=SparkFiles.get(Path(plan.payload_file).name))
    if plan.record_size.startswith(_FROM_FILE):
        plan = replace(plan, record_size=_FROM_FILE + SparkFiles.get(Path(plan.record_size).name))
    return task._replace(plan=plan)
