"""What three brokers measure of each other: replicas that follow, fall behind and move, and who leads them."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.metadata import main as metadata
from pkafka.cli.top import main as top
from pkafka.clients.admin.results import PartitionDescription
from pkafka.clients.consumer import Consumer
from pkafka.model import TopicPartition
from pkafka.tools.cluster.broker_traffic import MetricsPages
from pkafka.tools.cluster.overview import look, overview
from tests.cluster import Cluster, hanging
from tests.e2e.test_replication_throttles import is_moving, limit
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.usefixtures("plain_environment")]

RECORD: Final = bytes(10_000)
RECORDS: Final = 50
MAX_LAG: Final = "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica"
REPLICAS: Final = "kafka.server:type=ReplicaManager,name={}"
CONTROLLER: Final = "kafka.controller:type=KafkaController,name={}"
STATS: Final = "kafka.controller:type=ControllerStats,name={}"


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "auto.leader.rebalance.enable": "false",
        "pkafka.metrics.port": 0,
        "replica.fetch.max.bytes": 30_000,
        # A broker that hangs leaves ISRs before its session ends: else the controller takes it out, and no leader
        # counts that.
        "replica.lag.time.max.ms": 1_500,
        "zookeeper.session.timeout.ms": 10_000,
        "pkafka.heartbeat.timeout.ms": 60_000,
    }
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=settings) as started:
        yield started


def address(cluster: Cluster, broker: int) -> str:
    _, _, rest = cluster.brokers[broker].log_file.read_text().rpartition("Metrics on ")
    return rest.split()[0].removesuffix("/metrics")


def beans(cluster: Cluster, broker: int, pattern: str) -> dict[str, dict[str, Any]]:
    """The attributes of the beans that a pattern means, by their names."""
    query = urllib.parse.urlencode({"qry": pattern})
    with urllib.request.urlopen(f"{address(cluster, broker)}/jmx?{query}", timeout=60) as answer:
        return {each.pop("name"): each for each in json.load(answer)["beans"]}


def value(cluster: Cluster, broker: int, name: str, attribute: str = "Value") -> Any:
    """One attribute of one bean."""
    (found,) = beans(cluster, broker, name).values()
    return found[attribute]


def each(cluster: Cluster, name: str, attribute: str = "Value") -> list[Any]:
    """The same of every broker."""
    return [value(cluster, broker, name, attribute) for broker in range(len(cluster.brokers))]


def is_well(cluster: Cluster) -> bool:
    """Whether no partition lacks anything, by what the brokers measure."""
    names = (CONTROLLER.format("OfflinePartitionsCount"), REPLICAS.format("UnderReplicatedPartitions"))
    return all(each(cluster, name) == [0, 0, 0] for name in names)


def described(cluster: Cluster) -> list[PartitionDescription]:
    with cluster.admin() as admin:
        found = admin.describe_topics([topic.name for topic in admin.list_topics()])
        return [partition for topic in found.values() for partition in good(topic).partitions]


def fill(cluster: Cluster, topic: str) -> None:
    with cluster.producer() as producer:
        for _ in range(RECORDS):
            producer.send(topic, RECORD, partition=0)
        producer.flush()


def read(cluster: Cluster, topic: str) -> int:
    """How many records a consumer finds in the first partition."""
    partition = TopicPartition(topic, 0)
    count = 0
    with Consumer({"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            count += len(consumer.poll(1_000))
    return count


def test_a_move_that_goes_well_alarms_nobody(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.create_topic(
        "grows", assignment={0: (0,)}, configs={"leader.replication.throttled.replicas": "*"}
    )
    fill(cluster, "grows")
    limit(cluster, [0], 1, "leader")
    with cluster.admin() as admin:
        assert set(admin.alter_partition_reassignments({TopicPartition("grows", 0): [0, 1]}).values()) == {
            None
        }
    wait_for(lambda: value(cluster, 0, REPLICAS.format("ReassigningPartitions")) == 1)
    assert value(cluster, 0, REPLICAS.format("UnderReplicatedPartitions")) == 0
    partition = "kafka.cluster:type=Partition,name={},topic=grows,partition=0"
    assert value(cluster, 0, partition.format("UnderReplicated")) == 0
    assert value(cluster, 0, partition.format("ReplicasCount")) == 1
    # As much as is missing: something came when the quota was not used up yet.
    wait_for(lambda: 0 < value(cluster, 1, MAX_LAG) < RECORDS)
    lag = "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,topic=grows,partition=0,clientId=*-0"
    assert value(cluster, 1, lag) == value(cluster, 1, MAX_LAG)
    at = ("--bootstrap-server", cluster.bootstrap)
    assert metadata.run(["isr", *at, "--topic", "grows", "--check"]) == ExitStatus.OK
    capsys.readouterr()
    assert top.run([*at, "--interval", "0.05", "--topic", "grows", "--output", "json"]) == ExitStatus.OK
    (look,) = json.loads(capsys.readouterr().out)["looks"]
    assert look["under_replicated"] == 0
    assert is_moving(cluster, "grows")  # it did all the time
    added = "kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytes{}PerSec"
    limit(cluster, [0], None, "leader")
    wait_for(lambda: not is_moving(cluster, "grows"))
    wait_for(lambda: value(cluster, 0, partition.format("ReplicasCount")) == 2)
    wait_for(lambda: [one["Value"] for one in beans(cluster, 1, lag).values()] == [0])
    assert value(cluster, 1, MAX_LAG) == 0
    for broker, way in ((0, "Out"), (1, "In")):
        assert value(cluster, broker, added.format(way), "Count") > RECORDS * len(RECORD)


def test_what_followers_fetch_is_not_consumed(cluster: Cluster) -> None:
    cluster.create_topic("copied", assignment={0: (1, 2)})
    wait_for(lambda: cluster.leadership("copied")[0] == (1, [1, 2]))
    topics = "kafka.server:type=BrokerTopicMetrics,name={}PerSec"
    names = ("BytesIn", "BytesOut", "ReplicationBytesIn", "ReplicationBytesOut")

    def counts(broker: int) -> list[int]:
        return [value(cluster, broker, topics.format(name), "Count") for name in names]

    leader, follower = counts(1), counts(2)
    fill(cluster, "copied")

    def grown(broker: int, before: list[int]) -> list[int]:
        return [now - then for now, then in zip(counts(broker), before, strict=True)]

    def is_counted() -> bool:
        return cluster.same_logs("copied") and grown(2, follower)[2] == grown(1, leader)[3]

    wait_for(is_counted)
    bytes_in, bytes_out, replicated_in, replicated_out = grown(1, leader)
    assert (bytes_out, replicated_in) == (0, 0)
    # Where a fetch ends within a batch, its beginning is sent for nothing.
    assert replicated_out >= bytes_in > RECORDS * len(RECORD)
    assert grown(2, follower) == [0, 0, replicated_out, 0]
    requests = "kafka.network:type=RequestMetrics,name=TotalTimeMs,request={}"
    assert value(cluster, 1, requests.format("FetchFollower"), "Count") > 0
    assert value(cluster, 1, requests.format("FetchConsumer"), "Count") == 0
    assert value(
        cluster, 1, "kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec,topic=copied", "Count"
    )


def test_a_balance_of_leaders_is_not_one_of_load(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each broker leads one partition, and one of them has all that is written and read."""
    busy, idle, third = 2, 0, 1
    cluster.create_topic("skewed", assignment={0: (busy, idle), 1: (idle, third), 2: (third, busy)})
    wait_for(lambda: len(cluster.leadership("skewed")) == 3)
    pages = MetricsPages([address(cluster, broker) for broker in range(3)], timeout_s=60)
    with cluster.admin() as admin:
        before = look(admin, timeout_ms=60_000, pages=pages)
        fill(cluster, "skewed")
        assert read(cluster, "skewed") == RECORDS
        wait_for(lambda: cluster.same_logs("skewed"))
        now = look(admin, timeout_ms=60_000, pages=pages)
        unknown = overview(look(admin, timeout_ms=60_000), before)
    rows = {row.broker: row for row in overview(now, before).brokers}
    assert {row.bytes_from for row in rows.values()} == {"metrics"}
    counted = [each.traffic for one in (before, now) for each in one.brokers if each.id == busy]
    earlier, later = (each for each in counted if each is not None)
    assert RECORDS * len(RECORD) < later.received - earlier.received < 1.05 * RECORDS * len(RECORD)
    assert rows[busy].bytes_in_per_s == (later.received - earlier.received) / (later.at_s - earlier.at_s)
    assert rows[busy].bytes_out_per_s == rows[busy].bytes_in_per_s
    assert [(rows[each].bytes_in_per_s, rows[each].bytes_out_per_s) for each in (idle, third)] == [(0, 0)] * 2
    # Without the pages: by what the leaders' logs grew, and nobody knows what was read.
    by_sizes = {row.broker: (row.bytes_from, row.bytes_out_per_s) for row in unknown.brokers}
    assert by_sizes == dict.fromkeys(range(3), ("sizes", None))
    assert [bool(row.bytes_in_per_s) for row in unknown.brokers] == [False, False, True]
    flags = ["--bootstrap-server", cluster.bootstrap, "--interval", "0.05", "--output", "json"]
    capsys.readouterr()
    assert top.run([*flags, "--metrics-url", address(cluster, busy)]) == ExitStatus.OK
    (shown,) = json.loads(capsys.readouterr().out)["looks"]
    assert {row["broker"]: row["bytes_from"] for row in shown["brokers"]} == {
        busy: "metrics",
        idle: "sizes",
        third: "sizes",
    }
    host, _, port = cluster.bootstrap.split(",")[0].partition(":")
    assert top.run([*flags, "--metrics-url", f"http://{host}:{port}"]) == ExitStatus.UNREACHABLE


