"""What connectors and tasks are called, do, and are to do; the names of states are those of the REST API."""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class TaskName(NamedTuple):
    """Names a task."""

    connector: str
    number: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.number}"


class State(Enum):
    """What a connector or a task does."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class Target(Enum):
    """What a connector is to do."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


INITIAL_STATES: Final[Mapping[str, Target]] = {
    "RUNNING": Target.STARTED,
    "PAUSED": Target.PAUSED,
    "STOPPED": Target.STOPPED,
}
"""What a new connector is to do, by the name that its definition has for it (KIP-980)."""
