"""Transaction markers among Apache Kafka 3.9.1 and pkafka: each coordinates, and each appends for the other."""

from collections.abc import Iterator
from typing import Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pkafka.server.coordinator.keyed_topic import partition_of
from tests.cluster import Cluster
from tests.raw_client import RawClient, ask_offsets, new_topic_name
from tests.talk import wait_for
from tests.transaction_client import Identity, TransactionClient
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

KAFKA, PKAFKA = 0, 1
BROKERS: Final = pytest.mark.parametrize(
    "coordinator", [KAFKA, PKAFKA], ids=["kafka-coordinates", "pkafka-coordinates"]
)
STATE_PARTITIONS: Final = 2


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeper, kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Broker 0 is Kafka, broker 1 is pkafka; each has a partition of __transaction_state."""
    settings = {
        "inter.broker.protocol.version": "3.9",
        "pkafka.workers": 2,
        "zookeeper.session.timeout.ms": 6_000,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": STATE_PARTITIONS,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    directory = tmp_path_factory.mktemp("mixed-markers")
    with Cluster(directory, zookeeper.connect, kinds="kp", overrides=settings) as started:
        with started.admin() as admin:
            wait_for(lambda: len(admin.describe_cluster().brokers) == 2, what="both brokers")
        with RawClient(started.brokers[PKAFKA].bootstrap) as client:
            find = FindCoordinatorRequest(key="x", key_type=1)
            wait_for(lambda: not client.call(find, 1).error_code, what="the topic of transactions")
        yield started


class Transaction:
    """The producer of an id that one of the brokers coordinates, and a topic of which each broker has a partition."""

    def __init__(self, cluster: Cluster, coordinator: int) -> None:
        self.cluster = cluster
        self.topic = new_topic_name("mixed")
        cluster.create_topic(self.topic, assignment={KAFKA: (KAFKA,), PKAFKA: (PKAFKA,)})
        for broker in (KAFKA, PKAFKA):
            assert self.end_of(broker) == 0  # it leads: others may have heard of that before it
        leaders = [cluster.state(TRANSACTION_STATE_TOPIC, index).leader for index in range(STATE_PARTITIONS)]
        assert sorted(leaders) == [KAFKA, PKAFKA]
        self.name = next(
            name
            for name in (f"{self.topic}-{number}" for number in range(100))
            if leaders[partition_of(name, STATE_PARTITIONS)] == coordinator
        )
        self.client = TransactionClient(cluster.brokers[coordinator].bootstrap)
        self.producer = self._begin()

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(self, *_error: object) -> None:
        self.client.close()

    def _begin(self) -> Identity:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        answers = []

        def given() -> bool:
            answers.append(self.client.ask(request, 4))
            return not answers[-1].error_code

        wait_for(given, what="an identity")
        return Identity(answers[-1].producer_id, answers[-1].producer_epoch)

    def add(self) -> None:
        """Put both partitions into a transaction; a broker may not know the topic yet."""

        def is_added() -> bool:
            answer = self.client.add(self.name, self.producer, [(self.topic, [KAFKA, PKAFKA])])
            return {
                one.partition_error_code
                for one in answer.results_by_topic_v3_and_below[0].results_by_partition
            } == {0}

        wait_for(is_added, what="the partitions in the transaction")

    def end(self, *, commit: bool = True) -> None:
        answer = self.client.end(self.name, self.producer, commit=commit)
        assert answer.error_code == ErrorCode.NONE

    def end_of(self, broker: int) -> int:
        """The end of the log that a broker has."""
        with RawClient(self.cluster.brokers[broker].bootstrap) as client:
            key = self.topic, broker
            wait_for(lambda: ask_offsets(client, {key: -1})[key][0] == 0, what="the leader")
            return ask_offsets(client, {key: -1})[key][1]

    def write_by_hand(self, broker: int, producer: Identity) -> int:
        """A marker at the partition of a broker, as an operator sends it; returns the code."""
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[WritableTxnMarkerTopic(name=self.topic, partition_indexes=[broker])],
        )
        with RawClient(self.cluster.brokers[broker].bootstrap) as client:
            answer = client.call(WriteTxnMarkersRequest(markers=[marker]), 1)
        return int(answer.markers[0].topics[0].partitions[0].error_code)


@BROKERS
def test_each_has_its_partitions_marked_by_the_other(cluster: Cluster, coordinator: int) -> None:
    with Transaction(cluster, coordinator) as transaction:
        for number, commit in enumerate((True, False, True), start=1):
            transaction.add()
            transaction.end(commit=commit)
            state = "CompleteCommit" if commit else "CompleteAbort"
            transaction.client.wait_for_state(transaction.name, state)
            assert [transaction.end_of(broker) for broker in (KAFKA, PKAFKA)] == [number, number]


def test_replicas_and_strangers_refuse_alike(cluster: Cluster) -> None:
    """A follower says that it does not lead; a broker without a replica knows no such partition."""
    topic = new_topic_name("replicas")
    cluster.create_topic(topic, assignment={KAFKA: (KAFKA, PKAFKA), PKAFKA: (PKAFKA, KAFKA)})
    alone = new_topic_name("alone")
    cluster.create_topic(alone, assignment={KAFKA: (KAFKA,), PKAFKA: (PKAFKA,)})

    def answers(client: RawClient) -> dict[tuple[str, int], ErrorCode]:
        topics = [
            WritableTxnMarkerTopic(name=name, partition_indexes=[KAFKA, PKAFKA]) for name in (topic, alone)
        ]
        request = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=77, topics=topics)])
        [result] = client.call(request, 1).markers
        return {
            (one.name, partition.partition_index): ErrorCode(partition.error_code)
            for one in result.topics
            for partition in one.partitions
        }

    for broker in (KAFKA, PKAFKA):
        with RawClient(cluster.brokers[broker].bootstrap) as client:
            # The controller tells one broker later than the other what it leads and follows.
            wait_for(lambda: answers(client)[alone, broker] is ErrorCode.NONE)  # noqa: B023 - called at once
            wait_for(lambda: answers(client)[topic, 1 - broker] is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # noqa: B023
            assert answers(client) == {
                (topic, broker): ErrorCode.NONE,
                (topic, 1 - broker): ErrorCode.NOT_LEADER_OR_FOLLOWER,
                (alone, broker): ErrorCode.NONE,
                (alone, 1 - broker): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }


@BROKERS
def test_a_decided_transaction_waits_for_a_leader_that_is_away(cluster: Cluster, coordinator: int) -> None:
    other = 1 - coordinator
    with Transaction(cluster, coordinator) as transaction:
        transaction.add()
        cluster.brokers[other].kill()
        transaction.end()
        wait_for(lambda: transaction.end_of(coordinator) == 1, what="the marker of the living")
        assert transaction.client.state(transaction.name) == "PrepareCommit"
        cluster.brokers[other].start()
        transaction.client.wait_for_state(transaction.name, "CompleteCommit")
        assert transaction.end_of(other) == 1


def test_kafkas_partition_says_that_another_marker_has_ended_a_transaction(cluster: Cluster) -> None:
    with Transaction(cluster, PKAFKA) as transaction:
        transaction.add()
        newer = transaction.producer._replace(epoch=transaction.producer.epoch + 1)
        assert transaction.write_by_hand(KAFKA, newer) == ErrorCode.NONE
        transaction.end()
        transaction.client.wait_for_state(transaction.name, "CompleteCommit")
