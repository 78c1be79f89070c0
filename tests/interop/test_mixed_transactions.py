"""Transactions in clusters of Apache Kafka and pkafka: each coordinates for the other, appends for it and marks for it.

Broker 0 is Kafka, broker 1 is pkafka, as in test_mixed_cluster.py. What was committed is read back whole and once,
whichever of them coordinates, and whichever of them leads the partitions.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin.results import ElectionType
from pkafka.model import TRANSACTION_STATE_TOPIC, TopicPartition
from tests.cluster import Cluster
from tests.differences import first_difference
from tests.interop.one_of_each import OTHER, TOPIC
from tests.interop.test_mixed_cluster import COMMON, KAFKA, NAMES, PKAFKA
from tests.interop.test_transactions import Script, all_requests
from tests.talk import good, wait_for
from tests.transaction_client import INIT_VERSIONS, LIST_VERSIONS
from tests.transaction_load import TransactionLoad, state_of
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

_SETTINGS: Final[Mapping[str, object]] = {
    **COMMON,
    "pkafka.workers": 2,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
_COMPACT: Final = {"cleanup.policy": "compact"}


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeper, kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One broker of each kind."""
    made = Cluster(tmp_path_factory.mktemp("mixed"), zookeeper.connect, kinds="kp", overrides=_SETTINGS)
    with made:
        _make_state_topic(made)
        made.create_topic(TOPIC, assignment=dict.fromkeys(range(3), (KAFKA, PKAFKA)))
        made.create_topic(OTHER, assignment={0: (KAFKA, PKAFKA)})
        yield made


def _make_state_topic(cluster: Cluster) -> None:
    cluster.create_topic(TRANSACTION_STATE_TOPIC, assignment={0: (KAFKA, PKAFKA)}, configs=_COMPACT)


@pytest.fixture
def fresh(zookeeper: ZooKeeper, kafka_classpath: str, tmp_path: Path) -> Iterator[Cluster]:
    """The same for one test that kills brokers."""
    with Cluster(tmp_path, zookeeper.connect, kinds="kp", overrides=_SETTINGS) as made:
        _make_state_topic(made)
        yield made


def _lead(cluster: Cluster, topic: str, leader: int, partition: int = 0) -> None:
    """Have a broker lead a partition that both have."""
    place = TopicPartition(topic, partition)
    with cluster.admin() as admin:
        good(admin.alter_partition_reassignments({place: [leader, 1 - leader]})[place])
        wait_for(lambda: not admin.list_partition_reassignments(), what="the new order of replicas")
        wait_for(lambda: sorted(cluster.state(topic, partition).isr) == [KAFKA, PKAFKA], what="both in sync")
        if cluster.state(topic, partition).leader != leader:
            good(admin.elect_leaders(ElectionType.PREFERRED, [place])[place])
    wait_for(lambda: cluster.state(topic, partition).leader == leader, what=f"{NAMES[leader]} as the leader")


@pytest.mark.parametrize("first", [KAFKA, PKAFKA], ids=lambda one: f"{NAMES[one]}-first")
def test_the_coordinator_moves_while_a_producer_works(cluster: Cluster, first: int) -> None:
    topic = f"moves-{first}"
    # One partition is only here and one only there: markers for both have to travel from either coordinator.
    cluster.create_topic(topic, assignment={0: (KAFKA,), 1: (PKAFKA,)})
    cluster.create_topic(f"{topic}-both", assignment={0: (KAFKA, PKAFKA)})
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(f"{topic}-both", 0)]
    _lead(cluster, TRANSACTION_STATE_TOPIC, first)
    # Nobody dies here: no transaction may run out of time, however busy the machine is.
    patient = {"transaction.timeout.ms": 120_000, "max.block.ms": 120_000}
    with TransactionLoad(cluster, places, topic, **patient) as load:
        for leader in (1 - first, first, 1 - first):
            _lead(cluster, TRANSACTION_STATE_TOPIC, leader)
            load.goes_on()
    load.wait_for_end()
    load.check()
    assert load.failures == []
    assert cluster.same_logs(TRANSACTION_STATE_TOPIC)
    assert cluster.same_logs(f"{topic}-both")


def test_the_broker_that_does_not_coordinate_says_so(cluster: Cluster) -> None:
    """The same, whichever of the two it is."""
    answers = []
    for leader in (KAFKA, PKAFKA):
        _lead(cluster, TRANSACTION_STATE_TOPIC, leader)
        with Script(cluster.brokers[leader].bootstrap) as coordinator:
            coordinator.coordinate(1)
            producer = coordinator.begin("known")
            with Script(cluster.brokers[1 - leader].bootstrap) as other:
                wait_for(lambda: not other.state("known"), what="the end of the former coordinator")
                for name in ("known", "unknown", ""):
                    for version in INIT_VERSIONS:
                        other.init(name, version=version)
                        other.init(name, timeout_ms=0, version=version)
                    for version in INIT_VERSIONS[3:]:
                        other.init(name, producer, version=version)
                    all_requests(other, name, producer)
                other.describe("known", "unknown", "")
                for version in LIST_VERSIONS:
                    other.list(version=version)
                answers.append(other.answers)
            coordinator.complete("known", producer, commit=True)
    by_pkafka, by_kafka = answers
    assert not first_difference(by_pkafka, by_kafka)
    assert by_kafka


@pytest.mark.nightly
@pytest.mark.parametrize("first", [KAFKA, PKAFKA], ids=lambda one: f"{NAMES[one]}-first")
def test_coordinators_are_killed_in_turn(fresh: Cluster, first: int) -> None:
    fresh.create_topic("t", assignment=dict.fromkeys(range(2), (KAFKA, PKAFKA)))
    places = [TopicPartition("t", 0), TopicPartition("t", 1)]
    _lead(fresh, TRANSACTION_STATE_TOPIC, first)
    with TransactionLoad(fresh, places, "killed") as load:
        for victim in (first, 1 - first, first):
            _lead(fresh, TRANSACTION_STATE_TOPIC, victim)
            load.goes_on()
            fresh.brokers[victim].kill()
            load.goes_on(timeout_s=90)
            fresh.brokers[victim].start()
            for partition in (TopicPartition(TRANSACTION_STATE_TOPIC, 0), *places):
                wait_for(
                    lambda: len(fresh.state(partition.topic, partition.partition).isr) == 2,  # noqa: B023
                    timeout_s=60,
                    what=f"{partition} in sync",
                )
    load.wait_for_end()
    assert state_of(fresh, "killed") in ("Empty", "CompleteCommit", "CompleteAbort")
    load.check()
    assert fresh.same_logs(TRANSACTION_STATE_TOPIC)
