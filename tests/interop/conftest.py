"""The two systems under the same scripts: Apache Kafka 3.9.1 and pkafka.

``system`` runs a test once on each; ``everywhere`` runs one Java tool on Kafka and on pkafka with its own store and
with ZooKeeper, and insists on the same outcome.
``PKAFKA_INTEROP_SYSTEMS=kafka`` leaves pkafka out: a test that fails then expects what Kafka does not do.
"""

import gc
import os
import re
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final, Protocol

import pytest

from pkafka.testing import Broker, running_broker
from tests.differences import first_difference_of_all
from tests.interop import kafka as oracle
from tests.names import new_name
from tests.talk import Talk, talking
from tests.zookeeper import ZooKeeper

SYSTEMS: Final = tuple(os.environ.get("PKAFKA_INTEROP_SYSTEMS", "kafka pkafka").split())
# Where a test itself says what is demanded, its run on Apache Kafka shows that the demand is right: that need not be
# shown again with every change of pkafka.
EITHER: Final = tuple(
    pytest.param(name, marks=[pytest.mark.oracle] if name == "kafka" else []) for name in SYSTEMS
)
_LOG_TAIL_BYTES = 3_000
_HERE: Final = Path(__file__).parent
_TIMEOUT_S: Final = 300

JavaTool = Callable[..., CompletedProcess[str]]


class System(Protocol):
    """A broker under test, of either kind."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def log_dir(self) -> Path: ...

    @property
    def log_file(self) -> Path: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test has five minutes where it does not say otherwise.

    Whichever test of a run comes first starts ZooKeeper, Apache Kafka and a JVM for tools, makes their archives of
    classes or waits for another worker that makes them, and all of that counts as its time.
    """
    for item in items:
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows what the brokers said under a test that failed."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for name in ("kafka", "pkafka", "pkafka_on_zookeeper"):
            broker = item.funcargs.get(name)
            log_file = getattr(broker, "log_file", None)
            if isinstance(log_file, Path) and log_file.exists():
                tail = log_file.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
                report.sections.append((f"{name} log", tail))
    return report


@pytest.fixture(scope="session")
def kafka_classpath() -> str:
    """Apache Kafka 3.9.1, for ``java -cp``."""
    return _available("kafka")


@pytest.fixture(scope="session")
def clients_classpath() -> str:
    """The Java clients of Kafka 4.1.0, for ``java -cp``."""
    return _available("clients")


def _available(bundle: str) -> str:
    try:
        oracle.java_program("javac")
        return oracle.jars(bundle)
    except oracle.OracleUnavailableError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def java_tool(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaTool]:
    """``java_tool(main_class, *args, stdin="")``: runs a tool of Kafka 3.9.1, or a program of tests/interop/java."""
    yield from _tool_server(kafka_classpath, tmp_path_factory.mktemp("java-3.9"))


@pytest.fixture(scope="session")
def java_tool_4(
    clients_classpath: str, kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaTool]:
    """Like ``java_tool``, on the clients of Kafka 4.1.0, without any of Kafka's tools."""
    # They read tokens by Jackson, which their own jars do not bring.
    jackson = [f"jackson-{name}-*.jar" for name in ("annotations", "core", "databind")]
    found = [str(jar) for each in jackson for jar in Path(kafka_classpath).parent.glob(each)]
    class_path = os.pathsep.join([clients_classpath, *found])
    yield from _tool_server(class_path, tmp_path_factory.mktemp("java-4.1"))


def _tool_server(class_path: str, classes: Path) -> Iterator[JavaTool]:
    server = oracle.ToolServer(
        oracle.compile_java(class_path, classes, "ToolServer", "Roundtrip", "LeftBehind", "GuardedSession")
    )
    try:
        yield server.run
    finally:
        server.close()


