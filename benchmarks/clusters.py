"""Three brokers of one system on a ZooKeeper of their own."""

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import psutil

from benchmarks.systems import KAFKA_HEAP, KAFKA_JVM_FLAGS, Process, Systems, cpu_s
from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import NewTopic
from pkafka.errors import ApiError
from pkafka.server.config.cores import cores_for_each
from pkafka.tools.servers.local_broker import Broker
from pkafka.tools.zookeeper.server import running_server
from tests.interop import kafka as oracle
from tests.talk import good, wait_for

SIZE: Final = 3
_MANY_MS: Final = 900_000
"""For ten thousand partitions, on any machine."""
_TICK_MS: Final = 3000
"""ZooKeeper's own default; sessions of 18 s, the default of both systems, are then possible."""


class Cluster:
    """The brokers by id, all running at first."""

    def __init__(self, brokers: list[Process]) -> None:
        self.brokers = brokers

    @property
    def bootstrap(self) -> str:
        """All of them."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where they listen."""
        parts = [broker.bootstrap.rpartition(":") for broker in self.brokers]
        return [(host, int(port)) for host, _, port in parts]

    def cpu_s(self) -> float:
        """CPU seconds that the living processes of all brokers have used so far."""
        return sum(map(cpu_s, self.brokers))

    def create_topic(self, name: str, partitions: int) -> None:
        """A topic of three replicas; returns when all its partitions have a leader."""
        patient = {"request.timeout.ms": _MANY_MS, "default.api.timeout.ms": _MANY_MS}
        with Admin({"bootstrap.servers": self.bootstrap, **patient}) as admin:
            good(admin.create_topics([NewTopic(name, partitions, SIZE)])[name])
        wait_for(lambda: self.is_led_everywhere(name, partitions), timeout_s=_MANY_MS / 1000)

    def is_led_everywhere(self, topic: str, partitions: int, without: int = -1) -> bool:
        """Whether every broker knows all leaders: clients ask any of them.

        Args:
            topic: its name.
            partitions: how many it has.
            without: a broker that is dead: it is not asked, and whom it led is led by nobody yet.
        """
        for number, broker in enumerate(self.brokers):
            if number == without:
                continue
            with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
                found = admin.describe_topics([topic])[topic]
            if isinstance(found, ApiError) or any(one.leader in (None, without) for one in found.partitions):
                return False
            if len(found.partitions) < partitions:
                return False
        return True

    def controller(self) -> int:
        """Who is the controller, as the brokers say."""
        found: list[int] = []

        def is_known() -> bool:
            with Admin({"bootstrap.servers": self.bootstrap}) as admin:
                found.append(admin.describe_cluster().controller_id)
            return found[-1] >= 0

        wait_for(is_known)
        return found[-1]

    def leader(self, topic: str) -> int:
        """The broker that leads the first partition."""
        return self.leader_of(topic, 0)

    def leader_of(self, topic: str, partition: int) -> int:
        """The broker that leads a partition."""
        with Admin({"bootstrap.servers": self.bootstrap}) as admin:
            return self._leaders(admin, topic)[partition]

    def in_sync(self, topic: str) -> bool:
        """Whether all replicas of all partitions are in sync."""
        with Admin({"bootstrap.servers": self.bootstrap}) as admin:
            found = good(admin.describe_topics([topic])[topic])
        return all(len(one.isr) == SIZE for one in found.partitions)

    def _leaders(self, admin: Admin, topic: str) -> list[int]:
        found = good(admin.describe_topics([topic])[topic])
        return [-1 if one.leader is None else one.leader for one in found.partitions]

    def kill(self, number: int) -> None:
        """kill -9 of all processes of a broker, before one of them notices the end of another."""
        parent = psutil.Process(self.brokers[number].pid)
        family = [*parent.children(recursive=True), parent]
        for member in reversed(family):
            member.suspend()
        for member in family:
            member.kill()


@contextlib.contextmanager
def running_cluster(
    system: str, directory: Path, *, shares_cores: bool = False, more: Mapping[str, object] | None = None
) -> Iterator[Cluster]:
    """Three brokers of one of :data:`benchmarks.systems.Systems.NAMES`.

    Args:
        system: its name.
        directory: for all their data; does not exist yet.
        shares_cores: have brokers of pkafka know that they share the machine, as ``pk-dev up --brokers 3`` does, where
            the system does not say how many workers each has.
        more: keys of the brokers, for either system.
    """
    directory.mkdir(parents=True)
    jars = Path(oracle.jars("kafka")).parent
    with running_server(directory, jars=jars, tick_time_ms=_TICK_MS) as (_, port):
        shared: dict[str, object] = {"pkafka.workers": cores_for_each(SIZE)} if shares_cores else {}
        made = [
            _broker(system, directory / str(number), number, port, shared, more or {})
            for number in range(SIZE)
        ]
        for broker in made:
            broker.start_timeout_s = _MANY_MS / 1000
        try:
            with ThreadPoolExecutor(SIZE) as threads:
                list(threads.map(lambda broker: broker.start(), made))
            yield Cluster(made)
        finally:
            for broker in made:
                with contextlib.suppress(RuntimeError, ProcessLookupError):
                    broker.kill()
            shutil.rmtree(directory, ignore_errors=True)


def _broker(
    system: str,
    directory: Path,
    number: int,
    zookeeper_port: int,
    shared: Mapping[str, object],
    more: Mapping[str, object],
) -> Process:
    settings = {"broker.id": number, "offsets.topic.replication.factor": SIZE, **more}
    zookeeper = f"127.0.0.1:{zookeeper_port}"
    if system == "kafka":
        directory.mkdir()
        return oracle.KafkaBroker(
            oracle.jars("kafka"),
            zookeeper,
            directory,
            heap=KAFKA_HEAP,
            jvm_flags=KAFKA_JVM_FLAGS,
            overrides={**settings, "zookeeper.session.timeout.ms": 18000},
        )
    overrides, environment = Systems.VARIANTS[system]
    return Broker(
        directory,
        {**settings, **shared, **overrides, "zookeeper.connect": zookeeper},
        environment=environment,
    )
