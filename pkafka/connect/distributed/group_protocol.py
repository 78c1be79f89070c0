"""What the workers of a Connect cluster tell each other through their group: metadata and assignments, as bytes. Pure.

The protocols of the group type ``connect`` are ``default`` (version 0, eager), ``compatible`` (version 1, KIP-415) and
``sessioned`` (version 2, KIP-507). The coordinator looks into none of this. Bytes and order are those of Java's
``ConnectProtocol`` and ``IncrementalCooperativeConnectProtocol``, in Kafka 3.9.
"""

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from pkafka.connect.errors import ConfigError
from pkafka.connect.states import TaskName
from pkafka.errors import ProtocolError
from pkafka.java.hashing import copied_order, string_hash

PROTOCOL_TYPE: Final = "connect"
"""What groups of workers are, for the coordinator."""

NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""The leader is behind the configuration that another member has read: all read on, and join again."""

_CONNECTOR: Final = -1
"""Stands among the numbers of a connector's tasks for the connector itself."""
_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class Compatibility(IntEnum):
    """What ``connect.protocol`` may be; the number is the version of the protocol, the name in lower case its value."""

    EAGER = 0
    COMPATIBLE = 1
    SESSIONED = 2

    @property
    def protocol(self) -> str:
        """By which name members offer it."""
        return "default" if self is Compatibility.EAGER else self.name.lower()

    @classmethod
    def of(cls, value: str) -> "Compatibility":
        """The value of ``connect.protocol``, in any case.

        Raises:
            ConfigError: there is none of that name.
        """
        for each in cls:
            if each.name == value.upper():
                return each
        raise ConfigError.of("connect.protocol", value, "there are eager, compatible and sessioned")

    @classmethod
    def of_protocol(cls, protocol: str) -> "Compatibility":
        """The one that a group uses.

        Raises:
            ProtocolError: the coordinator names another protocol.
        """
        for each in cls:
            if each.protocol == protocol:
                return each
        raise ProtocolError(f"Not a protocol of Connect: {protocol!r}")


