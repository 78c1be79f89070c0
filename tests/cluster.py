"""Several brokers on one ZooKeeper, for tests: real processes, on ports that the kernel chooses.

They are of pkafka, of Apache Kafka 3.9.1, or some of either kind.
"""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol, Self, TypeVar

import psutil

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import NewTopic, TopicDescription
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.coordination.store import ConnectionLossError, NoNodeError, SessionExpiredError
from pkafka.coordination.znodes import Controller, PartitionState
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pkafka.tools.servers.local_broker import Broker
from tests.interop.kafka import KafkaBroker, jars
from tests.raw_client import RawClient
from tests.talk import code_of, good, wait_for

T = TypeVar("T")
SETTINGS: Mapping[str, object] = {
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "group.initial.rebalance.delay.ms": 0,
    "zookeeper.session.timeout.ms": 2000,
    "controlled.shutdown.retry.backoff.ms": 200,
}


KINDS: Mapping[str, str] = {"p": "pkafka", "k": "kafka"}
_LINES_MAX = 150
_KAFKA_HEAP = "256m"
_KAFKA_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ClusterBroker(Protocol):
    """A broker of either kind."""

    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def log_dir(self) -> Path: ...
    @property
    def log_file(self) -> Path: ...
    def start(self) -> None: ...
    def stop(self) -> object: ...
    def wait(self) -> int: ...
    def kill(self) -> None: ...


class Cluster:
    """Brokers 0 to N - 1.

    Args:
        directory: gets a folder for each.
        zookeeper: ``host:port``; the cluster has a chroot of its own there.
        size: how many.
        overrides: configuration keys of all.
        overrides_of: those of one.
        kinds: a letter of :data:`KINDS` for each; all of pkafka when empty.
    """

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        size: int = 3,
        overrides: Mapping[str, object] | None = None,
        overrides_of: Callable[[int], Mapping[str, object]] = lambda _number: {},
        kinds: str = "",
    ) -> None:
        self.zookeeper_connect = f"{zookeeper}/{uuid.uuid4().hex}"
        self._store: ZooKeeperStore | None = None
        self.more_directories: dict[int, Sequence[Path]] = {}
        """Of brokers whose ``log.dirs`` a test has set."""
        self.brokers: list[ClusterBroker] = [
            self.make_broker(
                KINDS[kind],
                directory / f"broker-{number}",
                {
                    **SETTINGS,
                    "zookeeper.connect": self.zookeeper_connect,
                    "broker.id": number,
                    **(overrides or {}),
                    **overrides_of(number),
                },
            )
            for number, kind in enumerate(kinds or "p" * size)
        ]

    def make_broker(self, kind: str, directory: Path, settings: Mapping[str, object]) -> ClusterBroker:
        """One broker, not started."""
        if kind == "kafka":
            return KafkaBroker(
                jars("kafka"),
                self.zookeeper_connect,
                directory,
                overrides={key: value for key, value in settings.items() if not key.startswith("pkafka.")},
                heap=_KAFKA_HEAP,
                jvm_flags=_KAFKA_FLAGS,
            )
        return Broker(directory, settings)

    def start(self) -> None:
        """Start all at once."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(lambda broker: broker.start(), self.brokers))

    def stop(self) -> None:
        """Stop whoever runs, at once and without ceremony."""
        self._forget_store()
        for broker in self.brokers:
            with contextlib.suppress(RuntimeError):
                broker.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
        print(self.said())  # shown when the test fails

    def said(self) -> str:
        """What the brokers said last."""
        lines = []
        for number, broker in enumerate(self.brokers):
            with contextlib.suppress(OSError):
                lines += [
                    f"--- broker {number}",
                    *broker.log_file.read_text(errors="replace").splitlines()[-_LINES_MAX:],
                ]
        return "\n".join(lines)

    def ask_store(self, question: Callable[[ZooKeeperStore], T]) -> T:
        """What the cluster's part of ZooKeeper answers, by one session for all questions while it lasts."""
        if self._store is None:
            self._store = ZooKeeperStore(self.zookeeper_connect, create_chroot=True)
        try:
            return question(self._store)
        except SessionExpiredError:
            self._forget_store()  # it ended while nobody asked, as ZooKeeper was away
            return self.ask_store(question)
        except ConnectionLossError:
            self._forget_store()
            raise

    def _forget_store(self) -> None:
        if self._store is not None:
            store, self._store = self._store, None
            store.close()

    def controller(self) -> int:
        """Who is the controller, as ZooKeeper says; -1 for nobody."""
        try:
            return Controller.decode(self.ask_store(lambda store: store.get(Controller.path()))[0]).broker_id
        except NoNodeError:
            return -1

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """Leader and ISR as ZooKeeper says."""
        return self.versioned_state(topic, partition)[0]

    def versioned_state(self, topic: str, partition: int = 0) -> tuple[PartitionState, int]:
        """Leader and ISR, and how often they were written."""
        path = PartitionState.path(TopicPartition(topic, partition))
        data, stat = self.ask_store(lambda store: store.get(path))
        return PartitionState.decode(data), stat.version

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
        """Create a topic, and wait until all its partitions are led, and every broker that answers says so."""
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
        for number, broker in enumerate(self.brokers):
            wait_for(partial(_knows, broker, name), what=f"{name} at broker {number}")

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

    def same_logs(self, topic: str, partition: int = 0) -> bool:
        """Whether every byte of a partition's records is the same on all that are in sync, and there are some."""
        logs = {self.log_bytes(number, f"{topic}-{partition}") for number in self.state(topic, partition).isr}
        return len(logs) == 1 and b"" not in logs

    def log_bytes(self, broker: int, partition: str) -> bytes:
        """All records of a replica as they lie on disk."""
        return b"".join(
            path.read_bytes()
            for folder in self.log_dirs(broker)
            for path in sorted((folder / partition).glob("*.log"))
        )

    def log_dirs(self, broker: int) -> list[Path]:
        return [self.brokers[broker].log_dir, *self.more_directories.get(broker, ())]


def _knows(broker: ClusterBroker, topic: str) -> bool:
    """Whether a broker names leaders of all partitions; one that does not run or stands still need not."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    try:
        with RawClient(broker.bootstrap, timeout_s=5) as client:
            [found] = client.call(request, 9).topics
    except (OSError, ValueError):
        return True
    return not found.error_code and all(one.leader_id >= 0 for one in found.partitions)


def processes(broker: ClusterBroker) -> list[psutil.Process]:
    """All of a broker, its first one in front."""
    parent = psutil.Process(broker.pid)
    return [parent, *parent.children(recursive=True)]


def kill_all_processes(broker: ClusterBroker) -> None:
    """kill -9 of every process of a broker before any of them notices the end of another."""
    parent, *children = processes(broker)
    for member in (parent, *children):
        member.suspend()
    for member in (*children, parent):
        member.kill()
    broker.kill()  # waits for the last of them


@contextlib.contextmanager
def hanging(broker: ClusterBroker) -> Iterator[None]:
    """All processes of a broker stand still."""
    members = processes(broker)
    for member in members:
        member.suspend()
    try:
        yield
    finally:
        for member in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.resume()


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
