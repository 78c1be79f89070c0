"""Three brokers whose network breaks, each on a machine of its own: between brokers, to ZooKeeper, to clients, one way.

Whatever is cut: what was acknowledged by all in sync (two at the least) stays, in order; what was delivered stays too;
and when the network is whole again, the cluster serves within :data:`HEALED_S`, and all replicas are the same.

As root only: `make nightly` runs them.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults.machines import SIZE, Machines, running_machines
from tests.talk import wait_for
from tests.workload import Workload, make_offsets_topic

pytestmark = [pytest.mark.faults, pytest.mark.root, pytest.mark.timeout(300)]

SESSION_S: Final = 4.0
GOES_ON_S: Final = 30.0
"""After a cut that leaves a majority which can go on, with clients that give silent brokers up after 3 s."""
HEALED_S: Final = 45.0
SEED: Final = 391

TOPIC: Final = "t"
PARTITIONS: Final = SIZE
OVERRIDES: Final = {
    "zookeeper.session.timeout.ms": int(SESSION_S * 1000),
    "replica.lag.time.max.ms": 3_000,
    "replica.socket.timeout.ms": 3_000,
    "request.timeout.ms": 3_000,
    "controller.socket.timeout.ms": 3_000,
    "replica.fetch.backoff.ms": 200,
    "min.insync.replicas": 2,
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(params=["ppp", "kkk", "pkk", "kpp"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    """Three brokers; ``p`` is pkafka and ``k`` is Apache Kafka."""
    with running_machines(tmp_path, request.param, OVERRIDES) as started:
        # Each leads one partition.
        order = {index: tuple((index + turn) % SIZE for turn in range(SIZE)) for index in range(SIZE)}
        started.create_topic(TOPIC, assignment=order)
        make_offsets_topic(started, TOPIC)
        yield started


def is_whole(cluster: Machines) -> bool:
    """Whether all replicas are in sync."""
    return all(len(cluster.state(TOPIC, index).isr) == SIZE for index in range(PARTITIONS))


def heal(cluster: Machines, load: Workload) -> None:
    """From here on the cluster writes again, and everybody comes back into sync."""
    cluster.network.heal()
    load.goes_on(HEALED_S)
    wait_for(lambda: is_whole(cluster), timeout_s=HEALED_S, what="everybody in sync")


def loaded(cluster: Machines) -> Workload:
    wait_for(lambda: is_whole(cluster), what="everybody in sync")
    return Workload(cluster, TOPIC, PARTITIONS, writers=3, members=2)


Cut = Callable[[Machines, int], None]


def from_everybody_but_clients(cluster: Machines, victim: int) -> None:
    cluster.network.cut(cluster.hosts[victim], cluster.zookeeper_host, *cluster.others(victim))


def from_zookeeper(cluster: Machines, victim: int) -> None:
    cluster.network.cut(cluster.hosts[victim], cluster.zookeeper_host)


def from_everybody(cluster: Machines, victim: int) -> None:
    from_everybody_but_clients(cluster, victim)
    cluster.network.cut(cluster.hosts[victim], cluster.clients)


def hears_nobody(cluster: Machines, victim: int) -> None:
    for other in (cluster.zookeeper_host, *cluster.others(victim)):
        cluster.network.cut_one_way(other, cluster.hosts[victim])


def is_heard_by_nobody(cluster: Machines, victim: int) -> None:
    for other in (cluster.zookeeper_host, *cluster.others(victim)):
        cluster.network.cut_one_way(cluster.hosts[victim], other)


def from_the_other_brokers(cluster: Machines, victim: int) -> None:
    cluster.network.cut(cluster.hosts[victim], *cluster.others(victim))


def from_one_broker(cluster: Machines, victim: int) -> None:
    cluster.network.cut(cluster.hosts[victim], cluster.others(victim)[0])


def hears_no_broker(cluster: Machines, victim: int) -> None:
    for other in cluster.others(victim):
        cluster.network.cut_one_way(other, cluster.hosts[victim])


def is_heard_by_no_broker(cluster: Machines, victim: int) -> None:
    for other in cluster.others(victim):
        cluster.network.cut_one_way(cluster.hosts[victim], other)


def from_clients(cluster: Machines, victim: int) -> None:
    cluster.network.cut(cluster.hosts[victim], cluster.clients)


def a_victim(cluster: Machines, role: str) -> int:
    controller = cluster.controller()
    return controller if role == "controller" else (controller + 1) % SIZE


@pytest.mark.parametrize("role", ["controller", "other"])
@pytest.mark.parametrize(
    "cut",
    [from_everybody_but_clients, from_zookeeper, from_everybody, hears_nobody, is_heard_by_nobody],
    ids=lambda cut: cut.__name__,
)
def test_a_broker_that_loses_its_session_to_a_cut(cluster: Machines, cut: Cut, role: str) -> None:
    victim = a_victim(cluster, role)
    with loaded(cluster) as load:
        cut(cluster, victim)
        # The others go on without it, though it knows nothing of that and clients may still reach it.
        wait_for(
            lambda: all(victim not in cluster.state(TOPIC, index).isr for index in range(PARTITIONS)),
            timeout_s=GOES_ON_S,
            what="an ISR without who is cut off",
        )
        assert cluster.controller() != victim
        load.goes_on(GOES_ON_S)
        heal(cluster, load)
    load.check()


@pytest.mark.parametrize("role", ["controller", "other"])
@pytest.mark.parametrize(
    "cut",
    [from_the_other_brokers, from_one_broker, hears_no_broker, is_heard_by_no_broker, from_clients],
    ids=lambda cut: cut.__name__,
)
def test_a_broker_that_keeps_its_session_in_a_cut(cluster: Machines, cut: Cut, role: str) -> None:
    victim = a_victim(cluster, role)
    with loaded(cluster) as load:
        cut(cluster, victim)
        time.sleep(2 * SESSION_S)  # what is to be shown is that time brings no harm
        assert cluster.controller() == (victim if role == "controller" else a_victim(cluster, "controller"))
        assert {int(number) for number in registered(cluster)} == set(range(SIZE)), "nobody is buried alive"
        heal(cluster, load)
    load.check()


def registered(cluster: Machines) -> list[str]:
    return cluster.ask_store(lambda store: store.children("/brokers/ids"))


def test_zookeeper_is_cut_off_from_all_brokers(cluster: Machines) -> None:
    with loaded(cluster) as load:
        cluster.network.cut(cluster.zookeeper_host, *cluster.hosts)
        wait_for(lambda: registered(cluster) == [], timeout_s=GOES_ON_S, what="the end of all sessions")
        # Nobody could tell them anything else: who leads goes on to lead.
        load.goes_on(GOES_ON_S)
        heal(cluster, load)
        wait_for(lambda: len(registered(cluster)) == SIZE, what="everybody registered again")
    load.check()


def test_a_line_that_comes_and_goes(cluster: Machines) -> None:
    victim = a_victim(cluster, "controller")
    chance = random.Random(SEED)
    with loaded(cluster) as load:
        for _ in range(8):
            from_everybody_but_clients(cluster, victim)
            time.sleep(chance.uniform(0.1, 1.5 * SESSION_S))
            cluster.network.heal()
            time.sleep(chance.uniform(0.1, 0.5 * SESSION_S))
        heal(cluster, load)
    load.check()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_lines_break_and_mend_one_by_one(cluster: Machines, seed: int) -> None:
    chance = random.Random(seed)
    everybody = [*cluster.hosts, cluster.zookeeper_host, cluster.clients]
    lines = [
        (source, target)
        for source in everybody
        for target in everybody
        if source is not target and (source in cluster.hosts or target in cluster.hosts)
    ]
    with loaded(cluster) as load:
        for _ in range(3):
            for source, target in chance.sample(lines, chance.randint(1, 8)):
                cluster.network.cut_one_way(source, target)
                time.sleep(chance.uniform(0.0, 1.0))
            time.sleep(chance.uniform(0.0, 1.5 * SESSION_S))
            heal(cluster, load)
    load.check()
