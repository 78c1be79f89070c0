"""Replicas are lost and a disk fills up while a transaction is decided and its markers are owed.

The transaction ends once the fault is over, and no other one is harmed. What clients hear meanwhile is what they hear
from Apache Kafka: the same test asks both.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin.results import ElectionType
from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC, TopicPartition
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.server.coordinator.keyed_topic import partition_of
from tests.cluster import Cluster, hanging, kill_all_processes
from tests.faults.small_disk import fill, small_disk
from tests.faults.test_markers import ends, produce
from tests.interop.kafka import OracleUnavailableError, jars
from tests.raw_client import RawClient
from tests.talk import good, talking, wait_for
from tests.transaction_client import Identity, Places, TransactionClient
from tests.workload import make_transactions_topic
from tests.zookeeper import ZooKeeper

__all__ = ["small_disk"]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

SOON_S: Final = 60.0
EITHER: Final = ("p", pytest.param("k", marks=[pytest.mark.nightly, pytest.mark.oracle]))
SETTINGS: Final = {
    "pkafka.workers": 2,
    "zookeeper.session.timeout.ms": 10_000,
    "replica.lag.time.max.ms": 3_000,
    "min.insync.replicas": 1,
}
_DECIDED: Final = {True: "PrepareCommit", False: "PrepareAbort"}
_ENDED: Final = {True: "CompleteCommit", False: "CompleteAbort"}


def made(directory: Path, zookeeper: ZooKeeper, kinds: str, **settings: object) -> Cluster:
    if "k" in kinds:
        try:
            jars("kafka")
        except OracleUnavailableError as missing:
            pytest.skip(str(missing))
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Cluster(directory, zookeeper.connect, kinds=kinds, overrides={**SETTINGS, **named})


@pytest.fixture
def pair(zookeeper: ZooKeeper, tmp_path: Path, kind: str) -> Iterator[Cluster]:
    """Two brokers with all state of transactions in one partition."""
    settings = {
        "transaction_state_log_num_partitions": 1,
        "transaction_state_log_replication_factor": 2,
        "transaction_state_log_min_isr": 1,
    }
    with made(tmp_path, zookeeper, kind * 2, **settings) as cluster:
        make_transactions_topic(cluster, 1)
        yield cluster


def init_code(client: TransactionClient, name: str) -> ErrorCode:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    return ErrorCode(client.ask(request, 4).error_code)


def add_codes(client: TransactionClient, name: str, producer: Identity, places: Places) -> set[ErrorCode]:
    answer = client.add(name, producer, places)
    return {
        ErrorCode(one.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    }


def end_code(client: TransactionClient, name: str, producer: Identity, *, commit: bool) -> ErrorCode:
    return ErrorCode(client.end(name, producer, commit=commit).error_code)


def begun(client: TransactionClient, name: str, places: Places) -> Identity:
    """A producer that has begun a transaction; nothing is written yet."""
    found: list[Identity] = []

    def is_known() -> bool:
        found.append(client.init(name, timeout_ms=600_000))
        return found[-1].producer_id >= 0

    wait_for(is_known, timeout_s=SOON_S, what=f"a producer id for {name}")
    wait_for(lambda: add_codes(client, name, found[-1], places) == {ErrorCode.NONE}, what="a transaction")
    return found[-1]


@pytest.mark.parametrize("kind", EITHER)
@pytest.mark.parametrize(
    "commit", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["commit", "abort"]
)
def test_a_decision_outlives_lost_replicas(pair: Cluster, *, commit: bool) -> None:
    """First the partition of the records has too few replicas in sync, then the log of decisions, too."""
    survivor = pair.state(TRANSACTION_STATE_TOPIC).leader
    lost = pair.brokers[1 - survivor]
    pair.create_topic("poor", assignment={0: (survivor, 1 - survivor)}, configs={"min.insync.replicas": "2"})
    pair.create_topic("calm", assignment={0: (survivor,)})
    address = pair.brokers[survivor].bootstrap
    with TransactionClient(address) as client, RawClient(address) as raw:
        producer = begun(client, "x", [("poor", [0]), ("calm", [0])])
        for topic in ("poor", "calm"):
            produce(raw, "x", producer, topic, 0, 0)
        slow = begun(client, "slow", [("calm", [0])])
        kill_all_processes(lost)
        for topic in ("poor", TRANSACTION_STATE_TOPIC):
            wait_until_alone(pair, topic, survivor)

        # The decision is made, and the marker of one of the two partitions is owed.
        assert end_code(client, "x", producer, commit=commit) is ErrorCode.NONE
        wait_for(lambda: is_over(raw, "calm"), what="the marker of the partition that is well")
        assert_waits(client, raw, producer, commit=commit)
        # All other transactions go on.
        other = begun(client, "other", [("calm", [0])])
        produce(raw, "other", other, "calm", 0, 0)
        assert end_code(client, "other", other, commit=True) is ErrorCode.NONE
        client.wait_for_state("other", "CompleteCommit")

        # The log of decisions lacks a replica: nothing is decided any more, and nothing that was is forgotten.
        with talking(address, broker_id=survivor) as talk:
            talk.set_topic(TRANSACTION_STATE_TOPIC, min_insync_replicas=2)
        wait_for(lambda: init_code(client, "new") is ErrorCode.COORDINATOR_NOT_AVAILABLE, what="the setting")
        assert end_code(client, "slow", slow, commit=True) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert client.state("slow") == "Ongoing"
        assert add_codes(client, "other", other, [("calm", [0])]) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert_waits(client, raw, producer, commit=commit)

        lost.start()
        wait_for(lambda: client.state("x") == _ENDED[commit], timeout_s=SOON_S, what="the end of x")
        assert is_over(raw, "poor")
        wait_for(
            lambda: end_code(client, "slow", slow, commit=True) is ErrorCode.NONE,
            timeout_s=SOON_S,
            what="the other decision",
        )
        client.wait_for_state("slow", "CompleteCommit")
        # The next transaction of the producer is not ended by a late marker.
        assert add_codes(client, "x", producer, [("poor", [0])]) == {ErrorCode.NONE}
        offset = produce(raw, "x", producer, "poor", 0, 1)
        assert ends(raw, "poor", 0) == (offset, offset + 1)
        assert end_code(client, "x", producer, commit=True) is ErrorCode.NONE
        client.wait_for_state("x", "CompleteCommit")
        wait_for(lambda: is_over(raw, "poor"), what="the last marker")


def wait_until_alone(cluster: Cluster, topic: str, survivor: int) -> None:
    """Wait until a leader knows that it is alone in sync: its metadata come behind its own orders.

    What it appends before that waits for the other one, and readers hear OFFSET_NOT_AVAILABLE.
    """
    wait_for(
        lambda: cluster.leadership(topic)[0] == (survivor, [survivor]), timeout_s=SOON_S, what="one in sync"
    )


def is_over(raw: RawClient, topic: str) -> bool:
    """Whether no transaction holds back the readers of a topic."""
    stable, end = ends(raw, topic, 0)
    return stable == end


def owed(client: TransactionClient) -> list[tuple[str, list[int]]]:
    """The partitions that the coordinator still owes a marker."""
    [found] = client.describe("x").transaction_states
    return [(one.topic, list(one.partitions)) for one in found.topics]


def assert_waits(client: TransactionClient, raw: RawClient, producer: Identity, *, commit: bool) -> None:
    """What the producer, its successor and readers hear while a marker is owed."""
    assert client.state("x") == _DECIDED[commit]
    # The leader of "calm" has its marker before the coordinator knows that.
    wait_for(lambda: owed(client) == [("poor", [0])], what="the coordinator's knowledge of the other marker")
    assert not is_over(raw, "poor")
    assert add_codes(client, "x", producer, [("calm", [0])]) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    assert end_code(client, "x", producer, commit=commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert end_code(client, "x", producer, commit=not commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert init_code(client, "x") is ErrorCode.CONCURRENT_TRANSACTIONS


STATE_PARTITIONS: Final = 6


@pytest.mark.root
@pytest.mark.parametrize("kind", EITHER)
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_decision_outlives_a_full_disk(
    zookeeper: ZooKeeper, tmp_path: Path, small_disk: Path, kind: str, *, commit: bool
) -> None:
    """The log of decisions is on it, and a marker is owed to a partition whose only broker hangs."""
    settings = {
        "transaction_state_log_num_partitions": STATE_PARTITIONS,
        "transaction_state_log_replication_factor": 3,
        # One of the three hangs, and one loses its disk.
        "transaction_state_log_min_isr": 1,
    }
    cluster = made(tmp_path, zookeeper, kind * 3, **settings)
    roomy = tmp_path / "roomy"
    victim = {
        **SETTINGS,
        **{key.replace("_", "."): value for key, value in settings.items()},
        "log.dirs": f"{small_disk},{roomy}",
        "broker.id": 0,
        "zookeeper.connect": cluster.zookeeper_connect,
    }
    system = "kafka" if kind == "k" else "pkafka"
    cluster.brokers[0] = cluster.make_broker(system, tmp_path / "broker-of-two-disks", victim)
    cluster.more_directories[0] = [small_disk, roomy]
    with cluster:
        make_transactions_topic(cluster, STATE_PARTITIONS)
        index = lead_from(cluster, small_disk)
        cluster.create_topic("held", assignment={0: (1,)})
        cluster.create_topic("calm", assignment={0: (2,)})
        name, bulky = (name_in(index, prefix) for prefix in ("x", "x" * 20_000))
        with serving(cluster, 0, name) as client:
            producer = begun(client, name, [("held", [0]), ("calm", [0])])
            for number, topic in ((1, "held"), (2, "calm")):
                with RawClient(cluster.brokers[number].bootstrap) as raw:
                    produce(raw, name, producer, topic, 0, 0)
            with hanging(cluster.brokers[1]):
                assert end_code(client, name, producer, commit=commit) is ErrorCode.NONE
                assert client.state(name) == _DECIDED[commit]
                filler = fill(small_disk)
                assert init_code(client, bulky) is ErrorCode.NOT_COORDINATOR
                wait_for(
                    lambda: cluster.state(TRANSACTION_STATE_TOPIC, index).leader == 2,
                    timeout_s=SOON_S,
                    what="the next coordinator",
                )
                with serving(cluster, 2, name) as successor:
                    assert successor.state(name) == _DECIDED[commit]
                    assert init_code(successor, name) is ErrorCode.CONCURRENT_TRANSACTIONS
                    with RawClient(cluster.brokers[2].bootstrap) as raw:
                        wait_for(
                            lambda: is_over(raw, "calm"), what="the marker of the partition that is well"
                        )
            with serving(cluster, 2, name) as successor:
                wait_for(
                    lambda: successor.state(name) == _ENDED[commit], timeout_s=SOON_S, what="the end of it"
                )
                assert add_codes(successor, name, producer, [("calm", [0])]) == {ErrorCode.NONE}
                assert end_code(successor, name, producer, commit=True) is ErrorCode.NONE
        with RawClient(cluster.brokers[1].bootstrap) as raw:
            assert is_over(raw, "held")
        filler.unlink()
        cluster.brokers[0].stop()
        cluster.brokers[0].start()
        wait_for(
            lambda: len(cluster.state(TRANSACTION_STATE_TOPIC, index).isr) == 3,
            timeout_s=SOON_S,
            what="all replicas in sync",
        )
        wait_for(
            lambda: cluster.same_logs(TRANSACTION_STATE_TOPIC, index), what="the same decisions everywhere"
        )


def lead_from(cluster: Cluster, disk: Path) -> int:
    """Have broker 0 lead a partition of the log of decisions whose replica is on a disk; returns its number."""
    index = min(int(path.name.rpartition("-")[2]) for path in disk.glob(f"{TRANSACTION_STATE_TOPIC}-*"))
    place = TopicPartition(TRANSACTION_STATE_TOPIC, index)
    with cluster.admin() as admin:
        good(admin.alter_partition_reassignments({place: [0, 1, 2]})[place])
        wait_for(lambda: not admin.list_partition_reassignments(), what="the order of replicas")
        if cluster.state(TRANSACTION_STATE_TOPIC, index).leader != 0:
            good(admin.elect_leaders(ElectionType.PREFERRED, [place])[place])
    wait_for(lambda: cluster.state(TRANSACTION_STATE_TOPIC, index).leader == 0, what="the leader")
    return index


def name_in(index: int, prefix: str) -> str:
    """A transactional id of a partition of the log of decisions."""
    names = (f"{prefix}{number}" for number in range(1_000))
    return next(name for name in names if partition_of(name, STATE_PARTITIONS) == index)


@contextlib.contextmanager
def serving(cluster: Cluster, number: int, name: str) -> Iterator[TransactionClient]:
    """A connection to a broker, once it coordinates an id."""
    with TransactionClient(cluster.brokers[number].bootstrap) as client:
        served = (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        wait_for(
            lambda: client.describe(name).transaction_states[0].error_code in served,
            timeout_s=SOON_S,
            what="the coordinator",
        )
        yield client
