"""The settings that every connector has, beside its own: ``ConnectorConfig`` and those of sources and of sinks.

Names, defaults, groups and orders are Kafka Connect's; forms of other tools are made of them by ``/config/validate``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pkafka.connect.config_def import NO_DEFAULT, ConfigDef, ConfigType, ConfigValue, Importance, Key, Width
from pkafka.connect.config_types import config_text
from pkafka.connect.config_validators import (
    all_of,
    in_range,
    non_empty_without_controls,
    not_null,
    one_of,
    one_of_any_case,
)
from pkafka.connect.connector import Connector, SinkConnector
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError
from pkafka.connect.plugins import Plugin, Plugins, PluginType, name_of
from pkafka.connect.tolerance import ErrorSettings

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

_COMMON: Final = "Common"
_ERRORS: Final = "Error Handling"
_TOPIC_CREATION: Final = "Topic Creation"
_EXACTLY_ONCE: Final = "Exactly Once Support"


def _unique(name: str, value: Value) -> None:
    if value and len(set(value)) != len(value):
        raise ConfigError.of(name, value, "Duplicate alias provided.")


def _group(
    group: str, first: int, *rows: tuple[str, ConfigType, Value, Any, Importance, Width, str, str]
) -> list[Key]:
    return [
        Key(
            name=name,
            type=type_,
            default=default,
            validator=validator,
            importance=importance,
            width=width,
            display_name=shown,
            documentation=documentation,
            group=group,
            order_in_group=order,
        )
        for order, (name, type_, default, validator, importance, width, shown, documentation) in enumerate(
            rows, first
        )
    ]


_S, _L, _C = ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS
_EVERY: Final = [
    *_group(
        _COMMON,
        1,
        ("name", _S, NO_DEFAULT, non_empty_without_controls, HIGH, Width.MEDIUM, "Connector name",
         "The name of this connector, unique in the cluster of workers."),
        ("connector.class", _S, NO_DEFAULT, None, HIGH, Width.LONG, "Connector class",
         "The connector to run: its class in Java or in Python, or a short name such as FileStreamSource."),
        ("tasks.max", ConfigType.INT, 1, in_range(1), HIGH, Width.SHORT, "Tasks max",
         "How many tasks the connector may have at most."),
        ("tasks.max.enforce", ConfigType.BOOLEAN, True, None, LOW, Width.SHORT, "Enforce tasks max",
         "Whether a connector that makes more tasks than tasks.max fails; else the worker only warns (KIP-1004)."),
        ("key.converter", _C, None, None, LOW, Width.SHORT, "Key converter class",
         "How keys are written to and read from Kafka; the worker's when it is left out."),
        ("value.converter", _C, None, None, LOW, Width.SHORT, "Value converter class",
         "How values are written to and read from Kafka; the worker's when it is left out."),
        ("header.converter", _C, None, None, LOW, Width.SHORT, "Header converter class",
         "How headers are written to and read from Kafka; the worker's when it is left out."),
    ),
    *_group("Transforms", 8, ("transforms", _L, "", all_of(not_null, _unique), LOW, Width.LONG, "Transforms",
                              "Names of the transforms that records pass, in this order.")),
    *_group("Predicates", 9, ("predicates", _L, "", all_of(not_null, _unique), LOW, Width.LONG, "Predicates",
                              "Names of the predicates that transforms refer to.")),
    *_group(_COMMON, 10, ("config.action.reload", _S, "restart", one_of("none", "restart"), LOW, Width.MEDIUM,
                          "Reload Action", "What happens when a provider changes a value: none, or restart.")),
    *_group(
        _ERRORS,
        1,
        ("errors.retry.timeout", ConfigType.LONG, 0, None, MEDIUM, Width.MEDIUM, "Retry Timeout for Errors",
         "For how many milliseconds a failed step is tried again; 0: not at all, -1: for ever."),
        ("errors.retry.delay.max.ms", ConfigType.LONG, 60_000, None, MEDIUM, Width.MEDIUM,
         "Maximum Delay Between Retries for Errors", "The longest pause between two tries, in milliseconds."),
        ("errors.tolerance", _S, "none", one_of("none", "all"), MEDIUM, Width.SHORT, "Error Tolerance",
         "none: a record that fails ends its task; all: it is left out."),
        ("errors.log.enable", ConfigType.BOOLEAN, False, None, MEDIUM, Width.SHORT, "Log Errors",
         "Whether failures of records are logged; those that end a task always are."),
        ("errors.log.include.messages", ConfigType.BOOLEAN, False, None, MEDIUM, Width.SHORT, "Log Error Details",
         "Whether such a line shows topic, partition and offset of a sink's record, or the record of a source."),
    ),
]  # fmt: skip
BISECT: Final = "pkafka.errors.bisect"
_BISECTING: Final = _group(
    _ERRORS,
    9,
    (BISECT, ConfigType.BOOLEAN, False, None, MEDIUM, Width.SHORT, "Look for refused records",
     "Whether a batch that the connector refuses for the sake of its data is put again in parts, until the records to"
     " blame are found; these are left out as errors.tolerance=all says. Kafka's workers have no such setting."),
)  # fmt: skip
_OF_SOURCES: Final = [
    *_group(_TOPIC_CREATION, 1, ("topic.creation.groups", _L, "", all_of(not_null, _unique), LOW, Width.LONG,
                                 "Topic Creation Groups", "Names of groups of settings for new topics.")),
    *_group(
        _EXACTLY_ONCE,
        2,
        ("exactly.once.support", _S, "requested", one_of_any_case("requested", "required"), MEDIUM, Width.SHORT,
         "Exactly once support", "required: refuse the configuration when the connector cannot give exactly once."),
        ("transaction.boundary", _S, "poll", one_of_any_case("poll", "interval", "connector"), MEDIUM, Width.SHORT,
         "Transaction Boundary", "What ends a transaction: each poll, an interval, or the connector."),
        ("transaction.boundary.interval.ms", ConfigType.LONG, None, None, LOW, Width.SHORT,
         "Transaction boundary interval", "The interval, in milliseconds; offset.flush.interval.ms when left out."),
    ),
    *_group("offsets.topic", 1, ("offsets.storage.topic", _S, None, None, LOW, Width.LONG, "Offsets topic",
                                 "Where the connector keeps its offsets; the worker's topic when it is left out.")),
]  # fmt: skip
_OF_SINKS: Final = [
    *_group(_COMMON, 4, ("topics", _L, "", None, HIGH, Width.LONG, "Topics", "The topics to read.")),
    *_group(_COMMON, 4, ("topics.regex", _S, "", None, HIGH, Width.LONG, "Topics regex",
                         "A regular expression of Java's: all topics that match it are read.")),
    *_group(
        _ERRORS,
        6,
        ("errors.deadletterqueue.topic.name", _S, "", None, MEDIUM, Width.MEDIUM, "Dead Letter Queue Topic Name",
         "Where records go that fail and are left out; empty: nowhere."),
        ("errors.deadletterqueue.topic.replication.factor", ConfigType.SHORT, 3, None, MEDIUM, Width.MEDIUM,
         "Dead Letter Queue Topic Replication Factor", "Replicas of that topic, when the worker creates it."),
        ("errors.deadletterqueue.context.headers.enable", ConfigType.BOOLEAN, False, None, MEDIUM, Width.MEDIUM,
         "Enable Error Context Headers", "Whether headers (__connect.errors.*) say what went wrong."),
    ),
]  # fmt: skip


def common_config() -> ConfigDef:
    """The settings of sources and sinks alike."""
    return ConfigDef(_EVERY)


def base_config(*, is_sink: bool) -> ConfigDef:
    """The settings of all source connectors, or of all sink connectors."""
    return ConfigDef([*_EVERY, *(_OF_SINKS if is_sink else _OF_SOURCES)])


def is_sink(connector: type[Connector]) -> bool:
    """Whether a connector takes records out of Kafka."""
    return issubclass(connector, SinkConnector)


# -- transforms and predicates --


def enriched(base: ConfigDef, configs: Mapping[str, str], plugins: Plugins) -> ConfigDef:
    """The same settings and those of the transforms and the predicates that a configuration names."""
    keys = list(base.keys.values())
    for alias in _aliases(configs, "transforms"):
        keys += _alias_keys(
            "transforms", "Transform", alias, configs, plugins, PluginType.TRANSFORMATION, _OF_TRANSFORMS
        )
    for alias in _aliases(configs, "predicates"):
        keys += _alias_keys("predicates", "Predicate", alias, configs, plugins, PluginType.PREDICATE, ())
    if BISECT in configs and "topics" in base.keys:
        keys += _BISECTING  # only where it is set, so that the others have Kafka's settings and no more
    for group in _topic_groups(configs):
        keys += _topic_group_keys(group) if "topic.creation.groups" in base.keys else []
    unique = {key.name: key for key in keys}
    return ConfigDef(list(unique.values()), class_lookup=plugins.implementation)


_OF_TRANSFORMS: Final = (
    Key(name="negate", type=ConfigType.BOOLEAN, default=False, documentation="Whether the predicate is turned round."),
    Key(name="predicate", type=ConfigType.STRING, default=None, documentation="The name of the predicate that says for"
        " which records the transform is."),
)  # fmt: skip


def _aliases(configs: Mapping[str, str], name: str) -> list[str]:
    aliases = [each.strip() for each in (configs.get(name) or "").split(",")]
    return list(dict.fromkeys(each for each in aliases if each))


class _Recommended:
    def __init__(self, plugins: list[Plugin]) -> None:
        self._plugins = plugins

    def valid_values(self, _name: str, _parsed: Mapping[str, Value]) -> list[Value]:
        return [each.name for each in self._plugins]  # as config_text writes their classes

    def visible(self, _name: str, _parsed: Mapping[str, Value]) -> bool:
        return True


def _alias_keys(
    prefix: str,
    kind: str,
    alias: str,
    configs: Mapping[str, str],
    plugins: Plugins,
    wanted: PluginType,
    more: tuple[Key, ...],
) -> list[Key]:
    group = f"{kind}s: {alias}"
    named = f"{prefix}.{alias}.type"

    def check(name: str, value: Value) -> None:
        found = None if value is None else plugins.find(name_of(value))
        if value is not None and (found is None or found.type is not wanted):
            raise ConfigError.of(name, value, f"Not a {kind}")

    first = Key(
        name=named,
        type=ConfigType.CLASS,
        validator=check,
        importance=HIGH,
        documentation=f"The class of the {kind.lower()} {alias}.",
        group=group,
        order_in_group=0,
        width=Width.LONG,
        display_name=f"{'Transformation' if wanted is PluginType.TRANSFORMATION else kind} type for {alias}",
        recommender=_Recommended(plugins.of(wanted)),
    )
    found = plugins.find(configs.get(named, ""))
    if found is None or found.type is not wanted:
        return [first]
    keys = [*found.implementation.CONFIG.keys.values(), *more]
    keys.sort(key=lambda key: (key.has_default, _IMPORTANCES.index(key.importance), key.name))
    return [first] + [
        Key(
            name=f"{prefix}.{alias}.{key.name}",
            type=key.type,
            default=key.default,
            validator=key.validator,
            importance=key.importance,
            documentation=key.documentation,
            group=group,
            order_in_group=order,
            width=key.width,
            display_name=key.display_name or key.name,
        )
        for order, key in enumerate(keys, 1)
    ]


_IMPORTANCES: Final = [HIGH, MEDIUM, LOW]


def _topic_groups(configs: Mapping[str, str]) -> list[str]:
    if not any(name.startswith("topic.creation.") for name in configs):
        return []
    if "topic.creation.default.replication.factor" not in configs and not configs.get(
        "topic.creation.groups"
    ):
        return []
    return [*(each for each in _aliases(configs, "topic.creation.groups") if each != "default"), "default"]


def _positive_or_default(name: str, value: Value) -> None:
    if value is not None and value != -1 and value < 1:
        raise ConfigError.of(name, value, "Value must be at least 1, or -1 to use the broker's default")


def _topic_group_keys(group: str) -> list[Key]:
    prefix = f"topic.creation.{group}."
    required: Value = NO_DEFAULT if group == "default" else None
    shown = f"Group: {group}"
    rows: list[Key] = [
        Key(name=f"{prefix}replication.factor", type=ConfigType.SHORT, default=required, validator=_positive_or_default,
            importance=LOW, width=Width.LONG, group=shown, order_in_group=3, display_name="Replication factor",
            documentation=f"Replicas of new topics of the group {group}; -1: the broker's default."),
        Key(name=f"{prefix}partitions", type=ConfigType.INT, default=required, validator=_positive_or_default,
            importance=LOW, width=Width.SHORT, group=shown, order_in_group=4, display_name="Partition Count",
            documentation=f"Partitions of new topics of the group {group}; -1: the broker's default."),
    ]  # fmt: skip
    if group != "default":
        for order, (name, verb) in enumerate((("include", "has"), ("exclude", "leaves out")), 1):
            rows.append(
                Key(name=f"{prefix}{name}", type=ConfigType.LIST, default="", importance=LOW, width=Width.LONG,
                    group=shown, order_in_group=order, display_name=f"{name.capitalize()} Topics",
                    documentation=f"Regular expressions of topics that the group {verb}.")
            )  # fmt: skip
    return rows


# -- validation --


@dataclass(frozen=True, slots=True)
class Validated:
    """What became of the settings of a connector."""

    name: str
    """The connector's class, as it was asked for."""
    groups: list[str]
    keys: dict[str, Key]
    values: dict[str, ConfigValue]

    def refuse(self, name: str, value: str, error: str) -> None:
        """Note what is wrong with a setting that has no definition."""
        self.values.setdefault(name, ConfigValue(name, value)).errors.append(error)

    @property
    def errors(self) -> list[str]:
        """What is wrong, in the order of the settings."""
        return [error for value in self.values.values() for error in value.errors]


