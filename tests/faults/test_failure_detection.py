"""Dead brokers are noticed long before their sessions end, and living ones are not buried."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.coordination.store import Stat
from tests.cluster import Cluster, Load, check, hanging, kill_all_processes
from tests.faults.test_cluster import in_sync, leader
from tests.talk import wait_for
from tests.zookeeper import running_zookeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

SESSION_MS = 40_000
NOTICED_S = 30.0
"""Far below the session's time-out, and far above what it takes on an idle machine."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    overrides = {"zookeeper.session.timeout.ms": SESSION_MS}
    with (
        running_zookeeper(tick_time_ms=2000) as zookeeper,
        Cluster(tmp_path, zookeeper.connect, overrides=overrides) as started,
    ):
        yield started


def node(cluster: Cluster, number: int) -> Stat | None:
    """Of a broker's registration."""
    return cluster.ask_store(lambda store: store.exists(f"/brokers/ids/{number}"))


def test_all_processes_of_the_leader_die_at_once(cluster: Cluster) -> None:
    victim = (cluster.controller() + 1) % 3
    cluster.create_topic("t", assignment={0: (victim, *({0, 1, 2} - {victim}))})
    with Load(cluster, "t") as load:
        kill_all_processes(cluster.brokers[victim])
        load.goes_on(timeout_s=NOTICED_S)
        cluster.brokers[victim].start()
        wait_for(lambda: in_sync(cluster, "t") == [0, 1, 2], timeout_s=60)
    check(cluster, load, "t")


def test_all_processes_of_the_controller_die_at_once(cluster: Cluster) -> None:
    victim = cluster.controller()
    cluster.create_topic("t", assignment={0: (victim, *({0, 1, 2} - {victim}))})
    with Load(cluster, "t") as load:
        kill_all_processes(cluster.brokers[victim])
        load.goes_on(timeout_s=NOTICED_S)
        assert cluster.controller() != victim
        # And back at once, without waiting for what it left behind.
        began_s = time.monotonic()
        cluster.brokers[victim].start()
        assert time.monotonic() - began_s < NOTICED_S
        wait_for(lambda: in_sync(cluster, "t") == [0, 1, 2], timeout_s=60)
    check(cluster, load, "t")


def test_a_supervisor_that_dies_ends_the_session(cluster: Cluster) -> None:
    victim = (cluster.controller() + 1) % 3
    os.kill(cluster.brokers[victim].pid, signal.SIGKILL)
    wait_for(lambda: node(cluster, victim) is None, timeout_s=NOTICED_S)


def test_a_broker_that_hangs_is_left_to_its_session(cluster: Cluster) -> None:
    victim = (cluster.controller() + 1) % 3
    before = node(cluster, victim)
    with hanging(cluster.brokers[victim]):
        time.sleep(3)  # nothing is to happen, and only time shows that
        assert node(cluster, victim) == before


def test_a_broker_that_was_buried_alive_registers_anew(cluster: Cluster) -> None:
    victim = (cluster.controller() + 1) % 3
    cluster.create_topic("t", assignment={0: (victim, *({0, 1, 2} - {victim}))})
    before = node(cluster, victim)
    assert before is not None
    with Load(cluster, "t") as load:
        cluster.ask_store(lambda store: store.delete(f"/brokers/ids/{victim}"))

        def is_back() -> bool:
            now = node(cluster, victim)
            return now is not None and now.czxid > before.czxid

        wait_for(is_back, timeout_s=60)
        load.goes_on()
        wait_for(lambda: in_sync(cluster, "t") == [0, 1, 2], timeout_s=60)
        assert leader(cluster, "t") != -1
    check(cluster, load, "t")


def test_a_lone_broker_starts_at_once_after_a_crash(tmp_path: Path) -> None:
    with running_zookeeper(tick_time_ms=2000) as zookeeper:
        overrides = {"zookeeper.session.timeout.ms": SESSION_MS}
        with Cluster(tmp_path, zookeeper.connect, 1, overrides=overrides) as made:
            made.create_topic("t", replicas=1)
            kill_all_processes(made.brokers[0])
            began_s = time.monotonic()
            made.brokers[0].start()
            wait_for(lambda: made.leadership("t") == {0: (0, [0])}, what="a leader")
            assert time.monotonic() - began_s < NOTICED_S
