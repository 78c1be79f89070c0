"""A broker of its own, started as a process: for tests, for development, for any program that needs one for a while.

It is the program that users run, on a port chosen by the kernel; not a fake. This module imports nothing of pkafka:
the pytest plugin loads it in every run. :mod:`pkafka.tools.servers.dev_brokers` keeps brokers in the background.
"""

import contextlib
import errno
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

PLAINTEXT = "PLAINTEXT"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
_LOG_TAIL_CHARACTERS = 4_000


class BrokerStartError(Exception):
    """The broker did not start; the text has the end of what it said."""

    @property
    def reason(self) -> str:
        """Why, in one line where the broker refused to start with one; the whole text otherwise."""
        _, prefix, refusal = str(self).partition("\npk-server-start: ")
        return refusal.strip() if prefix and "\n" not in refusal.strip() else str(self)


def hold_port(owner: object, host: str, port: int) -> Callable[[], object]:
    """Keep the kernel from giving the port of a stopped broker to a program that asks for any port.

    The socket that does so is bound and does not listen: a broker that binds with SO_REUSEADDR can listen on the port.

    Args:
        owner: the port is kept for no longer than it lives.
        host: an address of this machine; where it is none, or the port is taken, nothing is kept.
        port: on that address.

    Returns:
        What lets go of the port.
    """
    import socket  # late, as each run of pytest loads this module with the plugin

    kept = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while True:
        try:
            kept.bind((host, port))
            break
        except OSError as error:
            # A process that ends closes its files one by one: a listener perhaps behind what its end is seen by.
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                kept.close()
                return lambda: None
            time.sleep(0.001)
    return weakref.finalize(owner, os.close, kept.detach())