def validate(configs: Mapping[str, str], implementation: type[Connector], plugins: Plugins) -> Validated:
    """Look at all settings of a connector; what is wrong is in the result.

    Args:
        configs: with ``connector.class``.
        implementation: the class that it names.
    """
    sink = is_sink(implementation)
    base = enriched(base_config(is_sink=sink), configs, plugins)
    values = base.validate_all(configs)
    if sink:
        _check_topics(configs, values)
    connector = implementation()
    if isinstance(connector, SinkConnector) and BISECT in values:
        parsed = {name: each.value for name, each in values.items()}
        values[BISECT].errors += bisecting_problems(connector, configs, parsed)
    own = connector.config()
    for value in connector.validate(configs):
        values[value.name] = _merged(values.get(value.name), value)
    keys = {**base.keys, **own.keys}
    _check_converters(configs, values, plugins)
    groups = list(dict.fromkeys([*base.groups, *own.groups]))
    return Validated(configs["connector.class"], groups, keys, values)


def _merged(one: ConfigValue | None, other: ConfigValue) -> ConfigValue:
    if one is None:
        return other
    one.errors += other.errors
    return one


def _check_topics(configs: Mapping[str, str], values: dict[str, ConfigValue]) -> None:
    topics = [each.strip() for each in (configs.get("topics") or "").split(",") if each.strip()]
    pattern = configs.get("topics.regex") or ""
    dead = configs.get("errors.deadletterqueue.topic.name") or ""
    error = None
    if topics and pattern:
        error = "topics and topics.regex are mutually exclusive options, but both are set."
    elif not topics and not pattern:
        error = "Must configure one of topics or topics.regex"
    if error is not None:
        for name in ("topics", "topics.regex"):
            values[name].errors.append(error)
    if dead and dead in topics:
        values["topics"].errors.append(
            f"The DLQ topic '{dead}' may not be included in the list of topics ('topics=[{', '.join(topics)}]')"
            " consumed by the connector"
        )


