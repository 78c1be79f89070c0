"""Apache Kafka itself as the oracle: its jars, a broker in ZooKeeper mode, and its tools in one warm JVM.

Maven fetches the jars once into ``.oracle`` of the checkout (or into ``PKAFKA_ORACLE_DIR``); after that nothing here
needs a network. Nothing of Kafka is part of this project.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pkafka.tools.servers.local_broker import hold_port
from pkafka.tools.zookeeper.server import ZooKeeperUnavailableError, running_server
from tests.class_archives import oracle_root, with_archive
from tests.talk import wait_for

HERE: Final = Path(__file__).parent
JAVA_SOURCES: Final = HERE / "java"
FETCH_TIMEOUT_S: Final = 600
PREPARING_TIMEOUT_S: Final = 300.0
"""Of what is done once, and takes all of a core: compiling, and writing an archive of classes."""
TOOL_TIMEOUT_S: Final = 120.0
START_TIMEOUT_S: Final = 180.0
STOP_TIMEOUT_S: Final = 60.0
_SMALL_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_BOUND: Final = re.compile(r"Awaiting socket connections on \S+:(\d+)\.")
_PLAIN: Final = re.compile(r"(?:^|,)PLAINTEXT://[^,]*:(\d+)")
_INT: Final = struct.Struct(">i")


class OracleUnavailableError(Exception):
    """Apache Kafka cannot be had here; the text names what is missing and the command that installs it."""


def java_program(name: str) -> str:
    """The path of ``java`` or ``javac``.

    Raises:
        OracleUnavailableError: it is not installed.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin" if home else None)
    if found is None:
        raise OracleUnavailableError(f"no {name}: sudo apt-get install -y openjdk-17-jdk-headless")
    return found


