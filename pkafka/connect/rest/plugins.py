"""``/connector-plugins``: what could run, and whether a configuration would (``ConnectorPluginsResource``)."""

from pkafka.connect.connector_config import base_config, described, shown
from pkafka.connect.errors import ConnectError
from pkafka.connect.plugins import Plugins, PluginType
from pkafka.connect.rest.calls import Answer, Call, Handler, texts
from pkafka.connect.rest.connectors import Herder
from pkafka.connect.rest_errors import bad_request, not_found


class PluginList:
    """Answers requests about plug-ins.

    Args:
        plugins: there are.
        herder: looks at configurations.
    """

    def __init__(self, plugins: Plugins, herder: Herder) -> None:
        self._plugins = plugins
        self._herder = herder

    def routes(self) -> dict[tuple[str, str], Handler]:
        """By method and path, what answers."""
        return {
            ("GET", "/connector-plugins"): self._list,
            ("GET", "/connector-plugins/{plugin}/config"): self._config,
            ("PUT", "/connector-plugins/{plugin}/config/validate"): self._validate,
        }

    def _list(self, call: Call) -> Answer:
        only = call.flag("connectorsOnly", default=True)
        wanted = (PluginType.SINK, PluginType.SOURCE) if only else tuple(PluginType)
        found = [
            {"class": each.name, "type": each.type.value, "version": each.version}
            for each in sorted(self._plugins.of(*wanted), key=lambda each: (each.name, each.type.value))
        ]
        return Answer(body=found)

    def _config(self, call: Call) -> Answer:
        name = call.name("plugin")
        plugin = self._plugins.find(name)
        if plugin is None:
            raise not_found(f"Unknown plugin {name}.")
        keys = dict(plugin.implementation.CONFIG.keys)
        if plugin.type in (PluginType.SOURCE, PluginType.SINK):
            keys = {**keys, **base_config(is_sink=plugin.type is PluginType.SINK).keys}
        return Answer(body=[described(key) for key in keys.values()])

    def _validate(self, call: Call) -> Answer:
        name = call.name("plugin")
        configs = texts(call.configs())
        included = configs.get("connector.class")
        if included is not None and not self._same(included, name):
            raise bad_request(f"Included connector type {included} does not match request type {name}")
        if included is None:
            shown_configs = ", ".join(f"{key}={value}" for key, value in configs.items())
            raise ConnectError(f"Connector config {{{shown_configs}}} contains no connector type")
        found = self._herder.validate(configs)
        rows = [
            {
                "definition": None if (key := found.keys.get(name)) is None else described(key),
                "value": shown(value, key),
            }
            for name, value in found.values.items()
        ]
        return Answer(
            body={
                "name": included,
                "error_count": len(found.errors),
                "groups": found.groups,
                "configs": rows,
            }
        )

    def _same(self, one: str, other: str) -> bool:
        if one == other:
            return True
        first, second = self._plugins.find(one), self._plugins.find(other)
        return first is not None and second is not None and first.python_name == second.python_name
