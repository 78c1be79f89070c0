"""Three brokers while some of them die, hang or stop: what was acknowledged by all in sync is never lost."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.model import TopicPartition
from pkafka.server.replicas.partitions import owner_of
from tests.cluster import Cluster, Load, check, hanging
from tests.faults.family import begun_to_stop, family, kill, replaced
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper, running_zookeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]


@pytest.fixture
def overrides() -> dict[str, object]:
    return {}


@pytest.fixture
def cluster(zookeeper: ZooKeeper, tmp_path: Path, overrides: dict[str, object]) -> Iterator[Cluster]:
    with Cluster(tmp_path, zookeeper.connect, overrides=overrides) as started:
        yield started


@pytest.fixture
def patient_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One whose sessions last for longer than its brokers stand still, on a ZooKeeper that allows it."""
    overrides = {"zookeeper.session.timeout.ms": 60_000}
    with (
        running_zookeeper(tick_time_ms=3000) as zookeeper,
        Cluster(tmp_path, zookeeper.connect, overrides=overrides) as started,
    ):
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


@pytest.mark.parametrize(
    "gap_max_s",
    [
        pytest.param(30.0, id="on any machine"),
        pytest.param(1.5, id="on a quiet one", marks=pytest.mark.nightly),
    ],
)
def test_a_rolling_restart_is_not_noticed(cluster: Cluster, gap_max_s: float) -> None:
    cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    with Load(cluster, "t") as load:
        for broker in cluster.brokers:
            assert broker.stop() == 0
            load.goes_on()
            broker.start()
            wait_for(lambda: in_sync(cluster, "t") == [0, 1, 2], timeout_s=60)
    check(cluster, load, "t")
    assert load.longest_gap_s() < gap_max_s


@pytest.mark.parametrize("names", [("control", "owner"), ("owner", "control")])
def test_processes_die_of_a_broker_that_is_not_the_controller(
    cluster: Cluster, names: tuple[str, str]
) -> None:
    """Who comes after a control process learns what there is here from the workers that live: no controller says it
    again to a broker whose session goes on."""
    victim = (cluster.controller() + 1) % 3
    others = sorted({0, 1, 2} - {victim})
    cluster.create_topic("t", assignment=dict.fromkeys(range(4), (victim, *others)))
    with Load(cluster, "t") as load:
        for name in names:
            broker = cluster.brokers[victim]
            process = name.replace("owner", f"worker-{owner_of('t', 0, workers=2)}")
            replaced(broker, kill(broker, process), process)
            load.goes_on()
        wait_for(lambda: all(isr == [0, 1, 2] for _, isr in cluster.leadership("t").values()), timeout_s=60)
        load.goes_on()
    check(cluster, load, "t")


def test_a_worker_dies_while_nobody_knows_what_it_had(cluster: Cluster) -> None:
    victim = (cluster.controller() + 1) % 3
    others = sorted({0, 1, 2} - {victim})
    cluster.create_topic("t", assignment=dict.fromkeys(range(4), (victim, *others)))
    with Load(cluster, "t") as load:
        for child in family(cluster.brokers[victim]).values():
            child.kill()
        load.goes_on()
        wait_for(lambda: all(isr == [0, 1, 2] for _, isr in cluster.leadership("t").values()), timeout_s=60)
        load.goes_on()
    check(cluster, load, "t")


def test_a_broker_whose_controller_hangs_serves_its_clients_while_it_stops(patient_cluster: Cluster) -> None:
    cluster = patient_cluster
    controller = cluster.controller()
    victim, other = sorted({0, 1, 2} - {controller})
    cluster.create_topic("t", assignment={0: (victim, other)})
    broker = cluster.brokers[victim]
    with Load(cluster, "t") as load:
        load.goes_on()
        with hanging(cluster.brokers[controller]):
            os.kill(broker.pid, signal.SIGTERM)
            begun_to_stop(broker)
            for name in ("cleaner", f"worker-{owner_of('t', 0, workers=2)}"):
                replaced(broker, kill(broker, name), name)
                load.goes_on()
            assert cluster.state("t").leader == victim
        assert broker.wait() == 0
        load.goes_on()
    broker.start()
    wait_for(lambda: in_sync(cluster, "t") == sorted((victim, other)), timeout_s=60)
    check(cluster, load, "t")


@pytest.mark.parametrize("overrides", [{"replica.lag.time.max.ms": 1500, "replica.fetch.wait.max.ms": 300}])
@pytest.mark.nightly  # half a minute; tests/faults/test_hangs.py is shorter
def test_a_follower_that_hangs_leaves_and_comes_back(cluster: Cluster) -> None:
    cluster.create_topic("t", assignment={0: (0, 1, 2)}, configs={"min.insync.replicas": "2"})
    wait_for(lambda: leader(cluster, "t") == 0)
    with Load(cluster, "t") as load, hanging(cluster.brokers[2]):
        wait_for(lambda: in_sync(cluster, "t") == [0, 1], timeout_s=60)
        load.goes_on()
    wait_for(lambda: in_sync(cluster, "t") == [0, 1, 2], timeout_s=60)
    check(cluster, load, "t")


@pytest.mark.parametrize("away", ["dead", pytest.param("hangs", marks=pytest.mark.nightly)])
def test_a_replica_that_moved_away_from_a_broker_that_nobody_could_tell_is_gone(
    cluster: Cluster, away: str
) -> None:
    """The controller says it once, to those who are there."""
    victim = (cluster.controller() + 1) % 3
    keeper, target = sorted({0, 1, 2} - {victim})
    cluster.create_topic("t", assignment={0: (victim, keeper)})
    broker = cluster.brokers[victim]
    directory = broker.log_dir / "t-0"
    with Load(cluster, "t") as load, contextlib.ExitStack() as back:
        if away == "dead":
            back.callback(broker.start)
            broker.kill()
        else:
            back.enter_context(hanging(broker))
        load.goes_on()
        move = TopicPartition("t", 0)
        with cluster.admin() as admin:
            good(admin.alter_partition_reassignments({move: [keeper, target]})[move])
        wait_for(lambda: in_sync(cluster, "t") == [keeper, target], timeout_s=60)
        assert directory.is_dir()
        back.close()
        wait_for(lambda: not directory.exists(), timeout_s=60, what="its end")
        load.goes_on()
    check(cluster, load, "t")
    assert cluster.same_logs("t")
