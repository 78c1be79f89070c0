"""One consumer's membership in a classic group: what to send next, what an answer means, what to do with partitions.

Pure: answers and the time come in, requests and steps go out; no socket, no clock, no thread. ``coordinator.py`` drives
it. The states are Kafka's:

UNJOINED --join sent--> PREPARING_REBALANCE --joined--> COMPLETING_REBALANCE --synced--> STABLE

and from everywhere back to UNJOINED when the membership is lost. Two kinds of things come out. Requests that either
thread may send come from :meth:`Membership.due`: the lookup of the coordinator, heartbeats, the follower's SyncGroup.
Steps that run code of the user's come from :meth:`Membership.next_step` and are for the application's thread alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pkafka.clients.consumer.errors import CommitFailedError
from pkafka.clients.consumer.heartbeat import Heartbeat
from pkafka.clients.consumer.membership_steps import (
    NO_GENERATION,
    Complete,
    Coordinator,
    Generation,
    Join,
    Lead,
    MemberState,
    Prepare,
    Request,
    Response,
    Step,
)
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pkafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pkafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pkafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pkafka.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

PROTOCOL_TYPE: Final = "consumer"
_REASON_CHARS_MAX: Final = 255

_COORDINATOR_GONE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_MEMBERSHIP_GONE: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
# A join that failed so is tried again at once: the group, not the broker, was in the way.
_JOIN_AGAIN_AT_ONCE: Final = _MEMBERSHIP_GONE | {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
}


@dataclass(frozen=True, kw_only=True)
class MembershipSettings:
    """The keys of the configuration that concern it."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    protocol_type: str = PROTOCOL_TYPE
    """What the members of the group are: consumers, unless something else uses the group protocol."""
    kind: str = "consumer"
    """What the reasons call the member that polled too late."""
    poll_expired: str = (
        "consumer poll timeout has expired: the time between calls of poll was longer than max.poll.interval.ms; poll "
        "more often, or fetch less with max.poll.records"
    )
    """What to warn of when it did."""


class _Phase(Enum):
    """Where a join under way is."""

    NONE = "none"
    JOINING = "joining"
    LEADING = "leading"
    SYNC_READY = "sync ready"
    SYNCING = "syncing"
    ASSIGNED = "assigned"


