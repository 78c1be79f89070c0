"""Plays group scripts on the machine alone: no broker, no clock, and every record is written at once."""

import itertools
from collections.abc import Callable, Sequence
from typing import Final, TypedDict

from pkafka.errors import ErrorCode
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.messages import (
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    sync_group,
)
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue
from pkafka.protocol.schema import Message
from pkafka.server.groups.effects import Answer, JoinResult, LeaveResult, LeftMember, SyncResult
from pkafka.server.groups.events import JoinRequest, Leaving, SyncRequest
from pkafka.server.groups.group import Group, GroupSettings, join_refusal
from pkafka.server.groups.states import GroupState
from tests.group_script import BROKER_SETTINGS, Cast, Command

MACHINE_SETTINGS: Final = GroupSettings(
    **{key.removeprefix("group.").replace(".", "_"): value for key, value in BROKER_SETTINGS.items()}
)
_RECORD_VERSION: Final = 3  # what Kafka 3.9 writes


class _Outside(TypedDict):
    wall_clock_ms: Callable[[], int]
    new_uuid: Callable[[], str]


class Machine:
    """A player for whom time passes only when the script says so."""

    def __init__(self, settings: GroupSettings) -> None:
        self.cast = Cast("g")
        self.group: Group | None = None
        self.now_ms = 0
        self._settings = settings
        uuids = (f"{number:08x}-0000-4000-8000-000000000000" for number in itertools.count())
        self._outside: _Outside = {"wall_clock_ms": lambda: self.now_ms, "new_uuid": uuids.__next__}
        self._answers: list[tuple[str, Message]] = []
        self._parked: dict[object, tuple[str, Message, int]] = {}
        self._record: bytes | None = None
        self._has_offsets = False
        self._description = self._describe()

    # -- the player --

    def play(self, command: Command) -> None:
        """Do what a line says."""
        if command.verb == "wait":
            self._pass(int(command.options["ms"]))
        elif command.verb == "restart":
            self._restart()
        elif command.verb == "hangup":
            self._parked = {key: who for key, who in self._parked.items() if who[0] not in command.names}
        else:
            request, version = self.cast.request(command)
            name = command.names[0] if command.names else ""
            self._ask(name, request, version, once="once" in command.names)
            self._pass(0)  # a rebalance that waits for nobody has no time to wait

    def outcome(self, expected: Sequence[str] = ()) -> list[str]:
        """What was answered since, by name, and the group where it is another."""
        lines = sorted(line for name, answer in self._answers for line in self.cast.told(name, answer))
        self._answers.clear()
        description = self._describe()
        if description != self._description:
            self._description = description
            lines.append(description)
        return lines

    @property
    def waits_for_first_members(self) -> bool:
        """Whether only time can end the present rebalance, as that of a new group."""
        return self.group is not None and self.group._initial_delay is not None

    @property
    def late(self) -> list[tuple[str, str]]:
        """Who has yet to do something before the group gets on, and what: "join", "sync"."""
        group, name_of = self.group, self.cast.name_of
        if group is None:
            return []
        if group.state is GroupState.PREPARING_REBALANCE:
            return [("join", name_of(each.member_id)) for each in group._members if each.join_waiter is None]
        return [("sync", name_of(each)) for each in sorted(group._members.pending_sync)]

    def has_room_for(self, name: str) -> bool:
        """Whether the group is not too large for a join of ``name``."""
        return self.group is None or self.group._has_room_for(self.cast[name].member_id)

    @property
    def waiting(self) -> dict[str, set[str]]:
        """Who waits for an answer, and for which: "join", "sync"."""
        found: dict[str, set[str]] = {}
        for name, request, _ in self._parked.values():
            is_join = isinstance(request, join_group.JoinGroupRequest)
            found.setdefault(name, set()).add("join" if is_join else "sync")
        return found

    # -- what a shell does --

    def _restart(self) -> None:
        self._parked.clear()
        self.group = Group("g", self._settings, **self._outside) if self._has_offsets else None
        if self._record is not None:
            value = decode(GroupMetadataValue, _RECORD_VERSION, self._record)
            self.group = Group.restore("g", value, self._settings, self.now_ms, **self._outside)
        self._perform()

    def _pass(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.group is not None:
            deadline_ms = self.group.deadline_ms
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.group.expire(self.now_ms)
            self._perform()
        self.now_ms = end_ms

    def _ask(self, name: str, request: Message, version: int, *, once: bool) -> None:
        answer: Message | None = None
        if isinstance(request, join_group.JoinGroupRequest):
            answer = self._join(name, request, version)
        elif isinstance(request, sync_group.SyncGroupRequest):
            answer = self._sync(name, request, version)
        elif isinstance(request, heartbeat.HeartbeatRequest):
            answer = heartbeat.HeartbeatResponse(error_code=self._heartbeat(request))
        elif isinstance(request, leave_group.LeaveGroupRequest):
            answer = self._leave(request, version)
        elif isinstance(request, offset_commit.OffsetCommitRequest):
            answer = _committed(self._commit(request))
        if answer is not None:
            self._hear(name, request, version, answer)
        self._perform()
        if not once and (name, ErrorCode.MEMBER_ID_REQUIRED) in [
            (who, getattr(answer, "error_code", None)) for who, answer in self._answers
        ]:
            self._answers = [(who, answer) for who, answer in self._answers if who != name]
            self.play(Command("join", (name, "once"), {"version": str(version)}))

    def _join(self, name: str, request: join_group.JoinGroupRequest, version: int) -> Message | None:
        facts = JoinRequest(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=name,
            client_host="/127.0.0.1",
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms if version else request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((each.name, each.metadata) for each in request.protocols),
            requires_known_member=version >= 4,
            can_skip_assignment=version >= 9,
        )
        refusal = join_refusal(self._settings, facts, group_exists=self.group is not None)
        if refusal is not None:
            return _joined(refusal, version)
        if self.group is None:
            self.group = Group("g", self._settings, **self._outside)
        self.group.join(self._park(name, request, version), facts, self.now_ms)
        return None

    def _sync(self, name: str, request: sync_group.SyncGroupRequest, version: int) -> Message | None:
        if version >= 5 and None in (request.protocol_type, request.protocol_name):
            return _synced(SyncResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if self.group is None:
            return _synced(SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
        facts = SyncRequest(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments={each.member_id: each.assignment for each in request.assignments},
        )
        self.group.sync(self._park(name, request, version), facts, self.now_ms)
        return None

    def _heartbeat(self, request: heartbeat.HeartbeatRequest) -> ErrorCode:
        if self.group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self.group.heartbeat(
            request.member_id, request.group_instance_id, request.generation_id, self.now_ms
        )

    def _leave(self, request: leave_group.LeaveGroupRequest, version: int) -> Message:
        members = request.members or [leave_group.MemberIdentity(member_id=request.member_id)]
        leaving = [Leaving(member_id=each.member_id, instance_id=each.group_instance_id) for each in members]
        if self.group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            found = [LeftMember(each.member_id, each.instance_id, unknown) for each in leaving]
            result = LeaveResult(ErrorCode.NONE, found)
        else:
            result = self.group.leave(leaving, self.now_ms)
        if version < 3:
            return leave_group.LeaveGroupResponse(error_code=result.error or result.members[0].error)
        return leave_group.LeaveGroupResponse(
            error_code=result.error,
            members=[
                leave_group.MemberResponse(
                    member_id=each.member_id, group_instance_id=each.instance_id, error_code=each.error
                )
                for each in result.members
            ],
        )

    def _commit(self, request: offset_commit.OffsetCommitRequest) -> ErrorCode:
        generation = request.generation_id_or_member_epoch
        if self.group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            self.group = Group("g", self._settings, **self._outside)
        instance_id = request.group_instance_id
        error = self.group.check_commit(request.member_id, instance_id, generation, self.now_ms)
        self._has_offsets |= error is ErrorCode.NONE
        return error

    # -- effects --

    def _park(self, name: str, request: Message, version: int) -> object:
        waiter = object()
        self._parked[waiter] = name, request, version
        return waiter

    def _perform(self) -> None:
        while self.group is not None and (effects := self.group.take_effects()):
            for effect in effects:
                if not isinstance(effect, Answer):
                    self._record = encode(effect.value, _RECORD_VERSION)
                    self.group.stored(effect, ErrorCode.NONE, self.now_ms)
                elif effect.waiter in self._parked:
                    name, request, version = self._parked.pop(effect.waiter)
                    result = effect.result
                    self._hear(
                        name,
                        request,
                        version,
                        _joined(result, version) if isinstance(result, JoinResult) else _synced(result),
                    )

    def _hear(self, name: str, request: Message, version: int, answer: Message) -> None:
        answer = decode(type(answer), version, encode(answer, version))
        self.cast.hear(name, request, answer)
        self._answers.append((name, answer))

    def _describe(self) -> str:
        if self.group is None:
            return self.cast.described("Dead", "", "", [])
        found = self.group.describe()
        members = [
            describe_groups.DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                member_assignment=each.assignment,
            )
            for each in found.members
        ]
        return self.cast.described(found.state, found.protocol_type, found.protocol, members)


def _joined(result: JoinResult, version: int) -> join_group.JoinGroupResponse:
    return join_group.JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name if version >= 7 else result.protocol_name or "",
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            join_group.JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata
            )
            for each in result.members
        ],
    )


def _synced(result: SyncResult) -> sync_group.SyncGroupResponse:
    return sync_group.SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def _committed(error: ErrorCode) -> offset_commit.OffsetCommitResponse:
    partition = offset_commit.OffsetCommitResponsePartition(partition_index=0, error_code=error)
    topic = offset_commit.OffsetCommitResponseTopic(name="t", partitions=[partition])
    return offset_commit.OffsetCommitResponse(topics=[topic])
