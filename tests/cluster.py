"""Several brokers on one ZooKeeper, for tests: real processes, on ports that the kernel chooses."""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import NewTopic, TopicDescription
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.tools.local_broker import Broker
from tests.talk import code_of, good, wait_for

SETTINGS: Mapping[str, object] = {
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "group.initial.rebalance.delay.ms": 0,
    "zookeeper.session.timeout.ms": 2000,
    "controlled.shutdown.retry.backoff.ms": 200,
}


class Cluster:
    """Brokers 0 to N - 1.

    Args:
        directory: gets a folder for each.
        zookeeper: ``host:port``; the cluster has a chroot of its own there.
        size: how many.
        overrides: configuration keys of all.
        overrides_of: those of one.
    """

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        size: int = 3,
        overrides: Mapping[str, object] | None = None,
        overrides_of: Callable[[int], Mapping[str, object]] = lambda _number: {},
    ) -> None:
        self.zookeeper_connect = f"{zookeeper}/{uuid.uuid4().hex}"
        self.brokers = [
            Broker(
                directory / f"broker-{number}",
                {
                    **SETTINGS,
                    "zookeeper.connect": self.zookeeper_connect,
                    "broker.id": number,
                    **(overrides or {}),
                    **overrides_of(number),
                },
            )
            for number in range(size)
        ]

    def start(self) -> None:
        """Start all at once."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(lambda broker: broker.start(), self.brokers))

    def stop(self) -> None:
        """Stop whoever runs, at once and without ceremony."""
        for broker in self.brokers:
            with contextlib.suppress(RuntimeError):
                broker.kill()

    def __enter__(self) -> "Cluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """All of them."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @contextlib.contextmanager
    def admin(self) -> Iterator[Admin]:
        with Admin({"bootstrap.servers": self.bootstrap}) as admin:
            yield admin

    @contextlib.contextmanager
    def producer(self, **settings: object) -> Iterator[Producer]:
        with Producer({"bootstrap.servers": self.bootstrap, **settings}) as producer:
            yield producer

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: int = 3,
        configs: Mapping[str, str] | None = None,
        assignment: Mapping[int, tuple[int, ...]] | None = None,
    ) -> None:
        """Create a topic, and wait until all its partitions are led."""
        with self.admin() as admin:
            if assignment is not None:
                wanted = NewTopic(name, assignments=assignment, configs=configs)
            else:
                wanted = NewTopic(name, partitions, replicas, configs=configs)
            good(admin.create_topics([wanted])[name])
        wait_for(
            lambda: all(leader >= 0 for leader, _ in self.leadership(name).values()),
            what=f"leaders of {name}",
        )

    def leadership(self, topic: str) -> dict[int, tuple[int, list[int]]]:
        """Leader and ISR of each partition, as one of the brokers says; waits until that one knows the topic."""
        with self.admin() as admin:
            outcomes: list[TopicDescription | ApiError] = []

            def is_known() -> bool:
                outcomes.append(admin.describe_topics([topic])[topic])
                return code_of(outcomes[-1]) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

            wait_for(is_known, what=topic)
        found = good(outcomes[-1])
        return {
            one.partition: (-1 if one.leader is None else one.leader, sorted(one.isr))
            for one in found.partitions
        }


def kill_all_processes(broker: Broker) -> None:
    """kill -9 of every process of a broker before any of them notices the end of another."""
    parent = psutil.Process(broker.pid)
    children = parent.children(recursive=True)
    for member in (parent, *children):
        member.suspend()
    for member in (*children, parent):
        member.kill()
    broker.kill()  # waits for the last of them


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


def read_all(cluster: Cluster, topic: str, index: int = 0) -> list[int]:
    """Every value of a partition, in order."""
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}
    partition = TopicPartition(topic, index)
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
