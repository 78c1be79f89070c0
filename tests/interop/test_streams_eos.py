"""Kafka Streams 3.9.1 with exactly_once_v2, through kill -9 of brokers and clients; its own system test is the judge.

StreamsEosTest's application reads ``data`` and writes what it has read, its smallest and largest values, sums and
counts. Its verifier computes them again from the same records, and compares. The same demands hold of Apache Kafka.
"""

import contextlib
from collections.abc import Callable
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

_MAIN: Final = "org.apache.kafka.streams.tests.StreamsEosTest"
_TOPICS: Final = ("data", "echo", "min", "max", "sum", "repartition", "cnt")
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


@pytest.mark.parametrize("kinds", [pytest.param("kkk", marks=pytest.mark.oracle), "ppp", "kpp"])
def test_streams_survive_kills(
    zookeeper: ZooKeeper, kafka_classpath: str, streams_classpath: str, tmp_path: Path, kinds: str
) -> None:
    def program(name: str, command: str, heap: str = "200m") -> JavaProgram:
        settings = tmp_path / f"{name}.properties"
        settings.write_text(
            f"bootstrap.servers={cluster.bootstrap}\n"
            "processing.guarantee=exactly_once_v2\n"
            f"state.dir={tmp_path / name}\n"
            "session.timeout.ms=8000\n"
            "auto.offset.reset=earliest\n"
        )
        output = tmp_path / f"{name}.txt"
        return JavaProgram(streams_classpath, _MAIN, settings, command, output=output, heap=heap)

    with (
        Cluster(tmp_path, zookeeper.connect, kinds=kinds, overrides=_SETTINGS) as cluster,
        contextlib.ExitStack() as running,
    ):
        for topic in _TOPICS:
            cluster.create_topic(topic, _PARTITIONS)
        driver = running.enter_context(program("driver", "run"))
        applications = [running.enter_context(program(f"app-{n}", "process-complex")) for n in range(3)]
        goes_on = _progress(cluster)
        goes_on()
        for application, broker in zip(applications, cluster.brokers, strict=True):
            application.kill()
            broker.kill()
            goes_on()
            broker.start()
            application.start()
            _wait_for_replicas(cluster)
            goes_on()
        driver.stop()
        assert "records produced" in driver.text()
        for application in applications:
            application.stop(120)
            assert "EOS-TEST-CLIENT-EXCEPTION" not in application.text()
        with program("verifier", "verify-complex") as verifier:
            wait_for(verifier.is_done, timeout_s=180, what=f"the verdict: {verifier.text()[-2000:]}")
            assert verifier.failures == 0
            assert "ALL-RECORDS-DELIVERED" in verifier.text(), verifier.text()[-3000:]


def _progress(cluster: Cluster) -> Callable[[], None]:
    """Something that waits until the applications have written more."""
    places = [TopicPartition("cnt", partition) for partition in range(_PARTITIONS)]

    def written() -> int:
        """The number of counts, 0 while leaders are on their way."""
        with cluster.admin() as admin:
            found = admin.list_offsets(dict.fromkeys(places, LATEST)).values()
        offsets = [one.offset for one in found if not isinstance(one, ApiError | ClientError)]
        return sum(offsets) if len(offsets) == len(places) else 0

    def goes_on() -> None:
        before = written()
        wait_for(lambda: written() > before + 200, timeout_s=120, what=f"more than {before} counts")

    return goes_on


def _wait_for_replicas(cluster: Cluster) -> None:
    for topic in _TOPICS:
        for partition in range(_PARTITIONS):
            wait_for(
                lambda: len(cluster.state(topic, partition).isr) == len(cluster.brokers),  # noqa: B023
                timeout_s=90,
                what=f"{topic}-{partition} in sync",
            )
