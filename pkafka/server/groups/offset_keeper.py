"""The requests about committed offsets, and the removal of expired and deleted offsets."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.records.builder import RecordFields
from pkafka.server.coordinator.topic_log import TransactionalProducer
from pkafka.server.groups.commits import (
    Commits,
    Outcomes,
    Waiting,
    accepted,
    records_of,
    told_of,
    tombstones_of,
)
from pkafka.server.groups.coordinator import GroupCoordinator
from pkafka.server.groups.group import Group
from pkafka.server.groups.hosted import Entry
from pkafka.server.groups.offsets import CONSUMER_PROTOCOL, GroupOffsets, Holder, PartitionKey, Removed
from pkafka.server.groups.records import CommittedOffset, encode_group_key
from pkafka.server.groups.states import GroupState
from pkafka.server.ipc.turns import Turns

log = logging.getLogger(__name__)

_NO_ACKS: Final = 0
_TOMBSTONES_PER_BATCH: Final = 500
"""At most so many tombstones go into one batch: a larger batch may exceed what the topic allows."""


class OffsetKeeper:
    """Serves the requests about committed offsets of this worker's groups, and removes offsets.

    Args:
        groups: of the worker.
    """

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups
        groups.deleted_meanwhile = self.partitions_deleted

    # -- commits --

    def commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: Commits,
    ) -> "Outcomes | asyncio.Future[Outcomes]":
        """Serve OffsetCommit; returns the outcome of each partition."""
        error, entry = self._groups.look_up(group_id, is_empty_id_allowed=True)
        if error:
            return dict.fromkeys(commits, error)
        if entry is None:
            if generation >= 0:
                return dict.fromkeys(commits, ErrorCode.ILLEGAL_GENERATION)
            entry = self._groups.create(group_id)
        error = entry.group.check_commit(member_id, instance_id, generation, self._groups.timer.now_ms())
        self._groups.settle(entry)
        if error:
            return dict.fromkeys(commits, error)
        return self._store_offsets(entry, commits)

    def _store_offsets(self, entry: Entry, commits: Commits) -> "Outcomes | asyncio.Future[Outcomes]":
        refused, good = accepted(commits, self._groups.settings.offset_metadata_chars_max)
        if not good:
            return refused
        waiting = Waiting(refused)
        group_id = entry.group.group_id

        def committed(error: ErrorCode, batch_offset: int) -> None:
            if error:
                log.error("Offsets of group %s could not be written: %s", group_id, error.name)
                entry.offsets.failed(good)
            else:
                entry.offsets.stored(good, batch_offset)
                self._groups.counters.offset_commits += len(good)
            waiting.end(dict.fromkeys(good, told_of(error)))

        entry.offsets.stage(good)
        records = records_of(group_id, good, self._groups.clock.now_ms())
        self._groups.log.append(entry.partition, records, committed)
        return waiting.outcomes()

    # -- what is committed --

    def committed(
        self, group_id: str, keys: Iterable[PartitionKey] | None, *, require_stable: bool
    ) -> tuple[ErrorCode, dict[PartitionKey, CommittedOffset | ErrorCode | None]]:
        """Serve OffsetFetch.

        Args:
            keys: None for all partitions with an offset.

        Returns:
            The error of the group, and for each partition its offset, None, or its own error.
        """
        error, entry = self._groups.look_up(group_id, is_empty_id_allowed=True)
        if error is not ErrorCode.NONE:
            return error, {}
        if entry is None:
            return ErrorCode.NONE, dict.fromkeys(keys or ())
        offsets = entry.offsets
        found: dict[PartitionKey, CommittedOffset | ErrorCode | None] = {}
        for key in offsets.partitions() if keys is None else keys:
            is_unstable = require_stable and offsets.is_unstable(key)
            found[key] = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else offsets.get(key)
        return ErrorCode.NONE, found

    def delete_offsets(self, group_id: str, keys: Sequence[PartitionKey]) -> tuple[ErrorCode, Outcomes]:
        """Serve OffsetDelete; returns the error of the group, or the outcome of each partition."""
        error, entry = self._groups.look_up(group_id)
        if error is not ErrorCode.NONE:
            return error, {}
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
            self._groups.counters.offset_deletions += self.clean(
                entry, lambda offsets: offsets.remove(eligible)
            )
        return ErrorCode.NONE, outcomes

    def delete_group(self, group_id: str) -> ErrorCode:
        """Serve DeleteGroups for one group."""
        error, entry = self._groups.look_up(group_id, is_empty_id_allowed=True)
        if error is not ErrorCode.NONE:
            return error
        if entry is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if entry.group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        removed = self.clean(entry, GroupOffsets.remove_all, is_deleted=True)
        self._groups.counters.offset_deletions += removed
        log.info(
            "The following groups were deleted: %s. A total of %d offsets were removed.", group_id, removed
        )
        return ErrorCode.NONE

    # -- cleaning --

    def partitions_deleted(self, deleted: Iterable[PartitionKey]) -> None:
        """Remove the offsets of deleted partitions from all groups."""
        gone = frozenset(deleted)
        if not gone:
            return
        self._groups.note_deleted(gone)
        for entry in list(self._groups.entries()):
            keys = entry.offsets.among(gone)
            if keys:
                self._groups.counters.offset_deletions += self.clean(
                    entry, partial(GroupOffsets.remove, keys=keys)
                )

    async def expire_for_ever(self) -> None:
        """Remove expired offsets every ``offsets.retention.check.interval.ms``."""
        while True:
            await asyncio.sleep(self._groups.settings.offsets_retention_check_interval_ms / 1000)
            await self.expire_offsets()

    async def expire_offsets(self) -> None:
        """Remove expired offsets, and groups that have neither members nor offsets."""
        turns = Turns()
        now_ms = self._groups.clock.now_ms()
        removed = 0
        for entry in list(self._groups.entries()):
            if entry.group.state is not GroupState.DEAD:
                removed += self.clean(entry, partial(self._remove_expired, entry.group, now_ms))
            await turns.step()
        self._groups.counters.offset_expirations += removed
        if removed:
            log.info("Removed %d expired offsets", removed)

    def _remove_expired(self, group: Group, now_ms: int, offsets: GroupOffsets) -> Removed:
        holder = Holder(
            protocol_type=group.protocol_type,
            is_empty=group.state is GroupState.EMPTY,
            is_stable=group.state is GroupState.STABLE,
            state_since_ms=group.state_since_ms,
            subscribed_topics=group.subscribed_topics,
        )
        return offsets.remove_expired(
            holder, now_ms=now_ms, retention_ms=self._groups.settings.offsets_retention_ms
        )

    def clean(
        self,
        entry: Entry,
        remove: Callable[[GroupOffsets], Removed],
        *,
        is_deleted: bool = False,
    ) -> int:
        """Remove offsets, and the group when nothing is left of it, and write the tombstones.

        When a tombstone is lost, the next loading finds its offset, which is removed again.

        Returns:
            How many offsets were removed; those of open transactions do not count.
        """
        group = entry.group
        now_ms = self._groups.clock.now_ms()
        removed = remove(entry.offsets)
        keys = dict.fromkeys(removed.committed)
        for producer_id, pending in removed.pending.items():
            producer = self._groups.log.open_transaction(entry.partition, producer_id)
            if producer is None:
                # Its marker is in the log and will count in a moment: tombstones behind the marker.
                keys.update(dict.fromkeys(pending))
            else:
                # As part of the transaction: others do not touch what the marker brings. Kafka writes none, so that
                # these offsets come back when the transaction commits and the group is loaded again.
                self._write(entry, tombstones_of(group.group_id, pending, now_ms), producer)
        tombstones = tombstones_of(group.group_id, keys, now_ms)
        if is_deleted or (group.state is GroupState.EMPTY and not entry.offsets):
            log.info("Group %s transitioned to Dead in generation %d", group.group_id, group.generation)
            if group.generation > 0:
                # A group that only stored offsets has no record of its own, and needs no tombstone.
                tombstones.append((now_ms, encode_group_key(group.group_id), None, ()))
            self._groups.forget(entry)
        self._write(entry, tombstones)
        return len(removed.committed)

    def _write(
        self, entry: Entry, tombstones: Sequence[RecordFields], producer: TransactionalProducer | None = None
    ) -> None:
        for start in range(0, len(tombstones), _TOMBSTONES_PER_BATCH):
            batch = tombstones[start : start + _TOMBSTONES_PER_BATCH]
            self._groups.log.append(entry.partition, batch, self._cleaned, acks=_NO_ACKS, producer=producer)

    def _cleaned(self, error: ErrorCode, _offset: int) -> None:
        if error is not ErrorCode.NONE:
            log.error("Tombstones of deleted offsets or groups could not be written: %s", error.name)
