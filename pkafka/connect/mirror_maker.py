"""MirrorMaker 2 as processes of its own: for each flow of one file a worker of the target's cluster (``MirrorMaker``).

Several processes with the same file share the work. The leader of a flow's workers writes what its connectors are to
be.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, Self

from pkafka.clients.admin import Admin
from pkafka.connect.cluster_worker import ClusterWorker
from pkafka.connect.distributed.config import distributed_config
from pkafka.connect.errors import ConfigError
from pkafka.connect.mirror.maker_config import CONNECTORS, MirrorMakerConfig, Pair
from pkafka.connect.plugin_path import plugins_of_worker
from pkafka.connect.rest.calls import Handler
from pkafka.connect.rest.server import RestServer
from pkafka.connect.worker_config import WorkerConfig
from pkafka.connect.worker_server import Address

log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorMaker")

_NOT_USED: Final = "NOTUSED"


class MirrorMaker:
    """Runs until it is stopped, or until one of its workers cannot go on.

    Args:
        workers: by flow.
        server: for requests of other processes; None: they do not speak.
    """

    def __init__(self, workers: Mapping[Pair, ClusterWorker], server: RestServer | None) -> None:
        self._workers = dict(workers)
        self._server = server

    @classmethod
    def of(cls, properties: Mapping[str, str], targets: Collection[str], ended: Callable[[], None]) -> Self:
        """Make one.

        Args:
            properties: of the file.
            targets: only the flows to these clusters; none: all.
            ended: called when a worker ends by itself.

        Raises:
            ConfigError: the file is refused, or there is no flow to run.
            ConnectError: the address for requests of other processes is taken.
            PkafkaError: no broker of a target answers.
        """
        config = MirrorMakerConfig(properties)
        config.check()
        unknown = sorted(set(targets) - set(config.clusters))
        if unknown:
            raise ConfigError(f"There is no cluster {unknown[0]}; there are {', '.join(config.clusters)}")
        pairs = [pair for pair in config.pairs() if not targets or pair.target in targets]
        if not pairs:
            raise ConfigError(
                "No flow is enabled: say SOURCE->TARGET.enabled=true, or leave emit.heartbeats.enabled at its default"
            )
        plugins = plugins_of_worker(properties)
        settings = {pair: distributed_config(config.worker(pair), plugins) for pair in pairs}
        server = RestServer(settings[pairs[0]].listeners) if config.has_internal_rest else None
        workers = {}
        for pair in pairs:
            worker = ClusterWorker(
                settings[pair],
                plugins,
                _address(settings[pair], server, pair),
                _cluster_id(settings[pair]),
                ended,
                set_level=lambda _logger, _level: None,
                is_reachable=server is not None,
            )
            connectors = {name: config.connector(pair, name) for name in CONNECTORS}
            worker.settled = partial(ClusterWorker.put_as_leader, connectors=connectors)
            workers[pair] = worker
        return cls(workers, server)

    @property
    def flows(self) -> list[str]:
        """What runs, such as ``A->B``."""
        return [str(pair) for pair in self._workers]

    @property
    def failure(self) -> BaseException | None:
        """Why a worker has ended by itself; None: none has."""
        return next((each.failure for each in self._workers.values() if each.failure is not None), None)

    def start(self) -> None:
        """Begin."""
        if self._server is not None:
            routes: dict[tuple[str, str], Handler] = {}
            for pair, worker in self._workers.items():
                for (method, path), handler in worker.internal_routes().items():
                    routes[method, f"/{pair.source}/{pair.target}{path}"] = handler
            self._server.start(routes, {})
        for worker in self._workers.values():
            worker.start()

    def stop(self) -> None:
        """End all workers."""
        if self._server is not None:
            self._server.close()
        for worker in self._workers.values():
            worker.stop()


def _address(config: WorkerConfig, server: RestServer | None, pair: Pair) -> Address:
    if server is None:
        return Address(_NOT_USED, str(pair))
    found = Address.of(config, server)
    return Address(f"{found.url}/{pair.source}/{pair.target}", found.worker_id)


def _cluster_id(config: WorkerConfig) -> str | None:
    with Admin({"client.id": "connect-mirror-maker", **config.clients("admin")}) as admin:
        return admin.describe_cluster().cluster_id
