"""The group coordinator of one worker: its groups, and the requests of their members.

The coordinator finds the group of a request and carries out what the group decides (group.py), in order: answers,
records. Groups are loaded, let go and called in time as every coordinator does it (pkafka/server/coordinator/). No
group is in two processes. Committed offsets are in offset_keeper.py.
"""

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from pkafka.clock import Clock
from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC, ProducerId, TopicPartition
from pkafka.server.coordinator.settling import Settler
from pkafka.server.coordinator.shards import Shard, Shards
from pkafka.server.coordinator.topic_log import TopicLog
from pkafka.server.groups.effects import (
    Answer,
    Effect,
    JoinResult,
    LeaveResult,
    LeftMember,
    Store,
    StoreAssignment,
    SyncResult,
)
from pkafka.server.groups.events import JoinRequest, Leaving, SyncRequest
from pkafka.server.groups.group import Group, GroupDescription, join_refusal
from pkafka.server.groups.hosted import CoordinatorSettings, Entry, GroupCounters
from pkafka.server.groups.loading import LoadedGroup
from pkafka.server.groups.offsets import PartitionKey
from pkafka.server.groups.records import CommittedOffset, encode_group_key, encode_group_value
from pkafka.server.groups.restoring import GroupLoading
from pkafka.server.groups.states import GroupState
from pkafka.server.replicas.delayed import Timer

log = logging.getLogger(__name__)