@pytest.fixture(scope="session")
def kafka(
    kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[oracle.KafkaBroker | None]:
    """A running Apache Kafka 3.9.1 in ZooKeeper mode; None where PKAFKA_INTEROP_SYSTEMS leaves it out."""
    if "kafka" not in SYSTEMS:
        yield None
        return
    with oracle.running_kafka(tmp_path_factory.mktemp("kafka"), overrides=SAME_SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="session")
def pkafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | None]:
    """A running pkafka; None where PKAFKA_INTEROP_SYSTEMS leaves it out."""
    if "pkafka" not in SYSTEMS:
        yield None
        return
    with running_broker(tmp_path_factory.mktemp("pkafka"), SAME_SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="session")
def pkafka_on_zookeeper(
    zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker | None]:
    """A pkafka on ZooKeeper; None where PKAFKA_INTEROP_SYSTEMS leaves pkafka out."""
    if "pkafka" not in SYSTEMS:
        yield None
        return
    settings = {**SAME_SETTINGS, "zookeeper.connect": f"{zookeeper.connect}/tools"}
    with running_broker(tmp_path_factory.mktemp("pkafka-on-zookeeper") / "broker", settings) as broker:
        yield broker


# What a broker of the pytest plugin has beside the defaults, on Kafka too.
SAME_SETTINGS: Final = {
    "broker.id": 0,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture(params=EITHER)
def system(request: pytest.FixtureRequest) -> System:
    """Each of the two systems in turn."""
    broker: System = request.getfixturevalue(request.param)
    return broker


@pytest.fixture
def talk(system: System) -> Iterator[Talk]:
    """A way to talk to that system."""
    with talking(system.bootstrap) as talk:
        yield talk


@pytest.fixture
def topic() -> str:
    """The name of a topic that does not exist yet; the same on both systems."""
    return new_name("t")


class Everywhere:
    """Runs a Java tool on every system and compares what comes back."""

    def __init__(self, tool: JavaTool, systems: list[System]) -> None:
        self.systems = systems
        self._tool = tool

    def run(
        self,
        main_class: str,
        *arguments: object,
        stdin: str = "",
        mask: tuple[str, ...] = (),
        code: int = 0,
        sorted_lines: bool = False,
    ) -> str:
        """Run ``main_class`` on each system, with the ``--bootstrap-server`` given, and compare standard output.

        Args:
            main_class: of the tool; ``arguments`` and ``stdin`` as on a command line.
            mask: regular expressions of what may differ and is left out.
            code: the exit code expected of all.
            sorted_lines: the lines have no order of their own.

        Returns:
            What the tool wrote on Kafka, masked.
        """
        outputs = []
        for system in self.systems:
            done = self._tool(main_class, "--bootstrap-server", system.bootstrap, *arguments, stdin=stdin)
            assert done.returncode == code, f"{system.log_dir}: {done}"
            output = masked(done.stdout, system, mask)
            outputs.append("\n".join(sorted(output.splitlines())) if sorted_lines else output)
        assert not first_difference_of_all(outputs)
        return outputs[0]


def masked(text: str, system: System, patterns: tuple[str, ...] = ()) -> str:
    """``text`` without what must differ between two brokers: addresses, topic ids, folders, and ``patterns``."""
    text = text.replace(system.bootstrap, "HOST:PORT").replace(str(system.log_dir), "LOG_DIR")
    text = re.sub(r"TopicId: \S{22}", "TopicId: *", text)
    for pattern in patterns:
        text = re.sub(pattern, "", text)
    return text


@pytest.fixture
def everywhere(
    java_tool: JavaTool, kafka: System | None, pkafka: System | None, pkafka_on_zookeeper: System | None
) -> Everywhere:
    """A Java tool on Apache Kafka and on pkafka with either store, with the same outcome."""
    systems = (kafka, pkafka, pkafka_on_zookeeper)
    return Everywhere(java_tool, [system for system in systems if system is not None])


@pytest.fixture
def sockets_of_kafka_python() -> Iterator[None]:
    """Collects what clients of kafka-python leave open: found later, it would be another test's fault."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