def jars(bundle: str) -> str:
    """A class path of everything that ``java/<bundle>.xml`` names; fetched when it is not there yet.

    Args:
        bundle: ``kafka`` (Apache Kafka 3.9.1), ``clients`` (the Java clients of 4.1.0), ``spark`` (Spark's own Kafka
            connector) or ``streams`` (Kafka Streams 3.9.1 with its tests), ``kafka-4`` (Apache Kafka 4.3.1),
            ``connect`` (Connect's file connectors).

    Raises:
        OracleUnavailableError: no Java, no Maven, or Maven could not fetch the jars.
    """
    java_program("java")
    pom = JAVA_SOURCES / f"{bundle}.xml"
    version = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    root = oracle_root()
    directory = root / f"{bundle}-{version}"
    if not directory.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with (root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.is_dir():
                _fetch(pom, directory)
    return f"{directory}/*"


def _fetch(pom: Path, directory: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise OracleUnavailableError("no mvn to fetch Kafka's jars: sudo apt-get install -y maven")
    # Made beside its place and renamed, so that an interrupted run leaves no half of a class path.
    partial = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    # -U: what a repository lacked for a moment, Maven would not ask for again all day.
    command = [maven, "-q", "-B", "-U", "-f", str(pom), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={partial}", "-DincludeScope=runtime"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        cwd=directory.parent,
    )
    if done.returncode or not any(partial.glob("kafka-clients-*.jar")):
        raise OracleUnavailableError(
            f"Maven could not fetch {pom.name}: {done.stdout[-800:]}{done.stderr[-800:]}"
        )
    partial.rename(directory)


def compile_java(class_path: str, into: Path, *programs: str) -> str:
    """Compile programs of ``java/`` against ``class_path``; returns a class path with the result at its end: an archive
    of classes (:mod:`tests.class_archives`) is for the jars in front."""
    into.mkdir(parents=True, exist_ok=True)
    sources = [str(JAVA_SOURCES / f"{program}.java") for program in programs]
    command = [java_program("javac"), "-nowarn", "-proc:none", "-cp", class_path, "-d", str(into), *sources]
    subprocess.run(command, check=True, timeout=PREPARING_TIMEOUT_S, stdin=subprocess.DEVNULL)
    return f"{class_path}{os.pathsep}{into}"


@cache
def _tools_archive(class_path: str) -> tuple[str, ...]:
    """Flags by which a JVM of Kafka's tools maps its classes from a file, which a tool that finds no broker makes."""
    directory = Path(class_path.split(os.pathsep)[0]).parent
    if not any(directory.glob("kafka-tools-3*.jar")):
        return ()

    def train(flags: tuple[str, ...]) -> None:
        # Of jars alone: a JVM with a directory in its class path makes no archive.
        command = [java_program("java"), *_SMALL_JVM, *flags, "-cp", f"{directory}/*"]
        with tempfile.NamedTemporaryFile("w", suffix=".properties") as impatient:
            impatient.write("request.timeout.ms=100\ndefault.api.timeout.ms=200\n")
            impatient.flush()
            nowhere = ("--bootstrap-server", "127.0.0.1:1", "--command-config", impatient.name)
            words = ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *nowhere, "--list")
            subprocess.run([*command, *words], capture_output=True, timeout=PREPARING_TIMEOUT_S, check=False)

    jars_of_tools = sorted(directory.glob("*.jar"))
    return with_archive(oracle_root() / "archives", "tools", java_program("java"), jars_of_tools, train)


class ToolServer:
    """One JVM that runs the ``main`` of one class after another; see ``java/ToolServer.java``.

    Args:
        class_path: with the compiled programs of ``java/`` at its end.
        heap: the JVM's limit, as in ``-Xmx``.
        archive: flags for its archive of classes; None: those of the archive that all with these jars share.
    """

    def __init__(self, class_path: str, *, heap: str = "256m", archive: Sequence[str] | None = None) -> None:
        self._command = [
            java_program("java"),
            f"-Xmx{heap}",
            *_SMALL_JVM,
            *_tools_archive(class_path),
            f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'log4j.properties'}",
            "-cp",
            class_path,
            "ToolServer",
        ]
        self._jvm: subprocess.Popen[bytes] | None = None

    def run(
        self,
        main_class: str,
        *arguments: object,
        stdin: str | bytes = b"",
        timeout_s: float = TOOL_TIMEOUT_S,
        alone: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """What ``java MAIN_CLASS ARGUMENTS`` would have done.

        Args:
            alone: really do that, for a tool that goes on in other threads or speaks at the end of its JVM.

        Raises:
            subprocess.TimeoutExpired: it did not end in ``timeout_s``; the JVM is replaced at the next call.
        """
        words = [main_class, *map(str, arguments)]
        if alone:
            return self._alone(words, stdin, timeout_s)
        call = bytearray(_INT.pack(len(words)))
        for word in [*(word.encode() for word in words), stdin.encode() if isinstance(stdin, str) else stdin]:
            call += _INT.pack(len(word)) + word
        jvm = self._running()
        assert jvm.stdin is not None
        jvm.stdin.write(call)
        jvm.stdin.flush()
        deadline = time.monotonic() + timeout_s
        try:
            (code,) = _INT.unpack(self._read(4, deadline))
            out, err = (self._read(_INT.unpack(self._read(4, deadline))[0], deadline) for _ in range(2))
        except TimeoutError:
            self.close()
            raise subprocess.TimeoutExpired(words, timeout_s) from None
        except EOFError:
            # It ended the JVM by System.exit, which nobody can stop, and took its words along: it gets a JVM to end.
            self.close()
            return self._alone(words, stdin, timeout_s)
        return subprocess.CompletedProcess(words, code, out.decode(), err.decode())

    def _alone(
        self, words: Sequence[str], stdin: str | bytes, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self._command[:-1], *words],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            timeout=timeout_s,
        )
        return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())

    def close(self) -> None:
        """End the JVM."""
        if self._jvm is not None:
            jvm, self._jvm = self._jvm, None
            jvm.kill()
            jvm.communicate()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._jvm is None or self._jvm.poll() is not None:
            self.close()
            self._jvm = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._jvm

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._jvm is not None
        assert self._jvm.stdout is not None
        source = self._jvm.stdout.fileno()
        data = bytearray()
        while len(data) < size:
            if not select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError
            chunk = os.read(source, size - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)


@cache
def _broker_archive(class_path: str) -> tuple[str, ...]:
    """Flags by which a broker's JVM maps its classes from a file; a broker that does nothing makes the file."""
    directory = Path(class_path).parent

    def train(flags: tuple[str, ...]) -> None:
        with (
            tempfile.TemporaryDirectory() as files,
            running_server(Path(files), jars=directory) as (_process, port),
        ):
            broker = KafkaBroker(
                class_path, f"127.0.0.1:{port}", Path(files), jvm_flags=_SMALL_JVM, archive=flags
            )
            broker.start()
            broker.stop(PREPARING_TIMEOUT_S)  # it writes the file at its end

    return with_archive(
        oracle_root() / "archives", "broker", java_program("java"), sorted(directory.glob("*.jar")), train
    )


