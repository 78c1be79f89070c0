"""What the REST API asks about offsets, answered for a connector by its name and configuration (KIP-875).

The connector that agrees to new offsets is one made for the purpose: the running one may be in another worker, or none.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pkafka.connect import connector_offsets
from pkafka.connect.config_providers import Provider, resolved
from pkafka.connect.connector import SourceConnector
from pkafka.connect.connector_config import ConnectorSettings
from pkafka.connect.connector_run import ConnectorRun
from pkafka.connect.plugins import Plugins
from pkafka.connect.rest_errors import bad_request
from pkafka.connect.states import State
from pkafka.connect.steps import class_mapping
from pkafka.connect.storage.offset_store import ConnectorOffsets
from pkafka.connect.worker import Worker, is_sink_connector


class OffsetChanges:
    """Shows and sets the offsets of connectors.

    Args:
        worker: makes clients, and knows where offsets of sources are.
        plugins: there are.
        providers: of values that stand elsewhere.
    """

    def __init__(self, worker: Worker, plugins: Plugins, providers: Mapping[str, Provider]) -> None:
        self._worker = worker
        self._plugins = plugins
        self._providers = providers

    def shown(self, name: str, configs: Mapping[str, str]) -> dict[str, object]:
        """How far a connector has come.

        Raises:
            ConnectError: the offsets cannot be read.
        """
        actual = resolved(configs, self._providers)
        if is_sink_connector(self._plugins, actual):
            with self._worker.admin(f"connector-adminclient-{name}", actual) as admin:
                return connector_offsets.shown(connector_offsets.sink_offsets(admin, name))
        connector = self._plugins.connector(class_mapping(actual))()
        assert isinstance(connector, SourceConnector)
        own = connector.own_offsets(actual)
        if own is not None:
            return connector_offsets.shown(own)
        with self._worker.connector_store(name, actual) as store:
            return connector_offsets.shown(ConnectorOffsets(store, name).all())

    def alter(
        self, name: str, configs: Mapping[str, str], offsets: connector_offsets.Offsets | None
    ) -> dict[str, object]:
        """Set offsets of a connector that is stopped; None: forget all.

        Returns:
            The answer of the REST API.

        Raises:
            RestError: they are none of this connector's.
            ConnectError: it refuses them, or they cannot be stored.
        """
        actual = resolved(configs, self._providers)
        with self._connector(name, actual) as run:
            if run.is_sink:
                with self._worker.admin(f"connector-adminclient-{name}", actual) as admin:
                    agreed = (
                        connector_offsets.reset_sink(run, actual, admin)
                        if offsets is None
                        else connector_offsets.alter_sink(run, actual, admin, offsets)
                    )
            else:
                with self._worker.connector_store(name, actual) as found:
                    store = ConnectorOffsets(found, name)
                    agreed = (
                        connector_offsets.reset_source(run, actual, store)
                        if offsets is None
                        else connector_offsets.alter_source(run, actual, store, offsets)
                    )
        return connector_offsets.done("reset" if offsets is None else "alter", is_checked=agreed)

    @contextmanager
    def _connector(self, name: str, configs: Mapping[str, str]) -> Iterator[ConnectorRun]:
        implementation = self._plugins.connector(class_mapping(configs))
        settings = ConnectorSettings.of(configs, implementation, self._plugins)
        run = ConnectorRun(
            name, implementation(), settings, configs, report=_unheard, reconfigure=lambda: None
        )
        try:
            yield run
        finally:
            run.shut_down(0.0)


def _unheard(_state: State, _trace: str | None) -> None:
    """Nobody asks what state a connector is in that only looks at offsets."""


def refuse_unless_stopped(name: str, *, is_stopped: bool) -> None:
    """Offsets are changed under nobody's feet.

    Raises:
        RestError: the connector is not stopped.
    """
    if not is_stopped:
        raise bad_request(
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for"
            f" the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
        )
