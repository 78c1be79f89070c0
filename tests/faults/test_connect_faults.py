"""Workers of a Connect cluster, and brokers under them, that are killed, hang and are cut off, in a random order.

Whatever happens: no number of a source is lost; where sources write exactly once, each is there once, and no run of a
task writes after its successor; all that is in the topic comes out at the sink; what the workers say is soon the truth;
nothing is left of what is deleted. The internal topics are compacted all the while.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pkafka.testing import Broker, running_broker
from tests.cluster import Cluster, kill_all_processes
from tests.connect_workers import ConnectWorker
from tests.faults.connect_herd import CLEANING, COMPACTED, SETTLED_S, Gate, Herd, herd
from tests.raw_client import new_topic_name
from tests.sockets import free_port
from tests.talk import good, talking, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

EXACTLY_ONCE: Final = {"exactly.once.source.support": "enabled"}
FEW_PARTITIONS: Final = {
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
}
BROKERS: Final = 2
TASKS: Final = 4
IMPATIENT: Final = {"session.timeout.ms": "1500", "heartbeat.interval.ms": "300"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    settings = {"broker.id": 0, "pkafka.workers": 1, **FEW_PARTITIONS, **CLEANING}
    settings |= {"offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1}
    with running_broker(tmp_path / "broker", settings | {"transaction.state.log.min.isr": 1}) as broker:
        yield broker


def test_a_leader_that_stood_still_writes_nothing_more(broker: Broker, tmp_path: Path) -> None:
    topic = new_topic_name()
    with talking(broker.bootstrap) as talk:
        talk.create(topic, 2)
    settings = {**EXACTLY_ONCE, **IMPATIENT, **COMPACTED}
    with herd(tmp_path, [broker.bootstrap] * 2, topic, 2, settings) as workers:
        workers.settles()
        leader = workers.leader()
        workers.hang(leader)
        wait_for(lambda: workers.is_without(leader), timeout_s=SETTLED_S, what="the other worker")
        workers.go_on(leader)
        workers.settles()
        workers.check()
        wait_for(workers.all_came_out, timeout_s=SETTLED_S, what="all at the sink")
        workers.ends()


@pytest.fixture
def gates() -> Iterator[list[Gate]]:
    """Before the brokers, for the last of the workers."""
    made = [Gate(free_port()) for _ in range(BROKERS)]
    yield made
    for gate in made:
        gate.close()


@pytest.fixture
def cluster(zookeeper: ZooKeeper, gates: list[Gate], tmp_path: Path) -> Iterator[Cluster]:
    own = [free_port() for _ in gates]

    def listeners(number: int) -> dict[str, object]:
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{own[number]},GATED://127.0.0.1:{gates[number].target}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own[number]},GATED://127.0.0.1:{gates[number].port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,GATED:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }

    settings = {"pkafka.workers": 1, **FEW_PARTITIONS, **CLEANING}
    settings |= {"offsets.topic.replication.factor": BROKERS, "min.insync.replicas": 1}
    settings |= {"transaction.state.log.replication.factor": BROKERS, "transaction.state.log.min.isr": 1}
    with Cluster(
        tmp_path, zookeeper.connect, size=BROKERS, overrides=settings, overrides_of=listeners
    ) as cluster:
        yield cluster


class Schedule:
    """What happens to workers and brokers, as a seed has it.

    Args:
        cluster: of brokers.
        gates: between the brokers and the last worker.
        workers: of Connect.
        seed: of the choices.
    """

    def __init__(self, cluster: Cluster, gates: list[Gate], workers: Herd, seed: int) -> None:
        self._cluster = cluster
        self._gates = gates
        self._workers = workers
        self._rng = random.Random(seed)

    def run(self, rounds: int) -> None:
        """Have each kind of fault happen so many times, in any order, and see each time that all is well in the end."""
        faults = [
            self.a_worker_is_killed,
            self.the_leader_is_killed,
            self.a_broker_is_killed,
            self.a_worker_hangs,
            self.a_worker_is_cut_off,
            self.a_worker_is_stopped,
            self.all_workers_are_killed,
        ] * rounds
        self._rng.shuffle(faults)

        for fault in faults:
            print(f"--- {time.strftime('%H:%M:%S')} {fault.__name__}")
            if self._rng.random() < 0.5:
                self._something_is_asked()
            fault()
            if self._rng.random() < 0.5:
                self._something_is_asked()
            self._workers.settles()
            self._workers.check()

    def _something_is_asked(self) -> None:
        worker = self._chosen()
        ask = self._rng.choice(
            [self._workers.reconfigure, self._workers.pause_and_resume, self._workers.restart]
        )
        print(f"--- {time.strftime('%H:%M:%S')} {ask.__name__}")
        ask(worker)

    def _chosen(self) -> ConnectWorker:
        return self._rng.choice(self._workers.workers)

    def a_worker_is_killed(self) -> None:
        victim = self._chosen()
        victim.kill()
        if self._rng.random() < 0.5:
            self._wait_until_without(victim)
        victim.start()

    def the_leader_is_killed(self) -> None:
        victim = self._workers.leader()
        victim.kill()
        if self._rng.random() < 0.5:
            self._wait_until_without(victim)
        victim.start()

    def a_broker_is_killed(self) -> None:
        number = self._rng.randrange(BROKERS)
        wait_for(self._is_whole, timeout_s=SETTLED_S, what="brokers in sync")
        kill_all_processes(self._cluster.brokers[number])
        if self._rng.random() < 0.5:
            self._workers.settles()
        self._cluster.brokers[number].start()

    def _is_whole(self) -> bool:
        with self._cluster.admin() as admin:
            found = admin.describe_topics([each.name for each in admin.list_topics()])
        return all(len(one.isr) == BROKERS for each in found.values() for one in good(each).partitions)

    def a_worker_hangs(self) -> None:
        victim = self._chosen()
        self._workers.hang(victim)
        self._wait_until_without(victim)
        self._workers.go_on(victim)

    def a_worker_is_cut_off(self) -> None:
        for gate in self._gates:
            gate.shut()
        self._wait_until_without(self._workers.workers[-1])
        for gate in self._gates:
            gate.open()

    def a_worker_is_stopped(self) -> None:
        victim = self._chosen()
        assert victim.stop() == 0
        victim.start()

    def all_workers_are_killed(self) -> None:
        for worker in self._workers.workers:
            worker.kill()
        for worker in self._workers.workers:
            worker.start()

    def _wait_until_without(self, victim: ConnectWorker) -> None:
        wait_for(lambda: self._workers.is_without(victim), timeout_s=SETTLED_S, what="the other workers")


@pytest.mark.nightly
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize(("seed", "exactly_once"), [(1, True), (2, True), (3, False), (4, False)])
def test_whatever_happens_all_is_well_in_the_end(
    cluster: Cluster, gates: list[Gate], tmp_path: Path, seed: int, exactly_once: bool
) -> None:
    topic = new_topic_name()
    cluster.create_topic(topic, TASKS, replicas=BROKERS)
    settings = {**COMPACTED, "session.timeout.ms": "4000", "heartbeat.interval.ms": "500"}
    settings |= {
        f"{kind}.storage.replication.factor": str(BROKERS) for kind in ("config", "offset", "status")
    }
    if exactly_once:
        settings |= EXACTLY_ONCE
    behind_gates = ",".join(f"127.0.0.1:{gate.port}" for gate in gates)
    bootstraps = [cluster.bootstrap, cluster.bootstrap, behind_gates]
    with herd(tmp_path, bootstraps, topic, TASKS, settings) as workers:
        workers.settles()
        Schedule(cluster, gates, workers, seed).run(2)
        wait_for(workers.all_came_out, timeout_s=SETTLED_S, what="all at the sink")
        wait_for(workers.is_compacted, timeout_s=SETTLED_S, what="compacted topics")
        workers.ends()
