"""Replicas go from one log directory to the other and back, under load, while processes of the broker are killed.

The law: what was acknowledged is there, once and in order; every replica arrives where it was last sent, and nothing is
left of the places where it was. A follower's has the bytes of its leader's, then as before.
"""

import random
import time
from pathlib import Path

import pytest

from pkafka.errors import ApiError, PkafkaError
from pkafka.model import TopicPartitionReplica
from pkafka.server.replicas.partitions import owner_of
from pkafka.tools.servers.local_broker import Broker
from tests.cluster import Cluster, Load, check
from tests.faults.conftest import MakeBroker, MeasuredBroker
from tests.faults.family import kill, replaced
from tests.faults.load import Writer
from tests.faults.wire import Wire, eventually
from tests.talk import Talk, good
from tests.zookeeper import ZooKeeper

SEED = 271828
TOPIC = "nomads"
PARTITIONS = 2
"""One of each worker."""
VICTIMS = ("worker-0", "broker", "cleaner", "worker-1", "control", "broker")
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
BYTES_PER_S = 8_000_000
"""So that most deaths come in the middle of a move."""
HOLD_BYTES_PER_S = 1
"""One batch is copied, and the next one not for a while."""
MOVER = 1
"""The follower whose replica moves."""
FILL = 1000
FILL_KEY = bytes(4000)
RECOVERED_S = 60


def homes_of(talk: Talk) -> dict[int, list[tuple[str, bool]]]:
    """Where the replicas are: (name of the log directory, whether it is on its way there)."""
    found: dict[int, list[tuple[str, bool]]] = {}
    for directory in good(talk.admin.describe_log_dirs([0])[0]):
        for each in directory.replicas:
            if each.partition.topic == TOPIC:
                found.setdefault(each.partition.partition, []).append(
                    (Path(directory.path).name, each.is_future)
                )
    return found


def send(broker: MeasuredBroker, home: Path) -> None:
    """Have all replicas go there, however often it has to be asked."""
    replicas = {TopicPartitionReplica(TOPIC, index, 0): str(home) for index in range(PARTITIONS)}

    def attempt() -> bool:
        talk = Talk(broker.bootstrap)
        try:
            outcomes = talk.admin.alter_replica_log_dirs(replicas)
        except PkafkaError:
            return False
        finally:
            talk.close()
        return not any(isinstance(outcome, Exception) for outcome in outcomes.values())

    eventually(attempt)


def have_arrived(broker: MeasuredBroker, home: Path) -> bool:
    talk = Talk(broker.bootstrap)
    try:
        found = homes_of(talk)
    except (ApiError, PkafkaError):
        return False
    finally:
        talk.close()
    return found == {index: [(home.name, False)] for index in range(PARTITIONS)}


def names(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir() if path.name.startswith(TOPIC))


