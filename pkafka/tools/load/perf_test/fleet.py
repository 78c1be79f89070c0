"""The generators of a load test, as their leader sees them: starts, talks to and ends them. See :mod:`generator`."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from pkafka.errors import PkafkaError
from pkafka.tools.load.perf_test.plan import Task

_END_S: Final = 5.0
_READ_BYTES: Final = 1 << 16


class GeneratorError(PkafkaError):
    """A generator of a load test could not do its part."""


class Said(NamedTuple):
    """What one generator said."""

    task: Task
    kind: str
    message: Mapping[str, Any]


class Member(ABC):
    """A generator, and a way to it.

    Args:
        task: what it does.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.is_done = False
        self.buffer = b""
        """The beginning of a line that is not whole yet."""

    @property
    def name(self) -> str:
        """For a person."""
        return f"{'producer' if self.task.role == 'produce' else 'consumer'} {self.task.number}"

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor from which its words come."""

    @abstractmethod
    def tell(self, line: str) -> None:
        """Say a line to it. That it has ended shows when its words are read, and not here."""

    @abstractmethod
    def fate(self) -> str:
        """How it ended, now that nothing comes from it any more."""


class Fleet(ABC):
    """The generators that do the tasks of a test; a ``with`` block ends all of them."""

    ready_s: float = 60.0
    """How long until all of them have to be ready."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def working(self) -> int:
        """How many are not done."""
        return sum(not each.is_done for each in self._members)

    def is_working(self, role: str) -> bool:
        """Whether any of that role is not done."""
        return any(not each.is_done for each in self._members if each.task.role == role)

    def tell(self, kind: str, *, role: str | None = None, **more: object) -> None:
        """Say the same to all of them, or all of a role."""
        line = json.dumps({"kind": kind, **more})
        for each in self._members:
            if role in (None, each.task.role):
                each.tell(line)

    def listen(self, timeout_s: float) -> Iterator[Said]:
        """What was said, within that time.

        Raises:
            GeneratorError: a generator failed, or ended without having done its part.
        """
        for key, _ in self._selector.select(timeout_s):
            yield from self._read(key.fileobj)

    def not_ready(self) -> str:
        """What to say when not all of them are ready in time."""
        return f"the processes of the test are not ready after {self.ready_s:.0f} s"

    @abstractmethod
    def close(self) -> None:
        """End all of them, also those that are not done."""

    def _read(self, source: object) -> Iterator[Said]:
        """What comes from something that has something to say."""
        assert isinstance(source, Member)
        data = _received(source)
        if not data:
            self._selector.unregister(source)
            if not source.is_done:
                raise GeneratorError(f"{source.name} {source.fate()}")
            return
        *lines, source.buffer = (source.buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["kind"] == "error":
                raise GeneratorError(f"{source.name}: {message['message']}")
            if message["kind"] == "time":
                source.tell(json.dumps({"now_ns": time.monotonic_ns()}))
                continue
            source.is_done = source.is_done or message["kind"] == "done"
            yield Said(source.task, message["kind"], message)


class Processes(Fleet):
    """Processes of this machine."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__()
        self._processes: list[_Process] = []
        try:
            for task in tasks:
                process = _Process(task)
                self._processes.append(process)
                self._members.append(process)
                self._selector.register(process, selectors.EVENT_READ)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all of them: by force those that go on when the leader does not listen any more."""
        for each in self._processes:
            each.leave()
        deadline = time.monotonic() + _END_S
        for each in self._processes:
            each.end(deadline)
        self._selector.close()


class _Process(Member):
    def __init__(self, task: Task) -> None:
        super().__init__(task)
        # In a session of its own: Ctrl-C is for the parent, which says when to stop.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pkafka.tools.load.perf_test.generator"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.tell(task.to_json())

    def fileno(self) -> int:
        return self._stdout.fileno()

    def tell(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()

    def fate(self) -> str:
        return f"ended with {self._process.wait()}"

    def leave(self) -> None:
        """Let it see that the leader does not listen any more."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def end(self, deadline: float) -> None:
        """Wait until that moment of the monotonic clock for its end, then end it."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()


def _received(source: Member) -> bytes:
    try:
        return os.read(source.fileno(), _READ_BYTES)
    except ConnectionError:
        return b""
