"""What a worker and the processes of its tasks tell and ask each other.

A message is a tuple with a type, of what msgpack can write. ``run`` numbers each start of a connector or a task, so
that what is said of one that was left behind is not taken for a word of its successor.
"""

from typing import Any, Final, NamedTuple

import msgpack

from pkafka.connect.errors import ConfigError, ConnectError, RetriableError, TooManyTasksError
from pkafka.connect.traces import foreign_trace, trace_of

Message = tuple[Any, ...]
"""One of the types below."""


# -- worker to host --


class StartConnector(NamedTuple):
    """Make a connector and bring it where it is to be; answered when it is made."""

    run: int
    name: str
    configs: dict[str, str]
    target: str


class AimConnector(NamedTuple):
    """Bring a connector to another target; it tells by :class:`ConnectorReached`."""

    run: int
    target: str


class FailConnector(NamedTuple):
    """The worker has found that a connector cannot go on."""

    run: int
    kind: str
    text: str
    trace: str


class AskForTasks(NamedTuple):
    """The configurations of a connector's tasks; answered with a list."""

    run: int


class StopConnector(NamedTuple):
    """End a connector; answered with whether it has ended in time."""

    run: int


class StartTask(NamedTuple):
    """Make a task and start it; answered when it is made."""

    run: int
    connector: str
    number: int
    configs: dict[str, str]
    task_configs: dict[str, str]
    target: str
    is_exact: bool
    """Whether a source writes exactly once."""


class AimTask(NamedTuple):
    """Pause a task, or have it go on."""

    run: int
    target: str


class StopTask(NamedTuple):
    """End a task; answered with whether it has ended in time."""

    run: int


class CountTasks(NamedTuple):
    """What tasks have counted; answered with a list of ``[connector, number, counters, metrics]``."""


class TellLoad(NamedTuple):
    """How busy the process is; answered with ``[seconds of CPU, [[connector, number, records], ...]]``."""


class SetLevel(NamedTuple):
    """The level of a logger."""

    logger: str
    level: int


class End(NamedTuple):
    """End all that runs; answered when it has."""


# -- host to worker --


class ConnectorSaid(NamedTuple):
    """The state of a connector, with the trace of a failure."""

    run: int
    state: str
    trace: str | None


class ConnectorReached(NamedTuple):
    """A connector is where it was to be, or failed on the way."""

    run: int
    state: str


class WantsTasks(NamedTuple):
    """A connector says that its tasks have changed."""

    run: int


class TaskSaid(NamedTuple):
    """The state of a task, with the trace of a failure."""

    run: int
    state: str
    trace: str | None


class UsedTopic(NamedTuple):
    """A task has written to a topic, or read from it."""

    connector: str
    number: int
    topic: str


class Fence(NamedTuple):
    """Have the producers of former tasks fenced; answered when that is done."""

    run: int


class SeeThatMine(NamedTuple):
    """Look whether a task may write still; answered when it may, with a failure when not."""

    run: int


class RefreshOffsets(NamedTuple):
    """Read what others have stored; answered when that is done."""


class GetOffset(NamedTuple):
    """A stored value; answered with it, or None."""

    key: bytes


class AllOffsets(NamedTuple):
    """All that is stored; answered with a map."""


class PutOffsets(NamedTuple):
    """Store values; answered when they are safe."""

    entries: dict[bytes, bytes | None]


_TYPES: Final[tuple[type[Any], ...]] = (
    StartConnector, AimConnector, FailConnector, AskForTasks, StopConnector, StartTask, AimTask, StopTask, CountTasks,
    TellLoad, SetLevel, End, ConnectorSaid, ConnectorReached, WantsTasks, TaskSaid, UsedTopic, Fence, SeeThatMine,
    RefreshOffsets, GetOffset, AllOffsets, PutOffsets,
)  # fmt: skip
_TAGS: Final = {kind: tag for tag, kind in enumerate(_TYPES)}


def encode(value: object) -> bytes:
    """A value as bytes.

    Raises:
        TypeError, ValueError, OverflowError: it cannot be written.
    """
    packed: bytes = msgpack.packb(value, unicode_errors="surrogatepass")
    return packed


def decode(data: bytes) -> Any:  # noqa: ANN401 - whatever was encoded
    """The value of bytes."""
    return msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogatepass")


def fields(message: Message) -> list[object]:
    """A message as what :func:`encode` takes."""
    return [_TAGS[type(message)], *message]


def message_of(found: list[Any]) -> Message:
    """The message again."""
    message: Message = _TYPES[found[0]](*found[1:])
    return message


# -- failures --

_KINDS: Final[dict[str, type[Exception]]] = {
    kind.__name__: kind for kind in (ConnectError, RetriableError, TooManyTasksError, ConfigError)
}


def failure(error: BaseException) -> tuple[str, str, str]:
    """An exception as kind, text and trace."""
    kind = next((each.__name__ for each in type(error).__mro__ if each.__name__ in _KINDS), "ConnectError")
    return kind, str(error), trace_of(error)


def raised(kind: str, text: str, trace: str) -> Exception:
    """The exception again, as one of this process; its trace stays that of the other one."""
    return foreign_trace(_KINDS.get(kind, ConnectError)(text), trace)
