"""Brokers as processes that need not start Python first, as ``tests/forked_commands.py`` has commands.

Tests start brokers more than a thousand times, and two thirds of the work of each start is to import the server. One
process has imported it, and forks for each :class:`pkafka.testing.Broker`: the fork has the log, the working directory
and the environment of a program, and runs ``main()`` of pk-server-start. Only its command line is not that of a
broker, so tests that look for brokers by it, and those about the start itself, run the program.
"""

import contextlib
import gc
import importlib
import json
import os
import random
import re
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final

import pkafka.tools.servers.local_broker as local_broker
from tests.sockets import free_port

_NUMBER: Final = struct.Struct(">i")
_CALL_BYTES_MAX: Final = 128 * 1024
_ANY_PORT: Final = re.compile(r"^(listeners=\w+://127\.0\.0\.1:)0$")
_PRELOADED: Final = (
    "pkafka.cli.server_start",
    "pkafka.server.broker",
    "pkafka.tools.servers.broker_logging",
    *(f"pkafka.server.processes.{name}" for name in ("supervisor", "control", "worker", "cleaner")),
)


class ForkedBroker:
    """What :class:`pkafka.testing.Broker` needs of a :class:`subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int,
        stdout: IO[bytes],
        stderr: int,
        pass_fds: Sequence[int],
        cwd: Path,
        env: Mapping[str, str],
    ) -> None:
        assert (stdin, stderr) == (subprocess.DEVNULL, subprocess.STDOUT)
        program = [sys.executable, "-m", "pkafka.cli.server_start"]
        assert [*command[:3]] == program, command
        call = [[*command[3:]], str(cwd), dict(env)]
        self._news, told = os.pipe()
        try:
            brokers.fork(json.dumps(call).encode(), [told, stdout.fileno(), *pass_fds])
        finally:
            os.close(told)
        self.pid = self._read()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, once it has ended."""
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end.

        Raises:
            subprocess.TimeoutExpired: it has not come in time.
        """
        code = self._ended_within(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("pk-server-start", timeout)
        return code

    def send_signal(self, number: int) -> None:
        """As of ``Popen``: not to a process that has ended."""
        if self.poll() is None:
            # What forked it may have waited for it already, and not have told so yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(9)

    def _ended_within(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._news], [], [], seconds)[0]:
            self.returncode = self._read()
            os.close(self._news)
        return self.returncode

    def _read(self) -> int:
        data = os.read(self._news, _NUMBER.size)
        if not data:
            raise EOFError("the process that forks has ended")
        (number,) = _NUMBER.unpack(data)
        return int(number)


class ForkedBrokers:
    """The process that forks; started with the first broker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def fork(self, call: bytes, descriptors: Sequence[int]) -> None:
        """Start a broker: told, in the first of the descriptors, are its process id and, in time, its exit code."""
        assert len(call) < _CALL_BYTES_MAX, len(call)
        with self._lock:
            socket.send_fds(self._connected(), [call], descriptors)

    def close(self) -> None:
        """End the process that forks."""
        with self._lock:
            if self._process is not None and self._line is not None:
                self._line.close()
                self._process.wait(30)
            self._process = self._line = None

    def _connected(self) -> socket.socket:
        if self._line is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _CALL_BYTES_MAX)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked_brokers", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=Path(__file__).parents[1],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            theirs.close()
            self._line = ours
        return self._line


brokers: Final = ForkedBrokers()
"""Those of this process; tests/conftest.py ends it."""


def fork_brokers() -> None:
    """Let each :class:`pkafka.testing.Broker` of this process be forked, where the system has what that needs."""
    # Of thousands of starts on a machine with ten other jobs, some take long.
    local_broker.START_TIMEOUT_S = 120.0
    if hasattr(os, "pidfd_open"):
        forking: Any = SimpleNamespace(**{**vars(subprocess), "Popen": _start})
        vars(local_broker)["subprocess"] = forking


def _start(command: Sequence[str], **how: Any) -> "ForkedBroker | subprocess.Popen[bytes]":
    """Fork a broker; start the program where it lives on without the tests (pk-dev) or loads modules of its own.

    In place of any port it gets one that the kernel gives to nobody, so that it is free when the broker comes back.
    """
    command = [_ANY_PORT.sub(lambda found: f"{found[1]}{free_port()}", word) for word in command]
    if how["start_new_session"] or "PYTHONPATH" in how["env"]:
        return subprocess.Popen(command, **how)
    del how["start_new_session"]
    return ForkedBroker(command, **how)


# -- the process that forks --------------------------------------------------------------------------------


def _serve(line: socket.socket) -> bool:
    """Fork for each call, and tell of the ends; returns at the end of the line, or in a fork (True)."""
    for name in _PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    running: dict[int, tuple[int, int]] = {}
    while True:
        for ready in select.select([line.fileno(), *running], [], [])[0]:
            if ready in running:
                _tell_end(ready, *running.pop(ready))
                continue
            call, descriptors, _, _ = socket.recv_fds(line, _CALL_BYTES_MAX, 8)
            if not call:
                return False
            told, log, *kept = descriptors
            pid = os.fork()
            if not pid:
                line.close()
                for pidfd, (_, other) in running.items():
                    os.close(pidfd)
                    os.close(other)
                os.close(told)
                _become(call, log)
                return True
            for descriptor in (log, *kept):
                os.close(descriptor)
            os.write(told, _NUMBER.pack(pid))
            running[os.pidfd_open(pid)] = (pid, told)


def _tell_end(pidfd: int, pid: int, told: int) -> None:
    os.close(pidfd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # the test has let go of it
        os.write(told, _NUMBER.pack(code))
    os.close(told)


def _become(call: bytes, log: int) -> None:
    """Make of this fork the program."""
    arguments, folder, variables = json.loads(call)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.argv = ["pk-server-start", *arguments]
    random.seed()


if __name__ == "__main__" and _serve(socket.socket(fileno=int(sys.argv[1]))):
    from pkafka.cli.server_start import main

    main()
