"""A classic group: its members, its state, and the effects of each request.

The group knows no sockets, logs, offsets or timers. The coordinator hands in a request with the time, takes the
effects, performs them in order, and calls :meth:`Group.expire` at :attr:`Group.deadline_ms`. Every event may change the
effects and the deadline. A group has one owner at a time, and never waits.

There are two clocks. ``now_ms`` of the events is monotonic; all deadlines use it. ``wall_clock_ms`` gives the time of a
state, which is written to the log and outlives the process.

Three differences from Kafka. Kafka forgets a waiting request when its member sends it again, or is removed while it
waits for its assignment, so that a connection stays without an answer; this group answers each request. In Kafka a
member that names a protocol twice blocks its group. When a static member comes back before it has synced, Kafka waits
for its old id, and the group rebalances once more without need.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pkafka.errors import ErrorCode
from pkafka.model import Millis
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue, MemberMetadata
from pkafka.server.groups.deadlines import DeadlineKind
from pkafka.server.groups.effects import (
    Answer,
    JoinResult,
    LeaveResult,
    LeftMember,
    Store,
    StoreStaticRejoin,
    SyncResult,
)
from pkafka.server.groups.events import UNKNOWN_MEMBER, JoinRequest, Leaving, SyncRequest
from pkafka.server.groups.members import Member
from pkafka.server.groups.phases import NO_GENERATION, SYNC_DEADLINE, Phases, told_of
from pkafka.server.groups.states import GroupState

log = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS: Final[Millis] = 5 * 60 * 1_000
"""How long a member may wait for its first generation. It sends no heartbeats yet, so nothing else shows that its
client is gone."""

_SUPERSEDED: Final = ErrorCode.REBALANCE_IN_PROGRESS
"""Answers the waiting request of a member that sends another one. Its connection is probably gone; if not, the client
asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Holds the broker's ``group.*`` keys, with their defaults."""

    initial_rebalance_delay_ms: Millis = 3_000
    min_session_timeout_ms: Millis = 6_000
    max_session_timeout_ms: Millis = 1_800_000
    max_size: int = 2_147_483_647