def test_a_follower_that_hangs_leaves_the_isr_and_comes_back(cluster: Cluster) -> None:
    wait_for(lambda: is_well(cluster))
    controller = cluster.controller()
    leader, follower = (controller + 1) % 3, (controller + 2) % 3
    cluster.create_topic("watched", assignment={0: (leader, follower), 1: (leader, follower)})
    names = ("IsrShrinksPerSec", "IsrExpandsPerSec", "FailedIsrUpdatesPerSec")

    def changes() -> list[int]:
        return [value(cluster, leader, REPLICAS.format(name), "Count") for name in names]

    def sizes() -> list[int]:
        bean = "kafka.cluster:type=Partition,name=InSyncReplicasCount,topic=watched,partition=*"
        return [each["Value"] for each in beans(cluster, leader, bean).values()]

    wait_for(lambda: sizes() == [2, 2])
    decided = STATS.format("IsrChangeRateAndTimeMs")
    with cluster.producer(acks="1") as producer:

        def send() -> None:
            for partition in (0, 1):
                producer.send("watched", b"x", partition=partition).result(120)

        # It is to know the leader before: asked by a producer that has just begun, who hangs would not answer.
        send()
        # On a slow machine it may have left for being late with these, and come back: that is not counted here.
        wait_for(
            lambda: cluster.same_logs("watched", 0) and cluster.same_logs("watched", 1) and sizes() == [2, 2]
        )
        shrinks, expands, failed = changes()
        before = value(cluster, controller, decided, "Count")
        with hanging(cluster.brokers[follower]):
            send()  # whoever has all that there is stays in sync, however long it says nothing
            wait_for(lambda: sizes() == [1, 1])
            assert value(cluster, leader, REPLICAS.format("UnderReplicatedPartitions")) == 2
            assert changes() == [shrinks + 2, expands, failed]
    wait_for(lambda: sizes() == [2, 2])
    wait_for(lambda: value(cluster, leader, REPLICAS.format("UnderReplicatedPartitions")) == 0)
    assert changes() == [shrinks + 2, expands + 2, failed]
    assert value(cluster, controller, decided, "Count") >= before + 2