class GroupCoordinator:
    """Loads the groups of this worker, serves their members' requests and carries out what the groups decide.

    Args:
        settings: of the broker.
        group_log: stores the groups.
        partition_of: gives the partition of __consumer_offsets that a group belongs to.
        timer: of the worker.
        clock: wall clock, for what is written.
        spawn: runs a coroutine on the worker's loop.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        group_log: TopicLog,
        partition_of: Callable[[str], int],
        timer: Timer,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.settings = settings
        self.log = group_log
        self.partition_of = partition_of
        """Gives the partition of __consumer_offsets that a group belongs to."""
        self.timer = timer
        self.clock = clock
        self.deleted_meanwhile: Callable[[Iterable[PartitionKey]], None] = lambda _deleted: None
        """Called after a loading with what was deleted while it ran."""
        self.counters = GroupCounters()
        self._shards: Shards[Entry, GroupLoading] = Shards(
            group_log, self._new_loading, self._bury, what="groups", timer=timer, spawn=spawn
        )
        self.load_times = self._shards.load_times
        self._pending: dict[int, dict[ProducerId, dict[Entry, None]]] = {}
        """The groups with commits in an open transaction, by partition and producer: markers name no group."""
        self._settler: Settler[Entry, Effect] = Settler(timer, attrgetter("group"), self._perform)
        self.settle = self._settler.settle
        """Carries out what a group has decided; called after each event of a group."""

    # -- where groups are --

    def look_up(self, group_id: str, *, is_empty_id_allowed: bool = False) -> tuple[ErrorCode, Entry | None]:
        """Find a group.

        Returns:
            NONE when this worker coordinates the group, with the group if it exists; else the reason for a refusal.
        """
        if not group_id and not is_empty_id_allowed:
            return ErrorCode.INVALID_GROUP_ID, None
        return self._shards.look_up(self.partition_of(group_id), group_id)

    def create(self, group_id: str) -> Entry:
        """Make a group that is not there."""
        partition = self.partition_of(group_id)
        group = Group(group_id, self.settings.group, wall_clock_ms=self.clock.now_ms, new_uuid=_new_uuid)
        entry = Entry(group, partition)
        self._shards.add(partition, group_id, entry)
        return entry

    def entries(self) -> Iterator[Entry]:
        """All groups of this worker."""
        return self._shards.entries()

    # -- members --

    def join(self, group_id: str, request: JoinRequest) -> "JoinResult | asyncio.Future[JoinResult]":
        """JoinGroup."""
        error, entry = self.look_up(group_id)
        if error is not ErrorCode.NONE:
            return JoinResult(error=error, member_id=request.member_id)
        refused = join_refusal(self.settings.group, request, group_exists=entry is not None)
        if refused is not None:
            return refused
        waiter: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        entry = entry or self.create(group_id)
        entry.group.join(waiter, request, self.timer.now_ms())
        self.settle(entry)
        return waiter.result() if waiter.done() else waiter

    def sync(self, group_id: str, request: SyncRequest) -> "SyncResult | asyncio.Future[SyncResult]":
        """SyncGroup."""
        error, entry = self.look_up(group_id)
        if error is not ErrorCode.NONE:
            # The state of an unfinished rebalance is not in the log, so the member has to join again.
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error)
        if entry is None:
            return SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID)
        waiter: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        entry.group.sync(waiter, request, self.timer.now_ms())
        self.settle(entry)
        return waiter.result() if waiter.done() else waiter

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat."""
        error, entry = self.look_up(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return error
        if entry is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = entry.group.heartbeat(member_id, instance_id, generation, self.timer.now_ms())
        self.settle(entry)
        return error

    def leave(self, group_id: str, leaving: Sequence[Leaving]) -> LeaveResult:
        """LeaveGroup."""
        error, entry = self.look_up(group_id)
        if error is not ErrorCode.NONE:
            return LeaveResult(error, [])
        if entry is None:
            unknown = [
                LeftMember(one.member_id, one.instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for one in leaving
            ]
            return LeaveResult(ErrorCode.NONE, unknown)
        result = entry.group.leave(leaving, self.timer.now_ms())
        self.settle(entry)
        return result

    # -- whole groups --

    def describe(self, group_id: str) -> GroupDescription | ErrorCode:
        """DescribeGroups; a group that does not exist is Dead."""
        error, entry = self.look_up(group_id, is_empty_id_allowed=True)
        if error is not ErrorCode.NONE:
            return error
        if entry is None:
            return GroupDescription(GroupState.DEAD, "", "", [])
        return entry.group.describe()

    def overview(self) -> tuple[ErrorCode, list[Group]]:
        """ListGroups: all groups of this worker; not NONE when some are missing."""
        error = self._shards.all_there()
        if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return error, []
        return error, [entry.group for entry in self.entries()]

    # -- partitions come and go --

    def begin(self, partition: int) -> None:
        """This broker leads a partition from now on, or still does."""
        self._shards.begin(partition)

    def note_deleted(self, deleted: Iterable[PartitionKey]) -> None:
        """Note deleted partitions for the loadings that are under way, which may find offsets of them."""
        for loading in self._shards.loadings:
            loading.deleted.update(deleted)

    def _new_loading(self, partition: int) -> GroupLoading:
        return GroupLoading(TopicPartition(CONSUMER_OFFSETS_TOPIC, partition), self._restored, self._loaded)

    def _loaded(self, loading: GroupLoading, entries: Shard[Entry]) -> None:
        for entry in list(entries.values()):
            self._note_pending(entry)
            self.settle(entry)
        if loading.deleted:
            self.deleted_meanwhile(loading.deleted)

    def _restored(self, group_id: str, partition: int, loaded: LoadedGroup) -> Entry:
        settings, wall_clock_ms = self.settings.group, self.clock.now_ms
        if loaded.value is None:
            group = Group(group_id, settings, wall_clock_ms=wall_clock_ms, new_uuid=_new_uuid)
        else:
            now_ms = self.timer.now_ms()
            group = Group.restore(
                group_id, loaded.value, settings, now_ms, wall_clock_ms=wall_clock_ms, new_uuid=_new_uuid
            )
        entry = Entry(group, partition)
        entry.offsets.load(loaded.offsets, loaded.transactional)
        return entry

    def end(self, partition: int) -> None:
        """This broker leads a partition no more: members that wait in its groups hear so."""
        count = self._shards.end(partition)
        self._pending.pop(partition, None)
        if count:
            log.info("Unloaded %d groups of %s-%d", count, CONSUMER_OFFSETS_TOPIC, partition)

    def forget(self, entry: Entry) -> None:
        """Forget a group that has neither members nor offsets."""
        self._shards.remove(entry.partition, entry.group.group_id)
        self._bury(entry)

    def _bury(self, entry: Entry) -> None:
        for producer_id in entry.offsets.open_transactions:
            self._pending.get(entry.partition, {}).get(producer_id, {}).pop(entry, None)
        entry.group.unload()
        self._settler.end(entry)

    def resign(self) -> None:
        """Stop coordinating all groups, as the broker stops."""
        self._shards.resign()

    # -- the ends of transactions --

    def refusal(self, partition: int) -> ErrorCode:
        """Why no transaction can end in a partition of __consumer_offsets at the moment; NONE when it can.

        While the partition is loaded, the marker may or may not be among the records that the loading still reads.
        """
        return ErrorCode.NONE if self._shards.has(partition) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def add_pending(
        self,
        entry: Entry,
        producer_id: ProducerId,
        commits: Mapping[PartitionKey, CommittedOffset],
        batch_offset: int,
    ) -> None:
        """Note commits that a producer's open transaction has in the log, in the batch at that offset."""
        entry.offsets.add_pending(producer_id, commits, batch_offset)
        self._note_pending(entry)

    def _note_pending(self, entry: Entry) -> None:
        for producer_id in entry.offsets.open_transactions:
            of_partition = self._pending.setdefault(entry.partition, {})
            of_partition.setdefault(producer_id, {})[entry] = None

    def complete_transaction(self, partition: int, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Take over, or forget, what a transaction committed to groups of a partition; its marker is committed."""
        for entry in self._pending.get(partition, {}).pop(producer_id, ()):
            entry.offsets.complete_transaction(producer_id, is_commit=is_commit)

    # -- performing what groups want --

    def _perform(self, entry: Entry, effect: Effect) -> None:
        if isinstance(effect, Answer):
            waiter = effect.waiter
            assert isinstance(waiter, asyncio.Future)
            if not waiter.done():
                waiter.set_result(effect.result)
            return
        record = (
            self.clock.now_ms(),
            encode_group_key(entry.group.group_id),
            encode_group_value(effect.value),
            (),
        )
        if isinstance(effect, StoreAssignment):
            self.counters.completed_rebalances += 1
        self.log.append(entry.partition, [record], partial(self._group_stored, entry, effect))

    def _group_stored(self, entry: Entry, store: Store, error: ErrorCode, _offset: int) -> None:
        if error is not ErrorCode.NONE:
            log.error("The state of group %s could not be written: %s", entry.group.group_id, error.name)
        if entry.group.state is not GroupState.DEAD:
            entry.group.stored(store, error, self.timer.now_ms())
            self.settle(entry)

    # -- figures --

    def gauges(self) -> dict[str, int]:
        """The gauges of GroupMetadataManager, by their names there."""
        states = Counter(entry.group.state for entry in self.entries())
        return {
            "NumOffsets": sum(len(entry.offsets) for entry in self.entries()),
            "NumGroups": sum(states.values()),
            **{f"NumGroups{state.value}": states[state] for state in GroupState},
        }


def _new_uuid() -> str:
    return str(uuid.uuid4())
