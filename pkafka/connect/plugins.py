"""Which connectors, converters, transforms and predicates there are, and by what names configurations call them.

A plug-in is a class. Configurations name it by the class of Apache Kafka that it stands for, by an alias (the class's
simple name, with or without ``Connector``, ``Converter`` or ``Transformation`` at its end, where that is unique), or by
its Python name (``package.module.Class``). Packages announce theirs by the entry points ``pkafka.connectors``,
``pkafka.transforms``, ``pkafka.predicates`` and ``pkafka.converters``.

A worker uses few of the connectors that ship with pkafka, and what is imported takes memory in each of its processes.
So a shipped connector is imported when its class is first asked for; what else is asked of it is in a table.
"""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pkafka
from pkafka.connect import converters as shipped_converters
from pkafka.connect.connector import Connector, SinkConnector, SourceConnector
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
GROUPS: Final = ("pkafka.connectors", "pkafka.transforms", "pkafka.predicates", "pkafka.converters")
"""Of entry points."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plug-in."""

    name: str
    """Its class in Java, else in Python."""
    type: PluginType
    version: str
    python_name: str
    """The dotted name of its class in Python."""
    imported: Class | None = field(default=None, repr=False, compare=False)
    """The class; None: it is imported when it is first asked for."""

    @property
    def implementation(self) -> Class:
        """Its class."""
        return _load(self.python_name) if self.imported is None else self.imported

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its simple names."""
        simple = self.name.rpartition(".")[2].rpartition("$")[2]
        end = _ENDS[self.type]
        short = simple.removesuffix(end)
        return (simple, short) if short and short != simple else (simple,)

    def __str__(self) -> str:
        return f"{self.name} ({self.type.value}, version {self.version})"


# What these rows say is what plugins_of() says of the classes: a unit test compares them.
def _not_imported(
    value: str, type: PluginType, java_name: str | None = None, version: str = pkafka.__version__
) -> Plugin:
    python = value.replace(":", ".")
    return Plugin(java_name or python, type, version, python)


_SHIPPED: Final = (
    _not_imported(
        "pkafka.connect.connectors.file_stream:FileStreamSourceConnector",
        PluginType.SOURCE,
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
    ),
    _not_imported(
        "pkafka.connect.connectors.file_stream:FileStreamSinkConnector",
        PluginType.SINK,
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
    ),
    _not_imported("pkafka.connect.connectors.directory_source:DirectorySourceConnector", PluginType.SOURCE),
    _not_imported("pkafka.connect.connectors.files_sink:FilesSinkConnector", PluginType.SINK),
    _not_imported("pkafka.connect.connectors.http_sink:HttpSinkConnector", PluginType.SINK),
    _not_imported("pkafka.connect.connectors.singer_source:SingerSourceConnector", PluginType.SOURCE),
    _not_imported(
        "pkafka.connect.connectors.sql_source:SqlSourceConnector",
        PluginType.SOURCE,
        "io.confluent.connect.jdbc.JdbcSourceConnector",
    ),
    _not_imported(
        "pkafka.connect.connectors.sql_sink:SqlSinkConnector",
        PluginType.SINK,
        "io.confluent.connect.jdbc.JdbcSinkConnector",
    ),
    _not_imported(
        "pkafka.connect.avro_converter:AvroConverter",
        PluginType.CONVERTER,
        "io.confluent.connect.avro.AvroConverter",
    ),
    _not_imported(
        "pkafka.connect.json_schema_converter:JsonSchemaConverter",
        PluginType.CONVERTER,
        "io.confluent.connect.json.JsonSchemaConverter",
    ),
    _not_imported(
        "pkafka.connect.protobuf_converter:ProtobufConverter",
        PluginType.CONVERTER,
        "io.confluent.connect.protobuf.ProtobufConverter",
    ),
    _not_imported(
        "pkafka.connect.connectors.verifiable:VerifiableSourceConnector",
        PluginType.SOURCE,
        "org.apache.kafka.connect.tools.VerifiableSourceConnector",
    ),
    _not_imported(
        "pkafka.connect.connectors.verifiable:VerifiableSinkConnector",
        PluginType.SINK,
        "org.apache.kafka.connect.tools.VerifiableSinkConnector",
    ),
    _not_imported(
        "pkafka.connect.mirror.source_connector:MirrorSourceConnector",
        PluginType.SOURCE,
        "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        pkafka.KAFKA_VERSION,
    ),
    _not_imported(
        "pkafka.connect.mirror.checkpoint_connector:MirrorCheckpointConnector",
        PluginType.SOURCE,
        "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        pkafka.KAFKA_VERSION,
    ),
    _not_imported(
        "pkafka.connect.mirror.heartbeat:MirrorHeartbeatConnector",
        PluginType.SOURCE,
        "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        pkafka.KAFKA_VERSION,
    ),
)
_PIPELINE: Final = "pkafka.pipeline.connect_connector:PipelineConnector"
ANNOUNCED_BY_PKAFKA: Final = {_PIPELINE: _not_imported(_PIPELINE, PluginType.SOURCE)}
"""What pkafka's own package announces by entry points, by their values. Every installation has these, so
``importlib.metadata`` would always be imported if they were not known here."""


class Plugins:
    """Finds plug-ins by their names."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._plugins = sorted(plugins, key=lambda each: (list(PluginType).index(each.type), each.name))
        self._names: dict[str, Plugin] = {}
        ambiguous: set[str] = set()
        for plugin in self._plugins:
            # A converter of headers, too, is found as a converter first.
            for name in (plugin.name, plugin.python_name):
                self._names.setdefault(name, plugin)
        for plugin in self._plugins:
            for alias in plugin.aliases:
                other = self._names.setdefault(alias, plugin)
                if other is not plugin and other.python_name != plugin.python_name:
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
    return Plugin(name_of(implementation), kind, version, python_name(implementation), implementation)


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
    found = shipped_plugins()
    values = announced_values(sys.path)
    if values is not None and values <= ANNOUNCED_BY_PKAFKA.keys():
        found += [ANNOUNCED_BY_PKAFKA[each] for each in values]
    else:
        found += _of_entry_points()
    return Plugins(dict.fromkeys(found))


