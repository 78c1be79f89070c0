"""The requests to a classic group: their facts, independent of the versions of the messages."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from pkafka.model import Millis

UNKNOWN_MEMBER: Final = ""
"""The member id in the request of a client that has none yet."""

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Name and metadata of the assignment protocols that a member supports, the preferred one first."""
_NO_ASSIGNMENTS: Final[Mapping[str, bytes]] = {}


class JoinRequest(NamedTuple):
    """Holds a JoinGroup request and facts about its sender.

    Attributes:
        member_id: :data:`UNKNOWN_MEMBER` at first.
        rebalance_timeout_ms: in version 0, which has none, the session timeout.
        protocols: see :data:`Protocols`; the group keeps them, so they must be copies.
        client_host: as Kafka shows it, ``/127.0.0.1``.
        requires_known_member: whether a new dynamic member is first sent away with its id (KIP-394, version 4+).
        can_skip_assignment: whether the answer may have ``skip_assignment`` (KIP-814, version 9+).
        reason: for the log (KIP-800).
    """

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocol_type: str
    protocols: Protocols
    requires_known_member: bool
    can_skip_assignment: bool
    instance_id: str | None = None
    reason: str | None = None


class SyncRequest(NamedTuple):
    """Holds a SyncGroup request; ``assignments`` is by member id, and empty from every member but the leader.

    ``protocol_type`` and ``protocol_name`` are None where the version lacks them (before 5) or the client left them
    out.
    """

    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = _NO_ASSIGNMENTS


class Leaving(NamedTuple):
    """Names one member of a LeaveGroup request: by its id, or with :data:`UNKNOWN_MEMBER` by its ``instance_id``."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None
