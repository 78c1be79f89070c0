"""What connectors and tasks of a cluster say that they do, folded from its status topic, and when it may be said.

Pure: ``KafkaStatusBackingStore``'s rules. A generation is that of the group: the number of its last rebalance.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from pkafka.connect.data.types import Value
from pkafka.connect.errors import DataError
from pkafka.connect.states import State, TaskName
from pkafka.connect.storage.stored_json import decode_stored, encode_stored
from pkafka.java.numbers import parse_integer

log = logging.getLogger("org.apache.kafka.connect.storage.KafkaStatusBackingStore")

CONNECTOR_PREFIX: Final = "status-connector-"
TASK_PREFIX: Final = "status-task-"
TOPIC_PREFIX: Final = "status-topic-"
TOPIC_SEPARATOR: Final = ":connector-"
_INT_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """What a connector does.

    Args:
        name: of the connector.
        state: what it does; DESTROYED: nothing is to be known of it any more.
        worker_id: ``host:port`` of the worker that says so.
        generation: in which that worker says so.
        trace: why it failed.
    """

    name: str
    state: State
    worker_id: str
    generation: int
    trace: str | None = None

    @property
    def key(self) -> bytes:
        """Of its record."""
        return f"{CONNECTOR_PREFIX}{self.name}".encode()


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """What a task does; else as :class:`ConnectorStatus`."""

    name: TaskName
    state: State
    worker_id: str
    generation: int
    trace: str | None = None

    @property
    def key(self) -> bytes:
        """Of its record."""
        return f"{TASK_PREFIX}{self.name}".encode()


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """That a connector uses a topic.

    Args:
        topic: that is used.
        connector: by which.
        task: the number of the task that saw it first.
        discovered_ms: when, in milliseconds since the epoch.
    """

    topic: str
    connector: str
    task: int
    discovered_ms: int


class StatusRecord(NamedTuple):
    """A record as it is written; no value: a tombstone."""

    key: bytes
    value: bytes | None


Status = ConnectorStatus | TaskStatus
StatusT = TypeVar("StatusT", ConnectorStatus, TaskStatus)


def status_record(status: Status) -> StatusRecord:
    """The record of a status: a tombstone for DESTROYED."""
    if status.state is State.DESTROYED:
        return StatusRecord(status.key, None)
    value = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
    }
    return StatusRecord(status.key, encode_stored(value))


def topic_record(status: TopicStatus) -> StatusRecord:
    """The record that a connector uses a topic."""
    value = {
        "name": status.topic,
        "connector": status.connector,
        "task": status.task,
        "discoverTimestamp": status.discovered_ms,
    }
    return StatusRecord(_topic_key(status.topic, status.connector), encode_stored({"topic": value}))


def topic_tombstone(topic: str, connector: str) -> StatusRecord:
    """The record that it is forgotten whether a connector uses a topic."""
    return StatusRecord(_topic_key(topic, connector), None)


def _topic_key(topic: str, connector: str) -> bytes:
    return f"{TOPIC_PREFIX}{topic}{TOPIC_SEPARATOR}{connector}".encode()


class Entry(Generic[StatusT]):
    """What is known of one connector or task, and what this worker wrote of it last.

    It lasts as long as nobody says that the connector or task is gone: a write that is tried again looks at it.
    """

    __slots__ = ("is_gone", "sequence", "status")

    def __init__(self) -> None:
        self.status: StatusT | None = None
        self.sequence = 0
        """Counts what this worker has written."""
        self.is_gone = False

    def lets_write(self, status: Status) -> bool:
        """Whether a status hides nothing newer: none is known, it is the same worker's, or of no later generation."""
        known = self.status
        return known is None or known.worker_id == status.worker_id or known.generation <= status.generation


