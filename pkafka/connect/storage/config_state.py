"""What a Connect cluster is to run, folded from the records of its config topic: ``KafkaConfigBackingStore``'s rules.

Pure. The topic is compacted, so a reader may find the records of half a change. Tasks count when the commit record
behind them names no more than were read; else the connector is inconsistent, and its tasks have to be written anew.
"""

import binascii
import logging
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from pkafka.connect.data.types import Value
from pkafka.connect.errors import DataError
from pkafka.connect.states import Target, TaskName
from pkafka.connect.storage import config_records as records
from pkafka.connect.storage.session_key import SessionKey
from pkafka.connect.storage.stored_json import decode_stored
from pkafka.java.hashing import hash_order
from pkafka.java.numbers import parse_integer

log = logging.getLogger("org.apache.kafka.connect.storage.KafkaConfigBackingStore")

NOTHING_READ: Final = -1
"""The offset of a log of which nothing was read."""
_INT_BITS: Final = 32

Configs: TypeAlias = Mapping[str, str]


class ConnectorChanged(NamedTuple):
    """A connector is new, or has another configuration."""

    connector: str


class ConnectorRemoved(NamedTuple):
    """A connector is gone."""

    connector: str


class TasksChanged(NamedTuple):
    """The tasks of a connector were committed.

    Args:
        connector: its name.
        tasks: those whose configurations were written; none, when the connector has none or is inconsistent now.
    """

    connector: str
    tasks: tuple[TaskName, ...]


class TargetChanged(NamedTuple):
    """A connector is to do something else."""

    connector: str


class SessionKeyChanged(NamedTuple):
    """Workers sign by another key."""

    key: SessionKey


class RestartAsked(NamedTuple):
    """Somebody wants a connector to start anew. It counts for workers that hear of it when it is written, no later."""

    connector: str
    only_failed: bool
    include_tasks: bool


class LoggerLevel(NamedTuple):
    """A logger is to have another level on all workers; else as :class:`RestartAsked`."""

    namespace: str
    level: str


class TaskCountChanged(NamedTuple):
    """The count of tasks by which the next fencing goes was written; no fencing is due any more."""

    connector: str
    tasks: int


Change: TypeAlias = (
    ConnectorChanged
    | ConnectorRemoved
    | TasksChanged
    | TargetChanged
    | SessionKeyChanged
    | RestartAsked
    | LoggerLevel
    | TaskCountChanged
)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What there is at one point of the log: ``ClusterConfigState``. Nobody changes it, nor what is in it.

    Args:
        offset: one past the last record that was read, whether its meaning was understood or not; -1: none was.
        session_key: the last that was written.
        connector_configs: as they were written, references to secrets and all.
        task_counts: how many tasks the last commit of a connector named.
        targets: what connectors are to do; also of some that have no configuration yet.
        task_configs: the committed ones.
        task_count_records: how many tasks of a connector the last fencing was about (KIP-618).
        task_config_generations: how often tasks of a connector were committed, from 0.
        pending_fencing: connectors whose tasks were committed after their last task count record.
        inconsistent: connectors of whose tasks not all were there.
        applied_connector_configs: by which configurations the tasks of connectors were made.
    """

    offset: int = NOTHING_READ
    session_key: SessionKey | None = None
    connector_configs: Mapping[str, Configs] = field(default_factory=dict)
    task_counts: Mapping[str, int] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)
    task_configs: Mapping[TaskName, Configs] = field(default_factory=dict)
    task_count_records: Mapping[str, int] = field(default_factory=dict)
    task_config_generations: Mapping[str, int] = field(default_factory=dict)
    pending_fencing: frozenset[str] = frozenset()
    inconsistent: frozenset[str] = frozenset()
    applied_connector_configs: Mapping[str, Configs] = field(default_factory=dict)

    def contains(self, connector: str) -> bool:
        """Whether there is a connector."""
        return connector in self.connector_configs

    def connectors(self) -> list[str]:
        """The names of all connectors, in the order in which Java's REST API lists them."""
        return hash_order(hash_order(self.connector_configs), is_copy=True)

    def connector(self, name: str) -> Configs | None:
        """The configuration of a connector as it was written; None: there is none."""
        return self.connector_configs.get(name)

    def target(self, connector: str) -> Target | None:
        """What a connector is to do; None: there is none."""
        return self.targets.get(connector)

    def task(self, name: TaskName) -> Configs | None:
        """The configuration of a task as it was written; None: there is none."""
        return self.task_configs.get(name)

    def task_count(self, connector: str) -> int:
        """How many tasks the last commit named; 0 where there was none."""
        return self.task_counts.get(connector, 0)

    def tasks(self, connector: str) -> list[TaskName]:
        """The tasks of a connector; none while it is inconsistent."""
        if connector in self.inconsistent:
            return []
        return [TaskName(connector, number) for number in range(self.task_count(connector))]

    def all_task_configs(self, connector: str) -> list[Configs]:
        """The configurations of the tasks of a connector, by number; none while it is inconsistent."""
        found = (self.task_configs.get(task) for task in self.tasks(connector))
        return [configs for configs in found if configs is not None]

    def is_pending_fencing(self, connector: str) -> bool:
        """Whether older tasks of a connector have to be fenced before its tasks start (KIP-618)."""
        return connector in self.pending_fencing


