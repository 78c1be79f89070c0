"""Which connectors, converters, transforms and predicates there are, and by what names configurations call them.

A plug-in is a class. Configurations name it by the class of Apache Kafka that it stands for, by an alias (the class's
simple name, with or without ``Connector``, ``Converter`` or ``Transformation`` at its end, where that is unique), or by
its Python name (``package.module.Class``). Packages announce theirs by the entry points ``pkafka.connectors``,
``pkafka.transforms``, ``pkafka.predicates`` and ``pkafka.converters``.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

import pkafka
from pkafka.connect import converters as shipped_converters
from pkafka.connect.connector import Connector, SinkConnector, SourceConnector
from pkafka.connect.converters import SimpleHeaderConverter
from pkafka.connect.errors import ConnectError
from pkafka.connect.transforms import PREDICATES, TRANSFORMS

log = logging.getLogger(__name__)

Class = type[Any]
"""The class of a plug-in; what it must have depends on its kind."""


class PluginType(Enum):
    """What a plug-in is for; the values are those of the REST API."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


_CONNECTORS: Final = frozenset({PluginType.SOURCE, PluginType.SINK})
_ENDS: Final = {
    PluginType.SOURCE: "Connector",
    PluginType.SINK: "Connector",
    PluginType.CONVERTER: "Converter",
    PluginType.HEADER_CONVERTER: "HeaderConverter",
    PluginType.TRANSFORMATION: "Transformation",
    PluginType.PREDICATE: "Predicate",
}
_SHIPPED: Final = (
    "pkafka.connect.connectors.file_stream:FileStreamSourceConnector",
    "pkafka.connect.connectors.file_stream:FileStreamSinkConnector",
    "pkafka.connect.connectors.directory_source:DirectorySourceConnector",
    "pkafka.connect.connectors.files_sink:FilesSinkConnector",
    "pkafka.connect.connectors.http_sink:HttpSinkConnector",
    "pkafka.connect.connectors.singer_source:SingerSourceConnector",
    "pkafka.connect.connectors.sql_source:SqlSourceConnector",
    "pkafka.connect.connectors.sql_sink:SqlSinkConnector",
    "pkafka.connect.avro_converter:AvroConverter",
    "pkafka.connect.json_schema_converter:JsonSchemaConverter",
    "pkafka.connect.protobuf_converter:ProtobufConverter",
    "pkafka.connect.connectors.verifiable:VerifiableSourceConnector",
    "pkafka.connect.connectors.verifiable:VerifiableSinkConnector",
    "pkafka.connect.mirror.source_connector:MirrorSourceConnector",
    "pkafka.connect.mirror.checkpoint_connector:MirrorCheckpointConnector",
    "pkafka.connect.mirror.heartbeat:MirrorHeartbeatConnector",
)
GROUPS: Final = ("pkafka.connectors", "pkafka.transforms", "pkafka.predicates", "pkafka.converters")
"""Of entry points."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plug-in."""

    name: str
    """Its class in Java, else in Python."""
    type: PluginType
    version: str
    implementation: Class

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its simple names."""
        simple = self.name.rpartition(".")[2].rpartition("$")[2]
        end = _ENDS[self.type]
        short = simple.removesuffix(end)
        return (simple, short) if short and short != simple else (simple,)

    def __str__(self) -> str:
        return f"{self.name} ({self.type.value}, version {self.version})"


class Plugins:
    """Finds plug-ins by their names."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._plugins = sorted(plugins, key=lambda each: (list(PluginType).index(each.type), each.name))
        self._names: dict[str, Plugin] = {}
        ambiguous: set[str] = set()
        for plugin in self._plugins:
            # A converter of headers, too, is found as a converter first.
            for name in (plugin.name, python_name(plugin.implementation)):
                self._names.setdefault(name, plugin)
        for plugin in self._plugins:
            for alias in plugin.aliases:
                other = self._names.setdefault(alias, plugin)
                if other is not plugin and other.implementation is not plugin.implementation:
                    ambiguous.add(alias)
        for alias in ambiguous:
            del self._names[alias]

    def __iter__(self) -> Iterator[Plugin]:
        return iter(self._plugins)

    def of(self, *types: PluginType) -> list[Plugin]:
        """The plug-ins of some types."""
        return [each for each in self._plugins if each.type in types]

    def find(self, name: str) -> Plugin | None:
        """A plug-in of any type. A Python class that no installed package announces is imported by its name."""
        return self._names.get(name) or _imported(name)

    def implementation(self, name: str) -> Class:
        """The class that a setting names.

        Raises:
            LookupError: there is none.
        """
        plugin = self.find(name)
        if plugin is None:
            raise LookupError(name)
        return plugin.implementation

    def connector(self, name: str) -> type[SourceConnector] | type[SinkConnector]:
        """The class of a connector.

        Raises:
            ConnectError: there is none of that name.
        """
        plugin = self.find(name)
        if plugin is not None and plugin.type in _CONNECTORS:
            found: type[SourceConnector] | type[SinkConnector] = plugin.implementation
            return found
        available = ", ".join(map(str, self.of(*_CONNECTORS)))
        raise ConnectError(
            f"Failed to find any class that implements Connector and which name matches {name}, available connectors"
            f" are: {available}"
        )


