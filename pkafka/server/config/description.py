"""What DescribeConfigs tells: every setting of a topic or broker with where its value comes from.

Pure. The order of synonyms, their names and the gaps in them are Kafka's: tools print them.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple

from pkafka.errors import ConfigError
from pkafka.server.config.dynamic import (
    DYNAMIC_ONLY_KEYS,
    BrokerLayers,
    Configs,
    base_name,
    broker_key,
    synonyms_of,
)
from pkafka.server.config.keys import ConfigKey, broker_keys, documentation_of, topic_keys
from pkafka.server.config.keys.values import parse, render


class Source(IntEnum):
    """Where a value comes from, as numbered on the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


TYPE_CODES: Final[Mapping[str, int]] = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
"""Type names of the registry to the numbers of the wire; 0 is unknown."""


class Synonym(NamedTuple):
    """One layer's setting that bears on a key."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """One setting. A secret's value is None, in its synonyms too."""

    name: str
    value: str | None
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    type_code: int
    documentation: str | None
    source: Source


def describe_topic(
    layers: BrokerLayers, configs: Configs, *, only: Collection[str] = (), documented: bool = False
) -> list[Entry]:
    """The settings of one topic, by name.

    Args:
        layers: the settings of this broker.
        configs: what the topic sets itself.
        only: the names wanted; all when empty.
        documented: add the line of documentation.
    """
    entries = []
    for name, key in topic_keys().items():
        if only and name not in only:
            continue
        synonyms: tuple[Synonym, ...] = ()
        if key.synonyms:
            behind = key.synonyms[0][0]
            synonyms = _synonyms(layers, behind, sensitive=False)
        value = (
            _topic_value(key, configs[name])
            if name in configs
            else render(layers.current.topic_default(name))
        )
        if name in configs:
            synonyms = (Synonym(name, value, Source.TOPIC), *synonyms)
        text = documentation_of(name, topic=True) if documented else None
        code, source = TYPE_CODES[key.type], _source(synonyms)
        entries.append(Entry(name, value, False, False, synonyms, code, text, source))
    for name in _wanted(configs.keys() - topic_keys().keys(), only):
        # Written by another version or by hand; it may be a secret.
        own = (Synonym(name, None, Source.TOPIC),)
        entries.append(Entry(name, None, False, True, own, 0, None, Source.TOPIC))
    return entries


def _topic_value(key: ConfigKey, text: str) -> str | None:
    try:
        return render(parse(key, text))
    except ConfigError:
        return text  # stored by hand; shown as it is, so that an operator sees and mends it


def describe_broker(
    layers: BrokerLayers, *, only: Collection[str] = (), documented: bool = False
) -> list[Entry]:
    """The settings in force on this broker, by name; arguments as for :func:`describe_topic`."""
    current = layers.current
    shown = {name for name, key in broker_keys().items() if not key.internal}
    return [
        _broker_entry(layers, name, _shown_value(layers, name), per_broker=True, documented=documented)
        for name in _wanted(shown | current.originals.keys(), only)
    ]


def describe_all_brokers(
    layers: BrokerLayers, *, only: Collection[str] = (), documented: bool = False
) -> list[Entry]:
    """The dynamic settings of all brokers; arguments as for :func:`describe_topic`."""
    return [
        _broker_entry(layers, name, layers.cluster[name], per_broker=False, documented=documented)
        for name in _wanted(layers.cluster, only)
    ]


def describe_loggers(levels: Mapping[str, str], *, only: Collection[str] = ()) -> list[Entry]:
    """The levels of the broker's loggers, by name."""
    source = Source.DYNAMIC_BROKER_LOGGER
    return [Entry(name, levels[name], False, False, (), 0, None, source) for name in _wanted(levels, only)]


def _wanted(names: Iterable[str], only: Collection[str]) -> list[str]:
    return sorted(name for name in names if not only or name in only)


def _shown_value(layers: BrokerLayers, name: str) -> str | None:
    if name in broker_keys() and not broker_keys()[name].internal:
        return render(layers.current.get(name))
    return layers.current.originals[name]


def _broker_entry(
    layers: BrokerLayers, name: str, value: str | None, *, per_broker: bool, documented: bool
) -> Entry:
    key: ConfigKey | None = broker_key(name) or DYNAMIC_ONLY_KEYS.get(name)
    # The broker cannot know what a plug-in keeps in a key of its own: it may be a secret.
    sensitive = key is None or key.sensitive
    synonyms = _synonyms(layers, name, sensitive=sensitive)
    if not per_broker:
        synonyms = tuple(each for each in synonyms if each.source is Source.DYNAMIC_DEFAULT_BROKER)
    registered = broker_keys().get(name)
    return Entry(
        name,
        None if sensitive else value,
        registered is None or not registered.dynamic,
        sensitive,
        synonyms,
        TYPE_CODES[key.type] if key is not None else 0,
        documentation_of(base_name(name)) if documented else None,
        _source(synonyms),
    )


def _source(synonyms: tuple[Synonym, ...]) -> Source:
    return synonyms[0].source if synonyms else Source.DEFAULT


def _synonyms(layers: BrokerLayers, name: str, *, sensitive: bool) -> tuple[Synonym, ...]:
    """All settings that bear on broker key ``name``, the strongest first.

    As in Kafka, those before the first one with the very name are left out: a description of the base key does not show
    a listener's own setting, nor that of log.retention.hours log.retention.ms.
    """
    names = synonyms_of(name)
    found = [
        Synonym(each, None if sensitive else configs[each], source)
        for configs, source in (
            (layers.broker, Source.DYNAMIC_BROKER),
            (layers.cluster, Source.DYNAMIC_DEFAULT_BROKER),
            (layers.static_configs, Source.STATIC_BROKER),
            (_default_texts(), Source.DEFAULT),
        )
        for each in names
        if each in configs
    ]
    start = next((position for position, each in enumerate(found) if each.name == name), len(found))
    return tuple(found[start:])


@cache
def _default_texts() -> Mapping[str, str]:
    return {name: key.default for name, key in broker_keys().items() if key.default is not None}
