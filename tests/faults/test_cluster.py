"""Three brokers while some of them die, hang or stop: what was acknowledged by all in sync is never lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster, Load, check, hanging
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


@pytest.fixture
def overrides() -> dict[str, object]:
    return {}


@pytest.fixture
def cluster(zookeeper: ZooKeeper, tmp_path: Path, overrides: dict[str, object]) -> Iterator[Cluster]:
    with Cluster(tmp_path, zookeeper.connect, overrides=overrides) as started:
        yield started


def leader(cluster: Cluster, topic: str) -> int:
    return cluster.leadership(topic)[0][0]


def in_sync(cluster: Cluster, topic: str) -> list[int]:
    return cluster.leadership(topic)[0][1]


def test_the_leader_is_killed_again_and_again(cluster: Cluster) -> None:
    cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    with Load(cluster, "t") as load:
        for _ in range(3):
            victim = leader(cluster, "t")
            cluster.brokers[victim].kill()
            load.goes_on()
            cluster.brokers[victim].start()
            wait_for(lambda: in_sync(cluster, "t") == [0, 1, 2], timeout_s=60)
    check(cluster, load, "t")


def test_a_rolling_restart_is_not_noticed(cluster: Cluster) -> None:
    cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    with Load(cluster, "t") as load:
        for broker in cluster.brokers:
            broker.stop()
            load.goes_on()
            broker.start()
            wait_for(lambda: in_sync(cluster, "t") == [0, 1, 2], timeout_s=60)
    check(cluster, load, "t")
    assert load.longest_gap_s() < 1.5


@pytest.mark.parametrize("overrides", [{"replica.lag.time.max.ms": 1500, "replica.fetch.wait.max.ms": 300}])
def test_a_follower_that_hangs_leaves_and_comes_back(cluster: Cluster) -> None:
    cluster.create_topic("t", assignment={0: (0, 1, 2)}, configs={"min.insync.replicas": "2"})
    wait_for(lambda: leader(cluster, "t") == 0)
    with Load(cluster, "t") as load, hanging(cluster.brokers[2]):
        wait_for(lambda: in_sync(cluster, "t") == [0, 1], timeout_s=60)
        load.goes_on()
    wait_for(lambda: in_sync(cluster, "t") == [0, 1, 2], timeout_s=60)
    check(cluster, load, "t")
