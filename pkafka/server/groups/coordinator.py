"""The group coordinator of one worker (GROUP-1, GROUP-5, GROUP-10): groups by partition of __consumer_offsets.

It decides nothing about members (group.py) or offsets (offsets.py): it loads groups when this broker begins to lead
their partition, hands them requests, performs what follows in order (answers, records, one timer a group), and lets
them go when the partition is led elsewhere. Runs on the worker's event loop; no group is seen by two processes.
"""

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from time import perf_counter
from typing import Any, Final, Protocol, TypeAlias

from pkafka.clock import Clock
from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from pkafka.records.batch import BatchHeader
from pkafka.records.builder import RecordFields
from pkafka.records.errors import RecordError
from pkafka.records.reading import Record
from pkafka.server.config import BrokerConfig
from pkafka.server.delayed import Timer, TimerTask
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
from pkafka.server.groups.group import Group, GroupDescription, GroupSettings, join_refusal
from pkafka.server.groups.loading import LoadedGroup, Replay
from pkafka.server.groups.offsets import CONSUMER_PROTOCOL, GroupOffsets, Holder, PartitionKey
from pkafka.server.groups.records import (
    CommittedOffset,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
    partition_of,
)
from pkafka.server.groups.states import GroupState
from pkafka.server.turns import Turns

log = logging.getLogger(__name__)

Outcomes: TypeAlias = dict[PartitionKey, ErrorCode]

_partition_of: Final = lru_cache(maxsize=10_000)(partition_of)

_COORDINATOR_MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_COORDINATOR_NOT_AVAILABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
_TOO_LARGE: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE}
)
_NO_ACKS: Final = 0


class GroupLog(Protocol):
    """Where the groups are kept (:class:`pkafka.server.groups.offsets_log.OffsetsLog`)."""

    def append(
        self,
        partition: int,
        records: Sequence[RecordFields],
        committed: Callable[[ErrorCode, int], None],
        *,
        acks: int | None = None,
    ) -> None:
        """Append one batch; ``committed`` gets the outcome and the batch's offset, at once or later."""
        ...

    def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
        """All that there is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """The broker's keys for groups and offsets."""

    group: GroupSettings
    offset_metadata_chars_max: int = 4096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000

    @classmethod
    def of(cls, config: BrokerConfig) -> "CoordinatorSettings":
        """As the broker is configured; none of these changes while it runs."""
        group = GroupSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
        )
        return cls(
            group=group,
            offset_metadata_chars_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        )


@dataclass(slots=True, eq=False)
class _Entry:
    """One group with what belongs to it."""

    group: Group
    partition: int
    offsets: GroupOffsets = field(default_factory=GroupOffsets)
    timer: TimerTask | None = None
    timer_ms: int = 0
    is_settling: bool = False