@pytest.mark.timeout(300)
def test_replicas_arrive_whoever_dies_on_the_way(make_broker: MakeBroker, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    homes = [tmp_path / "home-0", tmp_path / "home-1"]
    settings: dict[str, object] = {
        "log.dirs": ",".join(map(str, homes)),
        "log.segment.bytes": 500_000,
        "log.segment.delete.delay.ms": 100,
        "log.initial.task.delay.ms": 0,
    }
    broker = make_broker(**settings)
    broker.start()
    with Wire(broker.bootstrap) as wire:
        wire.create_topic(TOPIC, PARTITIONS)
    talk = Talk(broker.bootstrap)
    talk.set_broker(**{RATE: BYTES_PER_S})
    talk.close()
    writers = [Writer(broker.bootstrap, TOPIC, index) for index in range(PARTITIONS)]
    for number, name in enumerate(VICTIMS):
        home = homes[number % 2]
        send(broker, home)
        time.sleep(chance.random())  # where on the way it dies is up to chance
        if name == "broker":
            broker.kill()
            broker.start()
        else:
            replaced(broker, kill(broker, name), name)
        eventually(lambda: have_arrived(broker, home), timeout_s=60)  # noqa: B023 - called at once
    for writer in writers:
        writer.stop()
    for writer in writers:
        assert writer.acknowledged
        writer.check()
    last, other = homes[(len(VICTIMS) - 1) % 2], homes[len(VICTIMS) % 2]
    eventually(lambda: names(other) == [])
    eventually(lambda: names(last) == [f"{TOPIC}-{index}" for index in range(PARTITIONS)])
    assert broker.stop() == 0


class FollowerOnTheMove:
    """Broker 1 of a cluster of three, which follows broker 0."""

    def __init__(self, cluster: Cluster, homes: list[Path]) -> None:
        self.cluster = cluster
        self.homes = homes
        broker = cluster.brokers[MOVER]
        assert isinstance(broker, Broker)
        self.broker = broker

    def places(self) -> list[tuple[Path, bool, int]]:
        """Log directory, whether it is only on its way there, and bytes of its replica; nothing while it is away."""
        try:
            with self.cluster.admin() as admin:
                directories = good(admin.describe_log_dirs([MOVER])[MOVER])
        except PkafkaError:
            return []
        return [
            (Path(directory.path), each.is_future, each.size_bytes)
            for directory in directories
            for each in directory.replicas
            if each.partition.topic == TOPIC
        ]

    def home(self) -> Path:
        """Where the replica is; waits until the broker says so."""
        places = eventually(self.places)
        return next(path for path, is_future, _ in places if not is_future)

    def throttle(self, rate: int | None) -> None:
        talk = Talk(self.cluster.bootstrap, broker_id=MOVER)
        talk.set_broker(**{RATE: rate})
        talk.close()

    def set_out(self) -> Path:
        """Send the replica to the other log directory; it is in the middle of its way there when this returns."""
        here = self.home()
        (there,) = {*self.homes} - {here}
        self.throttle(HOLD_BYTES_PER_S)
        replica = TopicPartitionReplica(TOPIC, 0, MOVER)
        with self.cluster.admin() as admin:
            good(admin.alter_replica_log_dirs({replica: str(there)})[replica])
        eventually(lambda: any(is_future and size for _, is_future, size in self.places()))
        return there

    def die(self, *, whole: bool) -> None:
        """kill -9 of the broker or of the worker that copies; it is up again when this returns."""
        if whole:
            self.broker.kill()
            self.broker.start()
        else:
            owner = f"worker-{owner_of(TOPIC, 0, 2)}"
            replaced(self.broker, kill(self.broker, owner), owner)

    def arrive(self, there: Path) -> None:
        self.throttle(None)
        eventually(lambda: [place[:2] for place in self.places()] == [(there, False)], timeout_s=RECOVERED_S)
        eventually(lambda: sorted(self.cluster.state(TOPIC).isr) == [0, 1, 2], timeout_s=RECOVERED_S)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_replica_of_a_follower_goes_and_comes_back(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    homes = {number: [tmp_path / f"home-{number}-{index}" for index in range(2)] for number in range(3)}
    cluster = Cluster(
        tmp_path,
        zookeeper.connect,
        overrides={
            "pkafka.workers": 2,
            "log.segment.bytes": 500_000,
            "log.segment.delete.delay.ms": 100,
            "log.initial.task.delay.ms": 0,
        },
        overrides_of=lambda number: {"log.dirs": ",".join(map(str, homes[number]))},
    )
    cluster.more_directories.update(homes)
    with cluster:
        cluster.create_topic(TOPIC, assignment={0: (0, 1, 2)}, configs={"min.insync.replicas": "2"})
        with cluster.producer() as producer:
            sent = [
                producer.send(TOPIC, b"%d" % number, key=FILL_KEY, partition=0) for number in range(-FILL, 0)
            ]
            for each in sent:
                each.result(60)
        mover = FollowerOnTheMove(cluster, homes[MOVER])
        first = mover.home()
        with Load(cluster, TOPIC) as load:
            for whole in (True, False, False, True):
                there = mover.set_out()
                mover.die(whole=whole)
                mover.arrive(there)
                load.goes_on()
        check(cluster, load, TOPIC)
        assert mover.home() == first, "it came back as often as it went"
        assert cluster.state(TOPIC).leader == 0
        eventually(lambda: cluster.same_logs(TOPIC), timeout_s=RECOVERED_S)
        assert len(cluster.state(TOPIC).isr) == 3
        (other,) = {*homes[MOVER]} - {first}
        eventually(lambda: (names(other), names(first)) == ([], [f"{TOPIC}-0"]))
