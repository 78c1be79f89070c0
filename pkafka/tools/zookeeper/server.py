"""A real ZooKeeper server from jars that are on the machine already.

The wheel of pyspark carries ZooKeeper's jars; any folder that holds them serves as well (Apache Kafka's
``libs``, a ZooKeeper distribution's ``lib``). This finds them and Java and builds the command that runs the
server; it contains no ZooKeeper code of its own.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pkafka.errors import PkafkaError

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HEAP_OPTS_DEFAULT: Final = "-Xmx512M -Xms512M"
"""What Kafka's zookeeper-server-start gives when KAFKA_HEAP_OPTS is not set."""

# Out of pyspark's 300 jars only these are opened.
_NEEDED: Final = ("zookeeper-*", "slf4j-api-*", "log4j-*", "netty-*", "snappy-java-*", "metrics-core-*")
_STOP_TIMEOUT_S: Final = 10.0
START_ATTEMPTS: Final = 3


class ZooKeeperUnavailableError(PkafkaError):
    """ZooKeeper cannot be run here; the text says what is missing and what installs it."""


def find_jars(directory: Path | None = None) -> list[Path]:
    """The jars of a ZooKeeper server.

    Args:
        directory: a folder that holds them, all of whose jars are taken; None looks into pyspark's wheel.

    Raises:
        ZooKeeperUnavailableError: they are not there.
    """
    if directory is not None:
        jars = sorted(directory.glob("*.jar"))
        if not any(jar.name.startswith("zookeeper-") for jar in jars):
            raise ZooKeeperUnavailableError(f"{directory} holds no zookeeper-*.jar")
        return jars
    spec = importlib.util.find_spec("pyspark")  # finds it without importing it
    locations = (spec.submodule_search_locations if spec else None) or []
    for location in locations:
        folder = Path(location) / "jars"
        jars = sorted({jar for pattern in _NEEDED for jar in folder.glob(f"{pattern}.jar")})
        if any(jar.name.startswith("zookeeper-") for jar in jars):
            return jars
    raise ZooKeeperUnavailableError(
        "ZooKeeper's jars were not found: pip install 'pkafka[spark]' brings them with pyspark, "
        "or --jars DIR names a folder that has them"
    )


def find_java(environment: Mapping[str, str] = os.environ) -> str:
    """The java program: of JAVA_HOME when set, else from PATH.

    Raises:
        ZooKeeperUnavailableError: there is none.
    """
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    if java is None or not os.access(java, os.X_OK):
        where = f"in JAVA_HOME={home}" if home else "in PATH"
        raise ZooKeeperUnavailableError(f"no java {where}: apt install openjdk-17-jre-headless brings one")
    return java


def server_command(
    properties: Path,
    *,
    jars: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> list[str]:
    """The command line of a server in the foreground.

    Args:
        properties: ZooKeeper's configuration file.
        jars: see :func:`find_jars`.
        environment: JAVA_HOME, and KAFKA_HEAP_OPTS, KAFKA_LOG4J_OPTS and KAFKA_OPTS as Kafka's script takes
            them.

    Raises:
        ZooKeeperUnavailableError: no jars, no Java, or no such file.
    """
    if not properties.is_file():
        raise ZooKeeperUnavailableError(f"{properties} is not a readable file")
    class_path = os.pathsep.join(str(jar) for jar in find_jars(jars))
    # The admin server is a Jetty whose jars are not there; a line in the properties file still wins over
    # this. Without a logging configuration log4j shows errors alone.
    log_opts = environment.get("KAFKA_LOG4J_OPTS", "-Dlog4j2.level=INFO")
    return [
        find_java(environment),
        *environment.get("KAFKA_HEAP_OPTS", HEAP_OPTS_DEFAULT).split(),
        "-Djava.awt.headless=true",
        "-Dzookeeper.admin.enableServer=false",
        *log_opts.split(),
        *environment.get("KAFKA_OPTS", "").split(),
        "-cp",
        class_path,
        MAIN_CLASS,
        str(properties),
    ]


def wait_until_serving(process: subprocess.Popen[bytes], port: int, *, timeout_s: float) -> None:
    """Wait until the server on this machine's ``port`` takes sessions.

    Raises:
        ZooKeeperUnavailableError: it ended or did not answer in ``timeout_s`` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ZooKeeperUnavailableError(f"ZooKeeper ended with exit code {process.returncode}")
        if _answers(port):
            return
        time.sleep(0.05)
    raise ZooKeeperUnavailableError(f"ZooKeeper did not answer on port {port} within {timeout_s:.0f} s")


@contextmanager
def running_server(
    directory: Path,
    *,
    jars: Path | None = None,
    tick_time_ms: int = 500,
    timeout_s: float = 30.0,
    address: str = "127.0.0.1",
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A throw-away server on a free port, for tests and development clusters.

    Args:
        directory: gets the configuration, the data and ``zookeeper.log``; it must exist.
        jars: see :func:`find_jars`.
        tick_time_ms: sessions may be between 2 and 20 ticks long.
        timeout_s: how long the start may take.
        address: to listen on; the loopback interface has to be part of it.

    Yields:
        The process and its port. The process is killed on leaving: nothing of it is meant to last.

    Raises:
        ZooKeeperUnavailableError: it cannot be run here or did not start; its log stays in ``directory``.
    """
    process, port = start_throw_away(
        directory, jars=jars, tick_time_ms=tick_time_ms, timeout_s=timeout_s, address=address
    )
    try:
        yield process, port
    finally:
        process.kill()
        process.wait(_STOP_TIMEOUT_S)


def start_throw_away(
    directory: Path,
    *,
    jars: Path | None = None,
    tick_time_ms: int = 500,
    timeout_s: float = 30.0,
    address: str = "127.0.0.1",
    own_session: bool = False,
) -> tuple[subprocess.Popen[bytes], int]:
    """As :func:`running_server`, for a caller that ends the process itself.

    Args:
        own_session: keep it out of the terminal's process group, so that Ctrl-C does not reach it.
    """
    # ZooKeeper takes port 0 for "no port", so a free one is chosen here. Another process may take it first: then
    # the next is tried.
    for attempt in range(START_ATTEMPTS):
        port = _free_port()
        properties = directory / "zookeeper.properties"
        properties.write_text(
            f"dataDir={directory / 'data'}\nclientPort={port}\nclientPortAddress={address}\n"
            f"tickTime={tick_time_ms}\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            # Thrown away anyhow: no flush, and no 64 MB written before the first session.
            "forceSync=no\npreAllocSize=1024\n"
        )
        small = {"KAFKA_HEAP_OPTS": "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"}
        command = server_command(properties, jars=jars, environment={**os.environ, **small})
        with (directory / "zookeeper.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=own_session
            )
        try:
            wait_until_serving(process, port, timeout_s=timeout_s)
            return process, port
        except BaseException as error:
            process.kill()
            process.wait(_STOP_TIMEOUT_S)
            if not isinstance(error, ZooKeeperUnavailableError) or attempt == START_ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returned or raised")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            # The one command that every server allows; until it is up it answers that it does not serve yet.
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False
