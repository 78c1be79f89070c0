"""A classic group (GROUP-3..9, 13, 14, 20, 21): who is in it, in which state it is, and what follows from a request.

Not here: sockets, logs, offsets, timers. The shell hands in requests with the time, then takes the effects and performs
them in order, then sees to it that :meth:`Group.expire` is called at :attr:`Group.deadline_ms`. Every event may change
both. One owner at a time; nothing here waits.

Two clocks: ``now_ms`` of the events is monotonic and all deadlines are on it; ``wall_clock_ms`` gives the time of a
state, which is written to the log and outlives the process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pkafka.errors import ErrorCode
from pkafka.model import Millis
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue
from pkafka.server.groups.effects import Effect, JoinResult, LeaveResult, Store
from pkafka.server.groups.events import JoinRequest, Leaving, SyncRequest
from pkafka.server.groups.states import GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The broker's ``group.*`` keys, with their defaults."""

    initial_rebalance_delay_ms: Millis = 3_000
    min_session_timeout_ms: Millis = 6_000
    max_session_timeout_ms: Millis = 1_800_000
    max_size: int = 2_147_483_647


class MemberDescription(NamedTuple):
    """A member in a DescribeGroups response; metadata and assignment are empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group in a DescribeGroups response; ``protocol`` is "" unless it is stable."""

    state: GroupState
    protocol_type: str
    protocol: str
    members: list[MemberDescription]


def join_refusal(settings: GroupSettings, request: JoinRequest, *, group_exists: bool) -> JoinResult | None:
    """Why a join is refused before a group is looked into or made for it; None when it is to be handed to the group.

    A group that does not exist is made for a join without member id only.
    """
    raise NotImplementedError


class Group:
    """One group. Owned by the worker that leads its partition of __consumer_offsets.

    Args:
        group_id: of the group.
        settings: of the broker.
        wall_clock_ms: milliseconds since the epoch.
        new_uuid: makes the random part of a member id, a UUID in its text form.

    Attributes:
        state: see :class:`GroupState`.
        state_since_ms: wall clock; None when it was restored from a record that does not say.
        generation: of the members' assignment; 0 before the first.
        protocol_type: "consumer", "connect", ...; None before the first member.
        protocol: the chosen protocol's name; None while there is none.
        leader: its member id; None without members.
    """

    def __init__(
        self,
        group_id: str,
        settings: GroupSettings,
        *,
        wall_clock_ms: Callable[[], Millis],
        new_uuid: Callable[[], str],
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms: Millis | None = wall_clock_ms()
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None

    @classmethod
    def restore(
        cls,
        group_id: str,
        value: GroupMetadataValue,
        settings: GroupSettings,
        now_ms: Millis,
        *,
        wall_clock_ms: Callable[[], Millis],
        new_uuid: Callable[[], str],
    ) -> "Group":
        """A group as its last record has it, Stable or Empty; every session begins anew.

        A ``rebalance_timeout`` below 0 (records of version 0) is taken as the session timeout. A group larger than
        ``max_size`` rebalances at once.
        """
        raise NotImplementedError

    # -- what follows --

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        raise NotImplementedError

    @property
    def deadline_ms(self) -> Millis | None:
        """When to call :meth:`expire`, None: not at all. May be earlier than anything is due; ask again afterwards."""
        raise NotImplementedError

    def expire(self, now_ms: Millis) -> None:
        """Do what is due: the end of a rebalance's phase, of a session, of a pending member's time."""
        raise NotImplementedError

    # -- requests --

    def join(self, waiter: object, request: JoinRequest, now_ms: Millis) -> None:
        """JoinGroup; answered by an effect, now or later. Ask :func:`join_refusal` first."""
        raise NotImplementedError

    def sync(self, waiter: object, request: SyncRequest, now_ms: Millis) -> None:
        """SyncGroup; answered by an effect, now or later. UNKNOWN_MEMBER_ID where there is no such group."""
        raise NotImplementedError

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: Millis
    ) -> ErrorCode:
        """Heartbeat. UNKNOWN_MEMBER_ID where there is no such group."""
        raise NotImplementedError

    def leave(self, leaving: Sequence[Leaving], now_ms: Millis) -> LeaveResult:
        """LeaveGroup. UNKNOWN_MEMBER_ID for each where there is no such group."""
        raise NotImplementedError

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        now_ms: Millis,
        *,
        transactional: bool = False,
    ) -> ErrorCode:
        """Whether OffsetCommit (or TxnOffsetCommit) may go on; counts as a sign of life of the member.

        Where there is no such group, a commit makes one when ``generation`` is negative or the commit is
        transactional, and is refused with ILLEGAL_GENERATION otherwise.
        """
        raise NotImplementedError

    # -- the log --

    def stored(self, store: Store, error: ErrorCode, now_ms: Millis) -> None:
        """The outcome of a :class:`Store` effect: NONE, or the error of the append as the log had it."""
        raise NotImplementedError

    def unload(self) -> None:
        """The coordinator moved or the group was deleted: Dead; whoever waits is told NOT_COORDINATOR."""
        raise NotImplementedError

    # -- questions --

    @property
    def size(self) -> int:
        """The number of members."""
        raise NotImplementedError

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """What the members of the last generation subscribe; None when that is not known (then: possibly all)."""
        raise NotImplementedError

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the members consume ``topic``, or nobody can tell."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def describe(self) -> GroupDescription:
        """For DescribeGroups; a group that does not exist is Dead there, without anything."""
        raise NotImplementedError
