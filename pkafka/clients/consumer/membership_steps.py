"""What the machine of a group's member (``membership.py``) says: its states, its steps, its requests."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pkafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pkafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from pkafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from pkafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class MemberState(Enum):
    """Kafka's states of a member."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"


class Generation(NamedTuple):
    """The id and the generation by which the coordinator knows this member."""

    id: int = -1
    member_id: str = ""
    protocol: str | None = None


NO_GENERATION: Final = Generation()


class Coordinator(NamedTuple):
    """The broker that coordinates the group."""

    node: int
    host: str
    port: int


class Prepare(NamedTuple):
    """Give partitions up before joining: as lost, or in order. Then call :meth:`Membership.prepared`."""

    lost: bool


class Join(NamedTuple):
    """Send what :meth:`Membership.join` makes of the member's protocols."""


class Lead(NamedTuple):
    """Assign partitions to all members, unless that is to be skipped (KIP-814); then call :meth:`Membership.assign`."""

    protocol: str
    members: Sequence[JoinGroupResponseMember]
    skip: bool


class Complete(NamedTuple):
    """Take the assignment over; then call :meth:`Membership.completed`. Comes again until that is called."""

    generation: Generation
    assignment: bytes


Step: TypeAlias = Prepare | Join | Lead | Complete


Request: TypeAlias = (
    FindCoordinatorRequest | JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
)

Response: TypeAlias = (
    FindCoordinatorResponse | JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse
)
