"""Kafka Streams 3.9.1 with exactly_once_v2, through kill -9 of brokers and clients; its own system test is the judge.

The application of StreamsEosTest reads ``data`` and writes what it has read, its smallest and largest values, sums and
counts. Its verifier computes them again from the same records, and compares. The same demands hold of Apache Kafka.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError
from pkafka.model import LATEST, TopicPartition
from tests.cluster import Cluster
from tests.interop import kafka as oracle
from tests.interop.java_program import JavaProgram
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.nightly, pytest.mark.timeout(900)]

_PACKAGE: Final = "org.apache.kafka.streams.tests"
_TOPICS: Final = ("data", "echo", "min", "max", "sum", "repartition", "cnt")
_SMOKE_TOPICS: Final = (
    *("data", "fk", "echo", "min", "min-suppressed", "min-raw", "max", "sum", "sws-raw", "sws-suppressed"),
    *("dif", "cnt", "avg", "wcnt", "tagg"),
)
_PARTITIONS: Final = 3
_SETTINGS: Final = {
    "pkafka.workers": 2,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "zookeeper.session.timeout.ms": 6000,
    "min.insync.replicas": 2,
}


@pytest.fixture(scope="module")
def streams_classpath() -> str:
    """Kafka Streams 3.9.1 and its tests, for ``java -cp``."""
    try:
        return oracle.jars("streams")
    except oracle.OracleUnavailableError as missing:
        pytest.skip(str(missing))


_KINDS: Final = (pytest.param("kkk", marks=pytest.mark.oracle), "ppp", "kpp")


@pytest.fixture
def cluster(zookeeper: ZooKeeper, kafka_classpath: str, tmp_path: Path, kinds: str) -> Iterator[Cluster]:
    """Three brokers of the kinds that a test names."""
    with Cluster(tmp_path, zookeeper.connect, kinds=kinds, overrides=_SETTINGS) as made:
        yield made


class Programs:
    """Programs of Streams' system tests against one cluster.

    Args:
        class_path: of Streams and its tests.
        cluster: whose brokers they work with.
        directory: gets what they write, and their state.
        main_class: takes a file of properties and a command.
    """

    def __init__(self, class_path: str, cluster: Cluster, directory: Path, main_class: str) -> None:
        self._class_path = class_path
        self._cluster = cluster
        self._directory = directory
        self._main_class = main_class

    def made(self, name: str, command: str) -> JavaProgram:
        """One program, not started."""
        settings = self._directory / f"{name}.properties"
        settings.write_text(
            f"bootstrap.servers={self._cluster.bootstrap}\n"
            "processing.guarantee=exactly_once_v2\n"
            f"state.dir={self._directory / name}\n"
            "session.timeout.ms=8000\n"
            "replication.factor=3\n"
            "auto.offset.reset=earliest\n"
        )
        output = self._directory / f"{name}.txt"
        return JavaProgram(self._class_path, self._main_class, settings, command, output=output, heap="200m")


@pytest.mark.parametrize("kinds", _KINDS)
def test_streams_survive_kills(cluster: Cluster, streams_classpath: str, tmp_path: Path) -> None:
    programs = Programs(streams_classpath, cluster, tmp_path, f"{_PACKAGE}.StreamsEosTest")
    with contextlib.ExitStack() as running:
        _create(cluster, _TOPICS)
        driver = running.enter_context(programs.made("driver", "run"))
        applications = [running.enter_context(programs.made(f"app-{n}", "process-complex")) for n in range(3)]
        goes_on = _progress(cluster, "cnt")
        goes_on()
        for application, broker in zip(applications, cluster.brokers, strict=True):
            application.kill()
            broker.kill()
            goes_on()
            broker.start()
            application.start()
            _wait_for_replicas(cluster, _TOPICS)
            goes_on()
        driver.stop()
        assert "records produced" in driver.text()
        for application in applications:
            application.stop(120)
            assert "EOS-TEST-CLIENT-EXCEPTION" not in application.text()
        with programs.made("verifier", "verify-complex") as verifier:
            wait_for(verifier.is_done, timeout_s=180, what="the verdict")
            assert verifier.failures == 0
            assert "ALL-RECORDS-DELIVERED" in verifier.text(), verifier.text()[-3000:]


@pytest.mark.parametrize("kinds", _KINDS)
def test_the_smoke_test_survives_kills(cluster: Cluster, streams_classpath: str, tmp_path: Path) -> None:
    """Joins, windows and suppression over the same few keys; its driver sends each value once, and judges."""
    programs = Programs(streams_classpath, cluster, tmp_path, f"{_PACKAGE}.StreamsSmokeTest")
    with contextlib.ExitStack() as running:
        _create(cluster, _SMOKE_TOPICS)
        driver = running.enter_context(programs.made("driver", "run"))
        applications = [running.enter_context(programs.made(f"app-{n}", "process")) for n in range(2)]
        goes_on = _progress(cluster, "echo")
        goes_on()
        for number, broker in enumerate(cluster.brokers):
            application = applications[number % len(applications)]
            application.kill()
            broker.kill()
            goes_on()
            broker.start()
            application.start()
            _wait_for_replicas(cluster, _SMOKE_TOPICS)
        wait_for(driver.is_done, timeout_s=420, what="the verdict")
        verdict = driver.text()
        assert "SUCCESS" in verdict, verdict[-3000:]
        assert "ALL-RECORDS-DELIVERED" in verdict
        assert "PROCESSED-MORE-THAN-GENERATED" not in verdict


def _create(cluster: Cluster, topics: Sequence[str]) -> None:
    for topic in topics:
        cluster.create_topic(topic, _PARTITIONS)


def _progress(cluster: Cluster, topic: str) -> Callable[[], None]:
    """Something that waits until the applications have written more."""
    places = [TopicPartition(topic, partition) for partition in range(_PARTITIONS)]

    def written() -> int:
        """How much is in the topic, 0 while leaders are on their way."""
        with cluster.admin() as admin:
            found = admin.list_offsets(dict.fromkeys(places, LATEST)).values()
        offsets = [one.offset for one in found if not isinstance(one, ApiError | ClientError)]
        return sum(offsets) if len(offsets) == len(places) else 0

    def goes_on() -> None:
        before = written()
        wait_for(
            lambda: written() > before + 200, timeout_s=120, what=f"more than {before} records of {topic}"
        )

    return goes_on


def _wait_for_replicas(cluster: Cluster, topics: Sequence[str]) -> None:
    for topic in topics:
        for partition in range(_PARTITIONS):
            wait_for(
                lambda: len(cluster.state(topic, partition).isr) == len(cluster.brokers),  # noqa: B023
                timeout_s=90,
                what=f"{topic}-{partition} in sync",
            )
