"""A classic group (GROUP-3..9, 13, 14, 20, 21): who is in it, in which state it is, and what follows from a request.

Not here: sockets, logs, offsets, timers. The shell hands in requests with the time, then takes the effects and performs
them in order, then sees to it that :meth:`Group.expire` is called at :attr:`Group.deadline_ms`. Every event may change
both. One owner at a time; nothing here waits.

Two clocks: ``now_ms`` of the events is monotonic and all deadlines are on it; ``wall_clock_ms`` gives the time of a
state, which is written to the log and outlives the process.

Where this is not Kafka: it forgets a request whose member sends the same one again, or is removed while it waits for
its assignment, and so leaves a connection without an answer; here each is answered.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pkafka.errors import ErrorCode
from pkafka.model import Millis
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue, MemberMetadata
from pkafka.server.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from pkafka.server.groups.effects import (
    Answer,
    Effect,
    JoinedMember,
    JoinResult,
    LeaveResult,
    LeftMember,
    Store,
    StoreAssignment,
    StoreEmpty,
    StoreStaticRejoin,
    SyncResult,
)
from pkafka.server.groups.events import UNKNOWN_MEMBER, JoinRequest, Leaving, SyncRequest
from pkafka.server.groups.members import Member, Members
from pkafka.server.groups.states import PREDECESSORS, GroupState
from pkafka.server.groups.subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics

log = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS: Final[Millis] = 5 * 60 * 1_000
"""How long a member without a generation may wait for one; its client may be gone, and nothing else would tell."""

_NO_GENERATION: Final = 0
_JOIN: Final[DeadlineKey] = (DeadlineKind.JOIN, "")
_SYNC: Final[DeadlineKey] = (DeadlineKind.SYNC, "")

_SUPERSEDED: Final = ErrorCode.REBALANCE_IN_PROGRESS
"""For who waits when the same member asks anew; most likely its connection is gone, else it may ask again as well."""

_STORE_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What members are told of an append that failed; other errors as they are."""


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
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return JoinResult(error=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=request.member_id)
    if not group_exists and request.member_id != UNKNOWN_MEMBER:
        return JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id)
    return None


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
        subscribed_topics: what the members of the last generation subscribe; None when that is not known.
        assignments_received: how many came from leaders since this object was made, Kafka's completed rebalances.
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
        self.generation = _NO_GENERATION
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.assignments_received = 0
        self._settings = settings
        self._wall_clock_ms = wall_clock_ms
        self._new_uuid = new_uuid
        self._members = Members()
        self._deadlines = Deadlines()
        self._effects: list[Effect] = []
        # The first rebalance of an empty group may be put off: how long this time, and how much longer at most.
        self._initial_delay: tuple[Millis, Millis] | None = None
        self._new_member_added = False

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
        group = cls(group_id, settings, wall_clock_ms=wall_clock_ms, new_uuid=new_uuid)
        group.state = GroupState.STABLE if value.members else GroupState.EMPTY
        group.state_since_ms = value.current_state_timestamp if value.current_state_timestamp >= 0 else None
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        members = group._members
        for each in value.members:
            members.add(_restored(each, value.protocol or ""))
        if value.leader is not None and value.leader in members:
            members.leader = value.leader
        group.subscribed_topics = group._subscriptions()
        if group.size > settings.max_size:
            group._prepare_rebalance(f"its {group.size} members are more than {settings.max_size}", now_ms)
        for member in members:
            group._begin_session(member, now_ms)
        return group

    # -- what follows --

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def deadline_ms(self) -> Millis | None:
        """When to call :meth:`expire`, None: not at all. May be earlier than anything is due; ask again afterwards."""
        return self._deadlines.earliest_ms

    def expire(self, now_ms: Millis) -> None:
        """Do what is due: the end of a rebalance's phase, of a session, of a pending member's time."""
        while (due := self._deadlines.pop(now_ms)) is not None:
            kind, member_id = due
            if kind is DeadlineKind.JOIN:
                self._expire_join(now_ms)
            elif kind is DeadlineKind.SYNC:
                self._expire_sync(now_ms)
            elif kind is DeadlineKind.SESSION:
                self._expire_session(member_id, now_ms)
            else:
                log.info("Group %s: pending member %s never joined", self.group_id, member_id)
                self._remove_pending(member_id, now_ms)

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
        self._members.pending_sync.discard(member.member_id)
        if not self._members.pending_sync:
            self._deadlines.cancel(_SYNC)
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
        """Whether OffsetCommit (or TxnOffsetCommit) may go on; the former counts as a sign of life of the member.

        Where there is no such group, a commit makes one when ``generation`` is negative or the commit is
        transactional, and is refused with ILLEGAL_GENERATION otherwise.
        """
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE  # of the admin client, or of a consumer that assigns itself
        if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            error = self._check_member(member_id, instance_id, generation)
            if error is not ErrorCode.NONE:
                return error
        elif not transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if transactional:
            return ErrorCode.NONE  # its old versions do not say who commits, and a rebalance does not stop it
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._begin_session(self._members[member_id], now_ms)
        return ErrorCode.NONE

    # -- the log --

    def stored(self, store: Store, error: ErrorCode, now_ms: Millis) -> None:
        """The outcome of a :class:`Store` effect: NONE, or the error of the append as the log had it."""
        error = _STORE_ERRORS.get(error, error)
        if isinstance(store, StoreAssignment):
            self._assignment_stored(store, error, now_ms)
        elif isinstance(store, StoreStaticRejoin):
            self._static_rejoin_stored(store, error, now_ms)
        elif error is not ErrorCode.NONE:
            # Should the broker fail now, the members of before are loaded, and go when their sessions end.
            log.warning("Group %s: that it is empty could not be written: %s", self.group_id, error.name)

    def unload(self) -> None:
        """The coordinator moved or the group was deleted: Dead; whoever waits is told NOT_COORDINATOR."""
        log.info("Group %s: unloaded at generation %d", self.group_id, self.generation)
        self._become(GroupState.DEAD)
        for member in self._members:
            self._answer_join(member, JoinResult(error=ErrorCode.NOT_COORDINATOR, member_id=member.member_id))
            self._answer_sync(member, SyncResult(error=ErrorCode.NOT_COORDINATOR))
        self._deadlines.clear()

    # -- questions --

    @property
    def leader(self) -> str | None:
        """The member id of who computes the assignment; None without members."""
        return self._members.leader

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self._members)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the members consume ``topic``, or nobody can tell."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def describe(self) -> GroupDescription:
        """For DescribeGroups; a group that does not exist is Dead there, without anything."""
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
            # Those who wait are counted, so that a group that is too large sends away the last ones to come back.
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
            self._members.pending.add(new_id)
            self._deadlines.set((DeadlineKind.PENDING, new_id), now_ms + request.session_timeout_ms)
            self._refuse_join(waiter, new_id, ErrorCode.MEMBER_ID_REQUIRED)
        elif request.instance_id is None or self._members.static_id(request.instance_id) is None:
            self._add_member(waiter, new_id, request, now_ms)
        else:
            self._rejoin_static(waiter, new_id, request.instance_id, request, now_ms)

    def _join_pending(self, waiter: object, request: JoinRequest, now_ms: Millis) -> None:
        if request.instance_id is not None:
            # Only dynamic members are given an id in advance; Kafka takes this for a bug of its own, and says so.
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
            # The answer may have been lost.
            members = self._joined_members() if is_leader else ()
            self._effects.append(Answer(waiter, self._generation_of(member, members)))
        elif unchanged and self.state is GroupState.STABLE and not is_leader:
            self._effects.append(Answer(waiter, self._generation_of(member)))
        else:
            # A leader that joins again wants a rebalance: it may have seen what no metadata shows, as new partitions.
            self._update_member(member, waiter, request)
            self._rebalance_if_possible(f"{member.member_id} joins again{_because(request.reason)}", now_ms)

    def _add_member(self, waiter: object, member_id: str, request: JoinRequest, now_ms: Millis) -> None:
        if self.state is GroupState.PREPARING_REBALANCE and self.generation == _NO_GENERATION:
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
        """A static member came back without its id: it gets another, and who has the old one is fenced (KIP-345)."""
        former_id, former_leader = self._members.static_id(instance_id), self.leader
        assert former_id is not None
        assert former_leader is not None
        member = self._rename_static(instance_id, new_id, now_ms)
        former = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        self._update_member(member, waiter, request)
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be about to assign to the old id.
            self._prepare_rebalance(f"{instance_id} came back{_because(request.reason)}", now_ms)
        elif self.state is GroupState.STABLE and self._members.vote() != self.protocol:
            self._prepare_rebalance(f"{instance_id} changes the vote{_because(request.reason)}", now_ms)
        elif self.state is GroupState.STABLE:
            # Nobody else has to know, but the id has to outlive this coordinator.
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
            return  # it went or was replaced, with an answer, or waits for a rebalance that began meanwhile
        if error is not ErrorCode.NONE:
            log.warning("Group %s: %s could not be written: %s", self.group_id, store.member_id, error.name)
            failed = self._generation_of(member, leader=store.former_leader)
            self._answer_join(member, replace(failed, error=error, member_id=UNKNOWN_MEMBER))
            self._members.set_protocols(member, store.former_protocols)
            member.rebalance_timeout_ms = store.former_rebalance_timeout_ms
            member.session_timeout_ms = store.former_session_timeout_ms
            self._rename_static(store.instance_id, store.former_member_id, now_ms)
            return
        if not store.can_skip_assignment:
            # A leader that does not recognize itself cannot compute an assignment, which a stable group would not take.
            self._answer_join(member, self._generation_of(member, leader=store.former_leader))
        elif member.member_id == self.leader:
            members = self._joined_members()
            self._answer_join(member, self._generation_of(member, members, skip_assignment=True))
        else:
            self._answer_join(member, self._generation_of(member))
        if (DeadlineKind.SESSION, member.member_id) not in self._deadlines:
            self._begin_session(member, now_ms)  # it ended while the record was being written

    # -- a rebalance's two phases --

    def _rebalance_if_possible(self, why: str, now_ms: Millis) -> None:
        if self.state in PREDECESSORS[GroupState.PREPARING_REBALANCE]:
            self._prepare_rebalance(why, now_ms)

    def _prepare_rebalance(self, why: str, now_ms: Millis) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._refuse_assignment(ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        self._members.pending_sync.clear()
        self._deadlines.cancel(_SYNC)
        timeout_ms = self._members.rebalance_timeout_ms
        if self.state is GroupState.EMPTY:
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._initial_delay = delay_ms, max(timeout_ms - delay_ms, 0)
            self._deadlines.set(_JOIN, now_ms + delay_ms)
        else:
            self._initial_delay = None
            self._deadlines.set(_JOIN, now_ms + timeout_ms)
        log.info(
            "Group %s: prepares to rebalance, was %s at generation %d: %s",
            self.group_id,
            self.state,
            self.generation,
            why,
        )
        self._become(GroupState.PREPARING_REBALANCE)
        self._complete_join_if_all(now_ms)

    def _complete_join_if_all(self, now_ms: Millis) -> None:
        waits = self.state is GroupState.PREPARING_REBALANCE and self._initial_delay is None
        if waits and self._members.all_joined:
            self._complete_join(now_ms)

    def _expire_join(self, now_ms: Millis) -> None:
        if self._initial_delay is not None and self._new_member_added and self._initial_delay[1]:
            self._new_member_added = False
            former_ms, left_ms = self._initial_delay
            delay_ms = min(self._settings.initial_rebalance_delay_ms, left_ms)
            self._initial_delay = delay_ms, max(left_ms - former_ms, 0)
            self._deadlines.set(_JOIN, now_ms + delay_ms)
        else:
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: Millis) -> None:
        self._deadlines.cancel(_JOIN)
        self._initial_delay = None
        for member in list(self._members):
            if member.join_waiter is None and member.instance_id is None:
                log.info("Group %s: %s did not join again in time", self.group_id, member.member_id)
                self._forget(member.member_id)
        if not self._members.elect_joined_leader() and self._members:
            # Only static members are left, and none came back. Their sessions' ends will decide.
            self._deadlines.set(_JOIN, now_ms + max(self._members.rebalance_timeout_ms, 1))
            return
        self.generation += 1
        self._members.pending_sync.clear()
        if self._members:
            self._begin_generation(now_ms)
        else:
            self.protocol = None
            self.subscribed_topics = self._subscriptions()
            self._become(GroupState.EMPTY)
            log.info("Group %s: empty at generation %d", self.group_id, self.generation)
            self._effects.append(StoreEmpty(self._value({})))

    def _begin_generation(self, now_ms: Millis) -> None:
        self.protocol = self._members.vote()
        self.subscribed_topics = self._subscriptions()
        self._become(GroupState.COMPLETING_REBALANCE)
        log.info("Group %s: generation %d with %d members", self.group_id, self.generation, self.size)
        for member in self._members:
            members = self._joined_members() if member.member_id == self.leader else ()
            self._answer_join(member, self._generation_of(member, members))
            self._begin_session(member, now_ms)
            member.is_new = False
            self._members.pending_sync.add(member.member_id)
        self._deadlines.set(_SYNC, now_ms + self._members.rebalance_timeout_ms)

    def _expire_sync(self, now_ms: Millis) -> None:
        late = sorted(self._members.pending_sync)
        if late:
            for member_id in late:
                self._forget(member_id)
            self._prepare_rebalance(f"no SyncGroup came from {', '.join(late)}", now_ms)

    def _store_assignment(self, given: Mapping[str, bytes]) -> None:
        assignments = {member.member_id: given.get(member.member_id, b"") for member in self._members}
        self.assignments_received += 1
        self._effects.append(
            StoreAssignment(self._value(assignments), generation=self.generation, assignments=assignments)
        )

    def _assignment_stored(self, store: StoreAssignment, error: ErrorCode, now_ms: Millis) -> None:
        if self.state is not GroupState.COMPLETING_REBALANCE or store.generation != self.generation:
            return  # another rebalance began meanwhile
        if error is not ErrorCode.NONE:
            self._refuse_assignment(error, now_ms)
            self._prepare_rebalance(f"the assignment could not be written: {error.name}", now_ms)
            return
        for member in self._members:
            member.assignment = store.assignments[member.member_id]
            if self._answer_sync(member, self._share_of(member)):
                self._begin_session(member, now_ms)
        self._become(GroupState.STABLE)

    def _refuse_assignment(self, error: ErrorCode, now_ms: Millis) -> None:
        for member in self._members:
            member.assignment = b""
            if self._answer_sync(member, SyncResult(error=error)):
                self._begin_session(member, now_ms)

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
        self._remove(self._members[member_id], f"{member_id} leaves{_because(leaving.reason)}", now_ms)
        return ErrorCode.NONE

    def _expire_session(self, member_id: str, now_ms: Millis) -> None:
        member = self._members[member_id]
        waits = member.join_waiter is not None or member.sync_waiter is not None
        if waits and not member.is_new:
            return  # it cannot send heartbeats; its session begins with the answer
        self._remove(member, f"the session of {member_id} ended", now_ms)

    def _remove(self, member: Member, why: str, now_ms: Millis) -> None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        self._answer_join(member, JoinResult(error=unknown, member_id=UNKNOWN_MEMBER))
        self._answer_sync(member, SyncResult(error=unknown))
        log.info("Group %s: %s", self.group_id, why)
        self._forget(member.member_id)
        self._rebalance_if_possible(why, now_ms)
        self._complete_join_if_all(now_ms)

    def _remove_pending(self, member_id: str, now_ms: Millis) -> None:
        self._forget(member_id)
        self._complete_join_if_all(now_ms)

    def _forget(self, member_id: str) -> None:
        self._members.remove(member_id)
        self._deadlines.cancel((DeadlineKind.SESSION, member_id))
        self._deadlines.cancel((DeadlineKind.PENDING, member_id))

    # -- small things --

    def _become(self, state: GroupState) -> None:
        assert self.state in PREDECESSORS[state], (self.group_id, self.state, state)
        self.state = state
        self.state_since_ms = self._wall_clock_ms()

    def _begin_session(self, member: Member, now_ms: Millis) -> None:
        self._deadlines.set((DeadlineKind.SESSION, member.member_id), now_ms + member.session_timeout_ms)

    def _answer_join(self, member: Member, result: JoinResult) -> None:
        waiter = self._members.take_join_waiter(member)
        if waiter is not None:
            self._effects.append(Answer(waiter, result))

    def _answer_sync(self, member: Member, result: SyncResult) -> bool:
        waiter, member.sync_waiter = member.sync_waiter, None
        if waiter is not None:
            self._effects.append(Answer(waiter, result))
        return waiter is not None

    def _generation_of(
        self,
        member: Member,
        members: tuple[JoinedMember, ...] = (),
        *,
        leader: str | None = None,
        skip_assignment: bool = False,
    ) -> JoinResult:
        return JoinResult(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=leader or self.leader or "",
            skip_assignment=skip_assignment,
            members=members,
        )

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        assert self.protocol is not None
        protocol = self.protocol
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(protocol)) for each in self._members
        )

    def _share_of(self, member: Member) -> SyncResult:
        return SyncResult(
            protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=member.assignment
        )

    def _subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or (self._members and self.protocol is None):
            return None
        return subscribed_topics(member.metadata(self.protocol or "") for member in self._members)

    def _value(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=[_recorded(each, self.protocol or "", assignments) for each in self._members],
        )


def _recorded(member: Member, protocol: str, assignments: Mapping[str, bytes]) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignments[member.member_id],
    )


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
