"""Throw-away brokers that go on in the background until somebody ends them, found again by name.

A broker's data lies in a temporary directory; one small file per name and user says where, beside a lock that keeps
two commands from working on one name at a time. What a crash or a restart of the machine left is cleared away by the
next command that meets it.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.tools.local_broker import STOP_TIMEOUT_S, Broker, BrokerStartError
from pkafka.tools.processes import is_running

DEFAULT_NAME: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_POLL_S: Final = 0.01


class DevBrokerError(PkafkaError):
    """A throw-away broker cannot be started, found or ended; the text says why."""


class DevBroker(NamedTuple):
    """A broker in the background."""

    name: str
    pid: int
    bootstrap: str
    directory: Path

    @property
    def is_running(self) -> bool:
        """Whether it still runs (and is not another process that got its id)."""
        return is_running(self.pid, str(self.directory))


def state_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the files about this user's brokers are: under XDG_STATE_HOME, by default ~/.local/state."""
    home = environment.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "pkafka" / "dev"


class DevBrokers:
    """The brokers that one user has in the background.

    Args:
        state: gets a file per broker; made when needed.
    """

    def __init__(self, state: Path) -> None:
        self._state = state

    def start(self, name: str, overrides: Mapping[str, object]) -> DevBroker:
        """Start a broker on a free port and leave it running.

        Args:
            name: to find it again.
            overrides: configuration keys of server.properties.

        Raises:
            DevBrokerError: one of this name runs already, the name is not legal, or the broker does not start.
            OSError: the state or the temporary directory cannot be written.
        """
        with self._locked(name):
            old = self._read(name)
            if old is not None and old.is_running:
                raise DevBrokerError(f"a broker named {name} runs already on {old.bootstrap}")
            if old is not None:
                self._forget(old)
            directory = Path(tempfile.mkdtemp(prefix=f"pkafka-dev-{name}-"))
            broker = Broker(directory, overrides, own_session=True)
            try:
                broker.start()
                started = DevBroker(name, broker.pid, broker.bootstrap, directory)
                self._write(started)
            except BaseException as error:
                broker.kill()
                shutil.rmtree(directory, ignore_errors=True)
                if isinstance(error, BrokerStartError):
                    raise DevBrokerError(error.reason) from None
                raise
            broker.leave_running()
            return started

    def find(self, name: str) -> DevBroker | None:
        """The broker of this name, whether it still runs or not."""
        return self._read(name)

    def all(self) -> list[DevBroker]:
        """Every broker that was started and not ended, by name."""
        names = sorted(path.stem for path in self._state.glob("*.json"))
        return [broker for name in names if (broker := self._read(name)) is not None]

    def stop(self, name: str) -> DevBroker | None:
        """End a broker, wait for its end and remove its data; None when there was none of this name.

        Raises:
            DevBrokerError: it did not end in time and has been killed; its data is removed all the same.
        """
        with self._locked(name):
            broker = self._read(name)
            if broker is None:
                return None
            ended = _end(broker)
            self._forget(broker)
            if not ended:
                raise DevBrokerError(f"{name} did not end within {STOP_TIMEOUT_S:.0f} s and was killed")
            return broker

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        if not _NAME.fullmatch(name):
            raise DevBrokerError(f"{name!r} is no name for a broker: letters, digits and . _ - only")
        self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._state / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self, name: str) -> DevBroker | None:
        try:
            values = json.loads((self._state / f"{name}.json").read_text(encoding="utf-8"))
            return DevBroker(name, int(values["pid"]), str(values["bootstrap"]), Path(values["directory"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None  # none, or a file that is not ours

    def _write(self, broker: DevBroker) -> None:
        path = self._state / f"{broker.name}.json"
        values = {**broker._asdict(), "directory": str(broker.directory)}
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(values) + "\n", encoding="utf-8")
        temporary.replace(path)

    def _forget(self, broker: DevBroker) -> None:
        shutil.rmtree(broker.directory, ignore_errors=True)
        (self._state / f"{broker.name}.json").unlink(missing_ok=True)


def _end(broker: DevBroker) -> bool:
    """Stop the broker's processes; False when they had to be killed."""
    if _signal_and_wait(broker, signal.SIGTERM, STOP_TIMEOUT_S):
        return True
    _signal_and_wait(broker, signal.SIGKILL, STOP_TIMEOUT_S)
    return False


def _signal_and_wait(broker: DevBroker, number: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    if broker.is_running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(broker.pid, number)
    while broker.is_running:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
