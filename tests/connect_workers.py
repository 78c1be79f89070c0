"""Workers of Kafka Connect as processes, pkafka's and Java's, and calls of their REST API."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pkafka.java.properties import format_properties
from tests.interop.kafka import jars, java_program
from tests.sockets import free_port
from tests.talk import wait_for

START_TIMEOUT_S: Final = 180.0
STOP_TIMEOUT_S: Final = 60.0
_CALL_TIMEOUT_S: Final = 95.0
_SMALL_JVM: Final = ("-Xmx512m", "-Xshare:auto")
DEFAULT_JVM: Final = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""What Kafka's own scripts give a worker of Connect: ``KAFKA_HEAP_OPTS`` of ``connect-distributed.sh`` and
``connect-standalone.sh``, and ``KAFKA_JVM_PERFORMANCE_OPTS`` of ``kafka-run-class.sh``."""
_LOGGING: Final = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
PATIENT: Final = {
    "task.shutdown.graceful.timeout.ms": "60000",
    "offset.flush.timeout.ms": "60000",
}
"""Settings of a worker whose stop has to store the offsets of its sources, however busy the machine is."""
TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
JSON_WITHOUT_SCHEMAS: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: Any
    headers: Mapping[str, str]


class Rest:
    """Calls a worker.

    Args:
        url: of its REST API.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        media_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request.

        Args:
            body: becomes JSON; None: there is none.
            raw: the body instead, as it is.
            headers: beside the usual ones.
        """
        data = raw if raw is not None or body is None else json.dumps(body).encode()
        sent = {**({} if data is None else {"Content-Type": media_type}), **(headers or {})}
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_CALL_TIMEOUT_S) as found:
                return _answer(found.status, found.headers, found.read())
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.headers, error.read())

    def state(self, connector: str) -> tuple[str, tuple[str, ...]]:
        """The states of a connector and of its tasks; empty when there is none."""
        found = self.call("GET", f"/connectors/{connector}/status")
        if found.status != 200:
            return "", ()
        return found.body["connector"]["state"], tuple(each["state"] for each in found.body["tasks"])

    def wait_until(self, connector: str, state: str, *tasks: str) -> None:
        """Wait until a connector and its tasks are in these states."""
        wait_for(lambda: self.state(connector) == (state, tasks), timeout_s=START_TIMEOUT_S)


def _answer(status: int, headers: Any, data: bytes) -> Answer:
    text = data.decode()
    try:
        body = json.loads(text) if text else None
    except ValueError:
        body = text
    return Answer(status, body, dict(headers.items()))


class ConnectWorker:
    """A worker.

    Args:
        command: that runs it, without its files.
        directory: gets its files.
        bootstrap: of the Kafka cluster.
        settings: of the worker, beside those that all tests use.
        environment: of the process.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        bootstrap: str,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.rest = Rest(f"http://127.0.0.1:{self.port}")
        self.offsets = directory / "offsets"
        self.log = directory / "worker.log"
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.properties = directory / "worker.properties"
        shares = "group.id" in (settings or {})
        self.properties.write_text(
            format_properties(
                {
                    "bootstrap.servers": bootstrap,
                    **JSON_WITHOUT_SCHEMAS,
                    **({} if shares else {"offset.storage.file.filename": str(self.offsets)}),
                    "offset.flush.interval.ms": "200",
                    "listeners": f"http://127.0.0.1:{self.port}",
                    **(settings or {}),
                }
            )
        )

    def start(self, *files: Path) -> None:
        """Start it, with connectors in files; returns when its REST API answers."""
        command = [*self._command, str(self.properties), *map(str, files)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self.directory,
            )
        wait_for(self._answers, timeout_s=START_TIMEOUT_S)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        try:
            return self.rest.call("GET", "/connectors").status == 200
        except OSError:
            return False

    @property
    def worker_id(self) -> str:
        """By which statuses name it."""
        return f"127.0.0.1:{self.port}"

    def set_variable(self, name: str, value: str) -> None:
        """Set a variable of its environment, from its next start on."""
        self._environment[name] = value

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    def create(self, configs: Mapping[str, str]) -> None:
        """Have a connector made."""
        answer = self.rest.call("POST", "/connectors", {"name": configs["name"], "config": dict(configs)})
        assert answer.status == 201, answer

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as an operator does; returns its exit status."""
        return self.end(signal.SIGTERM)

    def end(self, number: int) -> int:
        """Send a signal, and wait for the end."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(STOP_TIMEOUT_S)

    def wait(self) -> int:
        """Wait until it ends by itself; returns its exit status."""
        assert self._process is not None
        return self._process.wait(STOP_TIMEOUT_S)

    def close(self) -> None:
        """End it if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)


