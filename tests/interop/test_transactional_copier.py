"""Kafka's TransactionalMessageCopier through kill -9 of copiers and brokers, as Kafka's system test transactions_test.

It copies each partition in transactions, with the offsets that it has consumed, and aborts some of them by chance. What
is read committed from the copy is the original: all of it, once, in order. The same demands hold of Apache Kafka.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.interop.java_program import JavaProgram
from tests.talk import wait_for
from tests.transaction_load import committed_values, state_of
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
_SETTINGS: Final = {
    "pkafka.workers": 2,
    "transaction.state.log.num.partitions": 3,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "zookeeper.session.timeout.ms": 6000,
}
_PARTITIONS: Final = 2


def _cluster(directory: Path, zookeeper: ZooKeeper, kinds: str) -> Cluster:
    replicas = min(3, len(kinds))
    settings = {
        **_SETTINGS,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": max(1, replicas - 1),
    }
    return Cluster(directory, zookeeper.connect, kinds=kinds, overrides=settings)


def _fill(cluster: Cluster, count: int) -> None:
    """Make the topics, and write ``count`` values to each partition of the original."""
    replicas = min(3, len(cluster.brokers))
    for topic in ("original", "copy"):
        configs = {"min.insync.replicas": str(max(1, replicas - 1))}
        cluster.create_topic(topic, _PARTITIONS, replicas=replicas, configs=configs)
    with cluster.producer() as producer:
        for partition in range(_PARTITIONS):
            sent = [producer.send("original", b"%d" % number, partition=partition) for number in range(count)]
            for one in sent:
                one.result(60)


def _copiers(cluster: Cluster, class_path: str, directory: Path, *, size: int) -> list[JavaProgram]:
    """A copier for each partition, not started."""
    return [
        JavaProgram(
            class_path,
            COPIER,
            *("--broker-list", cluster.bootstrap, "--input-topic", "original", "--output-topic", "copy"),
            *(
                "--input-partition",
                number,
                "--consumer-group",
                "copiers",
                "--transactional-id",
                f"copier-{number}",
            ),
            *("--transaction-size", size, "--transaction-timeout", 20_000),
            *("--enable-random-aborts", "--use-group-metadata"),
            output=directory / f"copier-{number}.txt",
        )
        for number in range(_PARTITIONS)
    ]


def _wait_for_progress(copiers: Sequence[JavaProgram]) -> None:
    before = sum(len(one.text()) for one in copiers)
    wait_for(
        lambda: (
            sum(len(one.text()) for one in copiers) > before + 500 or all(one.is_done() for one in copiers)
        ),
        timeout_s=120,
        what="progress",
    )


def _wait_for_copies(cluster: Cluster, copiers: Sequence[JavaProgram], *, timeout_s: float) -> None:
    pending = list(copiers)

    def are_done() -> bool:
        pending[:] = [one for one in pending if not one.is_done()]
        return not pending

    wait_for(are_done, timeout_s=timeout_s, what="the copies")
    for number in range(_PARTITIONS):
        name = f"copier-{number}"
        # A commit is answered before its markers are written.
        wait_for(
            lambda: state_of(cluster, name) in ("Empty", "CompleteCommit", "CompleteAbort"),  # noqa: B023
            timeout_s=60,
            what=f"the end of {name}",
        )


def _check_copies(cluster: Cluster, count: int) -> None:
    for partition in range(_PARTITIONS):
        copied = committed_values(cluster, TopicPartition("copy", partition))
        assert copied == list(range(count)), f"partition {partition}: {len(copied)} of {count}"


@pytest.mark.parametrize("kinds", [pytest.param("k", marks=[pytest.mark.nightly, pytest.mark.oracle]), "p"])
def test_copiers_are_killed(zookeeper: ZooKeeper, kafka_classpath: str, tmp_path: Path, kinds: str) -> None:
    with _cluster(tmp_path, zookeeper, kinds) as cluster, contextlib.ExitStack() as running:
        _fill(cluster, 400)
        copiers = _copiers(cluster, kafka_classpath, tmp_path, size=20)
        for copier in copiers:
            running.enter_context(copier)
        for copier in copiers:
            wait_for(
                lambda: '"progress"' in copier.text() or copier.is_done(),  # noqa: B023
                timeout_s=120,
                what="progress",
            )
            copier.bounce()
        _wait_for_copies(cluster, copiers, timeout_s=240)
        _check_copies(cluster, 400)


@pytest.mark.nightly
@pytest.mark.parametrize("kinds", [pytest.param("kkk", marks=pytest.mark.oracle), "ppp", "kpp"])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_brokers_and_copiers_are_bounced(
    zookeeper: ZooKeeper, kafka_classpath: str, tmp_path: Path, kinds: str, how: str
) -> None:
    count = 30_000
    with _cluster(tmp_path, zookeeper, kinds) as cluster, contextlib.ExitStack() as running:
        _fill(cluster, count)
        copiers = _copiers(cluster, kafka_classpath, tmp_path, size=50)
        for copier in copiers:
            running.enter_context(copier)
        for number, broker in enumerate(cluster.brokers):
            _wait_for_progress(copiers)
            copiers[number % _PARTITIONS].bounce()
            getattr(broker, how)()
            broker.start()
            _wait_for_replicas(cluster)
        _wait_for_copies(cluster, copiers, timeout_s=240)
        _check_copies(cluster, count)


def _wait_for_replicas(cluster: Cluster) -> None:
    for topic in ("original", "copy"):
        for partition in range(_PARTITIONS):
            wait_for(
                lambda: len(cluster.state(topic, partition).isr) == len(cluster.brokers),  # noqa: B023
                timeout_s=60,
                what=f"{topic}-{partition} in sync",
            )
