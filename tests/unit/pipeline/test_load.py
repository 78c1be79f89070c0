"""Load from Spark's executors, without Spark: who is let in, what becomes of tasks, and the report as tables."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

import pytest

from pkafka.pipeline.load.executors import Executors
from pkafka.pipeline.load.tables import tables
from pkafka.pipeline.load.task import Order, compare_clocks
from pkafka.tools.load.perf_test.fleet import GeneratorError, Said
from pkafka.tools.load.perf_test.measuring import Difference
from pkafka.tools.load.perf_test.plan import Plan, Task
from pkafka.tools.load.perf_test.report import build
from pkafka.tools.load.perf_test.run import Clients
from tests.unit.tools.load.perf_test.reports import outcome

TASKS = [Task("produce", number, Plan("t", producers=2, duration_s=1), {}, "00" * 8) for number in range(2)]
WAIT_S = 20.0


@dataclass
class Job:
    """Tasks that do what a test says, in threads."""

    part: Callable[[Order], None]
    was_cancelled: bool = False

    def launch(self, orders: Sequence[str]) -> None:
        threads = [
            threading.Thread(target=self.part, args=(Order(*json.loads(text)),), daemon=True)
            for text in orders
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    def cancel(self) -> None:
        self.was_cancelled = True


@contextmanager
def executors(part: Callable[[Order], None]) -> Iterator[tuple[Executors, Job]]:
    job = Job(part)
    with Executors(TASKS, job.launch, job.cancel, host="127.0.0.1", bind="127.0.0.1") as fleet:
        yield fleet, job


def heard(fleet: Executors) -> list[Said]:
    """All that is said until the last one is done."""
    found: list[Said] = []
    deadline = time.monotonic() + WAIT_S
    while fleet.working:
        assert time.monotonic() < deadline
        found += fleet.listen(0.05)
    return found


@contextmanager
def connected(order: Order) -> Iterator[tuple[socket.socket, TextIO]]:
    """A task that is welcome, and what it hears."""
    with socket.create_connection((order.host, order.port), timeout=WAIT_S) as connection:
        connection.sendall(json.dumps({"token": order.token, "number": order.number}).encode() + b"\n")
        with connection.makefile("r") as lines:
            assert json.loads(lines.readline()) == {"kind": "welcome"}
            yield connection, lines


def answer_to(connection: socket.socket) -> bytes:
    """What comes; nothing where the connection is closed, with or without a look at all that was sent."""
    try:
        return connection.recv(100)
    except ConnectionResetError:
        return b""


def test_tasks_come_compare_their_clocks_and_are_heard() -> None:
    differences: list[Difference] = []

    def part(order: Order) -> None:
        with connected(order) as (connection, lines):
            differences.append(compare_clocks(lines, lambda line: connection.sendall(line.encode())))
            connection.sendall(b'{"kind": "ready"}\n')
            assert json.loads(lines.readline()) == {"kind": "start", "clock": [1]}
            connection.sendall(b'{"kind": "done"}\n')
            lines.readline()

    with executors(part) as (fleet, job):
        found: list[Said] = []
        while len(found) < len(TASKS):
            found += fleet.listen(0.05)
        assert sorted((each.task.number, each.kind) for each in found) == [(0, "ready"), (1, "ready")]
        fleet.tell("start", clock=[1])
        assert {each.kind for each in heard(fleet)} == {"done"}
    assert [each.ahead_ns for each in differences] == [0, 0], "of one machine"
    assert all(0 < each.error_ns < 1_000_000_000 for each in differences)
    assert not job.was_cancelled


def test_whoever_does_not_know_the_word_is_shown_out() -> None:
    answers: list[bytes] = []

    def part(order: Order) -> None:
        for hello in (b'{"token": "guessed", "number": 0}\n', b"GET / HTTP/1.1\r\n\r\n", b"x" * 5_000):
            with socket.create_connection((order.host, order.port), timeout=WAIT_S) as stranger:
                stranger.sendall(hello)
                answers.append(answer_to(stranger))
        with connected(order) as (connection, lines):
            connection.sendall(b'{"kind": "done"}\n')
            lines.readline()

    with executors(part) as (fleet, _):
        assert len(heard(fleet)) == len(TASKS)
    assert answers == [b""] * 6


def test_why_a_task_failed_is_said() -> None:
    def fails(orders: Sequence[str]) -> None:
        raise ValueError("no such executor")

    with (
        Executors(TASKS, fails, lambda: None, host="127.0.0.1", bind="127.0.0.1") as fleet,
        pytest.raises(GeneratorError, match="no such executor"),
    ):
        heard(fleet)


def test_a_task_that_ends_before_it_is_done_is_no_success() -> None:
    is_there = threading.Barrier(len(TASKS))

    def part(order: Order) -> None:
        with connected(order) as (connection, _):
            connection.sendall(b'{"kind": "ready"}\n')
            is_there.wait(WAIT_S)

    with (
        executors(part) as (fleet, _),
        pytest.raises(GeneratorError, match=r"producer \d ended: Spark ended the tasks of the test"),
    ):
        heard(fleet)


def test_tasks_that_never_come_are_counted_and_cancelled() -> None:
    is_over = threading.Event()

    def part(order: Order) -> None:
        if order.number == 1:
            is_over.wait(WAIT_S)
            return
        with connected(order) as (connection, lines):
            connection.sendall(b'{"kind": "ready"}\n')
            lines.readline()

    with executors(part) as (fleet, job):
        while not list(fleet.listen(0.05)):
            pass
        assert fleet.not_ready() == "Spark started 1 of 2 tasks within 120 s: are so many cores free?"
        is_over.set()
    assert job.was_cancelled


def test_what_is_said_before_the_end_is_heard_after_it() -> None:
    """Tasks may have ended, and their connections with them, before anything of it is read."""
    is_said = threading.Barrier(len(TASKS) + 1)

    def part(order: Order) -> None:
        with connected(order) as (connection, _):
            line = json.dumps({"kind": "window", "filler": "x" * 50_000}).encode() + b"\n"
            connection.sendall(line * 3 + b'{"kind": "done"}\n')
        is_said.wait(WAIT_S)

    with executors(part) as (fleet, _):
        threading.Thread(target=is_said.wait, args=(WAIT_S,), daemon=True).start()
        kinds = [each.kind for each in heard(fleet)]
    assert kinds.count("window") == 3 * len(TASKS)
    assert kinds.count("done") == len(TASKS)


def test_a_report_is_three_tables() -> None:
    pytest.importorskip("pyarrow")
    made = outcome(Plan("t", duration_s=2, warmup_s=1, rate=1000))
    part = made.produced.part(0)
    part.host, part.pid = "north", 7
    part.add(0, made.produced.window(0))
    found = tables(build(made, Clients({}, {}), master="local[2]"))
    assert {name: table.num_rows for name, table in found.items()} == {
        "results": 2,
        "generators": 1,
        "series": 3,
    }
    row = found["results"].to_pylist()[0]
    assert (row["topic"], row["side"], row["records"], row["p50_ms"], row["p99_9_ms"]) == (
        *("t", "produce", 2000),
        *(2.491, 2.991),
    )
    assert row["started_at"] == made.began
    (generator,) = found["generators"].to_pylist()
    assert (generator["host"], generator["pid"], generator["records"]) == ("north", 7, 1000)
    assert [row["at_s"] for row in found["series"].to_pylist()] == [-1, 0, 1]
    assert found["series"].to_pylist()[1]["end_to_end_p99_9_ms"] == 2.991
    for table in found.values():
        assert not any("." in name for name in table.column_names)
