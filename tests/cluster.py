"""Several brokers on one ZooKeeper, for tests: real processes, on ports that the kernel chooses."""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import NewTopic
from pkafka.clients.producer import Producer
from pkafka.tools.local_broker import Broker
from tests.talk import good, wait_for

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
    """

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        size: int = 3,
        overrides: Mapping[str, object] | None = None,
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
        wait_for(lambda: all(leader >= 0 for leader, _ in self.leadership(name).values()))

    def leadership(self, topic: str) -> dict[int, tuple[int, list[int]]]:
        """Leader and ISR of each partition, as one of the brokers says."""
        with self.admin() as admin:
            found = good(admin.describe_topics([topic])[topic])
        return {
            one.partition: (-1 if one.leader is None else one.leader, sorted(one.isr))
            for one in found.partitions
        }
