"""What follows from what a classic group is asked; the shell performs it in the order of the list."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import Millis
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue
from pkafka.server.groups.events import Protocols


class JoinedMember(NamedTuple):
    """What the leader is told of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    """The content of a JoinGroup response. ``protocol_name`` None is "" before version 7."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """The content of a SyncGroup response."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeftMember(NamedTuple):
    """What became of one entry of a LeaveGroup request, named as it was named there."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


class LeaveResult(NamedTuple):
    """The content of a LeaveGroup response from version 3 on; older ones have one error, the first that is none."""

    error: ErrorCode
    members: list[LeftMember]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a request that waits: ``waiter`` is what was given to ``join`` or ``sync``. Each is answered once."""

    waiter: object
    result: JoinResult | SyncResult


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Append ``value`` under the group's key, and when that has an outcome, call ``Group.stored`` with this object.

    Answers that depend on it follow only then. Which of the kinds below it is matters to the group alone.
    """

    value: GroupMetadataValue


@dataclass(frozen=True, slots=True, eq=False)
class StoreAssignment(Store):
    """The leader's assignment of ``generation``, by member id; each is one of Kafka's completed rebalances."""

    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class StoreStaticRejoin(Store):
    """The new id of a static member that came back while the group is stable, and what to restore when that fails."""

    waiter: object
    instance_id: str
    member_id: str
    can_skip_assignment: bool
    former_member_id: str
    former_leader: str
    former_protocols: Protocols
    former_rebalance_timeout_ms: Millis
    former_session_timeout_ms: Millis


@dataclass(frozen=True, slots=True, eq=False)
class StoreEmpty(Store):
    """The last member went."""


Effect: TypeAlias = Answer | Store
