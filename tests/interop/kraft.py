"""Apache Kafka 4.3.1 as the oracle of what came after 3.9: one process in KRaft mode, broker and controller in one.

Maven fetches its jars as ``kafka.py`` tells.
"""

import contextlib
import signal
import subprocess
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.class_archives import oracle_root, with_archive
from tests.interop.kafka import JAVA_SOURCES, PREPARING_TIMEOUT_S, jars, java_program
from tests.sockets import free_port

START_TIMEOUT_S: Final = 180.0
STOP_TIMEOUT_S: Final = 60.0
CLUSTER_ID: Final = urlsafe_b64encode(b"oracle of pkafka").decode().rstrip("=")
"""Of every cluster here: a random one may begin with a dash, and the tool takes that for a flag."""
_SMALL_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STARTED: Final = "Kafka Server started"
SETTINGS: Final[Mapping[str, object]] = {
    "process.roles": "broker,controller",
    "node.id": 0,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}


class KraftBroker:
    """A broker that runs, can be stopped either way, and started again on the same directory and port.

    Args:
        directory: gets ``server.properties``, ``data`` and ``server.log``.
        transaction_version: the level of the feature that the new cluster begins with.
        advertised: the port that clients are told of; None: the broker's own.
        doors: ``NAME://host:port`` of more listeners.
        archive: flags for its archive of classes; None: those of the archive that all brokers share.
    """

    def __init__(
        self,
        directory: Path,
        *,
        transaction_version: int = 2,
        advertised: int | None = None,
        doors: Sequence[str] = (),
        overrides: Mapping[str, object] | None = None,
        archive: Sequence[str] | None = None,
    ) -> None:
        self._class_path = jars("kafka-4")
        self._directory = directory
        self._transaction_version = transaction_version
        self.port = free_port()
        self._controller_port = free_port()
        self._advertised = self.port if advertised is None else advertised
        self._doors = doors
        self._overrides = dict(overrides or {})
        self._archive = archive
        self._process: subprocess.Popen[bytes] | None = None
        self.log_file = directory / "server.log"
        self.log_dir = directory / "data"

    @property
    def bootstrap(self) -> str:
        """``host:port`` that the broker listens on."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the JVM."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, and wait until clients are served. The first start makes the cluster.

        Raises:
            RuntimeError: it did not start; the text has the end of its log.
        """
        properties = self._directory / "server.properties"
        if not properties.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
            self._format(properties)
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java(self._archived()), "kafka.Kafka", str(properties)],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while _STARTED not in (text := self.log_file.read_text(errors="replace")[begin:]):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Apache Kafka 4 did not start:\n{text[-3000:]}")
            time.sleep(0.05)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """A clean stop; kill -9 when that takes too long."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _settings(self) -> dict[str, object]:
        return {
            **SETTINGS,
            "listeners": ",".join(
                [
                    f"PLAINTEXT://127.0.0.1:{self.port}",
                    f"CONTROLLER://127.0.0.1:{self._controller_port}",
                    *self._doors,
                ]
            ),
            "advertised.listeners": ",".join([f"PLAINTEXT://127.0.0.1:{self._advertised}", *self._doors]),
            "controller.quorum.voters": f"0@127.0.0.1:{self._controller_port}",
            "log.dirs": self.log_dir,
            **self._overrides,
        }

    def _format(self, properties: Path) -> None:
        words = ("format", "-t", CLUSTER_ID, "-c", str(properties))
        feature = ("--feature", f"transaction.version={self._transaction_version}")
        command = [*self._java(_SMALL_JVM), "kafka.tools.StorageTool", *words, *feature]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S)
        if done.returncode:
            raise RuntimeError(f"Apache Kafka 4 did not format its storage:\n{done.stdout}{done.stderr}")

    def _archived(self) -> Sequence[str]:
        return (*_SMALL_JVM, *(_archive(self._class_path) if self._archive is None else self._archive))

    def _java(self, flags: Sequence[str]) -> list[str]:
        return [
            java_program("java"),
            "-Xmx512m",
            *flags,
            f"-Djava.io.tmpdir={self._directory}",  # a kill leaves the libraries that it unpacked
            f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'broker-log4j.properties'}",
            "-cp",
            self._class_path,
        ]


@cache
def _archive(class_path: str) -> tuple[str, ...]:
    """Flags by which a broker's JVM maps its classes from a file; a broker that does nothing makes the file."""
    directory = Path(class_path).parent

    def train(flags: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as files:
            broker = KraftBroker(Path(files), archive=flags)
            broker.start()
            broker.stop(PREPARING_TIMEOUT_S)  # it writes the file at its end

    return with_archive(
        oracle_root() / "archives", "broker-4", java_program("java"), sorted(directory.glob("*.jar")), train
    )


@contextlib.contextmanager
def running_kraft(
    directory: Path,
    *,
    transaction_version: int = 2,
    advertised: int | None = None,
    doors: Sequence[str] = (),
    overrides: Mapping[str, object] | None = None,
) -> Iterator[KraftBroker]:
    """A broker in ``directory``, ended on leaving; arguments as of :class:`KraftBroker`.

    Raises:
        OracleUnavailableError: no Java, no Maven.
        RuntimeError: it did not start.
    """
    broker = KraftBroker(
        directory,
        transaction_version=transaction_version,
        advertised=advertised,
        doors=doors,
        overrides=overrides,
    )
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
