"""Clusters of Apache Kafka 3.9.1 and pkafka side by side on one ZooKeeper, as during a migration in place.

Broker 0 is Kafka, broker 1 is pkafka. Whoever leads, and whoever is the controller: what all in sync have acknowledged
is read back in order, and the logs of both are the same byte for byte.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil
import pytest

from pkafka.clients.admin import Admin
from pkafka.coordination.store import NoNodeError
from pkafka.coordination.znodes import Controller, PartitionState
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.model import TopicPartition
from pkafka.tools.local_broker import Broker
from tests.cluster import SETTINGS, Cluster, Load, check, read_all
from tests.interop.kafka import KafkaBroker
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

KAFKA, PKAFKA = 0, 1
NAMES: Final = ("kafka", "pkafka")
LAG_MS: Final = 2500
COMMON: Mapping[str, object] = {
    **SETTINGS,
    "inter.broker.protocol.version": "3.9",
    "default.replication.factor": 2,
    "offsets.topic.replication.factor": 2,
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": 2500,
    "replica.lag.time.max.ms": LAG_MS,
    "replica.fetch.backoff.ms": 200,
}


class Mixed(Cluster):
    """One broker of each kind.

    Args:
        directory: gets a folder for each.
        zookeeper: ``host:port``; the cluster has a chroot of its own there.
        class_path: of Apache Kafka.
        controller: which of the two shall be the controller, so starts first.
    """

    def __init__(self, directory: Path, zookeeper: str, class_path: str, controller: int) -> None:
        super().__init__(directory, zookeeper, size=0)
        self.kafka = KafkaBroker(
            class_path,
            self.zookeeper_connect,
            directory / "kafka",
            overrides={**COMMON, "broker.id": KAFKA},
            heap="256m",
            jvm_flags=("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        )
        self.pkafka = Broker(
            directory / "pkafka",
            {
                **COMMON,
                "broker.id": PKAFKA,
                "zookeeper.connect": self.zookeeper_connect,
                "pkafka.workers": 2,
            },
        )
        self.both: tuple[KafkaBroker | Broker, ...] = (self.kafka, self.pkafka)
        self._first = controller
        self._store: ZooKeeperStore | None = None

    def start(self) -> None:
        self._store = ZooKeeperStore(self.zookeeper_connect, create_chroot=True)
        self.both[self._first].start()
        wait_for(lambda: self.controller() == self._first, what="the controller")
        self.both[1 - self._first].start()
        wait_for(self._knows_both, what="both brokers in the metadata of both")

    def stop(self) -> None:
        if self._store is not None:
            self._store.close()
        for broker in self.both:
            broker.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.both)

    def controller(self) -> int:
        """Who is the controller, as ZooKeeper says; -1 for nobody."""
        assert self._store is not None
        try:
            return Controller.decode(self._store.get(Controller.path())[0]).broker_id
        except NoNodeError:
            return -1

    def state(self, topic: str, partition: int = 0) -> tuple[PartitionState, int]:
        """Leader and ISR as ZooKeeper says, and how often that was written."""
        assert self._store is not None
        data, stat = self._store.get(PartitionState.path(TopicPartition(topic, partition)))
        return PartitionState.decode(data), stat.version

    def wait_for_isr(self, topic: str, *brokers: int, partition: int = 0) -> None:
        wait_for(
            lambda: sorted(self.state(topic, partition)[0].isr) == sorted(brokers),
            what=f"{topic}-{partition} in sync on {brokers}",
        )

    def wait_for_leader(self, topic: str, broker: int, partition: int = 0) -> None:
        wait_for(
            lambda: self.state(topic, partition)[0].leader == broker,
            what=f"{topic}-{partition} led by {broker}",
        )

    def assert_same_logs(self, topic: str, partition: int = 0) -> None:
        """Every byte of the topic's records is the same on both, and there are some."""
        logs = [log_bytes(broker.log_dir / f"{topic}-{partition}") for broker in self.both]
        assert logs[KAFKA]
        assert logs[KAFKA] == logs[PKAFKA]

    @contextlib.contextmanager
    def hanging(self, broker: int) -> Iterator[None]:
        """All processes of a broker stand still."""
        parent = psutil.Process(self.both[broker].pid)
        family = [parent, *parent.children(recursive=True)]
        for process in family:
            process.suspend()
        try:
            yield
        finally:
            for process in family:
                process.resume()

    def _knows_both(self) -> bool:
        for broker in self.both:
            with contextlib.closing(Admin({"bootstrap.servers": broker.bootstrap})) as admin:
                if len(admin.describe_cluster().brokers) != len(self.both):
                    return False
        return True


def log_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


@pytest.fixture(scope="module", params=(KAFKA, PKAFKA), ids=lambda one: f"{NAMES[one]}-controller")
def cluster(
    request: pytest.FixtureRequest,
    zookeeper: ZooKeeper,
    kafka_classpath: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mixed]:
    """Both brokers, one of them the controller, for tests that leave them running."""
    directory = tmp_path_factory.mktemp("mixed")
    made = Mixed(directory, zookeeper.connect, kafka_classpath, request.param)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(params=(KAFKA, PKAFKA), ids=lambda one: f"{NAMES[one]}-controller")
