"""What pk-topics and Kafka's tool find wrong with partitions, on three brokers of pkafka of which one is dead."""

from collections.abc import Iterator

import pytest

from pkafka.clients.admin import Admin
from pkafka.model import TopicPartition
from tests.cluster import Cluster, hanging, kill_all_processes
from tests.interop.conftest import JavaTool
from tests.interop.side_by_side import pk
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.timeout(300)]

TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """``short`` wants two replicas in sync; ``growing`` is to get one at the broker that is dead."""
    # Long enough for a slow machine: the broker that hangs is to count as alive until it is killed.
    settings = {"zookeeper.session.timeout.ms": 30_000}
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=settings) as started:
        # The controller is to answer while the other one hangs.
        dead, living = (1, 2) if started.controller() == 2 else (2, 1)
        assigned = {
            "whole": (0, living),
            "behind": (0, dead),
            "short": (living, dead),
            "gone": (dead,),
            "growing": (0,),
        }
        for topic, replicas in assigned.items():
            configs = {"min.insync.replicas": "2" if topic == "short" else "1"}
            started.create_topic(topic, assignment={0: replicas}, configs=configs)
        moving = TopicPartition("growing", 0)
        # By a broker that answers: a request to the one that hangs would take longer than its session.
        with Admin({"bootstrap.servers": started.brokers[0].bootstrap}) as admin:
            with hanging(started.brokers[dead]):
                # Nobody may add a replica at a broker that is known to be dead.
                good(admin.alter_partition_reassignments({moving: [0, dead]})[moving])
                kill_all_processes(started.brokers[dead])
            wait_for(lambda: len(admin.describe_cluster().brokers) == 2)

        def is_told(number: int) -> bool:
            """Whether a broker says what the controller has decided: it hears of it later."""
            told = started.told_by(number, *assigned)
            found = {topic.name: topic.partitions[0] for topic in told.topics}
            return (
                len(told.brokers) == 2
                and found["gone"].leader_id == -1
                and all(dead not in found[name].isr_nodes for name in ("behind", "short"))
                and dead in found["growing"].replica_nodes
            )

        # Several times: each connection may come to another worker.
        wait_for(lambda: all(is_told(number) for number in (0, living) for _ in range(6)))
        yield started


@pytest.mark.parametrize(
    ("flag", "found"),
    [
        ("--under-replicated-partitions", ["behind", "short"]),
        ("--unavailable-partitions", ["gone"]),
        ("--under-min-isr-partitions", ["gone", "short"]),
        ("--at-min-isr-partitions", ["behind", "gone", "growing"]),
    ],
)
def test_both_find_the_same(cluster: Cluster, java_tool: JavaTool, flag: str, found: list[str]) -> None:
    words = ("--bootstrap-server", cluster.brokers[0].bootstrap, "--describe", flag)
    theirs = java_tool(TOPICS, *words)
    assert theirs.returncode == 0, theirs
    ours = pk("topics", *words)
    assert sorted(ours.splitlines()) == sorted(theirs.stdout.splitlines())
    assert sorted(line.split()[1] for line in ours.splitlines()) == found