def test_a_broker_that_dies_and_the_next_controller(cluster: Cluster) -> None:
    wait_for(lambda: is_well(cluster))
    controller = cluster.controller()
    dead = (controller + 1) % 3
    other = (controller + 2) % 3
    cluster.create_topic("bereft", assignment={0: (dead,)})
    cluster.create_topic("elected", assignment={0: (dead, controller, other)})
    assert sum(each(cluster, CONTROLLER.format("ActiveControllerCount"))) == 1
    assert value(cluster, controller, CONTROLLER.format("ActiveControllerCount")) == 1
    elections = STATS.format("LeaderElectionRateAndTimeMs")
    before = value(cluster, controller, elections, "Count")
    cluster.brokers[dead].kill()
    wait_for(lambda: value(cluster, controller, CONTROLLER.format("OfflinePartitionsCount")) > 0)
    wait_for(lambda: dead not in cluster.leadership("elected")[0][1])
    now = beans(cluster, controller, elections)[elections]
    assert now["Count"] > before
    assert 0 < now["Max"] < 60_000
    assert value(cluster, controller, STATS.format("UncleanLeaderElectionsPerSec"), "Count") == 0

    def agree() -> bool:
        """Whether all that is measured is what a broker says, which may be the last to hear of the death."""
        partitions = described(cluster)
        lacking = [one for one in partitions if len(one.isr) < len(one.replicas) and one.leader is not None]
        return (
            any(one.leader in (controller, other) for one in lacking)
            and value(cluster, controller, CONTROLLER.format("OfflinePartitionsCount"))
            == sum(one.leader is None for one in partitions)
            and all(
                value(cluster, broker, REPLICAS.format("UnderReplicatedPartitions"))
                == sum(one.leader == broker for one in lacking)
                for broker in (controller, other)
            )
        )

    wait_for(agree, what="what is measured")
    # The controller alone tells.
    assert value(cluster, other, CONTROLLER.format("OfflinePartitionsCount")) == 0
    cluster.brokers[dead].start()
    wait_for(lambda: is_well(cluster))

    changes = STATS.format("ControllerChangeRateAndTimeMs")
    knew = [value(cluster, broker, changes, "Count") for broker in (dead, other)]
    cluster.brokers[controller].stop()
    alive = (dead, other)

    def active() -> list[int]:
        return [value(cluster, broker, CONTROLLER.format("ActiveControllerCount")) for broker in alive]

    wait_for(lambda: sum(active()) == 1)

    def both_know() -> bool:
        now_counts = [value(cluster, broker, changes, "Count") for broker in alive]
        return all(now > then for now, then in zip(now_counts, knew, strict=True))

    wait_for(both_know, what="who is not elected to hear of it")
    cluster.brokers[controller].start()
    wait_for(lambda: is_well(cluster))
