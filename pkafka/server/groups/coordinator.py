"""The group coordinator of one worker: its groups, and the requests of their members.

The coordinator loads groups when this broker begins to lead their partition, and forgets them when it stops leading it.
It finds the group of a request and carries out what the group decides (group.py), in order: answers, records, one timer
a group. It runs on the worker's event loop; no group is in two processes. Committed offsets are in offset_keeper.py.
"""

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from time import perf_counter
from typing import Any, Final

from pkafka.clock import Clock
from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from pkafka.records.errors import RecordError
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
from pkafka.server.groups.hosted import CoordinatorSettings, Entry, GroupCounters, GroupLog
from pkafka.server.groups.load_times import LoadTimes
from pkafka.server.groups.loading import LoadedGroup, Replay
from pkafka.server.groups.offsets import PartitionKey
from pkafka.server.groups.records import encode_group_key, encode_group_value, partition_of
from pkafka.server.groups.states import GroupState
from pkafka.server.ipc.turns import Turns
from pkafka.server.replicas.delayed import Timer

log = logging.getLogger(__name__)

LOAD_AGAIN_MS = 5_000
"""The pause before a partition is loaded again after an unexpected error."""
_partition_of: Final = lru_cache(maxsize=10_000)(partition_of)


class GroupCoordinator:
    """Loads the groups of this worker, serves their members' requests and carries out what the groups decide.

    Args:
        settings: of the broker.
        group_log: stores the groups.
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
        self.settings = settings
        self.log = group_log
        self._partitions = partitions
        self.timer = timer
        self.clock = clock
        self._spawn = spawn
        self._owned: dict[int, dict[str, Entry]] = {}
        self._loading: dict[int, set[PartitionKey]] = {}
        """By partition that is being loaded: what was deleted since. The identity of the set tells one loading from the
        next."""
        self.deleted_meanwhile: Callable[[Iterable[PartitionKey]], None] = lambda _deleted: None
        """Called after a loading with what was deleted while it ran."""
        self._turn_to_load = asyncio.Lock()
        self._resigned = False
        self.counters = GroupCounters()
        self.load_times = LoadTimes()
        self.is_topic_on_its_way = False
        """Whether a request to create __consumer_offsets is under way."""

    # -- where groups are --

    def partition_of(self, group_id: str) -> int:
        """The partition of __consumer_offsets that a group belongs to."""
        return _partition_of(group_id, self._partitions())

    def look_up(self, group_id: str, *, is_empty_id_allowed: bool = False) -> tuple[ErrorCode, Entry | None]:
        """Find a group.

        Returns:
            NONE when this worker coordinates the group, with the group if it exists; else the reason for a refusal.
        """
        if not group_id and not is_empty_id_allowed:
            return ErrorCode.INVALID_GROUP_ID, None
        partition = self.partition_of(group_id)
        groups = self._owned.get(partition)
        if groups is not None:
            return ErrorCode.NONE, groups.get(group_id)
        if self._resigned:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, None
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None
        return ErrorCode.NOT_COORDINATOR, None

    def create(self, group_id: str) -> Entry:
        """Make a group that is not there."""
        partition = self.partition_of(group_id)
        group = Group(group_id, self.settings.group, wall_clock_ms=self.clock.now_ms, new_uuid=_new_uuid)
        entry = self._owned[partition][group_id] = Entry(group, partition)
        return entry

    def entries(self) -> Iterator[Entry]:
        """All groups of this worker."""
        for groups in self._owned.values():
            yield from groups.values()

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
        if self._resigned:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._loading else ErrorCode.NONE
        return error, [entry.group for entry in self.entries()]

    # -- partitions come and go --

    def begin(self, partition: int) -> None:
        """This broker leads a partition from now on, or still does."""
        if self._resigned or partition in self._owned or partition in self._loading:
            return
        deleted = self._loading[partition] = set()
        self._spawn(self._load(partition, deleted, perf_counter()))

    def note_deleted(self, deleted: Iterable[PartitionKey]) -> None:
        """Note deleted partitions for the loadings that are under way, which may find offsets of them."""
        for meanwhile in self._loading.values():
            meanwhile.update(deleted)

    async def _load(self, partition: int, deleted: set[PartitionKey], wanted_s: float) -> None:
        try:
            is_loaded = await self._load_now(partition, deleted)
        except AssertionError:
            raise
        except Exception:
            # Meanwhile clients hear COORDINATOR_LOAD_IN_PROGRESS. Without another try they would hear it for ever.
            log.exception(
                "The groups of %s-%d cannot be loaded; trying again in %d seconds",
                CONSUMER_OFFSETS_TOPIC,
                partition,
                LOAD_AGAIN_MS // 1000,
            )
            again = partial(self._load, partition, deleted, wanted_s)
            self.timer.after(LOAD_AGAIN_MS, lambda: self._spawn(again()))
        else:
            if is_loaded:
                self.load_times.record((perf_counter() - wanted_s) * 1000, self.timer.now_ms())

    async def _load_now(self, partition: int, deleted: set[PartitionKey]) -> bool:
        """Read a partition and coordinate its groups.

        Returns:
            False when this broker stopped leading the partition meanwhile.
        """
        source = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition)
        # One partition at a time: several at once would take all of the loop's time, and clients would wait.
        async with self._turn_to_load:
            began_s = perf_counter()
            replay = await self._replay(source, deleted)
        # Records that only this broker has may be lost with it. A member that hears of them before they are committed
        # could be in a generation, or go on from an offset, that the next coordinator lacks. Other partitions load
        # meanwhile.
        await self.log.all_committed(partition)
        if not self._is_wanted(partition, deleted):
            return False
        async with self._turn_to_load:
            entries = await self._restore_all(replay, source)
        if not self._is_wanted(partition, deleted):
            return False
        del self._loading[partition]
        self._owned[partition] = entries
        for entry in list(entries.values()):
            self.settle(entry)
        if deleted:
            self.deleted_meanwhile(deleted)
        log.log(
            logging.INFO if entries else logging.DEBUG,
            "Finished loading offsets and group metadata from %s in %d milliseconds: %d groups",
            source,
            (perf_counter() - began_s) * 1000,
            len(entries),
        )
        return True

    def _is_wanted(self, partition: int, deleted: set[PartitionKey]) -> bool:
        """Whether the loading that owns this set of deleted partitions is still wanted."""
        return self._loading.get(partition) is deleted

    async def _replay(self, source: TopicPartition, deleted: set[PartitionKey]) -> Replay:
        replay = Replay(source)
        if not self._is_wanted(source.partition, deleted):
            return replay
        async for header, records in self.log.read(source.partition):
            try:
                replay.play(header, records)
            except RecordError as error:
                log.error(
                    "Ignoring a control batch at offset %d of %s: %s", header.base_offset, source, error
                )
            if not self._is_wanted(source.partition, deleted):
                break
        return replay

    async def _restore_all(self, replay: Replay, source: TopicPartition) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        turns = Turns()
        for group_id, loaded in replay.groups():
            try:
                entries[group_id] = self._restored(group_id, source.partition, loaded)
            except Exception:
                # One group that cannot be restored must not keep the others of its partition from their members.
                log.exception("Group %s of %s cannot be restored", group_id, source)
            await turns.step()
        return entries

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
        count = self._let_go(partition)
        if count:
            log.info("Unloaded %d groups of %s-%d", count, CONSUMER_OFFSETS_TOPIC, partition)

    def _let_go(self, partition: int) -> int:
        self._loading.pop(partition, None)
        entries = self._owned.pop(partition, {})
        for entry in entries.values():
            self._bury(entry)
        return len(entries)

    def forget(self, entry: Entry) -> None:
        """Forget a group that has neither members nor offsets."""
        self._owned[entry.partition].pop(entry.group.group_id, None)
        self._bury(entry)

    def _bury(self, entry: Entry) -> None:
        entry.group.unload()
        self.settle(entry)
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None

    def resign(self) -> None:
        """Stop coordinating all groups, as the broker stops."""
        self._resigned = True
        for partition in [*self._owned, *self._loading]:
            self._let_go(partition)

    # -- performing what groups want --

    def settle(self, entry: Entry) -> None:
        """Perform the effects of an event and those that follow from their outcomes, then set the timer."""
        if entry.is_settling:
            return
        entry.is_settling = True
        try:
            while effects := entry.group.take_effects():
                for effect in effects:
                    self._perform(entry, effect)
        finally:
            entry.is_settling = False
        self._arm(entry)

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

    def _arm(self, entry: Entry) -> None:
        deadline_ms = entry.group.deadline_ms
        if entry.timer is not None:
            if deadline_ms is not None and entry.timer_ms <= deadline_ms:
                return  # the timer that is set comes earlier; it sets the next one
            entry.timer.cancel()
            entry.timer = None
        if deadline_ms is not None:
            entry.timer_ms = deadline_ms
            entry.timer = self.timer.after(deadline_ms - self.timer.now_ms(), partial(self._fire, entry))

    def _fire(self, entry: Entry) -> None:
        entry.timer = None
        if entry.group.state is not GroupState.DEAD:
            entry.group.expire(self.timer.now_ms())
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
