"""A broker of Apache Kafka and one of pkafka for tests of transactions, and topics in which no transaction can end."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pkafka.clients.admin.results import NewTopic
from pkafka.coordination.znodes import BrokerRegistration, Endpoint, PartitionState
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.testing import Broker
from tests.differences import differences
from tests.interop.kafka import KafkaBroker
from tests.talk import Talk, code_of, good, talking, wait_for
from tests.transaction_client import TransactionClient

Either = KafkaBroker | Broker

STATE_PARTITIONS: Final = 5
SETTINGS: Final[Mapping[str, object]] = {
    "broker.id": 0,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": STATE_PARTITIONS,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
    "zookeeper.session.timeout.ms": 6000,
    "log.cleaner.enable": "false",
    # A partition with a replica on the ghost keeps a broker that stops waiting.
    "controlled.shutdown.retry.backoff.ms": 100,
}
TOPIC: Final = "transactions"
"""Of three partitions."""
OTHER: Final = "transactions-2"
_LINES_OF_LOG: Final = 40
GHOST: Final = 9
"""A broker that is known for a moment and never runs."""


@dataclass(frozen=True)
class OneOfEach:
    """A broker of either kind, Apache Kafka's first, each with its ``host:port/chroot`` of ZooKeeper."""

    brokers: tuple[KafkaBroker, Broker]
    connects: tuple[str, str]

    def start(self, stuck: Iterable[str] = ()) -> None:
        """Start both at once, and :func:`prepare` them."""
        self.start_bare()
        self.prepare(stuck)

    def start_bare(self) -> None:
        """Start both at once: without any topic."""
        self._both(lambda broker, _connect: broker.start())

    def prepare(self, stuck: Iterable[str] = ()) -> None:
        """:func:`prepare` both at once."""
        self._both(lambda broker, connect: prepare(broker.bootstrap, connect, stuck))

    def restart(self) -> None:
        """Stop both, start them again, and wait until they coordinate transactions."""

        def restart(broker: Either, connect: str) -> None:
            broker.stop()
            wait_for_end_of_session(connect)
            broker.start()
            with TransactionClient(broker.bootstrap) as client:
                client.coordinate(STATE_PARTITIONS)

        self._both(restart)

    def kill(self) -> None:
        """Stop those that run, at once and without ceremony."""
        for broker in self.brokers:
            broker.kill()

    def answers(self, play: Callable[[str], list[Any]]) -> list[Any]:
        """Play a script on both at once, insist on the same answers, and return them.

        Args:
            play: gets ``host:port``, and returns what was answered.
        """

        def played(broker: Either) -> list[Any]:
            try:
                return play(broker.bootstrap)
            except Exception as error:
                end = "\n".join(broker.log_file.read_text(errors="replace").splitlines()[-_LINES_OF_LOG:])
                error.add_note(f"on {type(broker).__name__}, whose log ends with:\n{end}")
                raise

        with ThreadPoolExecutor(len(self.brokers)) as threads:
            kafka, pkafka = threads.map(played, self.brokers)
        found = list(differences(pkafka, kafka))
        assert not found, "pkafka != Kafka\n" + "\n".join(found)
        return kafka

    def _both(self, act: Callable[[Either, str], None]) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(act, self.brokers, self.connects))


def one_of_each(kafka_classpath: str, zookeeper: str, directory: Path, *, shared: bool) -> OneOfEach:
    """Make both, and start none.

    Args:
        kafka_classpath: of Apache Kafka.
        zookeeper: ``host:port``.
        directory: gets a folder for each.
        shared: whether they take turns with one directory in one cluster.
    """
    root = f"{zookeeper}/transactions-{uuid.uuid4().hex[:8]}"
    connects = (root, root) if shared else (f"{root}-k", f"{root}-p")
    settings = {**SETTINGS, "log.dirs": directory / "data"} if shared else SETTINGS
    kafka = KafkaBroker(kafka_classpath, connects[0], directory / "kafka", overrides=settings)
    of_pkafka = {**settings, "zookeeper.connect": connects[1], "pkafka.workers": 2}
    return OneOfEach((kafka, Broker(directory / "pkafka", of_pkafka)), connects)


def prepare(bootstrap: str, connect: str, stuck: Iterable[str] = ()) -> None:
    """Make all topics of a broker that was started, and wait until it coordinates groups and transactions.

    Args:
        bootstrap: of the broker.
        connect: its ZooKeeper and chroot.
        stuck: topics of one partition in which no marker can be written until :func:`release`: each wants one replica
            more in sync than it has.
    """
    find = FindCoordinatorRequest(key="g")
    with talking(bootstrap) as talk, TransactionClient(bootstrap) as client:
        talk.create(TOPIC, 3)
        talk.create(OTHER)
        wait_for(lambda: not client.client.call(find, 1).error_code, what="a coordinator of groups")
        client.coordinate(STATE_PARTITIONS)
        # Last, since brokers would place a replica on the ghost, too.
        _create_stuck(talk, connect, list(stuck))


def _create_stuck(talk: Talk, connect: str, topics: list[str]) -> None:
    if not topics:
        return
    registration = BrokerRegistration((Endpoint("PLAINTEXT", "127.0.0.1", 1),), time.time_ns() // 1_000_000)
    with ZooKeeperStore(connect) as store:
        store.create(BrokerRegistration.path(GHOST), registration.encode())
        for topic in topics:
            wanted = NewTopic(topic, assignments={0: (0, GHOST)}, configs={"min.insync.replicas": "2"})

            def is_created() -> bool:
                outcome = talk.admin.create_topics([wanted])[wanted.name]  # noqa: B023 - called at once
                if code_of(outcome) is not ErrorCode.INVALID_REPLICA_ASSIGNMENT:  # the ghost is not known yet
                    good(outcome)
                return outcome is None or code_of(outcome) is None

            wait_for(is_created, what=topic)
        store.delete(BrokerRegistration.path(GHOST))
        for topic in topics:
            path = PartitionState.path(TopicPartition(topic, 0))
            wait_for(
                lambda: list(PartitionState.decode(store.get(path)[0]).isr) == [0],  # noqa: B023
                what=f"the end of the ghost in {topic}",
            )
    # Until then a broker may place replicas of new topics on the ghost.
    wait_for(lambda: len(talk.admin.describe_cluster().brokers) == 1, what="the end of the ghost")


def release(bootstrap: str, topic: str) -> None:
    """Let the markers of a topic that was made stuck be written."""
    with talking(bootstrap) as talk:
        talk.set_topic(topic, min_insync_replicas=1)


@contextmanager
def stuck_until_the_end(bootstrap: str, topic: str) -> Iterator[str]:
    """A topic that was made stuck, and is released in the end."""
    yield topic
    release(bootstrap, topic)


def wait_for_end_of_session(connect: str, broker_id: int = 0) -> None:
    """Wait until a broker that is gone is not registered any more."""
    with ZooKeeperStore(connect) as store:
        wait_for(
            lambda: store.exists(BrokerRegistration.path(broker_id)) is None, what="the end of the session"
        )
