"""Three brokers while some of them die, hang or stop: what was acknowledged by all in sync is never lost."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


@pytest.fixture
def overrides() -> dict[str, object]:
    return {}


@pytest.fixture
def cluster(zookeeper: ZooKeeper, tmp_path: Path, overrides: dict[str, object]) -> Iterator[Cluster]:
    made = Cluster(tmp_path, zookeeper.connect, overrides=overrides)
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Load:
    """An idempotent producer of 0, 1, 2, ... to one partition that remembers what was acknowledged, and when."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.acknowledged: list[int] = []
        self.times_s: list[float] = []
        self.errors: list[Exception] = []

    def __enter__(self) -> "Load":
        self._thread.start()
        wait_for(lambda: len(self.acknowledged) > 10)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def goes_on(self, timeout_s: float = 60.0) -> None:
        """More is acknowledged than until now."""
        before = len(self.acknowledged)
        wait_for(lambda: len(self.acknowledged) > before + 20, timeout_s=timeout_s)

    def longest_gap_s(self) -> float:
        return max(later - earlier for earlier, later in zip(self.times_s, self.times_s[1:], strict=False))

    def _run(self) -> None:
        settings = {"bootstrap.servers": self._cluster.bootstrap, "retry.backoff.max.ms": 100}
        with Producer(settings) as producer:
            while not self._ended.is_set():
                number, self.sent = self.sent, self.sent + 1
                try:
                    producer.send(self._topic, b"%d" % number, partition=0).result(120)
                except Exception as error:  # noqa: BLE001 - counted below
                    self.errors.append(error)
                else:
                    self.acknowledged.append(number)
                    self.times_s.append(time.monotonic())


def read_all(cluster: Cluster, topic: str) -> list[int]:
    """Every value of partition 0, in order."""
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}
    partition = TopicPartition(topic, 0)
    with Consumer(settings) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        values: list[int] = []
        while consumer.position(partition) < end:
            values += [int(one.value or b"-1") for one in consumer.poll(100)]
    return values


def check(cluster: Cluster, load: Load, topic: str) -> None:
    """All that was acknowledged is there, once and in order, and nothing was refused."""
    assert load.errors == []
    values = read_all(cluster, topic)
    assert values == sorted(set(values))
    assert set(load.acknowledged) <= set(values)


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
    with Load(cluster, "t") as load, hanging(cluster, 2):
        wait_for(lambda: in_sync(cluster, "t") == [0, 1], timeout_s=60)
        load.goes_on()
    wait_for(lambda: in_sync(cluster, "t") == [0, 1, 2], timeout_s=60)
    check(cluster, load, "t")


@contextlib.contextmanager
def hanging(cluster: Cluster, number: int) -> Iterator[None]:
    """All processes of a broker stand still."""
    import psutil

    family = psutil.Process(cluster.brokers[number].pid)
    members = [family, *family.children(recursive=True)]
    for member in members:
        os.kill(member.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGCONT)
