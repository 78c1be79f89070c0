"""The loggers of one process and their levels in Kafka's words, for the broker-logger resource (KIP-412).

The names are pkafka's own: Kafka's loggers are Java classes. The supervisor carries a change to the broker's
other processes; those that start later inherit it from there.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.server.config.dynamic import Change, Operation

ROOT: Final = "root"

_LOG: Final = logging.getLogger(__name__)

_LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}

_IN_ROOMS: Final = {
    "cluster": ("metadata", "pulses", "sentinel"),
    "config": ("broker_loggers",),
    "control": ("adoption", "registration", "session_file", "to_controller"),
    "ipc": ("lifeline",),
    "processes": ("cleaner", "supervisor"),
    "replicas": ("delayed", "isr_changes"),
    "serving": ("dispatch",),
}

FORMER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        f"pkafka.server.{name}": (f"pkafka.server.{room}.{name}",)
        for room, names in _IN_ROOMS.items()
        for name in names
    },
    "pkafka.server.broker_channels": ("pkafka.server.control.local_channels",),
    "pkafka.server.compaction": ("pkafka.server.replicas.compaction_rounds",),
    "pkafka.server.config_repository": ("pkafka.server.config.repository",),
    "pkafka.server.control": ("pkafka.server.control", "pkafka.server.processes.control"),
    "pkafka.server.logs": (
        "pkafka.server.replicas.disks",
        "pkafka.server.replicas.flushing",
        "pkafka.server.replicas.opening",
        "pkafka.server.replicas.logs",
    ),
    "pkafka.server.groups.coordinator": (
        "pkafka.server.groups.coordinator",
        "pkafka.server.groups.restoring",
        "pkafka.server.coordinator.shards",
    ),
    "pkafka.server.groups.offsets_log": ("pkafka.server.coordinator.topic_reading",),
    "pkafka.server.metrics_server": ("pkafka.server.metrics.server",),
    "pkafka.server.partitions": ("pkafka.server.replicas.decisions",),
    "pkafka.server.replication.quota": ("pkafka.server.limits.replication_quota",),
    "pkafka.server.worker": (
        "pkafka.server.processes.worker",
        "pkafka.server.serving.clients",
        "pkafka.server.serving.drain",
        "pkafka.server.serving.live_settings",
        "pkafka.server.replicas.disks",
        "pkafka.server.ipc.tasks",
    ),
}
"""Names that operators may still set, and the loggers that write now what each of these wrote once."""


class ProcessLoggers:
    """The standard library's loggers in this process, and a way to those of the broker's other processes.

    Args:
        carry: called with a logger's name and its new level after each change.
    """

    def __init__(self, carry: Callable[[str, str | None], None] = lambda _name, _level: None) -> None:
        self._carry = carry

    def levels(self) -> Mapping[str, str]:
        """The effective level of each logger by name: packages and former names too, the root logger under ``root``."""
        names = sorted({*logging.root.manager.loggerDict, *FORMER_NAMES})
        levels = {name: _word(_loggers(name)[-1].getEffectiveLevel()) for name in names}
        return {ROOT: _word(logging.root.level), **levels}

    def set_level(self, name: str, level: str | None) -> None:
        """Set the level of a logger in every process; None: let it follow its parent again."""
        _apply(name, level)
        self._carry(name, level)


def set_log_level(name: str, level: str | None) -> None:
    """Take over in this process what another was asked for."""
    _apply(name, level)
    _LOG.info("log level of %s: %s", name, level or "its parent's")


def _apply(name: str, level: str | None) -> None:
    for logger in _loggers(name):
        logger.setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _loggers(name: str) -> list[logging.Logger]:
    if name == ROOT:
        return [logging.root]
    return [logging.getLogger(each) for each in FORMER_NAMES.get(name, (name,))]


def _word(level: int) -> str:
    return next((word for word, number in reversed(_LEVELS.items()) if level >= number), "TRACE")


def check_logger_changes(changes: list[Change], known: Mapping[str, str]) -> None:
    """Check the changes that IncrementalAlterConfigs asks for.

    Args:
        changes: logger names with levels.
        known: the loggers that exist.

    Raises:
        ApiError: INVALID_CONFIG for an unknown logger or level, INVALID_REQUEST for an operation that is not allowed.
    """
    for name, operation, level in changes:
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            word = Operation(operation).name
            sentence = f"{word} operation is not allowed for the BROKER_LOGGER resource"
            raise ApiError(ErrorCode.INVALID_REQUEST, sentence)
        if operation not in (Operation.SET, Operation.DELETE):
            sentence = f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource"
            raise ApiError(ErrorCode.INVALID_REQUEST, sentence)
        if name not in known:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if operation == Operation.DELETE and name == ROOT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
            )
        if operation == Operation.SET and level not in _LEVELS:
            sentence = (
                f"Cannot set the log level of {name} to {level} as it is not a supported log level."
                f" Valid log levels are {', '.join(sorted(_LEVELS))}"
            )
            raise ApiError(ErrorCode.INVALID_CONFIG, sentence)
