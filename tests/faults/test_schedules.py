"""Three brokers under load while the worst happens to them in turn; the laws are in tests/workload.py.

``p`` is a broker of pkafka, ``k`` one of Apache Kafka 3.9.1: the same schedules on either kind, and on both at once.
What takes long, and all that needs JVMs, runs nightly, and with a copy in transactions, which one schedule has in each
change, too. More of transactions under faults: test_transaction_faults.py, test_transaction_deaths.py, test_markers.py,
test_copies.py.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from pkafka.clients.admin import Admin
from pkafka.coordination.znodes import BrokerRegistration
from pkafka.errors import ApiError, PkafkaError
from pkafka.model import TopicPartition
from pkafka.storage.log_files import DELETED_DIRECTORY_SUFFIX
from tests.cluster import SETTINGS, Cluster, hanging, kill_all_processes
from tests.faults.small_disk import fill, small_disk
from tests.faults.zookeeper_faults import expire_session, mortal_zookeeper
from tests.interop.kafka import OracleUnavailableError, jars
from tests.talk import good, wait_for
from tests.workload import (
    PATIENT,
    Workload,
    make_offsets_topic,
    make_transactions_topic,
    wait_for_replicas,
)
from tests.zookeeper import ZooKeeper

__all__ = ["small_disk"]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

SIZE: Final = 3
TOPIC: Final = "t"
COPY: Final = "copy-of-t"
STATE_PARTITIONS: Final = 3
PARTITIONS: Final = SIZE
SESSION_S: Final = 4.0
RECOVERED_S: Final = 60.0
OVERRIDES: Final = {
    "pkafka.workers": 2,
    "zookeeper.session.timeout.ms": int(SESSION_S * 1000),
    "replica.lag.time.max.ms": 3_000,
    "replica.socket.timeout.ms": 3_000,
    "request.timeout.ms": 3_000,
    "controller.socket.timeout.ms": 3_000,
    "replica.fetch.backoff.ms": 200,
    "log.initial.task.delay.ms": 0,
    "min.insync.replicas": 2,
    "transaction.state.log.num.partitions": STATE_PARTITIONS,
    "auto.leader.rebalance.enable": "false",
}
OTHER_KINDS: Final = tuple(pytest.param(kinds, marks=pytest.mark.nightly) for kinds in ("kkk", "kpp", "pkk"))
EVERY_KIND: Final = ("ppp", *OTHER_KINDS)
EVERY_KIND_NIGHTLY: Final = (pytest.param("ppp", marks=pytest.mark.nightly), *OTHER_KINDS)


def made(directory: Path, zookeeper: str, kinds: str, **settings: object) -> Cluster:
    if "k" in kinds:
        try:
            jars("kafka")
        except OracleUnavailableError as missing:
            pytest.skip(str(missing))
    return Cluster(directory, zookeeper, kinds=kinds, overrides={**OVERRIDES, **settings})


@pytest.fixture
def copies(request: pytest.FixtureRequest) -> bool:
    """Whether the load copies in transactions: each night, and where the test asks for it."""
    return bool(getattr(request, "param", request.node.get_closest_marker("nightly")))


@pytest.fixture
def cluster(kinds: str, zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Cluster]:
    with made(tmp_path, zookeeper.connect, kinds) as started:
        create(started)
        yield started


def create(cluster: Cluster, replicas: int = SIZE, **configs: str) -> None:
    """The topic: each broker leads a partition."""
    everywhere = {
        index: tuple((index + turn) % SIZE for turn in range(replicas)) for index in range(PARTITIONS)
    }
    cluster.create_topic(TOPIC, assignment=everywhere, configs=configs)
    make_offsets_topic(cluster, TOPIC)
    wait_for(lambda: is_whole(cluster, replicas), what="everybody in sync")


def is_whole(cluster: Cluster, replicas: int = SIZE) -> bool:
    return all(len(cluster.state(TOPIC, index).isr) == replicas for index in range(PARTITIONS))


def recovers(cluster: Cluster, load: Workload) -> None:
    load.goes_on(RECOVERED_S)
    wait_for(lambda: is_whole(cluster), timeout_s=RECOVERED_S, what="everybody in sync")
    load.copies_go_on(RECOVERED_S)


def loaded(cluster: Cluster, members: int = 2, *, copies: bool = False) -> Workload:
    if copies:
        cluster.create_topic(COPY, PARTITIONS, replicas=SIZE)
        wait_for_replicas(cluster, COPY, PARTITIONS)
        make_transactions_topic(cluster, STATE_PARTITIONS)
    return Workload(cluster, TOPIC, PARTITIONS, writers=3, members=members, copies=COPY if copies else "")


def role(cluster: Cluster, name: str) -> int:
    """Each broker leads one partition and follows in two; one of them is the controller."""
    controller = cluster.controller()
    return controller if name == "controller" else (controller + 1) % SIZE


@pytest.mark.parametrize(
    ("kinds", "sessions"),
    [("ppp", 1.5), *(pytest.param("ppp", factor, marks=pytest.mark.nightly) for factor in (0.5, 3.0))]
    + [
        pytest.param(each.values[0], factor, marks=each.marks)
        for each in OTHER_KINDS
        for factor in (0.5, 1.5)
    ],
)
def test_brokers_stand_still_in_turn(cluster: Cluster, sessions: float, *, copies: bool) -> None:
    with loaded(cluster, copies=copies) as load:
        for name in ("controller", "other"):
            victim = role(cluster, name)
            with hanging(cluster.brokers[victim]):
                time.sleep(sessions * SESSION_S)
                if sessions > 1:
                    load.goes_on(RECOVERED_S)
                    assert cluster.controller() != victim
            recovers(cluster, load)
    load.check()


@pytest.mark.nightly
@pytest.mark.parametrize("kinds", ["ppp"])
@pytest.mark.parametrize("pause_s", [1.0, 6.0])
def test_one_worker_stands_still(
    zookeeper: ZooKeeper, tmp_path: Path, kinds: str, pause_s: float, *, copies: bool
) -> None:
    settings = {"pkafka.heartbeat.timeout.ms": 4_000}
    with made(tmp_path, zookeeper.connect, kinds, **settings) as cluster:
        create(cluster)
        with loaded(cluster, copies=copies) as load:
            for broker in cluster.brokers:
                for worker in ("pkafka-worker-0", "pkafka-worker-1"):
                    children = psutil.Process(broker.pid).children()
                    victim = next(child for child in children if child.name() == worker)
                    victim.suspend()
                    time.sleep(pause_s)  # longer than its silence is borne, or shorter
                    with contextlib.suppress(psutil.NoSuchProcess):
                        victim.resume()
                    recovers(cluster, load)
        load.check()


@pytest.mark.parametrize("kinds", EVERY_KIND)
@pytest.mark.parametrize("copies", [True], indirect=True, ids=["copies"])
def test_every_session_expires(cluster: Cluster, zookeeper: ZooKeeper, *, copies: bool) -> None:
    def node(number: int) -> tuple[int, int]:
        stat = cluster.ask_store(lambda store: store.exists(BrokerRegistration.path(number)))
        return (stat.ephemeral_owner, stat.czxid) if stat is not None else (0, 0)

    with loaded(cluster, copies=copies) as load:
        for name in ("controller", "other", "controller"):
            victim = role(cluster, name)
            before = node(victim)
            expire_session(("127.0.0.1", zookeeper.port), before[0])
            wait_for(lambda: node(victim)[1] > before[1], what="a registration anew")  # noqa: B023 - called at once
            recovers(cluster, load)
    load.check()


@pytest.mark.parametrize("kinds", EVERY_KIND_NIGHTLY)
@pytest.mark.parametrize("away_s", [0.5, 2 * SESSION_S])
def test_zookeeper_is_killed_and_comes_back(
    tmp_path: Path, kinds: str, away_s: float, *, copies: bool
) -> None:
    with mortal_zookeeper() as zookeeper, made(tmp_path, zookeeper.connect, kinds) as cluster:
        create(cluster)
        with loaded(cluster, copies=copies) as load:
            for _ in range(2):
                zookeeper.kill()
                load.goes_on(RECOVERED_S)  # who leads needs nobody's leave
                time.sleep(away_s)
                zookeeper.start()
                wait_for(lambda: answers(cluster), what="ZooKeeper")
                recovers(cluster, load)
            # Changes are made again too.
            kill_all_processes(cluster.brokers[victim := role(cluster, "controller")])
            load.goes_on(RECOVERED_S)
            cluster.brokers[victim].start()
            recovers(cluster, load)
        load.check(may_repeat="k" in kinds)


def answers(cluster: Cluster) -> bool:
    try:
        return len(cluster.ask_store(lambda store: store.children("/brokers/ids"))) == SIZE
    except PkafkaError:
        return False


@pytest.mark.parametrize("kinds", EVERY_KIND_NIGHTLY)
def test_zookeeper_and_a_broker_are_away_at_once(tmp_path: Path, kinds: str, *, copies: bool) -> None:
    with mortal_zookeeper() as zookeeper, made(tmp_path, zookeeper.connect, kinds) as cluster:
        create(cluster)
        with loaded(cluster, copies=copies) as load:
            victim = role(cluster, "controller")
            zookeeper.kill()
            kill_all_processes(cluster.brokers[victim])
            time.sleep(1.0)
            zookeeper.start()
            load.goes_on(RECOVERED_S)
            cluster.brokers[victim].start()
            recovers(cluster, load)
        load.check(may_repeat="k" in kinds)


@pytest.mark.root
@pytest.mark.parametrize("kinds", EVERY_KIND)
@pytest.mark.parametrize("copies", [True], indirect=True, ids=["copies"])
def test_a_disk_of_one_broker_is_full(
    zookeeper: ZooKeeper, tmp_path: Path, small_disk: Path, kinds: str, *, copies: bool
) -> None:
    cluster = made(tmp_path, zookeeper.connect, kinds)
    victim = 0
    roomy = tmp_path / "roomy"
    settings = {**SETTINGS, **OVERRIDES, "log.dirs": f"{small_disk},{roomy}", "broker.id": victim}
    settings["zookeeper.connect"] = cluster.zookeeper_connect
    kind = "kafka" if kinds[victim] == "k" else "pkafka"
    cluster.brokers[victim] = cluster.make_broker(kind, tmp_path / "broker-of-two-disks", settings)
    cluster.more_directories[victim] = [small_disk, roomy]
    with cluster:
        create(cluster)
        wait_for(lambda: list(small_disk.glob(f"{TOPIC}-*")), what="one of its replicas there")
        with loaded(cluster, copies=copies) as load:
            filler = fill(small_disk)
            wait_for(lambda: not is_whole(cluster), timeout_s=RECOVERED_S, what="replicas that have left")
            load.goes_on(RECOVERED_S)
            assert all(cluster.state(TOPIC, index).leader != -1 for index in range(PARTITIONS))
            filler.unlink()
            cluster.brokers[victim].stop()
            load.goes_on(RECOVERED_S)
            cluster.brokers[victim].start()
            recovers(cluster, load)
        load.check()


@pytest.mark.parametrize("kinds", EVERY_KIND_NIGHTLY)
def test_three_rolling_restarts(cluster: Cluster, kinds: str, *, copies: bool) -> None:
    with loaded(cluster, copies=copies) as load:
        for turn in range(3):
            for number in (*range(turn, SIZE), *range(turn)):
                cluster.brokers[number].stop()
                load.goes_on(RECOVERED_S)
                cluster.brokers[number].start()
                recovers(cluster, load)
    load.check()
    if "k" not in kinds:
        assert load.longest_gap_s() < 3.0, "nobody waits for a leader that stops in order"


@pytest.mark.parametrize(
    "kinds", [*EVERY_KIND, pytest.param("ppp", id="ppp-measured", marks=pytest.mark.nightly)]
)
def test_nobody_notices_the_death_of_a_controller_that_leads_nothing(
    request: pytest.FixtureRequest, zookeeper: ZooKeeper, tmp_path: Path, kinds: str
) -> None:
    """No partition gets another leader, nor the same one anew; how long clients wait is measured on a quiet machine."""
    is_measured = request.node.get_closest_marker("nightly") is not None
    settings = {} if is_measured else {"zookeeper.session.timeout.ms": 10_000}
    with made(tmp_path, zookeeper.connect, kinds, **settings) as cluster:
        controller = cluster.controller()
        others = tuple(number for number in range(SIZE) if number != controller)
        everywhere = {index: (others[index % 2], others[1 - index % 2]) for index in range(PARTITIONS)}
        cluster.create_topic(TOPIC, assignment=everywhere)
        wait_for(lambda: is_whole(cluster, 2), what="everybody in sync")
        with loaded(cluster, members=0) as load:
            kill_all_processes(cluster.brokers[controller])
            wait_for(
                lambda: cluster.controller() not in (-1, controller), timeout_s=60, what="another controller"
            )
            load.goes_on()
            assert [cluster.state(TOPIC, index).leader_epoch for index in range(PARTITIONS)] == [
                0
            ] * PARTITIONS
            cluster.brokers[controller].start()
            load.goes_on()
        load.check()
        if is_measured:
            assert load.longest_gap_s() < 2.0


class Mover:
    """Moves partitions of two replicas there and back, one at a time, until it is left."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.moves = 0
        self._cluster = cluster
        self._chance = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Mover":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._ended.is_set():
            partition = TopicPartition(TOPIC, self._chance.randrange(PARTITIONS))
            target = self._chance.sample(range(SIZE), 2)
            try:
                with Admin({"bootstrap.servers": self._cluster.bootstrap, **PATIENT}) as admin:
                    outcome = admin.alter_partition_reassignments({partition: target}, timeout_ms=5_000)
                    if not isinstance(outcome[partition], ApiError):
                        self.moves += 1
            except PkafkaError:
                pass  # nobody is the controller just now
            self._ended.wait(self._chance.uniform(0.0, 1.5))

    def settle(self) -> None:
        """All moves are made, and everybody is in sync."""

        def is_settled() -> bool:
            try:
                with Admin({"bootstrap.servers": self._cluster.bootstrap, **PATIENT}) as admin:
                    return not admin.list_partition_reassignments() and is_whole(self._cluster, 2)
            except PkafkaError:
                return False

        wait_for(is_settled, timeout_s=RECOVERED_S, what="the end of all moves")