@dataclass(slots=True)
class GroupCounters:
    """What the coordinator counts, under the names of Kafka's group-coordinator-metrics."""

    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
    completed_rebalances: int = 0

    def by_name(self) -> dict[str, int]:
        """The counts, by the names that the page of metrics gives them."""
        return {
            "offset_commit": self.offset_commits,
            "offset_expiration": self.offset_expirations,
            "offset_deletion": self.offset_deletions,
            "group_completed_rebalance": self.completed_rebalances,
        }


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
        self._settings = settings
        self._log = group_log
        self._partitions = partitions
        self._timer = timer
        self._clock = clock
        self._spawn = spawn
        self._owned: dict[int, dict[str, _Entry]] = {}
        self._loading: dict[int, object] = {}
        """By partition, a token of the loading that is under way."""
        self._resigned = False
        self.counters = GroupCounters()

    # -- where groups are --

    def partition_of(self, group_id: str) -> int:
        """The partition of __consumer_offsets that a group belongs to."""
        return _partition_of(group_id, self._partitions())

    def refusal(self, group_id: str, *, is_empty_id_allowed: bool = False) -> ErrorCode:
        """NONE when the group is coordinated here; else why requests about it cannot be served."""
        if not group_id and not is_empty_id_allowed:
            return ErrorCode.INVALID_GROUP_ID
        if self._resigned:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_of(group_id)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self._owned else ErrorCode.NOT_COORDINATOR

    def _find(self, group_id: str) -> _Entry | None:
        return self._owned.get(self.partition_of(group_id), {}).get(group_id)

    def _create(self, group_id: str) -> _Entry:
        partition = self.partition_of(group_id)
        group = Group(group_id, self._settings.group, wall_clock_ms=self._clock.now_ms, new_uuid=_new_uuid)
        entry = self._owned[partition][group_id] = _Entry(group, partition)
        return entry

    def _entries(self) -> Iterator[_Entry]:
        for groups in self._owned.values():
            yield from groups.values()

    # -- partitions come and go --

    def begin(self, partition: int) -> None:
        """This broker leads a partition from now on, or still does."""
        if self._resigned or partition in self._owned or partition in self._loading:
            return
        token = self._loading[partition] = object()
        self._spawn(self._load(partition, token))

    async def _load(self, partition: int, token: object) -> None:
        source = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition)
        began_s = perf_counter()
        replay = Replay(source)
        async for header, records in self._log.read(partition):
            try:
                replay.play(header, records)
            except RecordError as error:
                log.error(
                    "Ignoring a control batch at offset %d of %s: %s", header.base_offset, source, error
                )
            if self._loading.get(partition) is not token:
                return
        entries: dict[str, _Entry] = {}
        turns = Turns()
        for group_id, loaded in replay.groups().items():
            try:
                entries[group_id] = self._restored(group_id, partition, loaded)
            except Exception:
                # One group that cannot be restored must not keep the others of its partition from their members.
                log.exception("Group %s of %s cannot be restored", group_id, source)
            await turns.step()
        if self._loading.get(partition) is not token:
            return
        del self._loading[partition]
        self._owned[partition] = entries
        for entry in list(entries.values()):
            self._settle(entry)
        log.log(
            logging.INFO if entries else logging.DEBUG,
            "Finished loading offsets and group metadata from %s in %d milliseconds: %d groups",
            source,
            (perf_counter() - began_s) * 1000,
            len(entries),
        )

    def _restored(self, group_id: str, partition: int, loaded: LoadedGroup) -> _Entry:
        settings, wall_clock_ms = self._settings.group, self._clock.now_ms
        if loaded.value is None:
            group = Group(group_id, settings, wall_clock_ms=wall_clock_ms, new_uuid=_new_uuid)
        else:
            now_ms = self._timer.now_ms()
            group = Group.restore(
                group_id, loaded.value, settings, now_ms, wall_clock_ms=wall_clock_ms, new_uuid=_new_uuid
            )
        entry = _Entry(group, partition)
        entry.offsets.load(loaded.offsets, loaded.transactional)
        return entry

    def end(self, partition: int) -> None:
        """This broker leads a partition no more: whoever waits in its groups is told."""
        self._loading.pop(partition, None)
        entries = self._owned.pop(partition, {})
        for entry in entries.values():
            self._bury(entry)
        if entries:
            log.info("Unloaded %d groups of %s-%d", len(entries), CONSUMER_OFFSETS_TOPIC, partition)

    def _bury(self, entry: _Entry) -> None:
        entry.group.unload()
        self._settle(entry)
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None

    def resign(self) -> None:
        """Coordinate nothing any more: the broker stops."""
        self._resigned = True
        for partition in [*self._owned, *self._loading]:
            self.end(partition)

    # -- performing what groups want --

    def _settle(self, entry: _Entry) -> None:
        """Perform the effects of an event, and of the outcomes of those; then see to the timer."""
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

    def _perform(self, entry: _Entry, effect: Effect) -> None:
        if isinstance(effect, Answer):
            waiter = effect.waiter
            assert isinstance(waiter, asyncio.Future)
            if not waiter.done():
                waiter.set_result(effect.result)
            return
        record = (
            self._clock.now_ms(),
            encode_group_key(entry.group.group_id),
            encode_group_value(effect.value),
            (),
        )
        if isinstance(effect, StoreAssignment):
            self.counters.completed_rebalances += 1
        self._log.append(entry.partition, [record], partial(self._group_stored, entry, effect))

    def _group_stored(self, entry: _Entry, store: Store, error: ErrorCode, _offset: int) -> None:
        if error is not ErrorCode.NONE:
            log.error("The state of group %s could not be written: %s", entry.group.group_id, error.name)
        if entry.group.state is not GroupState.DEAD:
            entry.group.stored(store, error, self._timer.now_ms())
            self._settle(entry)

    def _arm(self, entry: _Entry) -> None:
        deadline_ms = entry.group.deadline_ms
        if entry.timer is not None:
            if deadline_ms is not None and entry.timer_ms <= deadline_ms:
                return  # it asks again then
            entry.timer.cancel()
            entry.timer = None
        if deadline_ms is not None:
            entry.timer_ms = deadline_ms
            entry.timer = self._timer.after(deadline_ms - self._timer.now_ms(), partial(self._fire, entry))

    def _fire(self, entry: _Entry) -> None:
        entry.timer = None
        if entry.group.state is not GroupState.DEAD:
            entry.group.expire(self._timer.now_ms())
            self._settle(entry)

    # -- members --

    def join(self, group_id: str, request: JoinRequest) -> "JoinResult | asyncio.Future[JoinResult]":
        """JoinGroup."""
        error = self.refusal(group_id)
        if error is not ErrorCode.NONE:
            return JoinResult(error=error, member_id=request.member_id)
        entry = self._find(group_id)
        refused = join_refusal(self._settings.group, request, group_exists=entry is not None)
        if refused is not None:
            return refused
        waiter: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        entry = entry or self._create(group_id)
        entry.group.join(waiter, request, self._timer.now_ms())
        self._settle(entry)
        return waiter.result() if waiter.done() else waiter

    def sync(self, group_id: str, request: SyncRequest) -> "SyncResult | asyncio.Future[SyncResult]":
        """SyncGroup."""
        error = self.refusal(group_id)
        if error is not ErrorCode.NONE:
            # While it loads, the state of an unfinished rebalance is lost: the member is to join again.
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error)
        entry = self._find(group_id)
        if entry is None:
            return SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID)
        waiter: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        entry.group.sync(waiter, request, self._timer.now_ms())
        self._settle(entry)
        return waiter.result() if waiter.done() else waiter

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat."""
        error = self.refusal(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return error
        entry = self._find(group_id)
        if entry is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = entry.group.heartbeat(member_id, instance_id, generation, self._timer.now_ms())
        self._settle(entry)
        return error

    def leave(self, group_id: str, leaving: Sequence[Leaving]) -> LeaveResult:
        """LeaveGroup."""
        error = self.refusal(group_id)
        if error is not ErrorCode.NONE:
            return LeaveResult(error, [])
        entry = self._find(group_id)
        if entry is None:
            unknown = [
                LeftMember(one.member_id, one.instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for one in leaving
            ]
            return LeaveResult(ErrorCode.NONE, unknown)
        result = entry.group.leave(leaving, self._timer.now_ms())
        self._settle(entry)
        return result

    # -- offsets --

    def commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: Mapping[PartitionKey, CommittedOffset],
    ) -> "Outcomes | asyncio.Future[Outcomes]":
        """OffsetCommit: the outcome of each partition."""
        error = self.refusal(group_id, is_empty_id_allowed=True)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(commits, error)
        entry = self._find(group_id)
        if entry is None:
            if generation >= 0:
                return dict.fromkeys(commits, ErrorCode.ILLEGAL_GENERATION)
            entry = self._create(group_id)
        error = entry.group.check_commit(member_id, instance_id, generation, self._timer.now_ms())
        self._settle(entry)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(commits, error)
        return self._store_offsets(entry, commits)

    def _store_offsets(
        self, entry: _Entry, commits: Mapping[PartitionKey, CommittedOffset]
    ) -> "Outcomes | asyncio.Future[Outcomes]":
        chars_max = self._settings.offset_metadata_chars_max
        accepted = {key: one for key, one in commits.items() if java_length(one.metadata) <= chars_max}
        outcomes = dict.fromkeys(commits, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        if not accepted:
            return outcomes
        group_id = entry.group.group_id
        now_ms = self._clock.now_ms()
        records = [
            (now_ms, encode_offset_key(group_id, *key), encode_offset_value(one), ())
            for key, one in accepted.items()
        ]
        answered: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()

        def committed(error: ErrorCode, batch_offset: int) -> None:
            if error is ErrorCode.NONE:
                entry.offsets.stored(accepted, batch_offset)
                self.counters.offset_commits += len(accepted)
            else:
                log.error("Offsets of group %s could not be written: %s", group_id, error.name)
                entry.offsets.failed(accepted)
            outcomes.update(dict.fromkeys(accepted, _commit_error(error)))
            if not answered.done():
                answered.set_result(outcomes)

        entry.offsets.stage(accepted)
        self._log.append(entry.partition, records, committed)
        return answered.result() if answered.done() else answered

    def committed(
        self, group_id: str, keys: Iterable[PartitionKey] | None, *, require_stable: bool
    ) -> tuple[ErrorCode, dict[PartitionKey, CommittedOffset | ErrorCode | None]]:
        """OffsetFetch: the error of the group, and for each partition the offset, None, or its own error.

        Args:
            keys: None for all that have an offset.
        """
        error = self.refusal(group_id, is_empty_id_allowed=True)
        if error is not ErrorCode.NONE:
            return error, {}
        entry = self._find(group_id)
        if entry is None:
            return ErrorCode.NONE, dict.fromkeys(keys or ())
        offsets = entry.offsets
        found: dict[PartitionKey, CommittedOffset | ErrorCode | None] = {}
        for key in offsets.partitions() if keys is None else keys:
            is_unstable = require_stable and offsets.is_unstable(key)
            found[key] = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else offsets.get(key)
        return ErrorCode.NONE, found

    def delete_offsets(self, group_id: str, keys: Sequence[PartitionKey]) -> tuple[ErrorCode, Outcomes]:
        """OffsetDelete: the error of the group, or the outcome of each partition."""
        error = self.refusal(group_id)
        if error is not ErrorCode.NONE:
            return error, {}
        entry = self._find(group_id)
        if entry is None:
            return ErrorCode.GROUP_ID_NOT_FOUND, {}
        group = entry.group
        is_empty = group.state is GroupState.EMPTY
        if not is_empty and group.protocol_type != CONSUMER_PROTOCOL:
            return ErrorCode.NON_EMPTY_GROUP, {}
        outcomes = {
            key: (
                ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                if not is_empty and group.is_subscribed_to(key[0])
                else ErrorCode.NONE
            )
            for key in keys
        }
        eligible = [key for key, outcome in outcomes.items() if outcome is ErrorCode.NONE]
        if eligible:
            self.counters.offset_deletions += self._clean(entry, lambda offsets: offsets.remove(eligible))
        return ErrorCode.NONE, outcomes

    # -- whole groups --

    def describe(self, group_id: str) -> GroupDescription | ErrorCode:
        """DescribeGroups; a group that does not exist is Dead."""
        error = self.refusal(group_id, is_empty_id_allowed=True)
        if error is not ErrorCode.NONE:
            return error
        entry = self._find(group_id)
        if entry is None:
            return GroupDescription(GroupState.DEAD, "", "", [])
        return entry.group.describe()

    def overview(self) -> tuple[ErrorCode, list[Group]]:
        """ListGroups: all groups of this worker; not NONE when some are missing."""
        if self._resigned:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._loading else ErrorCode.NONE
        return error, [entry.group for entry in self._entries()]

    def delete(self, group_id: str) -> ErrorCode:
        """DeleteGroups, one group."""
        error = self.refusal(group_id, is_empty_id_allowed=True)
        if error is not ErrorCode.NONE:
            return error
        entry = self._find(group_id)
        if entry is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if entry.group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        removed = self._clean(entry, lambda offsets: offsets.remove(offsets.partitions()), is_deleted=True)
        self.counters.offset_deletions += removed
        log.info(
            "The following groups were deleted: %s. A total of %d offsets were removed.", group_id, removed
        )
        return ErrorCode.NONE

    # -- cleaning --

    def partitions_deleted(self, deleted: Iterable[PartitionKey]) -> None:
        """Topics were deleted, and with them what groups committed for them."""
        gone = frozenset(deleted)
        if not gone:
            return
        for entry in list(self._entries()):
            keys = entry.offsets.among(gone)
            if keys:
                self.counters.offset_deletions += self._clean(entry, partial(GroupOffsets.remove, keys=keys))

    async def expire_for_ever(self) -> None:
        """Look for what has expired, every ``offsets.retention.check.interval.ms``."""
        while True:
            await asyncio.sleep(self._settings.offsets_retention_check_interval_ms / 1000)
            await self.expire_offsets()

    async def expire_offsets(self) -> None:
        """Let go of expired offsets, and of groups that have neither members nor offsets."""
        turns = Turns()
        now_ms = self._clock.now_ms()
        removed = 0
        for entry in list(self._entries()):
            if entry.group.state is not GroupState.DEAD:
                removed += self._clean(entry, partial(self._remove_expired, entry.group, now_ms))
            await turns.step()
        self.counters.offset_expirations += removed
        if removed:
            log.info("Removed %d expired offsets", removed)

    def _remove_expired(self, group: Group, now_ms: int, offsets: GroupOffsets) -> list[PartitionKey]:
        holder = Holder(
            protocol_type=group.protocol_type,
            is_empty=group.state is GroupState.EMPTY,
            is_stable=group.state is GroupState.STABLE,
            state_since_ms=group.state_since_ms,
            subscribed_topics=group.subscribed_topics,
        )
        return offsets.remove_expired(holder, now_ms=now_ms, retention_ms=self._settings.offsets_retention_ms)

    def _clean(
        self,
        entry: _Entry,
        remove: Callable[[GroupOffsets], Sequence[PartitionKey]],
        *,
        is_deleted: bool = False,
    ) -> int:
        """Remove offsets, and the group when nothing is left of it; writes the tombstones. Returns how many offsets.

        A tombstone that is lost comes again: what it was for is found, and removed, after the next loading.
        """
        group = entry.group
        removed = remove(entry.offsets)
        now_ms = self._clock.now_ms()
        tombstones: list[RecordFields] = [
            (now_ms, encode_offset_key(group.group_id, *key), None, ()) for key in removed
        ]
        if is_deleted or (group.state is GroupState.EMPTY and not entry.offsets):
            log.info("Group %s transitioned to Dead in generation %d", group.group_id, group.generation)
            self._owned[entry.partition].pop(group.group_id, None)
            if group.generation > 0:
                # A group that was only ever used to store offsets has no record of its own.
                tombstones.append((now_ms, encode_group_key(group.group_id), None, ()))
            self._bury(entry)
        if tombstones:
            self._log.append(entry.partition, tombstones, self._cleaned, acks=_NO_ACKS)
        return len(removed)

    def _cleaned(self, error: ErrorCode, _offset: int) -> None:
        if error is not ErrorCode.NONE:
            log.error("Tombstones of deleted offsets or groups could not be written: %s", error.name)

    # -- figures --

    def gauges(self) -> dict[str, int]:
        """The gauges of GroupMetadataManager, by their names there."""
        states = Counter(entry.group.state for entry in self._entries())
        return {
            "NumOffsets": sum(len(entry.offsets) for entry in self._entries()),
            "NumGroups": sum(states.values()),
            **{f"NumGroups{state.value}": states[state] for state in GroupState},
        }


def _new_uuid() -> str:
    return str(uuid.uuid4())


def java_length(text: str) -> int:
    """The length of a string in Java: its UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def _commit_error(error: ErrorCode) -> ErrorCode:
    """What a client is told when its commit could not be appended."""
    if error in _COORDINATOR_MOVED:
        return ErrorCode.NOT_COORDINATOR
    if error in _COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error in _TOO_LARGE else error
