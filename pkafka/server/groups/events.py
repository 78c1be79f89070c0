"""What a classic group is asked: the facts of requests, without their versions' shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pkafka.model import Millis

UNKNOWN_MEMBER: Final = ""
"""The member id of who has none yet."""

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""(name, metadata) of the assignment protocols that a member knows, the preferred one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A JoinGroup request and who sent it.

    Attributes:
        member_id: :data:`UNKNOWN_MEMBER` at first.
        rebalance_timeout_ms: version 0 has none; the session timeout then.
        protocols: see :data:`Protocols`; copies, the group keeps them.
        client_host: as Kafka shows it, ``/127.0.0.1``.
        requires_known_member: whether a new dynamic member is first sent away with its id (KIP-394, version 4+).
        can_skip_assignment: whether the answer may have ``skip_assignment`` (KIP-814, version 9+).
        reason: for the log (KIP-800).
    """

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocol_type: str
    protocols: Protocols
    requires_known_member: bool
    can_skip_assignment: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A SyncGroup request; ``assignments`` by member id, empty from all but the leader.

    ``protocol_type`` and ``protocol_name`` are None where the version lacks them (before 5) or the client left them
    out.
    """

    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """One member of a LeaveGroup request; with :data:`UNKNOWN_MEMBER` the static member of ``instance_id`` is meant."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None