class Statuses:
    """Folds the records of a status topic. Not for several threads at once."""

    def __init__(self) -> None:
        self._connectors: dict[str, Entry[ConnectorStatus]] = {}
        self._tasks: dict[str, dict[int, Entry[TaskStatus]]] = {}
        self._topics: dict[str, dict[str, TopicStatus]] = {}

    # -- what is known --

    def connectors(self) -> list[str]:
        """The connectors of which something was written, be it of their tasks alone."""
        of_tasks = (name for name, tasks in self._tasks.items() if tasks)
        return list(dict.fromkeys([*self._connectors, *of_tasks]))

    def connector(self, name: str) -> ConnectorStatus | None:
        """What a connector does; None: nothing is known."""
        entry = self._connectors.get(name)
        return None if entry is None else entry.status

    def task(self, name: TaskName) -> TaskStatus | None:
        """What a task does; None: nothing is known."""
        entry = self._tasks.get(name.connector, {}).get(name.number)
        return None if entry is None else entry.status

    def tasks(self, connector: str) -> list[TaskStatus]:
        """What the tasks of a connector do, by number."""
        entries = (entry.status for _, entry in sorted(self._tasks.get(connector, {}).items()))
        return [status for status in entries if status is not None]

    def topic(self, connector: str, topic: str) -> TopicStatus | None:
        """Since when a connector uses a topic; None: it does not."""
        return self._topics.get(connector, {}).get(topic)

    def topics(self, connector: str) -> list[TopicStatus]:
        """The topics that a connector uses."""
        return list(self._topics.get(connector, {}).values())

    def entry(self, status: Status) -> Entry[ConnectorStatus] | Entry[TaskStatus]:
        """Where a status is kept; a new place when there is none."""
        if isinstance(status, ConnectorStatus):
            return self._connectors.setdefault(status.name, Entry())
        return self._task_entry(status.name)

    def _task_entry(self, name: TaskName) -> Entry[TaskStatus]:
        return self._tasks.setdefault(name.connector, {}).setdefault(name.number, Entry())

    # -- reading --

    def apply(self, key: bytes | None, value: bytes | None) -> Status | None:
        """Take the next record; what cannot be read is logged, and is nothing.

        Returns:
            What it says of a connector or a task, also where that is not believed; None: it says no such thing.
        """
        text = "" if key is None else key.decode(errors="replace")
        for prefix, read in _READERS:
            if text.startswith(prefix):
                return read(self, text, value)
        log.warning("Discarding record with invalid key %s", text)
        return None

    def _read_connector(self, key: str, value: bytes | None) -> ConnectorStatus | None:
        name = key.removeprefix(CONNECTOR_PREFIX)
        if not name:
            log.warning("Discarding record with invalid connector status key %s", key)
        elif value is None:
            self._remove_connector(name)
        elif (fields := _fields(value, "connector")) is not None:
            status = ConnectorStatus(name, *fields)
            self._connectors.setdefault(name, Entry()).status = status
            return status
        return None

    def _remove_connector(self, name: str) -> None:
        gone: list[Entry[ConnectorStatus] | Entry[TaskStatus]] = list(self._tasks.pop(name, {}).values())
        entry = self._connectors.pop(name, None)
        if entry is not None:
            gone.append(entry)
        for each in gone:
            each.is_gone = True

    def _read_task(self, key: str, value: bytes | None) -> TaskStatus | None:
        name = _task_of(key)
        if name is None:
            log.warning("Discarding record with invalid task status key %s", key)
        elif value is None:
            entry = self._tasks.get(name.connector, {}).pop(name.number, None)
            if entry is not None:
                entry.is_gone = True
        elif (fields := _fields(value, "task")) is None:
            log.warning("Failed to parse task status with key %s", key)
        else:
            status = TaskStatus(name, *fields)
            self._keep_task(status)
            return status
        return None

    def _keep_task(self, status: TaskStatus) -> None:
        entry = self._task_entry(status.name)
        known = entry.status
        # KAFKA-12495 and others: who gives a task away may say so after its new owner has begun.
        if (
            status.state is State.UNASSIGNED
            and known is not None
            and known.state is State.RUNNING
            and known.generation >= status.generation
        ):
            log.debug("Ignoring stale status %s in favour of more upto date status %s", status, known)
            return
        entry.status = status

    def _read_topic(self, key: str, value: bytes | None) -> None:
        # As Java looks for them: the first colon ends the topic, and as much is left out as the separator has.
        colon = key.find(":")
        topic = key[len(TOPIC_PREFIX) : colon] if colon >= len(TOPIC_PREFIX) else ""
        connector = key[colon + len(TOPIC_SEPARATOR) :]
        if not topic or not connector:
            log.warning("Discarding record with invalid topic status key %s", key)
        elif value is None:
            self._topics.get(connector, {}).pop(topic, None)
        elif (status := _topic_status(value)) is None:
            log.warning("Failed to parse topic status with key %s", key)
        else:
            self._topics.setdefault(connector, {})[topic] = status


_READERS: Final = (
    (CONNECTOR_PREFIX, Statuses._read_connector),
    (TASK_PREFIX, Statuses._read_task),
    (TOPIC_PREFIX, Statuses._read_topic),
)


def _task_of(key: str) -> TaskName | None:
    parts = key.split("-")
    while parts and not parts[-1]:
        parts.pop()  # as Java's split does
    if len(parts) < len(("status", "task", "connector", "number")):
        return None
    try:
        return TaskName("-".join(parts[2:-1]), parse_integer(parts[-1], _INT_BITS))
    except ValueError:
        return None


def _fields(value: bytes, what: str) -> tuple[State, str, int, str | None] | None:
    """State, worker, generation and trace of a record."""
    found = _decoded(value)
    match found:
        case {
            "state": str() as state,
            "worker_id": str() as worker_id,
            "generation": int() as generation,
        } if state in State.__members__:
            trace = found.get("trace")
            return State(state), worker_id, generation, trace if isinstance(trace, str) else None
    log.error("Failed to deserialize %s status: %s", what, found)
    return None


def _topic_status(value: bytes) -> TopicStatus | None:
    found = _decoded(value)
    match found:
        case {
            "topic": {
                "name": str() as topic,
                "connector": str() as connector,
                "task": int() as task,
                "discoverTimestamp": int() as discovered_ms,
            }
        }:
            return TopicStatus(topic, connector, task, discovered_ms)
    log.error("Failed to deserialize topic status: %s", found)
    return None


def _decoded(value: bytes) -> Value | Mapping[str, Value]:
    try:
        return decode_stored(value)
    except DataError as error:
        log.error("A status cannot be read: %s", error)
        return None
