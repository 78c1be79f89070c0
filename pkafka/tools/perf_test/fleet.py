"""The processes of a load test, seen from their parent: start them, talk to them, end them. See :mod:`generator`."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from pkafka.errors import PkafkaError
from pkafka.tools.perf_test.plan import Task

_END_S: Final = 5.0
_READ_BYTES: Final = 1 << 16


class GeneratorError(PkafkaError):
    """A process of a load test could not do its part."""


class Said(NamedTuple):
    """What one process said."""

    task: Task
    kind: str
    message: Mapping[str, Any]


class _Process:
    def __init__(self, task: Task) -> None:
        self.task = task
        self.is_done = False
        self.buffer = b""
        # In a session of its own: Ctrl-C is for the parent, who says when to stop.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pkafka.tools.perf_test.generator"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.tell(task.to_json())

    def tell(self, line: str) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        # It may have ended; what became of it is found where it is read.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(line.encode() + b"\n")
            stdin.flush()

    def fileno(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()


class Fleet:
    """The processes that do these tasks; a ``with`` block has them all ended."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._selector = selectors.DefaultSelector()
        self._processes: list[_Process] = []
        try:
            for task in tasks:
                process = _Process(task)
                self._processes.append(process)
                self._selector.register(process, selectors.EVENT_READ)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def working(self) -> int:
        """How many are not done."""
        return sum(not each.is_done for each in self._processes)

    def is_working(self, role: str) -> bool:
        """Whether any of that role is not done."""
        return any(not each.is_done for each in self._processes if each.task.role == role)

    def tell(self, kind: str, *, role: str | None = None, **more: object) -> None:
        """Say the same to all processes, or all of a role."""
        line = json.dumps({"kind": kind, **more})
        for each in self._processes:
            if role in (None, each.task.role):
                each.tell(line)

    def listen(self, timeout_s: float) -> Iterator[Said]:
        """What was said, within that time.

        Raises:
            GeneratorError: a process failed, or ended without having done its part.
        """
        for key, _ in self._selector.select(timeout_s):
            process = key.fileobj
            assert isinstance(process, _Process)
            data = os.read(process.fileno(), _READ_BYTES)
            if not data:
                self._selector.unregister(process)
                if not process.is_done:
                    raise GeneratorError(_name(process.task) + f" ended with {process.process.wait()}")
                continue
            *lines, process.buffer = (process.buffer + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message["kind"] == "error":
                    raise GeneratorError(f"{_name(process.task)}: {message['message']}")
                process.is_done = process.is_done or message["kind"] == "done"
                yield Said(process.task, message["kind"], message)

    def close(self) -> None:
        """End all of them, those by force that do not end when nobody listens any more."""
        for each in self._processes:
            assert each.process.stdin is not None
            assert each.process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                each.process.stdin.close()
        deadline = time.monotonic() + _END_S
        for each in self._processes:
            try:
                each.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()
            assert each.process.stdout is not None
            each.process.stdout.close()
        self._selector.close()


def _name(task: Task) -> str:
    return f"{'producer' if task.role == 'produce' else 'consumer'} {task.number}"
