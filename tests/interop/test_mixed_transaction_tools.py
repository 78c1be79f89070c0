"""pk-transactions and Kafka's tool on a cluster of both kinds: each broker answers for its replicas, led or not."""

from collections.abc import Iterator
from typing import Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.differences import first_difference
from tests.interop.conftest import JavaTool
from tests.interop.side_by_side import pk
from tests.open_transactions import begin, ends, transactional_producer
from tests.raw_client import new_topic_name
from tests.talk import code_of, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

KAFKA, PKAFKA = 0, 1
JAVA: Final = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeper, kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Broker 0 is Kafka, broker 1 is pkafka."""
    settings = {
        "inter.broker.protocol.version": "3.9",
        "pkafka.workers": 2,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "zookeeper.session.timeout.ms": 18_000,  # nobody dies here
    }
    with Cluster(
        tmp_path_factory.mktemp("mixed-tools"), zookeeper.connect, kinds="kp", overrides=settings
    ) as started:
        with started.admin() as admin:
            wait_for(lambda: len(admin.describe_cluster().brokers) == 2, what="both brokers")
        yield started


def same(cluster: Cluster, java_tool: JavaTool, *words: object) -> str:
    """What both tools print."""
    given = ["--bootstrap-server", cluster.bootstrap, *map(str, words)]
    theirs = java_tool(JAVA, *given)
    assert theirs.returncode == 0, theirs
    ours = pk("transactions", *given)
    assert not first_difference(sorted(ours.splitlines()), sorted(theirs.stdout.splitlines()))
    return ours


def test_replicas_of_both_kinds_know_the_producers(cluster: Cluster, java_tool: JavaTool) -> None:
    topic = new_topic_name("mixed-tools")
    cluster.create_topic(topic, assignment={KAFKA: (KAFKA, PKAFKA), PKAFKA: (PKAFKA, KAFKA)})
    # Twenty runs of tools look at what is open, on a machine that may be busy.
    open_ms = 900_000
    with (
        cluster.admin() as admin,
        transactional_producer(cluster.bootstrap, topic, timeout_ms=open_ms) as writer,
    ):
        begin(writer, topic, KAFKA, PKAFKA)
        writer.commit_transaction()
        for partition in (KAFKA, PKAFKA):
            wait_for(lambda: ends(admin, topic, partition) == (2, 2), what="the markers")  # noqa: B023 - called at once
        begin(writer, topic, KAFKA, PKAFKA)
        for partition in (KAFKA, PKAFKA):
            words = ("describe-producers", "--topic", topic, "--partition", partition)
            shown = same(cluster, java_tool, *words)
            assert len(shown.splitlines()) == 2
            for broker in (KAFKA, PKAFKA):
                # acks=all: the record is in both logs; what is committed of the marker is, too.
                assert same(cluster, java_tool, *words, "--broker-id", broker) == shown
        for broker in (KAFKA, PKAFKA):
            found = same(
                cluster, java_tool, "find-hanging", "--broker-id", broker, "--max-transaction-timeout", -1
            )
            assert topic not in found
        assert topic in same(cluster, java_tool, "list")
        writer.abort_transaction()


def test_a_broker_without_a_replica_says_so(cluster: Cluster) -> None:
    topic = new_topic_name("mixed-tools")
    cluster.create_topic(topic, assignment={KAFKA: (PKAFKA,), PKAFKA: (KAFKA,)})
    with cluster.admin() as admin:
        for broker in (KAFKA, PKAFKA):
            partition = TopicPartition(topic, broker)

            def code() -> ErrorCode | None:
                return code_of(admin.describe_producers([partition], broker=broker)[partition])  # noqa: B023 - called at once

            # One broker hears of a topic later than the other.
            wait_for(lambda: code() is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="the topic")
            assert code() is ErrorCode.NOT_LEADER_OR_FOLLOWER
