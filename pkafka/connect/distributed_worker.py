"""A worker of a cluster as a whole: settings, the REST API, and what stands behind it."""

from collections.abc import Callable
from typing import Self

from pkafka.clients.admin import Admin
from pkafka.connect.cluster_worker import ClusterWorker
from pkafka.connect.distributed_setup import Setup
from pkafka.connect.hosts.maker import HostMaker
from pkafka.connect.plugins import Plugins
from pkafka.connect.rest.forwarding import passing_on
from pkafka.connect.rest.loggers import Loggers
from pkafka.connect.rest.server import RestServer
from pkafka.connect.worker_config import WorkerConfig
from pkafka.connect.worker_server import Address, routes_of, serve


class DistributedWorker:
    """Runs until it is stopped, or until its herder cannot go on.

    Args:
        config: of the worker.
        plugins: there are.
        server: bound, so that a port that is taken is told before anything runs.
        cluster_id: of the Kafka cluster.
        ended: called when the worker ends by itself.
        maker: makes the processes in which connectors and tasks run; None: they run in this one.
    """

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        server: RestServer,
        cluster_id: str | None,
        ended: Callable[[], None],
        maker: HostMaker | None = None,
    ) -> None:
        self._config = config
        self._server = server
        self._loggers = Loggers(
            lambda logger, level: self._worker.set_cluster_level(logger, level),
            lambda logger, level: self._worker.set_level(logger, level),
        )
        self.address = Address.of(config, server)
        self._worker = ClusterWorker(
            config,
            plugins,
            self.address,
            cluster_id,
            ended,
            set_level=self._loggers.set_by_name,
            maker=maker,
        )

    @classmethod
    def of(cls, setup: Setup, ended: Callable[[], None]) -> Self:
        """Make one.

        Raises:
            ConnectError: the REST API cannot listen.
            PkafkaError: no broker answers.
        """
        config = setup.config
        with Admin({"client.id": "connect-distributed", **config.clients("admin")}) as admin:
            cluster_id = admin.describe_cluster().cluster_id
        return cls(config, setup.plugins, RestServer(config.listeners), cluster_id, ended, setup.maker)

    @property
    def failure(self) -> BaseException | None:
        """Why the worker has ended by itself; None: it has not."""
        return self._worker.failure

    def start(self) -> None:
        """Serve the REST API, and become a member of the group."""
        herder, url = self._worker.herder, self.address.url
        routes = {
            at: passing_on(handler, at[0]) for at, handler in routes_of(self._config, herder, url).items()
        }
        serve(
            self._server,
            self._config,
            herder,
            url,
            self._loggers,
            {**routes, **self._worker.internal_routes()},
        )
        self._worker.start()

    def stop(self) -> None:
        """Answer no more, leave the group, end connectors and tasks, store offsets."""
        self._server.close()
        self._worker.stop()
