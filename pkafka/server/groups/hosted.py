"""The groups of one worker (GROUP-10): loaded when this broker begins to lead their partition, let go when it stops.

What a group wants done is done here, in order: answers, records, one timer a group. Runs on the worker's event loop;
no group is seen by two processes.
"""

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from time import perf_counter
from typing import Any, Final, Protocol

from pkafka.clock import Clock
from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from pkafka.records.batch import BatchHeader
from pkafka.records.builder import RecordFields
from pkafka.records.errors import RecordError
from pkafka.records.reading import Record
from pkafka.server.config import BrokerConfig
from pkafka.server.delayed import Timer, TimerTask
from pkafka.server.groups.effects import Answer, Effect, Store, StoreAssignment
from pkafka.server.groups.group import Group, GroupSettings
from pkafka.server.groups.loading import LoadedGroup, Replay
from pkafka.server.groups.offsets import GroupOffsets, PartitionKey
from pkafka.server.groups.records import encode_group_key, encode_group_value, partition_of
from pkafka.server.groups.states import GroupState
from pkafka.server.turns import Turns

log = logging.getLogger(__name__)

_partition_of: Final = lru_cache(maxsize=10_000)(partition_of)


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
class Entry:
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


class HostedGroups:
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
        self.settings = settings
        self.log = group_log
        self._partitions = partitions
        self.timer = timer
        self.clock = clock
        self._spawn = spawn
        self._owned: dict[int, dict[str, Entry]] = {}
        self._loading: dict[int, set[PartitionKey]] = {}
        """By partition, what was deleted since its loading began; this one set stands for that one loading."""
        self.deleted_meanwhile: Callable[[Iterable[PartitionKey]], None] = lambda _deleted: None
        """Called after a loading with what was deleted while it ran."""
        self._turn_to_load = asyncio.Lock()
        self._resigned = False
        self.counters = GroupCounters()

    # -- where groups are --

    def partition_of(self, group_id: str) -> int:
        """The partition of __consumer_offsets that a group belongs to."""
        return _partition_of(group_id, self._partitions())

    def look_up(self, group_id: str, *, is_empty_id_allowed: bool = False) -> tuple[ErrorCode, Entry | None]:
        """NONE when the group is coordinated here, and the group when there is one; else why it cannot be served."""
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

    @property
    def is_loading(self) -> bool:
        """Whether groups are missing that this worker is about to know."""
        return bool(self._loading)

    @property
    def has_resigned(self) -> bool:
        """Whether the broker stops."""
        return self._resigned

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

    # -- partitions come and go --

    def begin(self, partition: int) -> None:
        """This broker leads a partition from now on, or still does."""
        if self._resigned or partition in self._owned or partition in self._loading:
            return
        deleted = self._loading[partition] = set()
        self._spawn(self._load(partition, deleted))

    def note_deleted(self, deleted: Iterable[PartitionKey]) -> None:
        """Partitions were deleted: what is being loaded may have offsets of them."""
        for meanwhile in self._loading.values():
            meanwhile.update(deleted)

    async def _load(self, partition: int, deleted: set[PartitionKey]) -> None:
        # One after the other: all at once would give the loop's time to each of them in turn, and clients none.
        async with self._turn_to_load:
            if self._loading.get(partition) is deleted:
                await self._load_now(partition, deleted)

    async def _load_now(self, partition: int, deleted: set[PartitionKey]) -> None:
        source = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition)
        began_s = perf_counter()
        replay = Replay(source)
        async for header, records in self.log.read(partition):
            try:
                replay.play(header, records)
            except RecordError as error:
                log.error(
                    "Ignoring a control batch at offset %d of %s: %s", header.base_offset, source, error
                )
            if self._loading.get(partition) is not deleted:
                return
        entries: dict[str, Entry] = {}
        turns = Turns()
        for group_id, loaded in replay.groups():
            try:
                entries[group_id] = self._restored(group_id, partition, loaded)
            except Exception:
                # One group that cannot be restored must not keep the others of its partition from their members.
                log.exception("Group %s of %s cannot be restored", group_id, source)
            await turns.step()
        if self._loading.get(partition) is not deleted:
            return
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
        """This broker leads a partition no more: whoever waits in its groups is told."""
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
        """A group has nothing any more."""
        self._owned[entry.partition].pop(entry.group.group_id, None)
        self._bury(entry)

    def _bury(self, entry: Entry) -> None:
        entry.group.unload()
        self.settle(entry)
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None

    def resign(self) -> None:
        """Coordinate nothing any more: the broker stops."""
        self._resigned = True
        for partition in [*self._owned, *self._loading]:
            self._let_go(partition)

    # -- performing what groups want --

    def settle(self, entry: Entry) -> None:
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
                return  # it asks again then
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
