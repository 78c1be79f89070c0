"""A standalone worker as a whole: settings, REST API, herder, and the connectors that a command line names."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from pkafka.clients.admin import Admin
from pkafka.connect.config_providers import load_providers, resolved
from pkafka.connect.connector_files import DefinedConnector
from pkafka.connect.errors import ConnectError
from pkafka.connect.plugin_path import plugins_of_worker
from pkafka.connect.rest.loggers import Loggers
from pkafka.connect.rest.server import RestServer
from pkafka.connect.standalone import StandaloneHerder
from pkafka.connect.states import INITIAL_STATES
from pkafka.connect.storage.offset_store import OffsetFile
from pkafka.connect.worker_config import WorkerConfig, offset_file, standalone_config_def
from pkafka.connect.worker_server import Address, serve
from pkafka.errors import PkafkaError

log = logging.getLogger("org.apache.kafka.connect.cli.ConnectStandalone")


class StandaloneWorker:
    """Runs until it is stopped.

    Args:
        config: of the worker.
        server: bound, so that a port that is taken is told before anything runs.
        herder: runs connectors.
        url: of the REST API, as others reach it.
    """

    def __init__(self, config: WorkerConfig, server: RestServer, herder: StandaloneHerder, url: str) -> None:
        self._config = config
        self._server = server
        self._herder = herder
        self.url = url

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Make one.

        Raises:
            ConfigError: a setting is refused.
            ConnectError: the offsets cannot be read, or the REST API cannot listen.
            PkafkaError: no broker answers.
        """
        plugins = plugins_of_worker(properties)
        config = WorkerConfig.of(
            resolved(properties, load_providers(properties)), plugins, standalone_config_def()
        )
        store = OffsetFile(offset_file(config))
        with Admin({"client.id": "connect-standalone", **config.clients("admin")}) as admin:
            cluster_id = admin.describe_cluster().cluster_id
        server = RestServer(config.listeners)
        address = Address.of(config, server)
        herder = StandaloneHerder(config, plugins, address.worker_id, store, cluster_id)
        return cls(config, server, herder, address.url)

    def start(self, connectors: Sequence[DefinedConnector], told: Callable[[str], None]) -> None:
        """Serve the REST API, and start connectors.

        Args:
            told: hears the name of each connector that was made.

        Raises:
            ConnectError: one is refused; nothing runs then.
        """
        self._herder.start()
        serve(self._server, self._config, self._herder, self.url, Loggers(), {})
        try:
            for each in connectors:
                try:
                    target = None if each.initial_state is None else INITIAL_STATES[each.initial_state]
                    self._herder.put(each.name, each.configs, allow_replace=False, target=target)
                except PkafkaError as error:
                    raise ConnectError(f"Failed to create connector for {each.origin}: {error}") from error
                told(each.name)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Answer no more, end connectors and tasks, store offsets."""
        self._server.close()
        self._herder.stop()