class Broker:
    """A broker in a directory: it starts, stops, is killed and starts again there, always on the same port.

    Args:
        directory: gets the data directory ``data`` and what the broker says, ``server.log``.
        overrides: configuration keys of server.properties with their values; they win over this class's own.
        environment: variables of the broker's environment, beside those of this process.
        own_session: keep the broker out of the terminal's process group, so that Ctrl-C does not reach it.
        ends_with_us: the broker stops when the thread that starts it ends, be it by kill -9 (Linux only).
        protocol: of its listener.
        properties: a server.properties, for what must not stand on a command line, such as passwords.
    """

    def __init__(
        self,
        directory: Path,
        overrides: Mapping[str, object] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        own_session: bool = False,
        ends_with_us: bool = False,
        protocol: str = PLAINTEXT,
        properties: Path | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self.log_dir = self.directory / "data"
        """The data directory, which holds a folder a partition."""
        self.log_file = self.directory / "server.log"
        self.bootstrap = ""
        """``host:port``, for any client's bootstrap servers."""
        self.start_timeout_s = START_TIMEOUT_S
        """How long a start may take: many logs to recover take longer."""
        self._overrides = dict(overrides or {})
        self._environment = dict(environment or {})
        self._own_session = own_session
        self._ends_with_us = ends_with_us
        self._protocol = protocol
        self._properties = properties
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = -1
        self._let_go: Callable[[], object] = lambda: None
        """Of the port, which is kept from an end to the next start."""

    @property
    def host(self) -> str:
        """Where the broker listens."""
        return self.bootstrap.rpartition(":")[0]

    @property
    def port(self) -> int:
        """Where the broker listens; 0 before its first start."""
        return int(self.bootstrap.rpartition(":")[2] or 0)

    @property
    def pid(self) -> int:
        """The process id of the broker's supervisor, the parent of its other processes."""
        if self._process is None:
            raise RuntimeError("the broker does not run")
        return self._process.pid

    def start(self, *arguments: str) -> None:
        """Start, and return as soon as requests are answered.

        Args:
            arguments: of pk-server-start, for this start only.

        Raises:
            BrokerStartError: it ended, or said nothing for ``start_timeout_s``, which is 30 seconds.
        """
        if self._process is not None:
            raise RuntimeError("the broker runs already")
        self.directory.mkdir(parents=True, exist_ok=True)
        ready_file = self.directory / "ready"
        ready_file.unlink(missing_ok=True)
        settings: dict[str, object] = {
            "listeners": f"{self._protocol}://127.0.0.1:{self.port}",
            "log.dirs": self.log_dir,
            **self._overrides,
        }
        command = [sys.executable, "-m", "pkafka.cli.server_start", "--ready-file", str(ready_file)]
        if self._ends_with_us:
            command += ["--end-with-parent", str(os.getpid())]
        for key, value in settings.items():
            command += ["--override", f"{key}={value}"]
        command += [*([str(self._properties)] if self._properties else []), *arguments]
        # Every process of the broker inherits the write end: the read end tells when the last of them is gone.
        self._ended, alive = os.pipe()
        try:
            with self.log_file.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=[alive],
                    cwd=self.directory,
                    env={**os.environ, **self._environment},
                    start_new_session=self._own_session,
                )
        finally:
            os.close(alive)
        try:
            self._wait_until_ready(ready_file)
        except BaseException:
            self.kill()
            raise
        self._let_go()
        self.bootstrap = ready_file.read_text().strip()

    def _wait_until_ready(self, ready_file: Path) -> None:
        deadline = time.monotonic() + self.start_timeout_s
        while not ready_file.exists():
            assert self._process is not None
            code = self._process.poll()
            if code is not None:
                raise BrokerStartError(f"the broker ended with exit code {code}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise BrokerStartError(
                    f"the broker was not ready after {self.start_timeout_s:.0f} s:\n{self.log_tail()}"
                )
            time.sleep(0.005)

    def stop(self) -> int:
        """Stop as an operator would (SIGTERM), wait for all of its processes, and return the exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end within 30 seconds; it has been killed.
        """
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for an end that something else brings about, and return the exit code.

        Raises:
            subprocess.TimeoutExpired: the broker runs on.
        """
        if self._process is None:
            raise RuntimeError("the broker does not run")
        code = self._process.wait(timeout_s)
        self._wait_for_all()
        return code

    def kill(self) -> None:
        """kill -9 of the supervisor; its other processes end by themselves, which is waited for."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        readable, _, _ = select.select([self._ended], [], [], STOP_TIMEOUT_S)
        os.close(self._ended)
        self._process = None
        if self.port:
            self._let_go()
            self._let_go = hold_port(self, self.host.strip("[]"), self.port)
        if not readable:
            raise RuntimeError(f"processes of the broker are still there:\n{self.log_tail()}")

    def restart(self) -> None:
        """A clean stop and a start, on the same port and data."""
        self.stop()
        self.start()

    def leave_running(self) -> int:
        """Let go of the broker, which goes on without this process.

        Returns:
            Its process id.
        """
        if self._process is None:
            raise RuntimeError("the broker does not run")
        pid = self._process.pid
        self._process.returncode = 0  # it is not waited for here any more, which Popen would warn about
        self._process = None
        os.close(self._ended)
        return pid

    def log_tail(self) -> str:
        """The end of what the broker said."""
        with contextlib.suppress(FileNotFoundError):
            return self.log_file.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]
        return ""


@contextlib.contextmanager
def running_broker(
    directory: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    own_session: bool = False,
    ends_with_us: bool = False,
) -> Iterator[Broker]:
    """A started broker, killed on leaving if it still runs.

    Args:
        directory: kept afterwards; None makes a temporary one and removes it.
        overrides, own_session, ends_with_us: see :class:`Broker`.

    Raises:
        BrokerStartError: see :meth:`Broker.start`.
    """
    home = directory or Path(tempfile.mkdtemp(prefix="pkafka-"))
    broker = Broker(home, overrides, own_session=own_session, ends_with_us=ends_with_us)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
