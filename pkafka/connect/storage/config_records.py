"""The records of a Connect cluster's config topic: their keys, and their values as Java's workers write them.

Pure: what the records mean together is in ``config_state``.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

from pkafka.connect.states import Target, TaskName
from pkafka.connect.storage.session_key import SessionKey
from pkafka.connect.storage.stored_json import encode_stored
from pkafka.java.hashing import hash_order

TARGET_PREFIX: Final = "target-state-"
CONNECTOR_PREFIX: Final = "connector-"
TASK_PREFIX: Final = "task-"
COMMIT_PREFIX: Final = "commit-"
TASK_COUNT_PREFIX: Final = "tasks-fencing-"
RESTART_PREFIX: Final = "restart-connector-"
LOGGER_PREFIX: Final = "logger-cluster-"
SESSION_KEY: Final = "session-key"


class ConfigRecord(NamedTuple):
    """A record as it is written; no value: a tombstone."""

    key: bytes
    value: bytes | None


def connector_record(name: str, configs: Mapping[str, str | None]) -> ConfigRecord:
    """What a connector is to be."""
    return _record(CONNECTOR_PREFIX + name, {"properties": dict(configs)})


def connector_tombstones(name: str) -> list[ConfigRecord]:
    """That a connector is gone, and what it was to do with it."""
    return [ConfigRecord(f"{prefix}{name}".encode(), None) for prefix in (CONNECTOR_PREFIX, TARGET_PREFIX)]


def task_record(name: TaskName, configs: Mapping[str, str | None]) -> ConfigRecord:
    """What a task is to be, from the next :func:`commit_record` of its connector on.

    The settings are in the order of a ``HashMap`` of Java, where Java's workers have those of tasks.
    """
    ordered = {key: configs[key] for key in hash_order(configs)}
    return _record(f"{TASK_PREFIX}{name}", {"properties": ordered})


def commit_record(connector: str, tasks: int) -> ConfigRecord:
    """That the tasks of a connector were written, and how many they are."""
    return _record(COMMIT_PREFIX + connector, {"tasks": tasks})


def target_record(connector: str, target: Target) -> ConfigRecord:
    """What a connector is to do. Workers that know nothing of STOPPED (KIP-875) read PAUSED."""
    known = Target.PAUSED if target is Target.STOPPED else target
    return _record(TARGET_PREFIX + connector, {"state": known.value, "state.v2": target.value})


def target_tombstone(connector: str) -> ConfigRecord:
    """That nothing is said of what a connector is to do; it is started then."""
    return ConfigRecord(f"{TARGET_PREFIX}{connector}".encode(), None)


def task_count_record(connector: str, tasks: int) -> ConfigRecord:
    """How many tasks of a connector have to be fenced before its next ones start (KIP-618)."""
    return _record(TASK_COUNT_PREFIX + connector, {"task-count": tasks})


def session_key_record(key: SessionKey) -> ConfigRecord:
    """The key by which workers sign what they ask of each other (KIP-507)."""
    value = {
        "key": b64encode(key.key).decode("ascii"),
        "algorithm": key.algorithm,
        "creation-timestamp": key.created_ms,
    }
    return _record(SESSION_KEY, value)


def restart_record(connector: str, *, only_failed: bool, include_tasks: bool) -> ConfigRecord:
    """That a connector is to start anew (KIP-745)."""
    return _record(RESTART_PREFIX + connector, {"include-tasks": include_tasks, "only-failed": only_failed})


def logger_record(namespace: str, level: str) -> ConfigRecord:
    """The level of a logger on all workers (KIP-976)."""
    return _record(LOGGER_PREFIX + namespace, {"level": level})


def _record(key: str, value: Mapping[str, object]) -> ConfigRecord:
    return ConfigRecord(key.encode(), encode_stored(value))
