"""What the topics and settings of a cluster are to be, and which steps lead there. Decides only, and asks nothing.

A declaration is a mapping as YAML or JSON gives it::

    version: 1
    topics:
      orders:
        partitions: 12
        replication-factor: 1
        configs: {retention.ms: 604800000}
    brokers:
      default: {log.cleaner.threads: 2}   # of every broker
      "1": {}                             # of one, by its id

What it leaves out is left alone: a topic without ``partitions`` is only looked at for its configs, a key that is not
named keeps its value, one that is null loses it. Pruning deletes topics and keys that it leaves out.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from pkafka.errors import PkafkaError
from pkafka.tools.secret_keys import is_secret

EVERY_BROKER: Final = "default"
_TOPIC_FIELDS: Final = frozenset({"partitions", "replication-factor", "configs"})
_FIELDS: Final = frozenset({"version", "topics", "brokers"})
_VERSION: Final = 1

Configs: TypeAlias = Mapping[str, str | None]
"""Key to value; None: it is not to be set."""
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class DeclarationError(PkafkaError):
    """A declaration is not of the form in the module's text."""


class DeclaredTopic(NamedTuple):
    """A topic as it is to be; None: whatever it is."""

    partitions: int | None = None
    replication_factor: int | None = None
    configs: Configs = _NONE


class Declaration(NamedTuple):
    """What was declared; ``brokers`` is by id, or :data:`EVERY_BROKER`."""

    topics: Mapping[str, DeclaredTopic] = _NONE
    brokers: Mapping[str, Configs] = _NONE


class Secret(NamedTuple):
    """In place of a value that the cluster does not show."""