def our_command() -> list[str]:
    """What runs pkafka's standalone worker."""
    return [sys.executable, "-c", "from pkafka.cli.connect_standalone import main; main()"]


def java_command(directory: Path, kind: str = "Standalone", *, jvm: Sequence[str] = _SMALL_JVM) -> list[str]:
    """What runs a worker of Kafka Connect 3.9.1.

    Args:
        directory: gets the settings of its log.
        kind: ``Standalone`` or ``Distributed``.
        jvm: options of Java; the usual ones spare the machine of the tests.

    Raises:
        OracleUnavailableError: no Java, no Maven.
    """
    logging = directory / "log4j.properties"
    logging.write_text(_LOGGING)
    class_path = os.pathsep.join([jars("kafka"), jars("connect")])
    main = f"org.apache.kafka.connect.cli.Connect{kind}"
    return [java_program("java"), *jvm, f"-Dlog4j.configuration=file:{logging}", "-cp", class_path, main]


def our_distributed_command() -> list[str]:
    """What runs pkafka's worker of a cluster."""
    return [sys.executable, "-c", "from pkafka.cli.connect_distributed import main; main()"]


def cluster_settings(group: str) -> dict[str, str]:
    """The settings that the workers of a cluster have in common; short times, so that tests need not wait.

    Args:
        group: of the workers; their topics are named by it.
    """
    return {
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.storage.partitions": "3",
        "status.storage.partitions": "2",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
    }


@contextlib.contextmanager
def distributed(
    directory: Path,
    bootstrap: str,
    group: str,
    count: int,
    settings: Mapping[str, str] | None = None,
) -> Iterator[list[ConnectWorker]]:
    """Workers of pkafka's that share connectors and tasks, ended on leaving.

    Args:
        group: of the workers.
        count: how many; they start one after the other, so that the first one leads.
    """
    workers = [
        ConnectWorker(
            our_distributed_command(),
            directory / f"worker-{number}",
            bootstrap,
            {**cluster_settings(group), **(settings or {})},
        )
        for number in range(count)
    ]
    try:
        for worker in workers:
            worker.start()
        yield workers
    finally:
        for worker in workers:
            worker.close()


@contextlib.contextmanager
def standalone(
    directory: Path, bootstrap: str, settings: Mapping[str, str] | None = None, *, starts: bool = True
) -> Iterator[ConnectWorker]:
    """A standalone worker of pkafka's, ended on leaving."""
    worker = ConnectWorker(our_command(), directory, bootstrap, settings)
    try:
        if starts:
            worker.start()
        yield worker
    finally:
        worker.close()


def connector_file(path: Path, configs: Mapping[str, str]) -> Path:
    """A connector's properties in a file."""
    path.write_text(format_properties(configs))
    return path


def line_source(topic: str, path: Path, **more: str) -> dict[str, str]:
    """A connector that brings the lines of a file into a topic.

    Args:
        more: settings, with underscores in place of dots.
    """
    return {
        "name": f"{topic}-source",
        "connector.class": "FileStreamSource",
        "file": str(path),
        "topic": topic,
        "value.converter": TEXT,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def line_sink(topic: str, path: Path, **more: str) -> dict[str, str]:
    """A connector that writes the records of a topic as lines; else as :func:`line_source`."""
    return {
        "name": f"{topic}-sink",
        "connector.class": "FileStreamSink",
        "file": str(path),
        "topics": topic,
        "value.converter": TEXT,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
