"""What herders have in common: what they ask about a configuration before a connector has it, and what they answer."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pkafka.connect.config_providers import Provider, resolved
from pkafka.connect.connector_config import Validated, validate
from pkafka.connect.errors import ConnectError
from pkafka.connect.plugins import Plugins
from pkafka.connect.rest_errors import bad_request
from pkafka.connect.steps import class_mapping
from pkafka.connect.worker import is_sink_connector
from pkafka.connect.worker_config import WorkerConfig

_INVALID_END: Final = (
    "\nYou can also find the above list of errors at the endpoint"
    " `/connector-plugins/{connectorType}/config/validate`"
)


class Created(NamedTuple):
    """What became of a configuration that was put."""

    is_new: bool
    """Whether the connector was not there before."""
    info: dict[str, object]
    """Its configuration and tasks."""


def patched(configs: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """A configuration with some settings changed; None takes one away."""
    changed: dict[str, str | None] = {**configs, **changes}
    return {key: value for key, value in changed.items() if value is not None}


def _nothing_more(_found: Validated, _configs: Mapping[str, str]) -> None:
    """A standalone worker has no rules of its own."""


class ConnectorChecks:
    """Looks at configurations of connectors.

    Args:
        config: of the worker.
        plugins: there are.
        providers: of values that stand elsewhere.
        more: what this kind of worker refuses beside that.
    """

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        providers: Mapping[str, Provider],
        more: Callable[[Validated, Mapping[str, str]], None] = _nothing_more,
    ) -> None:
        self._config = config
        self._plugins = plugins
        self._providers = providers
        self._more = more

    def type_of(self, configs: Mapping[str, str]) -> str:
        """``source``, ``sink``, or ``unknown``."""
        try:
            return "sink" if is_sink_connector(self._plugins, configs) else "source"
        except ConnectError:
            return "unknown"

    def validate(self, configs: Mapping[str, str]) -> Validated:
        """Look at a configuration.

        Raises:
            RestError: it names no class.
            ConnectError: the class is unknown.
        """
        actual = resolved(configs, self._providers)
        found = validate(actual, self._plugins.connector(_class_of(actual)), self._plugins)
        for name, error in self._config.refused_overrides(actual):
            found.refuse(name, actual[name], error)
        self._more(found, actual)
        return found

    def see_to(self, configs: Mapping[str, str]) -> None:
        """Refuse a configuration in which something is wrong.

        Raises:
            RestError: it is invalid.
            ConnectError: its class is unknown.
        """
        found = self.validate(configs)
        if found.errors:
            errors = "\n".join(found.errors)
            raise bad_request(
                f"Connector configuration is invalid and contains the following {len(found.errors)} error(s):\n"
                f"{errors}{_INVALID_END}"
            )


def _class_of(configs: Mapping[str, str]) -> str:
    try:
        return class_mapping(configs)
    except ConnectError as error:
        raise bad_request(str(error)) from error