class Membership:
    """The machine of one member; the driver gives it answers and the time.

    Args:
        settings: of the consumer.
        jitter: gives the factor that spreads retries of many clients, about 1.
    """

    def __init__(self, settings: MembershipSettings, *, jitter: Callable[[], float] = lambda: 1.0) -> None:
        self.settings = settings
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.joined = NO_GENERATION
        """Of the last assignment; stays when the membership is lost: so a zombie's offsets are fenced (KIP-447)."""
        self.coordinator: Coordinator | None = None
        self.is_leader = False
        self.rejoin_reason = ""
        self.heartbeat = Heartbeat(
            interval_ms=settings.heartbeat_interval_ms,
            session_timeout_ms=settings.session_timeout_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
        )
        self.rebalance_began_ms: int | None = None
        self.notes: list[str] = []
        """What an operator may want to read in the log; the driver takes them out."""
        self.warnings: list[str] = []
        """What an operator should read there."""
        self._jitter = jitter
        self._phase = _Phase.NONE
        self._rejoin_needed = True
        self._prepare_needed = True
        self._join_attempts = 0
        self._join_at_ms = 0
        self._coordinator_wanted = False
        self._lookup_under_way = False
        self._lookup_attempts = 0
        self._lookup_at_ms = 0
        self.lookups_failed = 0
        """How many lookups of the coordinator failed since the consumer began."""
        self._failures: list[Exception] = []
        self._lead: Lead | None = None
        self._assignment = b""
        self._sync: SyncGroupRequest | None = None
        self._awaited: JoinGroupRequest | SyncGroupRequest | None = None

    # -- what to do ---------------------------------------------------------------------------------------

    def want_coordinator(self) -> None:
        """Look the coordinator up when it is not known."""
        self._coordinator_wanted = True

    def due(self, now_ms: int) -> list[Request]:
        """What to send now; either thread may."""
        if self.coordinator is None:
            if not self._coordinator_wanted or self._lookup_under_way or now_ms < self._lookup_at_ms:
                return []
            self._lookup_under_way = True
            group = self.settings.group_id
            return [FindCoordinatorRequest(key_type=0, coordinator_keys=[group])]
        if self._sync is not None and self._phase is _Phase.SYNC_READY:
            self._phase = _Phase.SYNCING
            self._awaited, self._sync = self._sync, None
            return [self._awaited]
        if self.state not in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE):
            return []
        if self.heartbeat.session_expired(now_ms):
            self.forget_coordinator("session timed out without receiving a heartbeat response")
            return []
        if self.heartbeat.poll_expired(now_ms):
            self.warnings.append(self.settings.poll_expired)
            leave = self.leave(f"{self.settings.kind} poll timeout has expired.")
            return [] if leave is None else [leave]
        if self.heartbeat.is_due(now_ms):
            self.heartbeat.sent(now_ms)
            return [
                HeartbeatRequest(
                    group_id=self.settings.group_id,
                    generation_id=self.generation.id,
                    member_id=self.generation.member_id,
                    group_instance_id=self.settings.group_instance_id,
                )
            ]
        return []

    def next_step(self, now_ms: int) -> Step | None:
        """What the application's thread has to do now; None while answers or time are waited for.

        Raises:
            ApiError: joining does not work, and trying again does not help.
        """
        self.raise_failure()
        if self._phase is _Phase.LEADING:
            return self._lead
        if self._phase is _Phase.ASSIGNED:
            self.joined = self.generation
            return Complete(self.generation, self._assignment)
        if self._phase is not _Phase.NONE or not self._rejoin_needed:
            return None
        if self.coordinator is None or now_ms < self._join_at_ms:
            return None
        if self._prepare_needed:
            return Prepare(lost=self.is_lost)
        return Join()

    def wait_ms(self, now_ms: int) -> int:
        """How long nothing can be due, as long as no answer comes."""
        waits = [60_000]
        if self.coordinator is None:
            if self._coordinator_wanted and not self._lookup_under_way:
                waits.append(self._lookup_at_ms - now_ms)
        elif self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE):
            waits.append(self.heartbeat.wait_ms(now_ms))
        if self._rejoin_needed and self._phase is _Phase.NONE and self.coordinator is not None:
            waits.append(self._join_at_ms - now_ms)
        return max(0, min(waits))

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is under way that must be taken in also while the application is busy."""
        return self.heartbeat.in_flight or self._lookup_under_way

    @property
    def is_lost(self) -> bool:
        """Whether the coordinator does not count what is owned as this member's (any more)."""
        return self.generation.id == -1 or not self.generation.member_id

    @property
    def is_rebalancing(self) -> bool:
        """Whether a join is under way."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def is_join_to_begin(self) -> bool:
        """Whether a join is to be made and nothing of it was done."""
        return self._rejoin_needed and self._phase is _Phase.NONE and self._prepare_needed

    @property
    def is_join_needed(self) -> bool:
        """Whether a join is to be made or under way."""
        return self._rejoin_needed or self._phase is not _Phase.NONE

    @property
    def is_dynamic(self) -> bool:
        """Whether the member has no instance id, and so leaves its group when it goes (KIP-345)."""
        return self.settings.group_instance_id is None

    def raise_failure(self) -> None:
        """Raise what the application has to know, once.

        Raises:
            ApiError: another process uses this instance id, there is no permission, the settings are refused.
        """
        if self._failures:
            raise self._failures.pop(0)

    # -- what was done ------------------------------------------------------------------------------------

    def request_rejoin(self, reason: str) -> None:
        """Join (again) at the next poll; ``reason`` is for the coordinator's log (KIP-800)."""
        if not self._rejoin_needed:
            self._note(f"Request joining group due to: {reason}")
        self._rejoin_needed = True
        self.rejoin_reason = reason

    def prepared(self) -> None:
        """Partitions were given up as :class:`Prepare` asked."""
        self._prepare_needed = False
        self.is_leader = False

    def join(self, protocols: Sequence[tuple[str, bytes]], now_ms: int) -> JoinGroupRequest:
        """The request to send now.

        Args:
            protocols: assignors by name, in the order of preference, each with the subscription to send.
        """
        assert self._phase is _Phase.NONE, self._phase
        self._phase = _Phase.JOINING
        self.state = MemberState.PREPARING_REBALANCE
        if self.rebalance_began_ms is None:
            self.rebalance_began_ms = now_ms
        self._awaited = request = JoinGroupRequest(
            group_id=self.settings.group_id,
            session_timeout_ms=self.settings.session_timeout_ms,
            rebalance_timeout_ms=self.settings.max_poll_interval_ms,
            member_id=self.generation.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=self.settings.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
            reason=self.rejoin_reason[:_REASON_CHARS_MAX],
        )
        return request

    def assign(self, assignments: Sequence[tuple[str, bytes]]) -> None:
        """The leader has decided: member id to what to tell that member."""
        if self._phase is _Phase.LEADING:
            self.is_leader = True
            self._lead = None
            self._make_sync(assignments)

    def abandon(self, reason: str) -> None:
        """The leader cannot assign: join again at the next poll."""
        if self._phase is _Phase.LEADING:
            self._phase = _Phase.NONE
            self._lead = None
            self.request_rejoin(reason)

    def completed(self) -> None:
        """The assignment was taken over."""
        if self._phase is _Phase.ASSIGNED:
            self._phase = _Phase.NONE
            self._prepare_needed = True

    def leave(self, reason: str) -> LeaveGroupRequest | None:
        """Give the membership up; what to send then, for a member that the coordinator knows and should forget."""
        request = None
        known = self.coordinator is not None and self.state is not MemberState.UNJOINED
        if self.is_dynamic and known and self.generation.member_id:
            identity = MemberIdentity(member_id=self.generation.member_id, reason=reason[:_REASON_CHARS_MAX])
            request = LeaveGroupRequest(group_id=self.settings.group_id, members=[identity])
            self._note(f"Member {self.generation.member_id} sending LeaveGroup request due to {reason}")
        self._reset("consumer pro-actively leaving the group", forget_member=True)
        return request

    def commit_identity(self, *, automatic: bool) -> tuple[int, str, str | None]:
        """The identity to commit with: generation, member id, instance id.

        Args:
            automatic: whether the group gives the partitions; without it any consumer may commit.

        Raises:
            ApiError: REBALANCE_IN_PROGRESS; committing works again after the next poll.
            CommitFailedError: this consumer is no member any more.
        """
        if not automatic:
            return -1, "", None
        if self.state is MemberState.STABLE:
            return self.generation.id, self.generation.member_id, self.settings.group_instance_id
        if self.is_rebalancing:
            raise ApiError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                "Offset commit cannot be completed since the consumer is undergoing a rebalance for auto partition "
                "assignment. You can try completing the rebalance by calling poll() and then retry the operation.",
            )
        raise CommitFailedError

    # -- answers ------------------------------------------------------------------------------------------

    def answered(self, sent: Request, answer: Response, now_ms: int) -> None:
        """Take an answer in.

        Args:
            sent: the request it answers; what it says of another generation than the present one is not believed.
        """
        if isinstance(sent, FindCoordinatorRequest):
            assert isinstance(answer, FindCoordinatorResponse)
            self._on_coordinator(answer, now_ms)
        elif isinstance(sent, JoinGroupRequest):
            assert isinstance(answer, JoinGroupResponse)
            self._on_join(sent, answer, now_ms)
        elif isinstance(sent, SyncGroupRequest):
            assert isinstance(answer, SyncGroupResponse)
            self._on_sync(sent, answer, now_ms)
        elif isinstance(sent, HeartbeatRequest):
            assert isinstance(answer, HeartbeatResponse)
            self._on_heartbeat(sent, ErrorCode(answer.error_code), now_ms)

    def unanswered(self, sent: Request, error: Exception, now_ms: int) -> None:
        """A request got no answer: the connection was lost, or time ran out."""
        retriable = bool(getattr(error, "retriable", False))
        if isinstance(sent, FindCoordinatorRequest):
            self._lookup_failed(error, now_ms, retriable=retriable)
            return
        self.forget_coordinator(str(error))
        if isinstance(sent, HeartbeatRequest):
            self.heartbeat.failed(now_ms)
        elif isinstance(sent, (JoinGroupRequest, SyncGroupRequest)) and self._is_current(sent):
            self._join_failed(error, now_ms, retriable=retriable)

    def forget_coordinator(self, reason: str) -> None:
        """The broker does not coordinate the group, or does not answer: look another one up."""
        if self.coordinator is not None:
            self._note(
                f"Group coordinator {self.coordinator.host}:{self.coordinator.port} is unavailable: {reason}"
            )
            self.coordinator = None

    def commit_refused(self, code: ErrorCode, sent: tuple[int, str, str | None]) -> Exception:
        """What a partition's refused commit means for the application, after taking note of it here.

        Args:
            code: the coordinator's.
            sent: what :meth:`commit_identity` said.
        """
        if code in _COORDINATOR_GONE or code is ErrorCode.REQUEST_TIMED_OUT:
            self.forget_coordinator(code.message)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            if self._is_generation(sent[0], sent[1]):
                return ApiError(code)
            return self._commit_overtaken()
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin("offset commit failed since group is already rebalancing")
            return ApiError(
                code,
                "Offset commit cannot be completed since the consumer group is executing a rebalance at the moment. "
                "You can try completing the rebalance by calling poll() and then retry commit again",
            )
        elif code in _MEMBERSHIP_GONE:
            if not self._is_generation(sent[0], sent[1]) and self.state is MemberState.PREPARING_REBALANCE:
                return self._commit_overtaken()
            self._reset_and_rejoin("OFFSET_COMMIT", code)
            return CommitFailedError()
        return ApiError(code)

    # -- inside -------------------------------------------------------------------------------------------

    def _on_coordinator(self, answer: FindCoordinatorResponse, now_ms: int) -> None:
        if answer.coordinators:
            found = answer.coordinators[0]
            code, text = ErrorCode(found.error_code), found.error_message
            coordinator = Coordinator(found.node_id, found.host, found.port)
        else:
            code, text = ErrorCode(answer.error_code), answer.error_message
            coordinator = Coordinator(answer.node_id, answer.host, answer.port)
        if code is not ErrorCode.NONE:
            self._lookup_failed(ApiError(code, text), now_ms, retriable=code.retriable)
            return
        self._lookup_under_way = False
        self._lookup_attempts = 0
        self.coordinator = coordinator
        self.heartbeat.reset_session(now_ms)
        self._note(
            f"Discovered group coordinator {coordinator.host}:{coordinator.port} (id: {coordinator.node})"
        )

    def _lookup_failed(self, error: Exception, now_ms: int, *, retriable: bool) -> None:
        self._lookup_under_way = False
        self._lookup_at_ms = now_ms + self._backoff_ms(self._lookup_attempts)
        self._lookup_attempts += 1
        self.lookups_failed += 1
        if not retriable:
            self._coordinator_wanted = False
            self._failures.append(error)

    def _on_join(self, sent: JoinGroupRequest, answer: JoinGroupResponse, now_ms: int) -> None:
        if not self._is_current(sent):
            return  # it left meanwhile
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            self._join_refused(sent, answer, code, now_ms)
            return
        if answer.protocol_type not in (None, self.settings.protocol_type):
            self._join_failed(ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), now_ms, retriable=False)
            return
        self.state = MemberState.COMPLETING_REBALANCE
        self.generation = Generation(answer.generation_id, answer.member_id, answer.protocol_name)
        self.heartbeat.start(now_ms)
        self._note(
            f"Successfully joined group with generation {answer.generation_id} as member {answer.member_id}"
        )
        if answer.leader == answer.member_id:
            self._phase = _Phase.LEADING
            self._lead = Lead(answer.protocol_name or "", answer.members, answer.skip_assignment)
        else:
            self._make_sync(())

    def _join_refused(
        self, sent: JoinGroupRequest, answer: JoinGroupResponse, code: ErrorCode, now_ms: int
    ) -> None:
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            # KIP-394: the coordinator gave a member id and keeps nothing of it until it comes back.
            self._phase = _Phase.NONE
            self.generation = Generation(-1, answer.member_id, None)
            self.request_rejoin(f"need to re-join with the given member-id: {answer.member_id}")
            return
        if code is ErrorCode.UNKNOWN_MEMBER_ID and sent.member_id == self.generation.member_id:
            self._reset_and_rejoin("JOIN_GROUP", code)
        elif code in _COORDINATOR_GONE:
            self.forget_coordinator(code.message)
        retriable = code.retriable or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._join_failed(ApiError(code), now_ms, retriable=retriable)

    def _make_sync(self, assignments: Sequence[tuple[str, bytes]]) -> None:
        self._phase = _Phase.SYNC_READY
        self._sync = SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation.id,
            member_id=self.generation.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=self.settings.protocol_type,
            protocol_name=self.generation.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in assignments
            ],
        )

    def _on_sync(self, sent: SyncGroupRequest, answer: SyncGroupResponse, now_ms: int) -> None:
        if not self._is_current(sent):
            return
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            if code in _MEMBERSHIP_GONE:
                self._reset_and_rejoin("SYNC_GROUP", code)
            elif code in _COORDINATOR_GONE:
                self.forget_coordinator(code.message)
            self._join_failed(ApiError(code), now_ms, retriable=code.retriable)
            return
        wrong_type = answer.protocol_type not in (None, self.settings.protocol_type)
        if wrong_type or answer.protocol_name not in (None, self.generation.protocol):
            self._join_failed(ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), now_ms, retriable=False)
            return
        self.state = MemberState.STABLE
        self._phase = _Phase.ASSIGNED
        self._assignment = answer.assignment
        self._rejoin_needed = False
        self.rejoin_reason = ""
        self._join_attempts = 0

    def _join_failed(self, error: Exception, now_ms: int, *, retriable: bool) -> None:
        """A join under way ends without an assignment; the next poll begins another one."""
        self._phase = _Phase.NONE
        self._lead = self._sync = None
        code = getattr(error, "code", None)
        name = code.java_name if isinstance(code, ErrorCode) else type(error).__name__
        self.request_rejoin(f"rebalance failed due to {name}")
        if code in _JOIN_AGAIN_AT_ONCE:
            return
        self._join_at_ms = now_ms + self._backoff_ms(self._join_attempts)
        self._join_attempts += 1
        if not retriable:
            self._failures.append(error)

    def _on_heartbeat(self, sent: HeartbeatRequest, code: ErrorCode, now_ms: int) -> None:
        is_current = self._is_generation(sent.generation_id, sent.member_id)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.heartbeat.received(now_ms)
            # Between join and sync it says nothing new.
            if self.state is MemberState.STABLE:
                self.request_rejoin("group is already rebalancing")
            return
        if code is ErrorCode.NONE:
            self.heartbeat.received(now_ms)
            return
        self.heartbeat.failed(now_ms)
        if code in _COORDINATOR_GONE:
            self.forget_coordinator(code.message)
        elif code in _MEMBERSHIP_GONE or code is ErrorCode.FENCED_INSTANCE_ID:
            if is_current:
                self._reset_and_rejoin("HEARTBEAT", code)
                if code is ErrorCode.FENCED_INSTANCE_ID:
                    self._failures.append(ApiError(code))
        elif not code.retriable:
            self._failures.append(ApiError(code))

    def _commit_overtaken(self) -> Exception:
        if self.is_rebalancing:
            return ApiError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                "Offset commit cannot be completed since the consumer member's old generation is fenced by its group "
                "instance id, it is possible that this consumer has already participated another rebalance and got "
                "a new generation",
            )
        return CommitFailedError()

    def _reset_and_rejoin(self, api: str, code: ErrorCode) -> None:
        # After ILLEGAL_GENERATION the coordinator still knows the member.
        self._reset(
            f"encountered {code.name} from {api} response",
            forget_member=code is not ErrorCode.ILLEGAL_GENERATION,
        )

    def _reset(self, reason: str, *, forget_member: bool) -> None:
        self.state = MemberState.UNJOINED
        self.generation = Generation(-1, "" if forget_member else self.generation.member_id, None)
        self._phase = _Phase.NONE
        self._lead = self._sync = None
        self._prepare_needed = True
        self.heartbeat.in_flight = False
        self._note(f"Resetting generation due to: {reason}")
        self.request_rejoin(reason)

    def _is_current(self, sent: Request) -> bool:
        """Whether the join that a request belongs to is still under way: one given up meanwhile may be answered too."""
        return self._phase in (_Phase.JOINING, _Phase.SYNCING) and sent is self._awaited

    def _is_generation(self, generation: int, member_id: str) -> bool:
        return (generation, member_id) == self.generation[:2]

    def _backoff_ms(self, attempts: int) -> int:
        settings = self.settings
        grown_ms = settings.retry_backoff_ms * 2 ** min(attempts, 16)
        return int(min(grown_ms, settings.retry_backoff_max_ms) * self._jitter())

    def _note(self, text: str) -> None:
        self.notes.append(text)