class KafkaBroker:
    """An Apache Kafka 3.9.1 broker that runs, can be stopped either way, and started again on the same directory.

    Args:
        class_path: of :func:`jars`.
        zookeeper: ``host:port/chroot``.
        directory: gets ``server.properties``, ``data`` and ``server.log``.
        overrides: lines of server.properties.
        heap: the JVM's limit, as in ``-Xmx``.
        jvm_flags: more flags for the JVM.
        archive: flags for its archive of classes; None: those of the archive that all brokers share.
    """

    name = "kafka"

    def __init__(
        self,
        class_path: str,
        zookeeper: str,
        directory: Path,
        *,
        overrides: Mapping[str, object] | None = None,
        heap: str = "512m",
        jvm_flags: Sequence[str] = (),
        archive: Sequence[str] | None = None,
    ) -> None:
        self.zookeeper = zookeeper
        self.log_dir = directory / "data"
        self.log_file = directory / "server.log"
        self.port = 0
        self.properties = directory / "server.properties"
        self.start_timeout_s = START_TIMEOUT_S
        self._overrides = dict(overrides or {})
        self._command = [
            java_program("java"),
            f"-Xmx{heap}",
            *jvm_flags,
            *(_broker_archive(class_path) if archive is None else archive),
            f"-Djava.io.tmpdir={directory}",  # a kill leaves the libraries that it unpacked
            f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'broker-log4j.properties'}",
            "-cp",
            class_path,
            "kafka.Kafka",
            str(self.properties),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._was_killed = False
        self._let_go: Callable[[], object] = lambda: None
        """Of the port, which is kept from an end to the next start."""

    @property
    def bootstrap(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the JVM."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until clients are served; the port stays the same at later starts.

        After a kill it waits first for the end of the session that the kill has left: until then Apache Kafka refuses.

        Raises:
            RuntimeError: it did not start; the text has the end of its log.
        """
        settings: dict[str, object] = {
            "broker.id": 0,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "zookeeper.connect": self.zookeeper,
            "log.dirs": self.log_dir,
            **self._overrides,
        }
        if self._was_killed:
            with ZooKeeperStore(self.zookeeper) as store:
                wait_for(lambda: store.exists(f"/brokers/ids/{settings['broker.id']}") is None, timeout_s=60)
            self._was_killed = False
        self.properties.parent.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )
        named = _PLAIN.search(str(settings["listeners"]))
        plain = int(named[1]) if named else 0
        deadline = time.monotonic() + self.start_timeout_s
        while True:
            text = self.log_file.read_text(errors="replace")[begin:]
            bound = [int(each) for each in _BOUND.findall(text)]
            # Of several listeners, which are bound in any order, only the plain one is asked: others count what fails.
            port = plain if plain in bound else next(iter(bound), 0)
            if port and "] started (kafka.server.KafkaServer)" in text and _knows_itself(port):
                self.port = port
                self._let_go()
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Apache Kafka did not start:\n{text[-3000:]}")
            time.sleep(0.05)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """A clean stop, with controlled shutdown; kill -9 when that takes too long."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
            self._hold_port()

    def _hold_port(self) -> None:
        if self.port:
            self._let_go()
            self._let_go = hold_port(self, "127.0.0.1", self.port)

    def wait(self) -> int:
        """Wait for an end that something else brings about, and return the exit code."""
        assert self._process is not None
        code = self._process.wait(STOP_TIMEOUT_S)
        self._hold_port()
        return code

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._was_killed = True
            self._hold_port()

    def restart(self) -> None:
        """A clean stop and a start on the same port."""
        self.stop()
        self.start()


def _knows_itself(port: int) -> bool:
    """Whether the broker's metadata has a broker: shortly after its start it has none, and refuses to create topics."""
    request = encode_request(ApiKey.METADATA, 1, 1, "start", MetadataRequest(topics=[]))
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as connection:
            connection.sendall(request)
            with connection.makefile("rb") as answers:
                (size,) = _INT.unpack(answers.read(4))
                _, response = decode_response(ApiKey.METADATA, 1, answers.read(size))
    except (OSError, struct.error):
        return False
    assert isinstance(response, MetadataResponse)
    return bool(response.brokers)


@contextlib.contextmanager
def running_kafka(
    directory: Path,
    *,
    overrides: Mapping[str, object] | None = None,
    heap: str = "512m",
    jvm_flags: Sequence[str] = _SMALL_JVM,
) -> Iterator[KafkaBroker]:
    """ZooKeeper and one broker in ``directory``, on ports chosen by the kernel, ended on leaving.

    Raises:
        OracleUnavailableError: no Java, no Maven.
        RuntimeError: one of them did not start.
    """
    class_path = jars("kafka")
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with running_server(directory, jars=Path(class_path).parent, timeout_s=START_TIMEOUT_S) as (_, port):
            broker = KafkaBroker(
                class_path,
                f"127.0.0.1:{port}",
                directory,
                overrides=overrides,
                heap=heap,
                jvm_flags=jvm_flags,
            )
            broker.start()
            try:
                yield broker
            finally:
                broker.kill()
    except ZooKeeperUnavailableError as error:
        raise RuntimeError(str(error)) from error