@pytest.mark.parametrize("kinds", EVERY_KIND_NIGHTLY)
@pytest.mark.parametrize("seed", [1, 2])
def test_partitions_move_while_brokers_die_hang_and_restart(
    zookeeper: ZooKeeper, tmp_path: Path, kinds: str, seed: int, *, copies: bool
) -> None:
    chance = random.Random(seed)
    # Two replicas, of which one is enough: elections are clean, so nothing may be lost.
    with made(tmp_path, zookeeper.connect, kinds) as cluster:
        create(cluster, replicas=2, **{"min.insync.replicas": "1"})
        with loaded(cluster, copies=copies) as load:
            mover = Mover(cluster, seed)
            with mover:
                for _ in range(6):
                    harm = chance.choice([die, stand_still, restart])
                    harm(cluster, chance.randrange(SIZE))
                    load.goes_on(RECOVERED_S)
            mover.settle()
            load.goes_on(RECOVERED_S)
            load.copies_go_on(RECOVERED_S)
        load.check(may_repeat="k" in kinds)
        assert mover.moves > 3
        if "k" not in kinds:
            wait_for(lambda: hosted(cluster) == assigned(cluster), what="the end of replicas that moved away")


def assigned(cluster: Cluster) -> list[set[str]]:
    """Of each broker: the topic's partitions of which it is to have a replica."""
    with cluster.admin() as admin:
        topic = good(admin.describe_topics([TOPIC])[TOPIC])
    return [
        {f"{TOPIC}-{one.partition}" for one in topic.partitions if number in one.replicas}
        for number in range(SIZE)
    ]


