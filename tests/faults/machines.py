"""A cluster whose brokers, ZooKeeper and clients are each on a machine of their own, as far as the network goes."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from pkafka.tools.servers.local_broker import Broker
from tests.cluster import Cluster, ClusterBroker
from tests.interop.kafka import KafkaBroker, OracleUnavailableError, jars
from tests.network import Host, Network, NoNetworksError
from tests.zookeeper import ZooKeeper, running_zookeeper

PORT: Final = 9092
SIZE: Final = 3


class Machines(Cluster):
    """Three brokers, each on its host.

    Args:
        directory: gets a folder for each.
        network: with a host ``broker-N`` for each, ``zookeeper`` and ``clients``.
        zookeeper: as clients reach it.
        overrides: configuration keys of all.
        kinds: see :class:`~tests.cluster.Cluster`.
    """

    def __init__(
        self,
        directory: Path,
        network: Network,
        zookeeper: ZooKeeper,
        overrides: Mapping[str, object],
        kinds: str,
    ) -> None:
        self.network = network
        self.zookeeper_host = network["zookeeper"]
        self.clients = network["clients"]
        self.hosts = [network[f"broker-{number}"] for number in range(SIZE)]
        super().__init__(directory, zookeeper.connect, overrides=overrides, kinds=kinds)

    def make_broker(self, kind: str, directory: Path, settings: Mapping[str, object]) -> ClusterBroker:
        host = self.hosts[int(str(settings["broker.id"]))]
        if kind == "kafka":
            return _KafkaOnHost(host, jars("kafka"), self.zookeeper_connect, directory, settings)
        return _BrokerOnHost(host, directory, settings)

    def others(self, number: int) -> list[Host]:
        """The hosts of the other brokers."""
        return [host for index, host in enumerate(self.hosts) if index != number]


class _BrokerOnHost(Broker):
    def __init__(self, host: Host, directory: Path, settings: Mapping[str, object]) -> None:
        super().__init__(directory, {"listeners": f"PLAINTEXT://{host.address}:{PORT}", **settings})
        self._host = host

    def start(self, *arguments: str) -> None:
        with self._host.entered():
            super().start(*arguments)


class _KafkaOnHost(KafkaBroker):
    def __init__(
        self, host: Host, class_path: str, zookeeper: str, directory: Path, settings: Mapping[str, object]
    ) -> None:
        listeners = {
            "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
            "advertised.listeners": f"PLAINTEXT://{host.address}:{PORT}",
        }
        super().__init__(
            class_path,
            zookeeper,
            directory,
            overrides={**listeners, **settings},
            heap="256m",
            jvm_flags=("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        )
        self._host = host

    @property
    def bootstrap(self) -> str:
        return f"{self._host.address}:{PORT}"

    def start(self) -> None:
        with self._host.entered():
            super().start()


@contextlib.contextmanager
def running_machines(directory: Path, kinds: str, overrides: Mapping[str, object]) -> Iterator[Machines]:
    """The cluster, while the calling thread is on the host of the clients; skips the test where that cannot be."""
    names = ("zookeeper", "clients", *(f"broker-{number}" for number in range(SIZE)))
    try:
        network = Network(*names)
        if "k" in kinds:
            jars("kafka")
    except (NoNetworksError, OracleUnavailableError) as missing:
        pytest.skip(str(missing))
    with (
        network,
        running_zookeeper(host=network["zookeeper"]) as zookeeper,
        network["clients"].entered(),
        Machines(directory, network, zookeeper, overrides, kinds) as cluster,
    ):
        yield cluster
