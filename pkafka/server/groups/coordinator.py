"""The group coordinator of one worker (GROUP-1, GROUP-5): the requests about groups and their members.

It decides nothing about members, which group.py does: it finds the group, hands it the request, and has done what
follows.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pkafka.clock import Clock
from pkafka.errors import ErrorCode
from pkafka.server.delayed import Timer
from pkafka.server.groups.effects import JoinResult, LeaveResult, LeftMember, SyncResult
from pkafka.server.groups.events import JoinRequest, Leaving, SyncRequest
from pkafka.server.groups.group import Group, GroupDescription, join_refusal
from pkafka.server.groups.hosted import CoordinatorSettings, GroupLog, HostedGroups
from pkafka.server.groups.offset_keeper import OffsetKeeper
from pkafka.server.groups.states import GroupState

log = logging.getLogger(__name__)


class GroupCoordinator:
    """See the module.

    Args:
        settings: of the broker.
        group_log: where groups are kept.
        partitions: how many partitions __consumer_offsets has, or is going to have.
        timer: of the worker.
        clock: wall clock, for what is written.
        spawn: runs a coroutine on the worker's loop.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        group_log: GroupLog,
        partitions: Callable[[], int],
        timer: Timer,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.hosted = HostedGroups(
            settings, group_log=group_log, partitions=partitions, timer=timer, clock=clock, spawn=spawn
        )
        self.offsets = OffsetKeeper(self.hosted)
        self.is_topic_on_its_way = False
        """Whether somebody has asked for __consumer_offsets to be made, and waits for the outcome."""

    # -- members --

    def join(self, group_id: str, request: JoinRequest) -> "JoinResult | asyncio.Future[JoinResult]":
        """JoinGroup."""
        error, entry = self.hosted.look_up(group_id)
        if error is not ErrorCode.NONE:
            return JoinResult(error=error, member_id=request.member_id)
        refused = join_refusal(self.hosted.settings.group, request, group_exists=entry is not None)
        if refused is not None:
            return refused
        waiter: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        entry = entry or self.hosted.create(group_id)
        entry.group.join(waiter, request, self.hosted.timer.now_ms())
        self.hosted.settle(entry)
        return waiter.result() if waiter.done() else waiter

    def sync(self, group_id: str, request: SyncRequest) -> "SyncResult | asyncio.Future[SyncResult]":
        """SyncGroup."""
        error, entry = self.hosted.look_up(group_id)
        if error is not ErrorCode.NONE:
            # While it loads, the state of an unfinished rebalance is lost: the member is to join again.
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error)
        if entry is None:
            return SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID)
        waiter: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        entry.group.sync(waiter, request, self.hosted.timer.now_ms())
        self.hosted.settle(entry)
        return waiter.result() if waiter.done() else waiter

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat."""
        error, entry = self.hosted.look_up(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return error
        if entry is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = entry.group.heartbeat(member_id, instance_id, generation, self.hosted.timer.now_ms())
        self.hosted.settle(entry)
        return error

    def leave(self, group_id: str, leaving: Sequence[Leaving]) -> LeaveResult:
        """LeaveGroup."""
        error, entry = self.hosted.look_up(group_id)
        if error is not ErrorCode.NONE:
            return LeaveResult(error, [])
        if entry is None:
            unknown = [
                LeftMember(one.member_id, one.instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for one in leaving
            ]
            return LeaveResult(ErrorCode.NONE, unknown)
        result = entry.group.leave(leaving, self.hosted.timer.now_ms())
        self.hosted.settle(entry)
        return result

    # -- whole groups --

    def describe(self, group_id: str) -> GroupDescription | ErrorCode:
        """DescribeGroups; a group that does not exist is Dead."""
        error, entry = self.hosted.look_up(group_id, is_empty_id_allowed=True)
        if error is not ErrorCode.NONE:
            return error
        if entry is None:
            return GroupDescription(GroupState.DEAD, "", "", [])
        return entry.group.describe()

    def overview(self) -> tuple[ErrorCode, list[Group]]:
        """ListGroups: all groups of this worker; not NONE when some are missing."""
        if self.hosted.has_resigned:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.hosted.is_loading else ErrorCode.NONE
        return error, [entry.group for entry in self.hosted.entries()]

    def delete(self, group_id: str) -> ErrorCode:
        """DeleteGroups, one group."""
        error, entry = self.hosted.look_up(group_id, is_empty_id_allowed=True)
        if error is not ErrorCode.NONE:
            return error
        if entry is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if entry.group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        removed = self.offsets.clean(
            entry, lambda offsets: offsets.remove(offsets.partitions()), is_deleted=True
        )
        self.hosted.counters.offset_deletions += removed
        log.info(
            "The following groups were deleted: %s. A total of %d offsets were removed.", group_id, removed
        )
        return ErrorCode.NONE