def hosted(cluster: Cluster) -> list[set[str]]:
    """Of each broker: its directories of the topic, but of what is being deleted."""
    return [
        {
            path.name
            for path in broker.log_dir.glob(f"{TOPIC}-*")
            if not path.name.endswith(DELETED_DIRECTORY_SUFFIX)
        }
        for broker in cluster.brokers
    ]


def die(cluster: Cluster, number: int) -> None:
    kill_all_processes(cluster.brokers[number])
    time.sleep(0.5)
    cluster.brokers[number].start()


def stand_still(cluster: Cluster, number: int) -> None:
    with hanging(cluster.brokers[number]):
        time.sleep(1.5 * SESSION_S)


def restart(cluster: Cluster, number: int) -> None:
    cluster.brokers[number].stop()
    cluster.brokers[number].start()


Harm = Callable[[Cluster, int], None]


@pytest.mark.parametrize("kinds", EVERY_KIND_NIGHTLY)
@pytest.mark.parametrize("harm", [die, stand_still, restart], ids=lambda harm: harm.__name__)
def test_the_same_happens_to_each_broker_three_times(
    cluster: Cluster, kinds: str, harm: Harm, *, copies: bool
) -> None:
    with loaded(cluster, copies=copies) as load:
        for number in (*range(SIZE), role(cluster, "controller"), role(cluster, "other")):
            harm(cluster, number)
            recovers(cluster, load)
    load.check(may_repeat="k" in kinds)


