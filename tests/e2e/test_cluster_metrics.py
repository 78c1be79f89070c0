"""What three brokers measure of each other: replicas that follow, fall behind and move, and who leads them."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

import pytest

from pkafka.cli.exit_status import ExitStatus
from pkafka.cli.metadata import main as metadata
from pkafka.cli.top import main as top
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.e2e.test_replication_throttles import is_moving, limit
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180), pytest.mark.usefixtures("plain_environment")]

RECORD: Final = bytes(10_000)
RECORDS: Final = 50


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "auto.leader.rebalance.enable": "false",
        "pkafka.metrics.port": 0,
        "replica.fetch.max.bytes": 30_000,
        "replica.lag.time.max.ms": 3_000,
        "controlled.shutdown.enable": "true",
    }
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=settings) as started:
        yield started


def address(cluster: Cluster, broker: int) -> str:
    _, _, rest = cluster.brokers[broker].log_file.read_text().rpartition("Metrics on ")
    return rest.split()[0].removesuffix("/metrics")


def beans(cluster: Cluster, broker: int, pattern: str) -> dict[str, dict[str, Any]]:
    """The attributes of the beans that a pattern means, by their names."""
    query = urllib.parse.urlencode({"qry": pattern})
    with urllib.request.urlopen(f"{address(cluster, broker)}/jmx?{query}", timeout=10) as answer:
        return {each.pop("name"): each for each in json.load(answer)["beans"]}


def value(cluster: Cluster, broker: int, name: str, attribute: str = "Value") -> Any:
    """One attribute of one bean."""
    (found,) = beans(cluster, broker, name).values()
    return found[attribute]


def each(cluster: Cluster, name: str, attribute: str = "Value") -> list[Any]:
    """The same of every broker."""
    return [value(cluster, broker, name, attribute) for broker in range(len(cluster.brokers))]


def fill(cluster: Cluster, topic: str) -> None:
    with cluster.producer() as producer:
        for _ in range(RECORDS):
            producer.send(topic, RECORD, partition=0)
        producer.flush()


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
    replicas = "kafka.server:type=ReplicaManager,name={}"
    wait_for(lambda: value(cluster, 0, replicas.format("ReassigningPartitions")) == 1)
    assert value(cluster, 0, replicas.format("UnderReplicatedPartitions")) == 0
    partition = "kafka.cluster:type=Partition,name={},topic=grows,partition=0"
    assert value(cluster, 0, partition.format("UnderReplicated")) == 0
    assert value(cluster, 0, partition.format("ReplicasCount")) == 1
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
    assert value(cluster, 0, partition.format("ReplicasCount")) == 2
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
