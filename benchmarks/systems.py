"""The systems that are measured, as processes with default configuration, and what the kernel says of them."""

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import psutil

from pkafka.server.config.cores import usable_cores
from pkafka.tools.servers.local_broker import Broker
from pkafka.tools.zookeeper.server import running_server
from tests.certificates import Authority
from tests.interop import kafka as oracle

# What Kafka's own start script gives a broker: KAFKA_HEAP_OPTS and KAFKA_JVM_PERFORMANCE_OPTS of 3.9.
_KAFKA_OVERRIDES: Final[dict[str, object]] = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}
"""What differs from the defaults in Kafka's own sample file: a lone broker could keep no group otherwise."""
KAFKA_HEAP: Final = "1g"
KAFKA_JVM_FLAGS: Final = (
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
WARM_PAGES_BYTES: Final = 600_000_000
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Process(Protocol):
    """A broker that can be started and stopped."""

    start_timeout_s: float

    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def log_dir(self) -> Path: ...
    def start(self) -> None: ...
    def stop(self) -> object: ...
    def kill(self) -> None: ...
    def restart(self) -> None: ...


class _PatientSocket(ssl.SSLSocket):
    """Reads as a plain socket with MSG_WAITALL, which is the only flag here: all that is wanted, or until the end."""

    def recv(self, size: int = 1024, flags: int = 0) -> bytes:
        data = bytearray(size)
        return bytes(data[: self.recv_into(data, size, flags)])

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        view = memoryview(buffer)[: nbytes or None]
        got = 0
        while got < len(view):
            count = super().recv_into(view[got:])
            got += count
            if not count or not flags:
                break
        return got


class TlsListener:
    """A listener with TLS of a system: its port, the broker's certificate, and how clients trust it.

    Args:
        directory: gets the store.
    """

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        signed = authority.signed("broker", ["127.0.0.1"])
        self._store = directory / "broker.pem"
        self._store.write_bytes(signed.key_pem() + signed.chain_pem)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.load_verify_locations(cadata=authority.pem.decode())
        self._context.sslsocket_class = _PatientSocket
        self._port = free_port()

    def settings(self, plain_port: int) -> dict[str, object]:
        """Of a broker that has it beside a plain listener."""
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{plain_port},SSL://127.0.0.1:{self._port}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._store,
        }

    def connect(self) -> socket.socket:
        """A new connection, which blocks."""
        plain = socket.create_connection(("127.0.0.1", self._port), 60)
        return self._context.wrap_socket(plain, server_hostname="127.0.0.1")


@dataclass(slots=True)
class Target:
    """One system under measurement."""

    name: str
    broker: Process
    zookeeper_pid: int | None = None
    """Counted apart; None for the embedded store."""
    notes: dict[str, float] = field(default_factory=dict)
    """What a scenario keeps from one round to the next."""
    beside: object = None
    """See :class:`benchmarks.model.Scenario`."""
    tls: "TlsListener | None" = None
    settings: Mapping[str, object] = field(default_factory=dict)
    """What a scenario adds to the configuration."""

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, _, port = self.broker.bootstrap.rpartition(":")
        return host, int(port)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where its brokers listen: there is one."""
        return [self.address]

    def use_port(self, port: int) -> None:
        """Have it listen there from its next start on."""
        if isinstance(self.broker, Broker):
            self.broker.bootstrap = f"127.0.0.1:{port}"
        elif isinstance(self.broker, oracle.KafkaBroker):
            self.broker.port = port

    def cpu_s(self) -> float:
        """CPU seconds that all of its living processes have used so far."""
        return cpu_s(self.broker)

    def pss_mb(self) -> float:
        """Megabytes of memory of all its processes; what they share is counted once."""
        return sum(pss_mb(pid) for pid in _pids(self.broker))


def cpu_s(broker: Process) -> float:
    """CPU seconds that all living processes of a broker have used so far."""
    return cpu_of(_pids(broker))


def cpu_of(pids: Iterable[int]) -> float:
    """CPU seconds that processes have used so far, as far as they live."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # The command's name may hold blanks; the figures begin after its closing bracket.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def scheduled_s(broker: Process) -> float:
    """CPU seconds of all living processes of a broker as the scheduler counts them: to the nanosecond, not in ticks."""
    total_ns = 0
    for pid in _pids(broker):
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total_ns += int(task.read_text().split()[0])
    return total_ns / 1e9


def _pids(broker: Process) -> list[int]:
    parent = psutil.Process(broker.pid)
    return [parent.pid, *(child.pid for child in parent.children(recursive=True))]


def pss_mb(pid: int) -> float:
    """The proportional set size of one process in MB."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0


class Systems:
    """Makes targets in ``directory``; each is stopped, and its data removed, when its scenario is over."""

    # name: configuration of pkafka, environment
    VARIANTS: Final[dict[str, tuple[dict[str, object], dict[str, str]]]] = {
        "pkafka": ({}, {}),
        "pkafka-n1": ({"pkafka.workers": 1}, {}),
        "pkafka-all": (
            {"pkafka.workers": usable_cores()},
            {},
        ),  # what "pkafka" is, but in clusters that share the cores
        "pkafka-pure": ({}, {"PKAFKA_PURE": "1"}),
    }
    NAMES: Final = ("kafka", *VARIANTS)

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextlib.contextmanager
    def target(
        self,
        name: str,
        *,
        started: bool = True,
        tls: bool = False,
        more: Mapping[str, object] = MappingProxyType({}),
    ) -> Iterator[Target]:
        """The system ``name``, of :data:`NAMES`, with a data directory of its own."""
        home = self.directory / name
        home.mkdir(parents=True)
        listener = TlsListener(home) if tls else None
        if name == "kafka":
            yield from self._kafka(home, started, listener, more)
        else:
            overrides, environment = self.VARIANTS[name]
            if listener is not None:
                overrides = {**overrides, **listener.settings(free_port())}
            broker = Broker(home, {**overrides, **more}, environment=environment)
            try:
                if started:
                    broker.start()
                yield Target(name, broker, tls=listener, settings=more)
            finally:
                broker.kill()

    def _kafka(
        self, home: Path, started: bool, listener: TlsListener | None, more: Mapping[str, object]
    ) -> Iterator[Target]:
        class_path = oracle.jars("kafka")
        with running_server(home, jars=Path(class_path).parent) as (zookeeper, port):
            broker = oracle.KafkaBroker(
                class_path,
                f"127.0.0.1:{port}",
                home,
                heap=KAFKA_HEAP,
                jvm_flags=KAFKA_JVM_FLAGS,
                overrides={
                    **_KAFKA_OVERRIDES,
                    **(listener.settings(0) if listener is not None else {}),
                    **more,
                },
            )
            try:
                if started:
                    broker.start()
                yield Target("kafka", broker, zookeeper.pid, tls=listener, settings=more)
            finally:
                broker.kill()


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def settle(directory: Path) -> None:
    """Make the machine the same for the next measurement, whatever came before it.

    What earlier ones left dirty is written back. Then as many pages as a load has in use at a time are written once and
    freed: a virtual machine gives memory that nobody uses back to its host, and getting a page again costs up to ten
    times as much as writing to it. A broker that has run for a day, its page cache full, does not pay that.
    """
    os.sync()
    time.sleep(0.5)
    path = directory / "pages"
    chunk = bytes(1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(WARM_PAGES_BYTES // len(chunk)):
            file.write(chunk)
        path.unlink()