@pytest.mark.nightly
@pytest.mark.parametrize("kinds", EVERY_KIND)
def test_all_die_at_once_and_start_in_any_order(cluster: Cluster, kinds: str, *, copies: bool) -> None:
    with loaded(cluster, copies=copies) as load:
        for order in ((0, 1, 2), (2, 0, 1)):
            for broker in cluster.brokers:
                kill_all_processes(broker)
            threads = [threading.Thread(target=cluster.brokers[number].start) for number in order]
            for thread in threads:
                thread.start()
                time.sleep(0.5)
            for thread in threads:
                thread.join()
            recovers(cluster, load)
    load.check(may_repeat="k" in kinds)


@pytest.mark.nightly
@pytest.mark.parametrize("kinds", EVERY_KIND)
def test_who_is_not_in_sync_never_leads(cluster: Cluster, kinds: str, *, copies: bool) -> None:
    leader = role(cluster, "other")
    index = leader  # the partition that it leads
    with loaded(cluster, members=0, copies=copies) as load:
        for number in range(SIZE):
            if number != leader:
                kill_all_processes(cluster.brokers[number])
        wait_for(lambda: list(cluster.state(TOPIC, index).isr) == [leader], timeout_s=30, what="one in sync")
        kill_all_processes(cluster.brokers[leader])
        others = [number for number in range(SIZE) if number != leader]
        cluster.brokers[others[0]].start()
        cluster.brokers[others[1]].start()
        wait_for(lambda: cluster.controller() in others, timeout_s=20, what="a controller")
        wait_for(lambda: cluster.state(TOPIC, index).leader == -1, timeout_s=20, what="no leader")
        assert list(cluster.state(TOPIC, index).isr) == [leader]
        cluster.brokers[leader].start()
        recovers(cluster, load)
    load.check(may_repeat="k" in kinds)
