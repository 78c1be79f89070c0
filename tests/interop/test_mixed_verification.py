"""Verification in clusters of Apache Kafka and pkafka: leaders of one kind ask coordinators of the other (KIP-890).

Broker 0 is Kafka, broker 1 is pkafka, as in test_mixed_cluster.py.
"""

from collections.abc import Iterator

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.server.coordinator.keyed_topic import partition_of
from tests.cluster import Cluster
from tests.interop.test_mixed_cluster import COMMON, KAFKA, NAMES, PKAFKA
from tests.interop.test_produce_in_transactions import Script
from tests.raw_client import RawClient, ask_offsets
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

_SETTINGS = {
    **COMMON,
    "pkafka.workers": 2,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.min.isr": 1,
}


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeper, kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One broker of each kind; each coordinates the ids of one partition."""
    made = Cluster(tmp_path_factory.mktemp("mixed"), zookeeper.connect, kinds="kp", overrides=_SETTINGS)
    with made:
        made.create_topic(
            TRANSACTION_STATE_TOPIC,
            assignment={KAFKA: (KAFKA,), PKAFKA: (PKAFKA,)},
            configs={"cleanup.policy": "compact"},
        )
        yield made


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("leader", [KAFKA, PKAFKA], ids=lambda one: f"{NAMES[one]}-leads")
def test_a_leader_believes_a_coordinator_of_the_other_kind(
    cluster: Cluster, topic: str, leader: int, version: int
) -> None:

    coordinator = 1 - leader
    # The id has the name of the topic, as all that the script does.
    name = _name_in(topic, coordinator)
    cluster.create_topic(name, assignment=dict.fromkeys(range(3), (leader,)))
    with (
        RawClient(cluster.brokers[coordinator].bootstrap) as asks,
        RawClient(cluster.brokers[leader].bootstrap) as sends,
    ):
        keys = {(name, partition): -1 for partition in range(3)}
        # Others may hear of a leader before it does.
        wait_for(lambda: {code for code, _ in ask_offsets(sends, keys).values()} == {0}, what="the leader")
        script = Script(asks, name, version)
        script.begin()
        script.begin()
        script.add(0, 2)

        def code(partition: int, data: bytes) -> ErrorCode:
            told = Script(sends, name, version)
            told.produce("", (partition, data))
            return ErrorCode(int(str(told.told[0][2])))

        aborts = ErrorCode.TRANSACTION_ABORTABLE if version == 11 else ErrorCode.INVALID_TXN_STATE
        assert code(1, script.batch()) is aborts
        assert code(0, script.batch(epoch=-1)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert code(0, script.batch(producer_id=1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert code(0, script.batch()) is ErrorCode.NONE
        assert code(0, script.batch(1)) is ErrorCode.NONE
        script.end(committed=True)
        assert code(0, script.batch(2)) is aborts
        assert code(2, script.batch()) is aborts
    assert len(cluster.log_bytes(leader, f"{name}-0")) > 2 * len(script.batch())
    assert cluster.log_bytes(leader, f"{name}-1") == b""


def _name_in(prefix: str, partition: int) -> str:
    """A transactional id of a partition of __transaction_state."""
    names = (f"{prefix}-{number}" for number in range(100))
    return next(name for name in names if partition_of(name, 2) == partition)
