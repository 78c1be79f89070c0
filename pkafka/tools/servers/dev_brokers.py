"""Throw-away brokers that go on in the background until a command ends them, found again by name.

A broker's data lies in a temporary directory; one small file per name and user says where, beside a lock that keeps
two commands from working on one name at a time. A command that meets what a crash or a restart of the machine left
clears it away.
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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.server.config.cores import cores_for_each
from pkafka.tools.servers.authority import CertificatesError
from pkafka.tools.servers.local_broker import PLAINTEXT, STOP_TIMEOUT_S, Broker, BrokerStartError
from pkafka.tools.servers.processes import is_running
from pkafka.tools.servers.security import PROTOCOLS, Security, UsersError, client_properties
from pkafka.tools.zookeeper.server import ZooKeeperUnavailableError, start_throw_away

DEFAULT_NAME: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_POLL_S: Final = 0.01


class DevBrokerError(PkafkaError):
    """A throw-away broker cannot be started, found or ended; the text says why."""


class DevBroker(NamedTuple):
    """A broker in the background, or several on a ZooKeeper of their own."""

    name: str
    pid: int
    """Of the broker, or of the first of them."""
    bootstrap: str
    directory: Path
    brokers: int = 1
    others: tuple[int, ...] = ()
    """The processes of the other brokers and, last, of the ZooKeeper."""
    zookeeper: str | None = None
    """host:port of the ZooKeeper of several brokers; one alone has none."""
    security: str | None = None
    """The protocol of its listeners; None: everybody may do everything."""

    @property
    def client_properties(self) -> Path | None:
        """The file with which the super user is let in; librdkafka.conf lies beside it, and folders of other users."""
        return client_properties(self.directory) if self.security else None

    @property
    def is_running(self) -> bool:
        """Whether all of it still runs (and is not another process that got an id)."""
        return not self.dead

    @property
    def dead(self) -> list[str]:
        """What of it does not run any more: "broker N", "zookeeper"."""
        pids = (self.pid, *self.others)
        names = [f"broker {number}" for number in range(self.brokers)] + ["zookeeper"]
        return [name for name, pid in zip(names, pids, strict=False) if not self.runs(pid)]

    def runs(self, pid: int) -> bool:
        """Whether one of its processes still runs."""
        return is_running(pid, str(self.directory))


class _ZooKeeper(NamedTuple):
    pid: int
    address: str


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

    def start(
        self,
        name: str,
        overrides: Mapping[str, object],
        *,
        brokers: int = 1,
        security: str | None = None,
        passwords: Mapping[str, str] | None = None,
    ) -> DevBroker:
        """Start a broker, or several, on free ports and leave them running.

        Args:
            name: to find them again.
            overrides: configuration keys of server.properties.
            brokers: how many; more than one share a ZooKeeper that is started for them.
            security: the protocol of a secured cluster, SSL, SASL_PLAINTEXT or SASL_SSL.
            passwords: of its users, by name.

        Raises:
            DevBrokerError: one of this name runs already, the name is not legal, the users are not, no certificate
                can be made, or a broker or ZooKeeper does not start.
            OSError: the state or the temporary directory cannot be written.
        """
        with self._locked(name):
            old = self._read(name)
            if old is not None and old.is_running:
                raise DevBrokerError(f"a broker named {name} runs already on {old.bootstrap}")
            if old is not None:
                _end(old)  # what is left of it
                self._forget(old)
            directory = Path(tempfile.mkdtemp(prefix=f"pkafka-dev-{name}-"))
            try:
                secured = Security(directory, security, passwords) if security else None
                with _starting(directory, overrides, brokers, secured) as (started, zookeeper):
                    dev = DevBroker(
                        name,
                        started[0].pid,
                        ",".join(each.bootstrap for each in started),
                        directory,
                        brokers,
                        (*(each.pid for each in started[1:]), *((zookeeper.pid,) if zookeeper else ())),
                        zookeeper.address if zookeeper else None,
                        security,
                    )
                    if secured is not None:
                        secured.write_client_files(dev.bootstrap)
                    self._write(dev)
            except BaseException as error:
                shutil.rmtree(directory, ignore_errors=True)
                if isinstance(error, BrokerStartError):
                    raise DevBrokerError(error.reason) from None
                if isinstance(error, ZooKeeperUnavailableError | CertificatesError | UsersError):
                    raise DevBrokerError(str(error)) from None
                raise
            for each in started:
                each.leave_running()
            return dev

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
            return DevBroker(
                name,
                int(values["pid"]),
                str(values["bootstrap"]),
                Path(values["directory"]),
                int(values.get("brokers", 1)),
                tuple(map(int, values.get("others", ()))),
                values.get("zookeeper"),
                _protocol(values.get("security")),
            )
        except (
            FileNotFoundError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ):
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


@contextlib.contextmanager
def _starting(
    directory: Path, overrides: Mapping[str, object], count: int, security: Security | None
) -> Iterator[tuple[list[Broker], _ZooKeeper | None]]:
    """Brokers that run, and the ZooKeeper of several; when the block fails they are ended again."""
    brokers: list[Broker] = []
    with contextlib.ExitStack() as undo:
        zookeeper: _ZooKeeper | None = None
        shared: dict[str, object] = {}
        if count > 1:
            (directory / "zookeeper").mkdir()
            process, port = start_throw_away(directory / "zookeeper", tick_time_ms=2000, own_session=True)
            undo.callback(process.wait)
            undo.callback(process.kill)
            zookeeper = _ZooKeeper(process.pid, f"127.0.0.1:{port}")
            replicas = min(count, 3)
            shared = {
                "zookeeper.connect": zookeeper.address,
                "default.replication.factor": replicas,
                "offsets.topic.replication.factor": replicas,
                "min.insync.replicas": max(replicas - 1, 1),
                "pkafka.workers": cores_for_each(count),
                # At the end all stop at once, and no broker is left to take over.
                "controlled.shutdown.retry.backoff.ms": 100,
            }
        protocol = security.protocol if security is not None else PLAINTEXT
        properties = security.broker_properties if security is not None else None
        for number in range(count):
            own = {"broker.id": number, **shared} if count > 1 else {}
            place = directory / f"broker-{number}" if count > 1 else directory
            brokers.append(
                Broker(
                    place,
                    {**own, **overrides},
                    own_session=True,
                    protocol=protocol,
                    properties=properties,
                )
            )
            undo.callback(brokers[-1].kill)
        if security is not None:
            security.add_users(brokers[0].log_dir, {**shared, **overrides})
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(lambda broker: broker.start(), brokers))
        yield brokers, zookeeper
        undo.pop_all()
        if zookeeper is not None:
            process.returncode = 0  # it goes on without us, which Popen would warn about


def _protocol(stored: object) -> str | None:
    if stored is None or (isinstance(stored, str) and stored in PROTOCOLS):
        return stored
    raise ValueError("no protocol that a secured cluster has")


def _end(broker: DevBroker) -> bool:
    """Stop all processes, the ZooKeeper last; False when one had to be killed."""
    zookeeper = broker.others[-1:]
    brokers = (broker.pid, *broker.others[:-1])
    in_time = _signal_and_wait(broker, brokers, signal.SIGTERM)
    if not in_time:
        _signal_and_wait(broker, brokers, signal.SIGKILL)
    _signal_and_wait(broker, zookeeper, signal.SIGKILL)  # nothing of it is to last
    return in_time


def _signal_and_wait(broker: DevBroker, pids: Sequence[int], number: int) -> bool:
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for pid in pids:
        if broker.runs(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    while any(broker.runs(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
