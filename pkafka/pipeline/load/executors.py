"""The driver's side of a load test: waits for the generators that Spark started, and hears what they say."""

import contextlib
import json
import secrets
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pkafka.pipeline.load.task import Order, set_up
from pkafka.pipeline.session import explain
from pkafka.tools.load.perf_test.fleet import Fleet, GeneratorError, Member, Said
from pkafka.tools.load.perf_test.plan import Task

_END_S: Final = 5.0
_HELLO_BYTES_MAX: Final = 4_096
_REASON_S: Final = 3.0


class Executors(Fleet):
    """Generators that come to the driver from wherever Spark put them.

    Args:
        tasks: a generator for each.
        launch: has ``task.carry_out`` called for each order, all at the same time, and returns when all are done.
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
        set_up(connection)
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
