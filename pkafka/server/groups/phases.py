"""How a classic group gets from one generation to the next, and which members fall out on the way.

PreparingRebalance lasts until all known members have joined again, or until the longest rebalance timeout is over; for
a group that was empty it lasts for the initial delay. CompletingRebalance lasts until the leader's assignment is in the
log.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.model import Millis
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue, MemberMetadata
from pkafka.server.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from pkafka.server.groups.effects import (
    Answer,
    Effect,
    JoinedMember,
    JoinResult,
    Store,
    StoreAssignment,
    StoreEmpty,
    SyncResult,
)
from pkafka.server.groups.events import UNKNOWN_MEMBER
from pkafka.server.groups.members import Member, Members
from pkafka.server.groups.states import PREDECESSORS, GroupState
from pkafka.server.groups.subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics

log = logging.getLogger(__name__)

NO_GENERATION: Final = 0
SYNC_DEADLINE: Final[DeadlineKey] = (DeadlineKind.SYNC, "")
_JOIN_DEADLINE: Final[DeadlineKey] = (DeadlineKind.JOIN, "")

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


def told_of(append: ErrorCode) -> ErrorCode:
    """Return the error that members hear for the outcome of an append."""
    return _STORE_ERRORS.get(append, append)


class Phases:
    """Leads a group through its generations; :class:`pkafka.server.groups.group.Group` adds the requests.

    Args:
        group_id: of the group.
        initial_rebalance_delay_ms: how long the first members of an empty group wait for others.
        wall_clock_ms: milliseconds since the epoch.
    """

    def __init__(
        self, group_id: str, *, initial_rebalance_delay_ms: Millis, wall_clock_ms: Callable[[], Millis]
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms: Millis | None = wall_clock_ms()
        self.generation = NO_GENERATION
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self._members = Members()
        self._deadlines = Deadlines()
        self._effects: list[Effect] = []
        self._initial_rebalance_delay_ms = initial_rebalance_delay_ms
        # While an empty group waits for more members before its first rebalance: this wait, and how much longer at
        # most.
        self._initial_delay: tuple[Millis, Millis] | None = None
        self._new_member_added = False
        self._wall_clock_ms = wall_clock_ms

    # -- what follows --

    def take_effects(self) -> list[Effect]:
        """Take the effects since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def deadline_ms(self) -> Millis | None:
        """When to call :meth:`expire`; None for never. It may be earlier than the first deadline; ask again
        afterwards."""
        return self._deadlines.earliest_ms

    def expire(self, now_ms: Millis) -> None:
        """End what is due: a phase of a rebalance, a session, the time of a pending member."""
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

    # -- the log --

    def stored(self, store: Store, error: ErrorCode, now_ms: Millis) -> None:
        """Take the outcome of a :class:`Store` effect: NONE, or the error with which the append failed."""
        if isinstance(store, StoreAssignment):
            self._assignment_stored(store, told_of(error), now_ms)
        elif error is not ErrorCode.NONE:
            # If the broker dies now, the next coordinator loads the former members; they go when their sessions end.
            log.warning("Group %s: that it is empty could not be written: %s", self.group_id, error.name)

    def unload(self) -> None:
        """Become Dead, as the coordinator moved or the group was deleted; waiting requests get NOT_COORDINATOR."""
        log.info("Group %s: unloaded at generation %d", self.group_id, self.generation)
        self._become(GroupState.DEAD)
        for member in self._members:
            self._answer_join(member, JoinResult(error=ErrorCode.NOT_COORDINATOR, member_id=member.member_id))
            self._answer_sync(member, SyncResult(error=ErrorCode.NOT_COORDINATOR))
        self._deadlines.clear()

    # -- questions --

    @property
    def leader(self) -> str | None:
        """The id of the member that computes the assignment; None without members."""
        return self._members.leader

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self._members)

    # -- a rebalance's two phases --

    def _rebalance_if_possible(self, why: str, now_ms: Millis) -> None:
        if self.state in PREDECESSORS[GroupState.PREPARING_REBALANCE]:
            self._prepare_rebalance(why, now_ms)

    def _prepare_rebalance(self, why: str, now_ms: Millis) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._refuse_assignment(ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        self._members.pending_sync.clear()
        self._deadlines.cancel(SYNC_DEADLINE)
        timeout_ms = self._members.rebalance_timeout_ms
        if self.state is GroupState.EMPTY:
            delay_ms = self._initial_rebalance_delay_ms
            self._initial_delay = delay_ms, max(timeout_ms - delay_ms, 0)
            self._deadlines.set(_JOIN_DEADLINE, now_ms + delay_ms)
        else:
            self._deadlines.set(_JOIN_DEADLINE, now_ms + timeout_ms)
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
            delay_ms = min(self._initial_rebalance_delay_ms, left_ms)
            self._initial_delay = delay_ms, max(left_ms - former_ms, 0)
            self._deadlines.set(_JOIN_DEADLINE, now_ms + delay_ms)
        else:
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: Millis) -> None:
        self._deadlines.cancel(_JOIN_DEADLINE)
        self._initial_delay = None
        for member in list(self._members):
            if member.join_waiter is None and member.instance_id is None:
                log.info("Group %s: %s did not join again in time", self.group_id, member.member_id)
                self._forget(member.member_id)
        if not self._members.elect_joined_leader() and self._members:
            # Only static members are left, and none came back: the ends of their sessions decide.
            self._deadlines.set(_JOIN_DEADLINE, now_ms + max(self._members.rebalance_timeout_ms, 1))
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
            self._members.pending_sync[member.member_id] = None
        self._deadlines.set(SYNC_DEADLINE, now_ms + self._members.rebalance_timeout_ms)

    def _expire_sync(self, now_ms: Millis) -> None:
        late = sorted(self._members.pending_sync)
        if late:
            for member_id in late:
                self._forget(member_id)
            self._prepare_rebalance(f"no SyncGroup came from {', '.join(late)}", now_ms)

    def _store_assignment(self, given: Mapping[str, bytes]) -> None:
        assignments = {member.member_id: given.get(member.member_id, b"") for member in self._members}
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
            if self._answer_sync(member, SyncResult(error=error)):
                self._begin_session(member, now_ms)

    # -- members that fall out --

    def _expire_session(self, member_id: str, now_ms: Millis) -> None:
        member = self._members[member_id]
        waits = member.join_waiter is not None or member.sync_waiter is not None
        if waits and not member.is_new:
            return  # a member that waits sends no heartbeats; its session begins with the answer
        self._remove(member_id, f"the session of {member_id} ended", now_ms)

    def _remove(self, member_id: str, why: str, now_ms: Millis) -> None:
        log.info("Group %s: %s", self.group_id, why)
        self._forget(member_id)
        self._rebalance_if_possible(why, now_ms)
        self._complete_join_if_all(now_ms)

    def _remove_pending(self, member_id: str, now_ms: Millis) -> None:
        self._forget(member_id)
        self._complete_join_if_all(now_ms)

    def _forget(self, member_id: str) -> None:
        member = self._members.get(member_id)
        if member is not None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            self._answer_join(member, JoinResult(error=unknown, member_id=UNKNOWN_MEMBER))
            self._answer_sync(member, SyncResult(error=unknown))
        self._members.remove(member_id)
        self._deadlines.cancel((DeadlineKind.SESSION, member_id))
        self._deadlines.cancel((DeadlineKind.PENDING, member_id))

    # -- states and answers --

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