class MemberDescription(NamedTuple):
    """Describes a member for DescribeGroups; metadata and assignment are empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """Describes a group for DescribeGroups; ``protocol`` is "" unless the group is stable."""

    state: GroupState
    protocol_type: str
    protocol: str
    members: list[MemberDescription]


def join_refusal(settings: GroupSettings, request: JoinRequest, *, group_exists: bool) -> JoinResult | None:
    """Check a join before the group is looked up or made. Only a join without a member id makes a group.

    Returns:
        The refusal; None when the group has to decide.
    """
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return JoinResult(error=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=request.member_id)
    if not group_exists and request.member_id != UNKNOWN_MEMBER:
        return JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id)
    return None


class Group(Phases):
    """Decides about one group. The worker that leads the group's partition of __consumer_offsets owns it.

    It inherits its phases, because requests and phases change the same members, state, deadlines and effects in
    turns: as a part, the phases would lend out all of them.

    Args:
        group_id: of the group.
        settings: of the broker.
        wall_clock_ms: milliseconds since the epoch.
        new_uuid: makes the random part of a member id, a UUID in its text form.

    Attributes:
        state: see :class:`GroupState`.
        state_since_ms: wall clock; None when the record from which the group was restored does not say.
        generation: of the members' assignment; 0 before the first.
        protocol_type: "consumer", "connect", ...; None before the first member.
        protocol: the chosen protocol's name; None while there is none.
        subscribed_topics: the topics that the members of the last generation subscribe to; None when unknown.
    """

    def __init__(
        self,
        group_id: str,
        settings: GroupSettings,
        *,
        wall_clock_ms: Callable[[], Millis],
        new_uuid: Callable[[], str],
    ) -> None:
        super().__init__(
            group_id,
            initial_rebalance_delay_ms=settings.initial_rebalance_delay_ms,
            wall_clock_ms=wall_clock_ms,
        )
        self._settings = settings
        self._new_uuid = new_uuid

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
        """Make a group from its last record, Stable or Empty; every session begins anew.

        A ``rebalance_timeout`` below 0, as in records of version 0, means the session timeout. A group larger than
        ``max_size`` rebalances at once.
        """
        group = cls(group_id, settings, wall_clock_ms=wall_clock_ms, new_uuid=new_uuid)
        group.state = GroupState.STABLE if value.members else GroupState.EMPTY
        group.state_since_ms = value.current_state_timestamp if value.current_state_timestamp >= 0 else None
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        members = group._members
        for each in value.members:
            instance_id = each.group_instance_id
            if each.member_id in members or (instance_id is not None and members.static_id(instance_id)):
                log.warning("Group %s: %s is twice in its record", group_id, each.member_id)
            else:
                members.add(_restored(each, value.protocol or ""))
        if value.leader is not None and value.leader in members:
            members.leader = value.leader
        group.subscribed_topics = group._subscriptions()
        if group.size > settings.max_size:
            group._prepare_rebalance(f"its {group.size} members are more than {settings.max_size}", now_ms)
        for member in members:
            group._begin_session(member, now_ms)
        return group

    # -- requests --

    def join(self, waiter: object, request: JoinRequest, now_ms: Millis) -> None:
        """JoinGroup; answered by an effect, now or later. Ask :func:`join_refusal` first."""
        if not self._has_room_for(request.member_id):
            self._forget(request.member_id)
            self._refuse_join(waiter, UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif self.state is GroupState.DEAD:
            self._refuse_join(waiter, request.member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not self._supports(request):
            self._refuse_join(waiter, request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id == UNKNOWN_MEMBER:
            self._join_unknown(waiter, request, now_ms)
        elif request.member_id in self._members.pending:
            self._join_pending(waiter, request, now_ms)
        else:
            self._join_known(waiter, request, now_ms)
        self._complete_join_if_all(now_ms)

    def sync(self, waiter: object, request: SyncRequest, now_ms: Millis) -> None:
        """SyncGroup; answered by an effect, now or later. UNKNOWN_MEMBER_ID where there is no such group."""
        error = self._check_sync(request)
        if error is ErrorCode.NONE and self.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            self._effects.append(Answer(waiter, SyncResult(error=error)))
            return
        member = self._members[request.member_id]
        self._members.pending_sync.pop(member.member_id, None)
        if not self._members.pending_sync:
            self._deadlines.cancel(SYNC_DEADLINE)
        if self.state is GroupState.STABLE:
            self._effects.append(Answer(waiter, self._share_of(member)))
            self._begin_session(member, now_ms)
            return
        self._answer_sync(member, SyncResult(error=_SUPERSEDED))
        member.sync_waiter = waiter
        if member.member_id == self.leader:
            self._store_assignment(request.assignments)

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: Millis
    ) -> ErrorCode:
        """Heartbeat. UNKNOWN_MEMBER_ID where there is no such group."""
        error = self._check_member(member_id, instance_id, generation)
        if error is not ErrorCode.NONE:
            return error
        self._begin_session(self._members[member_id], now_ms)
        rebalances = self.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE

    def leave(self, leaving: Sequence[Leaving], now_ms: Millis) -> LeaveResult:
        """LeaveGroup. UNKNOWN_MEMBER_ID for each where there is no such group."""
        if self.state is GroupState.DEAD:
            return LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
        return LeaveResult(
            ErrorCode.NONE,
            [LeftMember(each.member_id, each.instance_id, self._leave(each, now_ms)) for each in leaving],
        )

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        now_ms: Millis,
        *,
        transactional: bool = False,
    ) -> ErrorCode:
        """Check whether OffsetCommit or TxnOffsetCommit may go on; OffsetCommit counts as a sign of life of the member.

        For a group that does not exist the caller makes one when ``generation`` is negative or the commit is
        transactional, and refuses the commit with ILLEGAL_GENERATION otherwise.
        """
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE  # from an admin client, or from a consumer that assigns partitions itself
        if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            error = self._check_member(member_id, instance_id, generation)
            if error is not ErrorCode.NONE:
                return error
        elif not transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if transactional:
            return (
                ErrorCode.NONE
            )  # old versions of TxnOffsetCommit name no member, and no rebalance stops them
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._begin_session(self._members[member_id], now_ms)
        return ErrorCode.NONE

    # -- the log --

    # -- the log --

    def stored(self, store: Store, error: ErrorCode, now_ms: Millis) -> None:
        """Take the outcome of a :class:`Store` effect: NONE, or the error with which the append failed."""
        if isinstance(store, StoreStaticRejoin):
            self._static_rejoin_stored(store, told_of(error), now_ms)
        else:
            super().stored(store, error, now_ms)

    # -- questions --

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the members consume ``topic``; also true when their subscriptions are unknown."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def describe(self) -> GroupDescription:
        """Describe the group for DescribeGroups, which shows a group that does not exist as Dead and empty."""
        protocol = (self.protocol or "") if self.state is GroupState.STABLE else None
        members = [
            MemberDescription(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                b"" if protocol is None else each.metadata(protocol),
                b"" if protocol is None else each.assignment,
            )
            for each in self._members
        ]
        return GroupDescription(self.state, self.protocol_type or "", protocol or "", members)

    # -- what is refused --

    def _has_room_for(self, member_id: str) -> bool:
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            return True
        member = self._members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            # Only the members that wait count, so that a group that is too large refuses those that come back last.
            waits = member is not None and member.join_waiter is not None
            return waits or self._members.awaiting_join < self._settings.max_size
        return member is not None or self.size < self._settings.max_size

    def _supports(self, request: JoinRequest) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(request.protocol_type) and bool(request.protocols)
        same_type = self.protocol_type == request.protocol_type
        return same_type and self._members.all_support_one_of(request.protocols)

    def _check_sync(self, request: SyncRequest) -> ErrorCode:
        error = self._check_member(request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        if request.protocol_type not in (None, self.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name not in (None, self.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _check_member(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._check_identity(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _check_identity(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            current_id = self._members.static_id(instance_id)
            if current_id is not None and current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self._members else ErrorCode.UNKNOWN_MEMBER_ID

    # -- joining --

    def _join_unknown(self, waiter: object, request: JoinRequest, now_ms: Millis) -> None:
        prefix = request.client_id if request.instance_id is None else request.instance_id
        new_id = f"{prefix}-{self._new_uuid()}"
        if request.instance_id is None and request.requires_known_member:
            self._members.pending[new_id] = None
            self._deadlines.set((DeadlineKind.PENDING, new_id), now_ms + request.session_timeout_ms)
            self._refuse_join(waiter, new_id, ErrorCode.MEMBER_ID_REQUIRED)
        elif request.instance_id is None or self._members.static_id(request.instance_id) is None:
            self._add_member(waiter, new_id, request, now_ms)
        else:
            self._rejoin_static(waiter, new_id, request.instance_id, request, now_ms)

    def _join_pending(self, waiter: object, request: JoinRequest, now_ms: Millis) -> None:
        if request.instance_id is not None:
            # Only dynamic members get an id in advance. Kafka takes this request for a bug of its own:
            # UNKNOWN_SERVER_ERROR.
            self._refuse_join(waiter, UNKNOWN_MEMBER, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        self._deadlines.cancel((DeadlineKind.PENDING, request.member_id))
        self._add_member(waiter, request.member_id, request, now_ms)

    def _join_known(self, waiter: object, request: JoinRequest, now_ms: Millis) -> None:
        error = self._check_identity(request.member_id, request.instance_id)
        if error is not ErrorCode.NONE:
            self._refuse_join(waiter, request.member_id, error)
            return
        member = self._members[request.member_id]
        is_leader = member.member_id == self.leader
        unchanged = member.protocols == request.protocols
        if unchanged and self.state is GroupState.COMPLETING_REBALANCE:
            # The earlier answer may have been lost.
            members = self._joined_members() if is_leader else ()
            self._effects.append(Answer(waiter, self._generation_of(member, members)))
        elif unchanged and self.state is GroupState.STABLE and not is_leader:
            self._effects.append(Answer(waiter, self._generation_of(member)))
        else:
            # A leader that joins again asks for a rebalance: it may have seen, say, new partitions.
            self._update_member(member, waiter, request)
            self._rebalance_if_possible(f"{member.member_id} joins again{_because(request.reason)}", now_ms)

    def _add_member(self, waiter: object, member_id: str, request: JoinRequest, now_ms: Millis) -> None:
        if self.state is GroupState.PREPARING_REBALANCE and self.generation == NO_GENERATION:
            self._new_member_added = True
        if not self._members:
            self.protocol_type = request.protocol_type
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
            is_new=True,
            join_waiter=waiter,
        )
        self._members.add(member)
        self._deadlines.set((DeadlineKind.SESSION, member_id), now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance_if_possible(f"{member_id} joins{_because(request.reason)}", now_ms)

    def _update_member(self, member: Member, waiter: object, request: JoinRequest) -> None:
        self._answer_join(member, JoinResult(error=_SUPERSEDED, member_id=member.member_id))
        self._members.set_protocols(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self._members.park_join(member, waiter)

    def _refuse_join(self, waiter: object, member_id: str, error: ErrorCode) -> None:
        self._effects.append(Answer(waiter, JoinResult(error=error, member_id=member_id)))

    # -- static members --

    def _rejoin_static(
        self, waiter: object, new_id: str, instance_id: str, request: JoinRequest, now_ms: Millis
    ) -> None:
        """Give a static member that came back without its id a new one; the client with the old id is fenced
        (KIP-345)."""
        former_id, former_leader = self._members.static_id(instance_id), self.leader
        assert former_id is not None
        assert former_leader is not None
        member = self._rename_static(instance_id, new_id, now_ms)
        former = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        self._update_member(member, waiter, request)
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The leader's assignment may be on its way, for the old id.
            self._prepare_rebalance(f"{instance_id} came back{_because(request.reason)}", now_ms)
        elif self.state is GroupState.STABLE and self._members.vote() != self.protocol:
            self._prepare_rebalance(f"{instance_id} changes the vote{_because(request.reason)}", now_ms)
        elif self.state is GroupState.STABLE:
            # The other members need no rebalance, but the next coordinator has to know the new id.
            self._effects.append(
                StoreStaticRejoin(
                    self._value({each.member_id: each.assignment for each in self._members}),
                    waiter=waiter,
                    instance_id=instance_id,
                    member_id=new_id,
                    can_skip_assignment=request.can_skip_assignment,
                    former_member_id=former_id,
                    former_leader=former_leader,
                    former_protocols=former[0],
                    former_rebalance_timeout_ms=former[1],
                    former_session_timeout_ms=former[2],
                )
            )

    def _rename_static(self, instance_id: str, new_id: str, now_ms: Millis) -> Member:
        former_id = self._members.static_id(instance_id)
        assert former_id is not None
        member = self._members.rename_static(instance_id, new_id)
        self._answer_join(member, JoinResult(error=ErrorCode.FENCED_INSTANCE_ID, member_id=former_id))
        self._answer_sync(member, SyncResult(error=ErrorCode.FENCED_INSTANCE_ID))
        self._deadlines.cancel((DeadlineKind.SESSION, former_id))
        self._begin_session(member, now_ms)
        return member

    def _static_rejoin_stored(self, store: StoreStaticRejoin, error: ErrorCode, now_ms: Millis) -> None:
        member = self._members.get(store.member_id)
        if member is None or member.join_waiter is not store.waiter or self.state is not GroupState.STABLE:
            return  # the member left or was replaced, or waits for a rebalance that began meanwhile
        if error is not ErrorCode.NONE:
            log.warning("Group %s: %s could not be written: %s", self.group_id, store.member_id, error.name)
            failed = self._generation_of(member, leader=store.former_leader)
            self._answer_join(member, failed._replace(error=error, member_id=UNKNOWN_MEMBER))
            self._members.set_protocols(member, store.former_protocols)
            member.rebalance_timeout_ms = store.former_rebalance_timeout_ms
            member.session_timeout_ms = store.former_session_timeout_ms
            self._rename_static(store.instance_id, store.former_member_id, now_ms)
            return
        if not store.can_skip_assignment:
            # The leader is named by its old id, so that the client does not compute an assignment for a stable group.
            self._answer_join(member, self._generation_of(member, leader=store.former_leader))
        elif member.member_id == self.leader:
            members = self._joined_members()
            self._answer_join(member, self._generation_of(member, members, skip_assignment=True))
        else:
            self._answer_join(member, self._generation_of(member))
        if (DeadlineKind.SESSION, member.member_id) not in self._deadlines:
            self._begin_session(member, now_ms)  # the session ended while the record was being written

    # -- leaving --

    def _leave(self, leaving: Leaving, now_ms: Millis) -> ErrorCode:
        member_id = leaving.member_id
        if member_id == UNKNOWN_MEMBER:
            instance_id = leaving.instance_id
            current_id = None if instance_id is None else self._members.static_id(instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = current_id
        elif member_id in self._members.pending:
            self._remove_pending(member_id, now_ms)
            return ErrorCode.NONE
        else:
            error = self._check_identity(member_id, leaving.instance_id)
            if error is not ErrorCode.NONE:
                return error
        self._remove(member_id, f"{member_id} leaves{_because(leaving.reason)}", now_ms)
        return ErrorCode.NONE


def _restored(value: MemberMetadata, protocol: str) -> Member:
    timeout = value.session_timeout if value.rebalance_timeout < 0 else value.rebalance_timeout
    return Member(
        member_id=value.member_id,
        instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        session_timeout_ms=value.session_timeout,
        rebalance_timeout_ms=timeout,
        protocols=((protocol, bytes(value.subscription)),),
        assignment=bytes(value.assignment),
    )


def _because(reason: str | None) -> str:
    return "" if reason is None else f" ({reason})"