class ActualTopic(NamedTuple):
    """A topic as it is. ``configs`` are those that were set for it."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str | Secret] = _NONE
    is_internal: bool = False


class Actual(NamedTuple):
    """What a cluster has; of the brokers what was set for them while they ran."""

    topics: Mapping[str, ActualTopic]
    brokers: Mapping[str, Mapping[str, str | Secret]] = _NONE


class Action(Enum):
    """What a step does, and the sign in front of it."""

    CREATE = "+"
    CHANGE = "~"
    DELETE = "-"
    IMPOSSIBLE = "!"


class KeyChange(NamedTuple):
    """A key gets a value, or loses its own (None). ``before`` is None where it had none of its own."""

    key: str
    before: str | Secret | None
    after: str | None

    @property
    def is_secret(self) -> bool:
        """Whether neither value may be shown; the cluster does not say so of a key that has none yet."""
        return isinstance(self.before, Secret) or is_secret(self.key)


class Step(NamedTuple):
    """One thing to do to one topic, or to one broker's settings.

    Args:
        kind: ``topic`` or ``broker``.
        partitions: how many there are to be; of a topic that is made or grows.
        partitions_before: how many there are.
        problem: why it cannot be done, of an :attr:`Action.IMPOSSIBLE` one.
    """

    action: Action
    kind: str
    name: str
    partitions: int | None = None
    partitions_before: int | None = None
    replication_factor: int | None = None
    changes: tuple[KeyChange, ...] = ()
    problem: str | None = None

    @property
    def text(self) -> str:
        """One line for a person; secrets are masked."""
        parts = []
        if self.problem is not None:
            parts.append(self.problem)
        elif self.action is Action.CREATE:
            parts.append(_counted(self.partitions, "partition"))
            parts.append(f"replication factor {self.replication_factor or 'by default'}")
            parts += [f"{change.key}={_shown(change, change.after)}" for change in self.changes]
        elif self.partitions is not None:
            parts.append(f"partitions {self.partitions_before} -> {self.partitions}")
        else:
            parts += [
                f"{change.key} {_shown(change, change.before)} -> {_shown(change, change.after)}"
                for change in self.changes
            ]
        subject = f"{self.kind} {self.name}"
        if self.kind == "broker" and self.name == EVERY_BROKER:
            subject = "all brokers"
        return f"{self.action.value} {subject}" + (f": {', '.join(parts)}" if parts else "")


def parse(document: object) -> Declaration:
    """Read a declaration.

    Raises:
        DeclarationError: it is not of the form in the module's text; says where.
    """
    top = _mapping(document, "the declaration")
    _refuse_unknown(top, _FIELDS, "the declaration")
    if top.get("version", _VERSION) != _VERSION:
        raise DeclarationError(f"version {top['version']} of declarations is not known; this is {_VERSION}")
    topics = {}
    for name, fields in _mapping(top.get("topics") or {}, "topics").items():
        where = f"topics.{name}"
        known = _mapping(fields or {}, where)
        _refuse_unknown(known, _TOPIC_FIELDS, where)
        topics[_name(name, "topics")] = DeclaredTopic(
            _count(known, "partitions", where),
            _count(known, "replication-factor", where),
            _configs(known.get("configs") or {}, f"{where}.configs"),
        )
    brokers = {}
    for name, fields in _mapping(top.get("brokers") or {}, "brokers").items():
        if name != EVERY_BROKER and not str(name).isdecimal():
            raise DeclarationError(
                f"brokers.{name}: a broker is named by its id, all of them by {EVERY_BROKER}"
            )
        brokers[str(name)] = _configs(fields or {}, f"brokers.{name}")
    return Declaration(topics, brokers)


def plan(wanted: Declaration, actual: Actual, *, prune: bool = False) -> list[Step]:
    """The steps from what is to what is to be, deletions last.

    Args:
        prune: whether topics (but internal ones) and keys that are not declared go.
    """
    steps: list[Step] = []
    for name, topic in wanted.topics.items():
        there = actual.topics.get(name)
        steps += _creation(name, topic) if there is None else _topic_changes(name, topic, there, prune=prune)
    for name, configs in wanted.brokers.items():
        changes = _key_changes(configs, actual.brokers.get(name, {}), prune=prune)
        if changes:
            steps.append(Step(Action.CHANGE, "broker", name, changes=changes))
    if prune:
        for name, there in sorted(actual.topics.items()):
            if name not in wanted.topics and not there.is_internal:
                steps.append(Step(Action.DELETE, "topic", name, partitions_before=there.partitions))
    return steps


def document_of(actual: Actual) -> dict[str, object]:
    """A declaration of what is, but internal topics and secrets; :func:`parse` reads it."""
    topics = {
        name: {
            "partitions": topic.partitions,
            "replication-factor": topic.replication_factor,
            **({"configs": _open(topic.configs)} if _open(topic.configs) else {}),
        }
        for name, topic in sorted(actual.topics.items())
        if not topic.is_internal
    }
    brokers = {name: _open(configs) for name, configs in sorted(actual.brokers.items()) if _open(configs)}
    return {"version": _VERSION, "topics": topics, **({"brokers": brokers} if brokers else {})}


# -- inside ------------------------------------------------------------------------------------------------


def _creation(name: str, topic: DeclaredTopic) -> Iterator[Step]:
    changes = tuple(KeyChange(key, None, value) for key, value in topic.configs.items() if value is not None)
    yield Step(
        Action.CREATE,
        "topic",
        name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        changes=changes,
    )


def _topic_changes(name: str, topic: DeclaredTopic, there: ActualTopic, *, prune: bool) -> Iterator[Step]:
    before = there.partitions
    if topic.partitions is not None and topic.partitions < before:
        text = f"it has {before} partitions and cannot have {topic.partitions}: delete it and make it anew"
        yield Step(Action.IMPOSSIBLE, "topic", name, problem=text)
    elif topic.partitions is not None and topic.partitions > before:
        yield Step(Action.CHANGE, "topic", name, partitions=topic.partitions, partitions_before=before)
    factor = topic.replication_factor
    if factor is not None and factor != there.replication_factor:
        text = f"it has {_counted(there.replication_factor, 'replica')} and not {factor}: reassign its partitions"
        yield Step(Action.IMPOSSIBLE, "topic", name, problem=text)
    changes = _key_changes(topic.configs, there.configs, prune=prune)
    if changes:
        yield Step(Action.CHANGE, "topic", name, changes=changes)


def _key_changes(wanted: Configs, there: Mapping[str, str | Secret], *, prune: bool) -> tuple[KeyChange, ...]:
    # A secret cannot be compared: it is set again.
    changes = [
        KeyChange(key, there.get(key), value) for key, value in wanted.items() if there.get(key) != value
    ]
    if prune:
        changes += [KeyChange(key, before, None) for key, before in there.items() if key not in wanted]
    return tuple(changes)


def _open(configs: Mapping[str, str | Secret]) -> dict[str, str]:
    return {key: value for key, value in sorted(configs.items()) if isinstance(value, str)}


def _shown(change: KeyChange, value: str | Secret | None) -> str:
    if value is None:
        return "(unset)"
    return "(hidden)" if isinstance(value, Secret) or change.is_secret else value


def _counted(count: int | None, what: str) -> str:
    if count is None:
        return f"{what}s by default"
    return f"{count} {what}{'' if count == 1 else 's'}"


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise DeclarationError(f"{where}: a mapping is needed, not {_kind(value)}")
    return value


def _refuse_unknown(mapping: Mapping[Any, Any], known: frozenset[str], where: str) -> None:
    for name in mapping:
        if name not in known:
            raise DeclarationError(f"{where}: {name} is not known; there are {', '.join(sorted(known))}")


def _name(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise DeclarationError(f"{where}: the name {value} needs quotation marks")
    return value


def _count(mapping: Mapping[Any, Any], field: str, where: str) -> int | None:
    value = mapping.get(field)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise DeclarationError(f"{where}.{field}: a number from 1 on is needed, not {value}")
    return value


def _configs(value: object, where: str) -> Configs:
    return {str(key): _config(item, f"{where}.{key}") for key, item in _mapping(value, where).items()}


def _config(value: object, where: str) -> str | None:
    """A value as Kafka writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        return ",".join(_config(each, where) or "" for each in value)
    raise DeclarationError(f"{where}: a value is needed, not {_kind(value)}")


def _kind(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", type(None): "nothing"}
    return names.get(type(value), f"{value}")