def python_name(implementation: Class) -> str:
    """The dotted name of a class."""
    return f"{implementation.__module__}.{implementation.__qualname__}"


def name_of(implementation: Class) -> str:
    """The name by which the REST API calls a plug-in."""
    return str(getattr(implementation, "JAVA_NAME", None) or python_name(implementation))


def plugin_of(implementation: Class) -> Plugin | None:
    """What a class is as a plug-in; None: it is none."""
    kind = _type_of(implementation)
    if kind is None:
        return None
    shipped = implementation.__module__.startswith("pkafka.")
    version = str(getattr(implementation, "VERSION", "undefined"))
    if shipped and version == "undefined":
        version = pkafka.__version__
    return Plugin(name_of(implementation), kind, version, implementation)


def _type_of(implementation: Class) -> PluginType | None:
    if not isinstance(implementation, type):
        return None
    if issubclass(implementation, Connector):
        return PluginType.SOURCE if issubclass(implementation, SourceConnector) else PluginType.SINK
    for method, kind in (
        ("apply", PluginType.TRANSFORMATION),
        ("test", PluginType.PREDICATE),
        ("to_connect", PluginType.CONVERTER),
        ("to_connect_header", PluginType.HEADER_CONVERTER),
    ):
        if callable(getattr(implementation, method, None)) and callable(
            getattr(implementation, "configure", None)
        ):
            return kind
    return None


def plugins_of(implementation: Class) -> list[Plugin]:
    """The same, and once more for a converter that is one of headers, too."""
    found = plugin_of(implementation)
    if found is None:
        return []
    if found.type is PluginType.CONVERTER and hasattr(implementation, "to_connect_header"):
        return [found, replace(found, type=PluginType.HEADER_CONVERTER)]
    return [found]


def load_plugins() -> Plugins:
    """All plug-ins that ship with pkafka, and those that installed packages announce.

    A plug-in that cannot be imported is left out, and an error is logged: the others are not to suffer for it.
    """
    classes = shipped_classes()
    for group in GROUPS:
        for entry in entry_points(group=group):
            try:
                classes.append(entry.load())
            except Exception as error:  # noqa: BLE001 - the module of a plug-in may raise anything
                log.error("The plug-in %s of %s cannot be imported: %r", entry.value, group, error)
    return Plugins(each for implementation in dict.fromkeys(classes) for each in plugins_of(implementation))


def shipped_classes() -> list[Class]:
    """The classes of the plug-ins that ship with pkafka."""
    classes: list[Class] = [*TRANSFORMS, *PREDICATES, SimpleHeaderConverter]
    shipped = (getattr(shipped_converters, name) for name in shipped_converters.__all__)
    classes += [each for each in shipped if hasattr(each, "JAVA_NAME")]
    return classes + [_load(each) for each in _SHIPPED]


def _load(name: str) -> Class:
    module, _, attribute = name.partition(":")
    loaded: Class = getattr(import_module(module), attribute)
    return loaded


def _imported(name: str) -> Plugin | None:
    module, _, attribute = name.rpartition(".")
    if not module or name.startswith("org.apache.kafka."):
        return None
    try:
        return plugin_of(_load(f"{module}:{attribute}"))
    except (ImportError, AttributeError, TypeError, ValueError):
        return None


def prefixed(configs: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The settings that begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in configs.items() if name.startswith(prefix)}