@dataclass(frozen=True, slots=True)
class ExtendedAssignment:
    """What a leader gives a worker and takes from it; or, in a worker's metadata, what that worker has.

    Args:
        version: of the protocol.
        error: 0, or :data:`CONFIG_MISMATCH`.
        leader: its member id.
        leader_url: of its REST API.
        config_offset: up to which the configuration must have been read to work on this.
        connectors: to run.
        tasks: to run.
        revoked_connectors: to stop; not in version 0, which gives everything anew.
        revoked_tasks: to stop; as well.
        delay_ms: join again after so long, when lost work may be given to others; 0: no need to.
    """

    version: int
    error: int
    leader: str
    leader_url: str
    config_offset: int
    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskName, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[TaskName, ...] = ()
    delay_ms: int = 0

    @property
    def failed(self) -> bool:
        """Whether nothing was assigned, since the leader did not know enough."""
        return self.error != NO_ERROR

    def after(self, owned: "ExtendedAssignment | None") -> "ExtendedAssignment":
        """What a worker has once it takes this over, in versions 1 and 2: what is new, and what it may keep.

        Args:
            owned: what it had; None: nothing.
        """
        if owned is None:
            return self
        lost, lost_tasks = set(self.revoked_connectors), set(self.revoked_tasks)
        kept = [name for name in owned.connectors if name not in lost]
        kept_tasks = [task for task in owned.tasks if task not in lost_tasks]
        return replace(
            self,
            connectors=tuple(dict.fromkeys([*self.connectors, *kept])),
            tasks=tuple(dict.fromkeys([*self.tasks, *kept_tasks])),
        )


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a worker says of itself when it joins.

    Args:
        url: of its REST API.
        config_offset: up to which it has read the configuration.
        assignment: what it has; None: nothing, or it does not say (version 0).
    """

    url: str
    config_offset: int
    assignment: ExtendedAssignment | None = None

    @property
    def connectors(self) -> tuple[str, ...]:
        """Those that it has."""
        return () if self.assignment is None else self.assignment.connectors

    @property
    def tasks(self) -> tuple[TaskName, ...]:
        """Those that it has."""
        return () if self.assignment is None else self.assignment.tasks


def offered(compatibility: Compatibility, state: WorkerState) -> list[tuple[str, bytes]]:
    """The protocols that a worker offers, with its metadata for each, in the order of preference."""
    versions = reversed([each for each in Compatibility if each <= compatibility])
    return [(each.protocol, encode_state(state, each)) for each in versions]


def encode_state(state: WorkerState, version: int) -> bytes:
    """The metadata of one protocol."""
    parts = [_INT16.pack(version), _string(state.url), _INT64.pack(state.config_offset)]
    if version >= Compatibility.COMPATIBLE:
        if state.assignment is None:
            parts.append(_INT32.pack(-1))
        else:
            had = encode_assignment(state.assignment, version)
            parts += [_INT32.pack(len(had)), had]
    return b"".join(parts)


def decode_state(data: bytes) -> tuple[int, WorkerState]:
    """A member's metadata, with the version in which it was written.

    What follows the known fields is ignored, and what is missing at the end has its default, as in Java.

    Raises:
        ProtocolError: the bytes are no metadata.
    """
    reader = _Reader(data)
    version = reader.version()
    url, offset = reader.string(), reader.number(_INT64)
    had = None
    if not reader.at_end and (size := reader.number(_INT32)) >= 0:
        had = decode_assignment(reader.take(size))
    return version, WorkerState(url, offset, had)


def encode_assignment(assignment: ExtendedAssignment, version: int) -> bytes:
    """An assignment, for one protocol."""
    parts = [
        _INT16.pack(version),
        _INT16.pack(assignment.error),
        _string(assignment.leader),
        _string(assignment.leader_url),
        _INT64.pack(assignment.config_offset),
        # Java walks a set that it makes of the names here, and of those to be revoked the names as they are.
        _work(copied_order(assignment.connectors, string_hash), assignment.tasks),
    ]
    if version >= Compatibility.COMPATIBLE:
        revoked = dict.fromkeys(assignment.revoked_connectors)
        parts += [_work(revoked, assignment.revoked_tasks), _INT32.pack(assignment.delay_ms)]
    return b"".join(parts)


def decode_assignment(data: bytes) -> ExtendedAssignment:
    """An assignment of any version.

    Raises:
        ProtocolError: the bytes are no assignment.
    """
    reader = _Reader(data)
    version = reader.version()
    error = reader.number(_INT16)
    leader, leader_url = reader.string(), reader.string()
    offset = reader.number(_INT64)
    connectors, tasks = reader.work()
    revoked_connectors, revoked_tasks = reader.work()
    delay_ms = 0 if reader.at_end else reader.number(_INT32)
    return ExtendedAssignment(
        version,
        error,
        leader,
        leader_url,
        offset,
        connectors,
        tasks,
        revoked_connectors,
        revoked_tasks,
        delay_ms,
    )


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _work(connectors: Iterable[str], tasks: Collection[TaskName]) -> bytes:
    """Connectors and tasks, by connector."""
    numbers: dict[str, list[int]] = {name: [_CONNECTOR] for name in connectors}
    for task in tasks:
        numbers.setdefault(task.connector, []).append(task.number)
    parts = [_INT32.pack(len(numbers))]
    for name, own in numbers.items():
        parts += [_string(name), _INT32.pack(len(own)), *map(_INT32.pack, own)]
    return b"".join(parts)


class _Reader:
    """Takes values from bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if size < 0 or len(taken) != size:
            raise ProtocolError(f"{len(self._data)} bytes of a Connect group end too early")
        self._at += size
        return taken

    def number(self, kind: struct.Struct) -> int:
        (found,) = kind.unpack(self.take(kind.size))
        return int(found)

    def version(self) -> int:
        version = self.number(_INT16)
        if version < 0:
            raise ProtocolError(f"Unsupported subscription version: {version}")
        return version

    def string(self) -> str:
        try:
            return self.take(self.number(_INT16)).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"A name in the metadata of a Connect group is not UTF-8: {error}") from error

    def work(self) -> tuple[tuple[str, ...], tuple[TaskName, ...]]:
        """Connectors and tasks; none where the bytes have ended, or say null."""
        connectors: list[str] = []
        tasks: list[TaskName] = []
        for _ in range(0 if self.at_end else max(0, self.number(_INT32))):
            name = self.string()
            for number in self._numbers():
                if number == _CONNECTOR:
                    connectors.append(name)
                else:
                    tasks.append(TaskName(name, number))
        return tuple(connectors), tuple(tasks)

    def _numbers(self) -> Sequence[int]:
        count = self.number(_INT32)
        return struct.unpack(f">{count}i", self.take(count * _INT32.size)) if count > 0 else ()