class ConfigLog:
    """Folds the records of a config topic in their order. Not for several threads at once."""

    def __init__(self) -> None:
        self._offset = NOTHING_READ
        self._session_key: SessionKey | None = None
        self._configs: dict[str, Configs] = {}
        self._counts: dict[str, int] = {}
        self._targets: dict[str, Target] = {}
        self._tasks: dict[TaskName, Configs] = {}
        self._deferred: dict[str, dict[TaskName, Configs]] = {}
        """Tasks that were written, and wait for the commit record of their connector."""
        self._count_records: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._pending_fencing: set[str] = set()
        self._inconsistent: set[str] = set()
        self._applied: dict[str, Configs] = {}
        self._state: ClusterConfig | None = None

    def state(self) -> ClusterConfig:
        """What there is now."""
        if self._state is None:
            self._state = ClusterConfig(
                offset=self._offset,
                session_key=self._session_key,
                connector_configs=dict(self._configs),
                task_counts=dict(self._counts),
                targets=dict(self._targets),
                task_configs=dict(self._tasks),
                task_count_records=dict(self._count_records),
                task_config_generations=dict(self._generations),
                pending_fencing=frozenset(self._pending_fencing),
                inconsistent=frozenset(self._inconsistent),
                applied_connector_configs=dict(self._applied),
            )
        return self._state

    def apply(self, key: bytes | None, value: bytes | None, offset: int) -> tuple[Change, ...]:
        """Take the next record.

        Args:
            key, value: of the record.
            offset: of the record; transactions' markers are not told, and not counted.

        Returns:
            What is different now, for those who were up to date before. What cannot be read is logged, and is nothing.
        """
        try:
            found = decode_stored(value)
        except DataError as error:
            log.error("Failed to convert config data to Kafka Connect format: %s", error)
            return ()
        self._state = None
        self._offset = offset + 1
        text = "" if key is None else key.decode(errors="replace")
        if text == records.SESSION_KEY:
            return self._session(found)
        for prefix, read in _READERS:
            if text.startswith(prefix):
                return read(self, text.removeprefix(prefix), found)
        log.error("Discarding config update record with invalid key: %s", text)
        return ()

    # -- connectors --

    def _target(self, connector: str, value: Value) -> tuple[Change, ...]:
        if value is None:
            self._targets.pop(connector, None)
            if connector in self._configs:
                self._targets[connector] = Target.STARTED
            return ()  # the record of the connector itself tells that it is gone
        target = _target_of(connector, value)
        if target is None:
            return ()
        previous, self._targets[connector] = self._targets.get(connector), target
        # An initial target is written before its connector, and is no change of one (KIP-980).
        return (TargetChanged(connector),) if target is not previous and connector in self._configs else ()

    def _connector(self, connector: str, value: Value) -> tuple[Change, ...]:
        if value is None:
            log.info("Successfully processed removal of connector '%s'", connector)
            self._forget(connector)
            return (ConnectorRemoved(connector),)
        configs = _properties(value, f"connector '{connector}'")
        if configs is None:
            return ()
        self._configs[connector] = configs
        self._targets.setdefault(connector, Target.STARTED)
        return (ConnectorChanged(connector),)

    def _forget(self, connector: str) -> None:
        self._configs.pop(connector, None)
        self._counts.pop(connector, None)
        self._deferred.pop(connector, None)
        self._applied.pop(connector, None)
        for task in [each for each in self._tasks if each.connector == connector]:
            del self._tasks[task]

    # -- tasks --

    def _task(self, rest: str, value: Value) -> tuple[Change, ...]:
        name = task_of(rest)
        if name is None:
            log.error(
                "Ignoring task configuration because task-%s couldn't be parsed as a task config key", rest
            )
            return ()
        if value is None:
            log.error("Ignoring task configuration for task %s because it is unexpectedly null", name)
            return ()
        configs = _properties(value, f"task {name}")
        if configs is not None:
            self._deferred.setdefault(name.connector, {})[name] = configs
        return ()

    def _commit(self, connector: str, value: Value) -> tuple[Change, ...]:
        applied = self._configs.get(connector)
        if applied is None:
            # KAFKA-16838: the connector was deleted, and compaction has removed what said so.
            self._forget(connector)
            return ()
        count = _count(value, "tasks", f"the tasks of the connector '{connector}'")
        if count is None:
            return ()
        deferred = self._deferred.get(connector)
        written: tuple[TaskName, ...] = ()
        if all(TaskName(connector, number) in (deferred or ()) for number in range(count)):
            if deferred is not None:
                self._tasks |= deferred
                written = tuple(deferred)
                self._generations[connector] = self._generations.get(connector, -1) + 1
            self._inconsistent.discard(connector)
            self._applied[connector] = applied
        else:
            self._inconsistent.add(connector)
        if deferred is not None:
            deferred.clear()
        self._counts[connector] = count
        self._pending_fencing.add(connector)
        return (TasksChanged(connector, written),)

    def _task_count(self, connector: str, value: Value) -> tuple[Change, ...]:
        count = _count(value, "task-count", f"the task count of the connector '{connector}'")
        if count is None:
            return ()
        self._count_records[connector] = count
        self._pending_fencing.discard(connector)
        return (TaskCountChanged(connector, count),)

    # -- the rest --

    def _restart(self, connector: str, value: Value) -> tuple[Change, ...]:
        if not isinstance(value, dict):
            log.error("Ignoring restart request because the value is not a Map but is %s", _kind(value))
            return ()
        only_failed, include_tasks = value.get("only-failed"), value.get("include-tasks")
        return (RestartAsked(connector, only_failed is True, include_tasks is True),)

    def _logger(self, namespace: str, value: Value) -> tuple[Change, ...]:
        level = value.get("level") if isinstance(value, dict) else None
        if not isinstance(level, str):
            log.error("Ignoring logging level for namespace %s because it is no text", namespace)
            return ()
        return (LoggerLevel(namespace, level),)

    def _session(self, value: Value) -> tuple[Change, ...]:
        key = _session_key_of(value)
        if key is None:
            return ()
        self._session_key = key
        return (SessionKeyChanged(key),)