def bisecting_problems(
    connector: SinkConnector, configs: Mapping[str, str], parsed: Mapping[str, Value]
) -> list[str]:
    """Why a sink's batches cannot be put again in parts, though ``pkafka.errors.bisect`` asks for it.

    Args:
        configs: of the connector.
        parsed: the settings that every connector has.
    """
    problems: list[str] = []
    if not parsed.get(BISECT):
        return problems
    if str(parsed["errors.tolerance"]).lower() != "all":
        problems.append(f"{BISECT} needs errors.tolerance=all: the records that are found are left out.")
    if not connector.can_repeat_put(configs):
        problems.append(
            f"{BISECT} is not for {name_of(type(connector))}: it does not say that records may be put again after a"
            " failure."
        )
    return problems


def _check_converters(configs: Mapping[str, str], values: dict[str, ConfigValue], plugins: Plugins) -> None:
    for name, wanted in (
        ("key.converter", (PluginType.CONVERTER,)),
        ("value.converter", (PluginType.CONVERTER,)),
        ("header.converter", (PluginType.HEADER_CONVERTER, PluginType.CONVERTER)),
    ):
        given = configs.get(name)
        if given is None or values[name].errors:
            continue
        found = plugins.find(given)
        if found is None or found.type not in wanted:
            values[name].errors.append(f"Class {given} is no converter.")


