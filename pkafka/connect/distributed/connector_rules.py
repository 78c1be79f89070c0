"""What a worker of a cluster refuses in configurations of connectors beside what every worker does."""

from collections.abc import Mapping
from typing import Final

from pkafka.connect.connector import SourceConnector
from pkafka.connect.connector_config import Validated
from pkafka.connect.plugins import Plugins
from pkafka.connect.worker_config import WorkerConfig

_GROUP: Final = "consumer.override.group.id"
_SUPPORT: Final = "exactly.once.support"
_BOUNDARY: Final = "transaction.boundary"
_UNSAID: Final = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. Please"
    " consult the documentation for the connector to determine whether it supports exactly-once semantics, and then"
    ' consider reconfiguring the connector to use the value "requested" for this property (which will disable this'
    " preflight check and allow the connector to be created)."
)


class ClusterRules:
    """Looks at configurations.

    Args:
        config: of the worker.
        plugins: there are.
    """

    def __init__(self, config: WorkerConfig, plugins: Plugins) -> None:
        self._group: str = config.parsed["group.id"]
        self._is_exact = config.parsed["exactly.once.source.support"].lower() == "enabled"
        self._plugins = plugins

    def refuse(self, found: Validated, configs: Mapping[str, str]) -> None:
        """Note what is wrong.

        Args:
            found: gets it.
            configs: of a connector, with the values that providers gave.
        """
        implementation = self._plugins.connector(configs["connector.class"])
        if issubclass(implementation, SourceConnector):
            self._refuse_support(found, configs, implementation())
            self._refuse_boundary(found, configs, implementation())
        elif configs.get(_GROUP) == self._group:
            # A sink that reads in the group of the workers would keep them out of it.
            found.refuse(
                _GROUP,
                self._group,
                f"Consumer group {self._group} conflicts with Connect worker group {self._group}",
            )

    def _refuse_support(
        self, found: Validated, configs: Mapping[str, str], connector: SourceConnector
    ) -> None:
        if configs.get(_SUPPORT, "").lower() != "required":
            return
        value = configs[_SUPPORT]
        if not self._is_exact:
            found.refuse(_SUPPORT, value, "This worker does not have exactly-once source support enabled.")
        try:
            supported = connector.supports_exactly_once(configs)
        except Exception as error:  # noqa: BLE001 - whoever put the configuration is told
            found.refuse(_SUPPORT, value, str(error) or type(error).__name__)
            return
        if supported is None:
            found.refuse(_SUPPORT, value, _UNSAID)
        elif not supported:
            found.refuse(
                _SUPPORT,
                value,
                "The connector does not support exactly-once semantics with the provided configuration.",
            )

    def _refuse_boundary(
        self, found: Validated, configs: Mapping[str, str], connector: SourceConnector
    ) -> None:
        if configs.get(_BOUNDARY, "").lower() != "connector":
            return
        value = configs[_BOUNDARY]
        try:
            can_define = connector.can_define_transactions(configs)
        except Exception as error:  # noqa: BLE001 - as above
            found.refuse(_BOUNDARY, value, str(error) or type(error).__name__)
            return
        if not can_define:
            found.refuse(
                _BOUNDARY,
                value,
                "The connector does not support connector-defined transaction boundaries with the given configuration."
                " Please reconfigure it to use a different transaction boundary definition.",
            )
