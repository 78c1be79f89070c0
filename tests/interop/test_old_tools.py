"""Tools of Kafka 2.8 at pkafka: those that ask the controller through ZooKeeper, and one that Kafka 3.0 removed."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import TopicDescription
from pkafka.coordination.store import NoNodeError
from pkafka.coordination.znodes import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.differences import first_difference
from tests.interop.kafka import OracleUnavailableError, ToolServer, compile_java, jars
from tests.interop.side_by_side import pk
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

ELECTION = "kafka.admin.PreferredReplicaLeaderElectionCommand"
REASSIGN = "kafka.admin.ReassignPartitionsCommand"

OldTool = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def old_tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldTool]:
    try:
        server = ToolServer(
            compile_java(jars("old-tools"), tmp_path_factory.mktemp("old-tools"), "ToolServer")
        )
    except OracleUnavailableError as missing:
        pytest.skip(str(missing))
    try:
        yield server.run
    finally:
        server.close()


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "auto.leader.rebalance.enable": "false",
        "offsets.topic.replication.factor": 1,
        "zookeeper.session.timeout.ms": 18_000,  # nobody dies here
    }
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, 2, settings) as started:
        yield started


def turn(cluster: Cluster, *topics: str) -> None:
    """The preferred replica of these topics is one that does not lead; all others lead as they should."""
    pk("leader_election", *server(cluster), "--election-type", "preferred", "--all-topic-partitions")
    with cluster.admin() as admin:
        wait_for(lambda: {each.topic for each in replicas(admin, *topics)} == {*topics}, what="the topics")
        turned = {partition: brokers[::-1] for partition, brokers in replicas(admin, *topics).items()}
        assert set(admin.alter_partition_reassignments(turned).values()) == {None}
        wait_for(lambda: not admin.list_partition_reassignments(), what="the end of the turn")
    for broker in cluster.brokers:
        with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
            wait_for(lambda: replicas(admin, *topics) == turned, what="the turn in the metadata")


def replicas(admin: Admin, *topics: str) -> dict[TopicPartition, list[int]]:
    """Of each partition of the topics that the broker that is asked has heard of."""
    return {
        TopicPartition(name, each.partition): list(each.replicas)
        for name, found in admin.describe_topics(topics).items()
        if isinstance(found, TopicDescription)
        for each in found.partitions
    }


def server(cluster: Cluster) -> tuple[str, str]:
    return "--bootstrap-server", cluster.brokers[0].bootstrap


def partitions_file(path: Path, *names: str) -> str:
    rows = [{"topic": name[:-2], "partition": int(name[-1])} for name in names]
    path.write_text(json.dumps({"partitions": rows}))
    return str(path)


def comparable(text: str) -> str:
    """With sets in one order."""
    text = re.sub(
        r"(for partitions |for partitions Set\(|path with )([^)\n]+)",
        lambda found: found[1] + ", ".join(sorted(re.split(", ?", found[2]))),
        text,
    )
    return "\n".join(sorted(text.splitlines()))


def gone(cluster: Cluster, path: str) -> bool:
    try:
        cluster.ask_store(lambda store: store.get(path))
    except NoNodeError:
        return True
    return False


def test_the_tool_that_is_gone_says_the_same(
    cluster: Cluster, old_tool: OldTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PK_COMPAT", "3.9")
    for topic in ("first", "other"):
        cluster.create_topic(topic, assignment={0: (0, 1), 1: (0, 1)})

    def same(*words: str, code: int = 0) -> str:
        turn(cluster, "first")
        theirs = old_tool(ELECTION, *words)
        wait_for(lambda: gone(cluster, PREFERRED_REPLICA_ELECTION))
        turn(cluster, "first")
        ours = pk("preferred_replica_election", *words, code=code)
        wait_for(lambda: gone(cluster, PREFERRED_REPLICA_ELECTION))
        assert theirs.returncode == code, theirs
        assert not first_difference(comparable(ours), comparable(theirs.stdout))
        wait_for(lambda: [cluster.leadership("first")[each][0] for each in (0, 1)] in ([0, 0], [1, 1]))
        return ours

    there = partitions_file(tmp_path / "there.json", "first-0", "first-1")
    some = partitions_file(tmp_path / "some.json", "first-0", "first-1", "first-9", "nobody-0")
    assert "Successfully completed preferred leader election" in same(*server(cluster))
    same(*server(cluster), "--path-to-json-file", there)
    assert "UnknownTopicOrPartition" in same(*server(cluster), "--path-to-json-file", some, code=1)
    by_node = ("--zookeeper", cluster.zookeeper_connect)
    assert "Created preferred replica election path with first-0,first-1" in same(
        *by_node, "--path-to-json-file", there
    )
    assert "since it doesn't exist" in same(*by_node, "--path-to-json-file", some)
    # Where there is nothing to elect. Of what is right already, Kafka's names what it has elected.
    pk("preferred_replica_election", *server(cluster))
    nothing = pk("preferred_replica_election", *server(cluster))
    assert nothing == old_tool(ELECTION, *server(cluster)).stdout
    assert "Preferred replica already elected for partitions first-0, first-1\n" in pk(
        "preferred_replica_election", *server(cluster), "--path-to-json-file", there
    )


def test_a_dry_run_elects_nobody(cluster: Cluster) -> None:
    cluster.create_topic("dry", assignment={0: (0, 1)})
    turn(cluster, "dry")
    for words in (server(cluster), ("--zookeeper", cluster.zookeeper_connect)):
        shown = pk("preferred_replica_election", *words, "--dry-run")
        assert "Would elect a leader (PREFERRED) of dry-0\n" in shown
        found = json.loads(pk("preferred_replica_election", *words, "--dry-run", "--output", "json"))
        assert {"topic": "dry", "partition": 0, "result": "elected", "error": None} in found["partitions"]
    assert cluster.leadership("dry")[0][0] == 0


@pytest.mark.nightly
def test_a_move_through_zookeeper(cluster: Cluster, old_tool: OldTool, tmp_path: Path) -> None:
    cluster.create_topic("moved", assignment={0: (0,)})
    with cluster.producer() as producer:
        for number in range(100):
            producer.send("moved", b"%d" % number)
        producer.flush()
    file = tmp_path / "move.json"
    rows = [{"topic": "moved", "partition": 0, "replicas": [1]}]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    words = ("--zookeeper", cluster.zookeeper_connect, "--reassignment-json-file", file)
    begun = old_tool(REASSIGN, *words, "--execute")
    assert begun.stdout.endswith("Successfully started partition reassignment for moved-0\n"), begun
    wait_for(lambda: gone(cluster, REASSIGN_PARTITIONS))
    assert "Reassignment of partition moved-0 is complete." in old_tool(REASSIGN, *words, "--verify").stdout
    assert cluster.leadership("moved") == {0: (1, [1])}