# -- what a worker reads of it --


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """The settings that every connector has, read."""

    configs: Mapping[str, str]
    parsed: Mapping[str, Value]

    @classmethod
    def of(
        cls, configs: Mapping[str, str], implementation: type[Connector], plugins: Plugins
    ) -> "ConnectorSettings":
        """Read them.

        Raises:
            ConfigError: one is refused.
        """
        base = enriched(base_config(is_sink=is_sink(implementation)), configs, plugins)
        return cls(configs, base.parse(configs))

    @property
    def tasks_max(self) -> int:
        """At most so many tasks."""
        return int(self.parsed["tasks.max"])

    @property
    def bisects(self) -> bool:
        """Whether a sink's batch that is refused for the sake of its data is put again in parts."""
        return bool(self.parsed.get(BISECT, False))

    @property
    def errors(self) -> ErrorSettings:
        """What becomes of records that fail."""
        parsed = self.parsed
        return ErrorSettings(
            str(parsed["errors.tolerance"]).lower() == "all",
            parsed["errors.retry.timeout"],
            parsed["errors.retry.delay.max.ms"],
        )


def described(key: Key) -> dict[str, object]:
    """A setting as the REST API shows it: ``ConfigKeyInfo``."""
    default = None
    if key.has_default and key.default is not None:
        default = config_text(key.default, key.type)
    return {
        "name": key.name,
        "type": key.type.name,
        "required": not key.has_default,
        "default_value": default,
        "importance": key.importance.name,
        "documentation": key.documentation,
        "group": key.group,
        "width": key.width.name,
        "display_name": key.display_name or key.name,
        "dependents": list(key.dependents),
        "order": key.order_in_group,
    }


def shown(value: ConfigValue, key: Key | None) -> dict[str, object]:
    """What became of a setting, as the REST API shows it: ``ConfigValueInfo``."""
    kind = None if key is None else key.type
    return {
        "name": value.name,
        "value": config_text(value.value, kind),
        "recommended_values": [config_text(each, kind) for each in value.recommended],
        "errors": value.errors,
        "visible": value.visible,
    }