_READERS: Final = (
    (records.TARGET_PREFIX, ConfigLog._target),
    (records.CONNECTOR_PREFIX, ConfigLog._connector),
    (records.TASK_PREFIX, ConfigLog._task),
    (records.COMMIT_PREFIX, ConfigLog._commit),
    (records.RESTART_PREFIX, ConfigLog._restart),
    (records.TASK_COUNT_PREFIX, ConfigLog._task_count),
    (records.LOGGER_PREFIX, ConfigLog._logger),
)


def task_of(text: str) -> TaskName | None:
    """The task that is named ``connector-number``; None: none is. Connectors may have hyphens in their names."""
    parts = text.split("-")
    while parts and not parts[-1]:
        parts.pop()  # as Java's split does
    if len(parts) < 2:
        return None
    try:
        return TaskName("-".join(parts[:-1]), parse_integer(parts[-1], _INT_BITS))
    except ValueError:
        return None


def _target_of(connector: str, value: Value) -> Target | None:
    if not isinstance(value, dict):
        log.error(
            "Ignoring target state for connector '%s' because it is in the wrong format: %s",
            connector,
            _kind(value),
        )
        return None
    name = value.get("state.v2")
    if not isinstance(name, str):  # a worker that knows nothing of STOPPED wrote it
        name = value.get("state")
    try:
        return Target(name)
    except ValueError:
        log.error("Invalid target state for connector '%s': %s", connector, name)
        return None


def _properties(value: Value, what: str) -> Configs | None:
    properties = value.get("properties") if isinstance(value, dict) else None
    if not isinstance(properties, dict):
        log.error("Ignoring the configuration of %s because it has no 'properties': %s", what, _kind(value))
        return None
    return properties


def _count(value: Value, name: str, what: str) -> int | None:
    count = value.get(name) if isinstance(value, dict) else None
    if not isinstance(count, int) or isinstance(count, bool):
        log.error("Ignoring %s because the count is no number: %s", what, _kind(value))
        return None
    return count


def _session_key_of(value: Value) -> SessionKey | None:
    fields: Sequence[Value] = ()
    if isinstance(value, dict):
        fields = [value.get(name) for name in ("key", "algorithm", "creation-timestamp")]
    match fields:
        case [str() as encoded, str() as algorithm, int() as created_ms] if not isinstance(created_ms, bool):
            try:
                return SessionKey(b64decode(encoded, validate=True), algorithm, created_ms)
            except binascii.Error as error:
                log.error("Ignoring session key because it cannot be decoded: %s", error)
        case _:
            log.error("Ignoring session key because it lacks a field, or one is of the wrong type")
    return None


def _kind(value: Value) -> str:
    return type(value).__name__
