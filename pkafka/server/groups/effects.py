"""The effects of requests to a classic group; the coordinator performs them in the order of the list."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import Millis
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue
from pkafka.server.groups.events import Protocols


class JoinedMember(NamedTuple):
    """Holds what the group's leader hears about a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """Holds the content of a JoinGroup response. ``protocol_name`` None is "" before version 7."""

    member_id: str
    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncResult(NamedTuple):
    """Holds the content of a SyncGroup response."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeftMember(NamedTuple):
    """Holds the outcome of one entry of a LeaveGroup request, which it names as the request does."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


class LeaveResult(NamedTuple):
    """Holds the content of a LeaveGroup response from version 3 on; older versions have only the first error."""

    error: ErrorCode
    members: list[LeftMember]


class Answer(NamedTuple):
    """Answer a request that waits: ``waiter`` is the object given to ``join`` or ``sync``. Each is answered once."""

    waiter: object
    result: JoinResult | SyncResult


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Append ``value`` under the group's key, and call ``Group.stored`` with this object when the outcome is known.

    Answers that depend on the record follow only then. Only the group needs to know which of the kinds below it is.
    """

    value: GroupMetadataValue


@dataclass(frozen=True, slots=True, eq=False)
class StoreAssignment(Store):
    """Stores the leader's assignment of ``generation``, by member id; Kafka counts each as a completed rebalance."""

    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class StoreStaticRejoin(Store):
    """Stores the new id of a static member that came back to a stable group; has what to restore when that fails."""

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
    """Stores that the last member has left."""


Effect: TypeAlias = Answer | Store