def shipped_plugins() -> list[Plugin]:
    """The plug-ins that ship with pkafka."""
    classes: list[Class] = [*TRANSFORMS, *PREDICATES]
    shipped = (getattr(shipped_converters, name) for name in shipped_converters.__all__)
    classes += [each for each in shipped if hasattr(each, "JAVA_NAME")]
    return [*(each for implementation in classes for each in plugins_of(implementation)), *_SHIPPED]


def announced_values(path: Iterable[str]) -> set[str] | None:
    """The values, ``module:Class``, of the entry points by which packages in directories announce plug-ins.

    ``importlib.metadata`` knows more kinds of packages, but imports ``email``, ``zipfile`` and others, and so takes
    1.6 MB of a worker's process. Most workers have no plug-ins but pkafka's, which this finds out without it.

    Args:
        path: like ``sys.path``: "" is the current directory, and what cannot be read or does not exist has no packages.

    Returns:
        None: the path has a file, which may be an archive with packages: only ``importlib.metadata`` reads these.
    """
    values: set[str] = set()
    for place in map(Path, path):
        try:
            if place.is_file():
                return None
            children = list(place.iterdir())
        except OSError:
            continue
        for child in children:
            # Inside a directory x.egg the name is EGG-INFO.
            if child.name.lower().endswith((".dist-info", ".egg-info")) or child.name == "EGG-INFO":
                values.update(_values(child / "entry_points.txt"))
    return values


def _values(entry_points: Path) -> Iterator[str]:
    try:
        text = entry_points.read_text(encoding="utf-8", errors="replace")
    except OSError:  # most packages have no such file
        return
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif group in GROUPS and line and not line.startswith("#"):
            yield line.partition("=")[2].strip()


def _of_entry_points() -> Iterator[Plugin]:
    from importlib.metadata import entry_points  # large: see announced_values

    for group in GROUPS:
        for entry in entry_points(group=group):
            if entry.value in ANNOUNCED_BY_PKAFKA:
                yield ANNOUNCED_BY_PKAFKA[entry.value]
                continue
            try:
                implementation = entry.load()
            except Exception as error:  # noqa: BLE001 - the module of a plug-in may raise anything
                log.error("The plug-in %s of %s cannot be imported: %r", entry.value, group, error)
                continue
            yield from plugins_of(implementation)


def _load(name: str) -> Class:
    module, _, attribute = name.rpartition(".")
    loaded: Class = getattr(import_module(module), attribute)
    return loaded


def _imported(name: str) -> Plugin | None:
    if "." not in name or name.startswith("org.apache.kafka."):
        return None
    try:
        return plugin_of(_load(name))
    except (ImportError, AttributeError, TypeError, ValueError):
        return None


def prefixed(configs: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The settings that begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in configs.items() if name.startswith(prefix)}
