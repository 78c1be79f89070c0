"""What a pk-* command ends with, and how ``PK_COMPAT=3.9`` brings back Kafka's own, less truthful, statuses."""

import os
from enum import IntEnum


class ExitStatus(IntEnum):
    """The statuses that scripts may rely on."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    UNREACHABLE = 3
    AUTHENTICATION = 4
    IN_PROGRESS = 5
    """What was begun before still goes on."""
    INTERRUPTED = 130
    TERMINATED = 143


def compat_39() -> bool:
    """Whether the caller wants the exit codes of Kafka 3.9, wrong zeros included."""
    return os.environ.get("PK_COMPAT") == "3.9"


def effective(status: int, *, kafka_says: int | None = None) -> int:
    """The status to end with.

    Args:
        status: the truthful one.
        kafka_says: the status of Kafka's tool in the same case; 1 for every failure when left out.
    """
    if not compat_39() or status in (ExitStatus.OK, ExitStatus.INTERRUPTED, ExitStatus.TERMINATED):
        return status
    return ExitStatus.FAILURE if kafka_says is None else kafka_says