def fresh(
    request: pytest.FixtureRequest, zookeeper: ZooKeeper, kafka_classpath: str, tmp_path: Path
) -> Iterator[Mixed]:
    """The same for one test that stops or kills them."""
    made = Mixed(tmp_path, zookeeper.connect, kafka_classpath, request.param)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(params=(KAFKA, PKAFKA), ids=lambda one: f"{NAMES[one]}-leads")
def leader(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def test_replicas_are_the_same_and_stay_in_sync(cluster: Mixed, leader: int) -> None:
    topic = f"same-{leader}"
    follower = 1 - leader
    cluster.create_topic(topic, assignment=dict.fromkeys(range(3), (leader, follower)))
    expected: list[int] = []
    for codec in CODECS:
        for idempotent in ("true", "false"):
            with cluster.producer(
                **{"compression.type": codec, "enable.idempotence": idempotent}
            ) as producer:
                sent = []
                for _ in range(50):
                    sent.append(producer.send(topic, b"%d" % len(expected), partition=len(expected) % 3))
                    expected.append(len(expected))
                for one in sent:
                    one.result(20)
    before = [cluster.state(topic, partition) for partition in range(3)]
    for partition in range(3):
        cluster.assert_same_logs(topic, partition)
        assert read_all(cluster, topic, partition) == expected[partition::3]
        assert before[partition][0].leader == leader
        assert sorted(before[partition][0].isr) == [KAFKA, PKAFKA]
    # Who follows a leader without news stays in its ISR.
    time.sleep(2 * LAG_MS / 1000)
    assert [cluster.state(topic, partition) for partition in range(3)] == before


def test_a_follower_restarts(fresh: Mixed, leader: int) -> None:
    follower = 1 - leader
    fresh.create_topic("t", assignment={0: (leader, follower)})
    with Load(fresh, "t") as load:
        fresh.both[follower].stop()
        fresh.wait_for_isr("t", leader)
        assert fresh.controller() == leader
        load.goes_on()
        fresh.both[follower].start()
        fresh.wait_for_isr("t", KAFKA, PKAFKA)
        load.goes_on()
    assert fresh.state("t")[0].leader == leader
    assert fresh.state("t")[0].leader_epoch == 1, "a replica that stops leaves the ISR in a new epoch"
    check(fresh, load, "t")
    fresh.assert_same_logs("t")


def test_a_leader_stops_and_follows(fresh: Mixed, leader: int) -> None:
    follower = 1 - leader
    fresh.create_topic("t", assignment={0: (leader, follower)})
    with Load(fresh, "t") as load:
        fresh.both[leader].stop()
        assert fresh.state("t")[0].leader == follower, "controlled shutdown has moved the leader"
        load.goes_on()
        fresh.both[leader].start()
        fresh.wait_for_isr("t", KAFKA, PKAFKA)
        load.goes_on()
    assert fresh.controller() == follower
    check(fresh, load, "t")
    fresh.assert_same_logs("t")


def test_leaders_are_killed_in_turn(fresh: Mixed, leader: int) -> None:
    fresh.create_topic("t", assignment={0: (leader, 1 - leader)})
    with Load(fresh, "t") as load:
        for victim in (leader, 1 - leader):
            fresh.wait_for_leader("t", victim)
            fresh.both[victim].kill()
            fresh.wait_for_leader("t", 1 - victim)
            load.goes_on()
            fresh.both[victim].start()
            fresh.wait_for_isr("t", KAFKA, PKAFKA)
    check(fresh, load, "t")
    fresh.assert_same_logs("t")


def test_what_only_a_dead_leader_had_is_cut_off(fresh: Mixed, leader: int) -> None:
    follower = 1 - leader
    fresh.create_topic("t", assignment={0: (leader, follower)})
    send(fresh, range(10))
    only_leader = {
        "bootstrap.servers": fresh.both[leader].bootstrap,
        "acks": "1",
        "enable.idempotence": "false",
    }
    with fresh.producer(**only_leader) as producer:
        producer.send("t", b"99", partition=0).result(
            20
        )  # which finds the leader, while the other one answers
        with fresh.hanging(follower):
            for number in range(100, 120):
                producer.send("t", b"%d" % number, partition=0).result(20)
            fresh.both[leader].kill()
    fresh.wait_for_leader("t", follower)
    send(fresh, range(10, 20))
    fresh.both[leader].start()
    fresh.wait_for_isr("t", KAFKA, PKAFKA)
    send(fresh, range(20, 30))
    values = read_all(fresh, "t")
    assert [value for value in values if value < 99] == list(range(30))
    # The fetch that waited may have been answered with the first of the twenty.
    assert len(values) <= 32
    fresh.assert_same_logs("t")


def send(cluster: Mixed, values: range) -> None:
    with cluster.producer() as producer:
        for value in values:
            producer.send("t", b"%d" % value, partition=0).result(20)
