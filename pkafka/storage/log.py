"""The log of one partition: append, read, roll, truncate, retain, flush.

One thread of one process owns it; nothing in here waits for another thread. What is slow (an fsync after a roll, the
removal of files) is handed to the owner through the hooks. recovery.py opens a log; replication decides what its high
watermark is.
"""

import os
import random
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.model import NO_TIMESTAMP, LeaderEpoch, Millis, Offset
from pkafka.records.batch import stamp
from pkafka.records.validation import ValidatedBatch, ValidatedRecords
from pkafka.storage.batch_scan import StoredBatch
from pkafka.storage.config import LogConfig
from pkafka.storage.fetched_batches import batches_in_order, split_for_segments
from pkafka.storage.files import Files, disk_failure
from pkafka.storage.log_reader import LogReader
from pkafka.storage.log_values import (
    AppendResult,
    DeletedFiles,
    LogHooks,
    LogParts,
    LogRead,
    PendingFlush,
    TimestampOffset,
    UnexpectedOffsetError,
)
from pkafka.storage.open_files import OpenFiles
from pkafka.storage.producer_rebuild import rebuild, replay
from pkafka.storage.producer_state import BatchMetadata, CompletedTransaction, ProducerEntry, advance_sequence
from pkafka.storage.producer_trial import ProducerTrial
from pkafka.storage.resends import remember_resends
from pkafka.storage.retention import RetentionLimits, SegmentFacts, expired_segments
from pkafka.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    AppendedBatch,
    Segment,
)
from pkafka.storage.transaction_index import AbortedTransaction

__all__ = [
    "AppendResult",
    "DeletedFiles",
    "Log",
    "LogHooks",
    "LogParts",
    "LogRead",
    "PendingFlush",
    "TimestampOffset",
    "UnexpectedOffsetError",
]

DELETED_DIRECTORY_SUFFIX: Final = "-delete"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"
DIRECTORY_NAME_CHARS_MAX: Final = 255


class Log(LogReader):
    """One partition's log. Open one with recovery.open_log.

    Args:
        parts: its state, as recovered.
        files: the file port.
        clock: the wall clock, for the ages of segments and producers.
        open_files: the register of open inactive segments, one per process.
        hooks: what the owner does for it.
    """

    def __init__(
        self, parts: LogParts, *, files: Files, clock: Clock, open_files: OpenFiles, hooks: LogHooks
    ) -> None:
        super().__init__(parts)
        self.directory = parts.directory
        self.topic_id = parts.topic_id
        self.config = parts.config
        self.high_watermark = parts.log_start_offset
        self.last_stable_offset = parts.log_start_offset
        self.recovery_point = parts.recovery_point
        self.cleaner_checkpoint: Offset | None = None
        """Up to where compaction has come; None when it never has."""
        self.producers = parts.producers
        self.last_flush_ms = clock.now_ms()
        self.failure: StorageError | None = None
        self._snapshots = parts.snapshots
        self.producer_expiration_ms = parts.producer_expiration_ms
        self._files = files
        self._clock = clock
        self._open_files = open_files
        self._hooks = hooks
        self._closed = False
        self._truncations = 0
        self._forgotten_below = parts.log_end_offset
        """Of what producers wrote before, only the last batch of each is known; the log start when all is."""
        self._jitter_ms = self._draw_jitter()
        self._active.update_config(self.config)
        self._active.activate()

    # -- append --------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: ValidatedRecords,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: Millis,
        flush_later: bool = False,
    ) -> AppendResult:
        """Give the batches their offsets and write them behind the last one.

        Args:
            records: as validation.validate returned them; offsets and epoch are written into their memory.
            leader_epoch: of this leader.
            now_ms: the wall clock, for rolling by age.
            flush_later: leave the flush that flush.messages asks for to the caller (see flush_is_due).

        Raises:
            ApiError: RECORD_LIST_TOO_LARGE, a refusal of the producer's sequence, epoch or transaction (the log is
                then as before), or KAFKA_STORAGE_ERROR after an earlier failure.
            StorageError: the disk refused; the log is fenced.
        """
        if self.failure is not None or self._closed:
            raise self._refusal()
        data, batches = records.data, records.batches
        base = offset = self.log_end_offset
        if len(data) > self.config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"Message batch size is {len(data)} bytes in append to partition {self.topic_partition} which "
                f"exceeds the maximum configured segment size of {self.config.segment_bytes}.",
            )
        trial: ProducerTrial | None = None
        appended: list[AppendedBatch] = []
        newest = NO_TIMESTAMP
        for batch in batches:
            last = offset + batch.last_offset_delta
            if batch.producer_id >= 0:
                trial = trial or ProducerTrial(self.producers)
                try:
                    duplicate = trial.take(batch, data, offset, last)
                except ApiError as error:
                    duplicate = self._recalled(batch, error)
                if duplicate is not None:
                    return AppendResult(
                        duplicate.first_offset,
                        duplicate.last_offset,
                        duplicate.timestamp,
                        self.log_start_offset,
                        True,
                    )
            stamp(data, batch.position, base_offset=offset, leader_epoch=leader_epoch)
            newest = batch.max_timestamp if batch.max_timestamp > newest else newest
            appended.append((batch.position, batch.size, last, batch.max_timestamp))
            offset = last + 1
        if not appended:
            return AppendResult(-1, -1, records.log_append_time_ms, self.log_start_offset, False)
        try:
            if leader_epoch != self.leader_epochs.latest:
                self.leader_epochs.assign(leader_epoch, base)
            self._write(data, appended, base, offset, newest, now_ms)
            if trial is not None:
                self._commit(trial.entries, trial.begun, trial.completed)
            if not flush_later and self.flush_is_due:
                self.flush()
        except OSError as error:
            raise self._fenced("append to", error) from error
        return AppendResult(base, offset - 1, records.log_append_time_ms, self.log_start_offset, False)

    def _recalled(self, batch: ValidatedBatch, refusal: ApiError) -> BatchMetadata:
        """The original of a batch that is neither new nor known, when the log has it nevertheless.

        Looked for once after a start or a cut, when a producer sends such a batch: most logs never have to look.

        Raises:
            ApiError: ``refusal``, when there is no such batch.
        """
        if (
            refusal.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            and self._forgotten_below > self.log_start_offset
        ):
            below, self._forgotten_below = self._forgotten_below, self.log_start_offset
            self._guarded("read", lambda: remember_resends(self.producers, self._segments, below))
            original = self.producers.get(batch.producer_id).find_duplicate(
                batch.producer_epoch,
                batch.base_sequence,
                advance_sequence(batch.base_sequence, batch.last_offset_delta),
            )
            if original is not None:
                return original
        raise refusal

    @property
    def flush_is_due(self) -> bool:
        """Whether flush.messages wants what was appended on the disk before it is acknowledged."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    def append_as_follower(self, data: bytes | bytearray | memoryview) -> AppendResult:
        """Write batches that a leader sent, with the leader's offsets and epochs; a partial last one is left out.

        Raises:
            UnexpectedOffsetError: they begin below the end of this log.
            ApiError: CORRUPT_MESSAGE when they are damaged or not in order, KAFKA_STORAGE_ERROR after a failure.
            StorageError: the disk refused; the log is fenced.
        """
        if self.failure is not None or self._closed:
            raise self._refusal()
        view = memoryview(data)
        try:
            batches = batches_in_order(view, self.log_end_offset)
        except UnexpectedOffsetError as error:
            if self.log_start_offset < self.log_end_offset or error.last_offset < self.log_end_offset:
                raise
            return self._begin_with(view, error.first_offset)
        if not batches:
            return AppendResult(-1, -1, NO_TIMESTAMP, self.log_start_offset, False)
        now_ms = self._clock.now_ms()
        try:
            for run in split_for_segments(
                batches, self.config.segment_bytes - self._active.size, self.config.segment_bytes
            ):
                self._append_run(view, run, now_ms)
            if self.flush_is_due:
                self.flush()
        except OSError as error:
            raise self._fenced("append to", error) from error
        return AppendResult(
            batches[0].base_offset, batches[-1].last_offset, NO_TIMESTAMP, self.log_start_offset, False
        )

    def _begin_with(self, view: memoryview, first_offset: Offset) -> AppendResult:
        """Take batches into a log without records whose start lies within the first of them: the leader's log begins
        there, and so does this one, but batches are kept whole."""
        start = self.log_start_offset
        self.truncate_fully_and_start_at(first_offset)
        result = self.append_as_follower(view)
        self._move_log_start(start)
        return result

    def _write(
        self,
        data: bytes | bytearray | memoryview,
        appended: Sequence[AppendedBatch],
        first_offset: Offset,
        end_offset: Offset,
        newest: Millis,
        now_ms: Millis,
    ) -> None:
        segment = self._active
        if not segment.has_room_for(len(data), end_offset - 1) or self._is_too_old(segment, newest, now_ms):
            segment = self._roll(first_offset, now_ms)
        self._remember(first_offset, segment.size)
        segment.append(data, appended, first_timestamp=appended[0][3])
        self.log_end_offset = end_offset

    def _append_run(self, view: memoryview, run: list[StoredBatch], now_ms: Millis) -> None:
        entries: list[AppendedBatch] = []
        start = run[0].position
        for batch in run:
            if batch.leader_epoch >= 0:
                self.leader_epochs.assign(batch.leader_epoch, batch.base_offset)
            elif self.leader_epochs.latest >= 0:
                self.leader_epochs.clear()
            entries.append((batch.position - start, batch.size, batch.last_offset, batch.max_timestamp))
        newest = max(batch.max_timestamp for batch in run)
        data = view[start : run[-1].position + run[-1].size]
        self._write(data, entries, run[0].base_offset, run[-1].last_offset + 1, newest, now_ms)
        for batch in run:
            completed = replay(self.producers, batch)
            if completed is not None:
                self._index_transaction(completed)

    def _commit(
        self,
        entries: dict[int, ProducerEntry],
        begun: list[tuple[int, Offset]],
        completed: list[CompletedTransaction],
    ) -> None:
        self.producers.entries.update(entries)
        for producer_id, first_offset in begun:
            self.producers.begin(producer_id, first_offset)
        for transaction in completed:
            self._index_transaction(transaction)

    def _index_transaction(self, transaction: CompletedTransaction) -> None:
        if transaction.is_aborted:
            self._active.transaction_index.append(
                AbortedTransaction(
                    transaction.producer_id,
                    transaction.first_offset,
                    transaction.last_offset,
                    self.producers.stable_offset_after(transaction),
                )
            )
        self.producers.complete(transaction)

    # -- roll ----------------------------------------------------------------------------------------------------

    def maybe_roll(self, now_ms: Millis) -> bool:
        """Begin a new segment when the active one is full or too old.

        Returns:
            Whether it did.
        """
        segment = self._active
        if segment.has_room_for(0, self.log_end_offset) and not self._is_too_old(segment, now_ms, now_ms):
            return False
        self.roll(now_ms)
        return True

    def roll(self, now_ms: Millis) -> None:
        """Begin a new segment at the log end offset.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        try:
            self._roll(self.log_end_offset, now_ms)
        except OSError as error:
            raise self._fenced("roll", error) from error

    def _is_too_old(self, segment: Segment, newest: Millis, now_ms: Millis) -> bool:
        limit = self.config.roll_ms - self._jitter_ms
        return segment.size > 0 and segment.waited_for_roll_ms(now_ms, newest) > limit

    def _roll(self, first_offset: Offset, now_ms: Millis) -> Segment:
        base = max(first_offset, self.log_end_offset)
        old = self._active
        if old.base_offset == base:
            # Still empty, yet it cannot take the append (its indexes have no room): begin it anew.
            old.release_files()
            self._segments.remove(old)
        else:
            old.deactivate()
            self._snapshots.take(self.producers, base, durable=False)
        segment = self._new_segment(base, now_ms)
        self._activate(segment)
        self._hooks.on_rolled(self)
        return segment

    def _new_segment(self, base: Offset, now_ms: Millis) -> Segment:
        return Segment.create(
            self.directory,
            base,
            config=self.config,
            files=self._files,
            open_files=self._open_files,
            now_ms=now_ms,
        )

    def _activate(self, segment: Segment) -> None:
        self._segments.add(segment)
        self._active = segment
        segment.activate()
        self._positions.clear()
        self._jitter_ms = self._draw_jitter()

    def _draw_jitter(self) -> int:
        most = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return random.randrange(most) if most > 0 else 0  # noqa: S311 - spreads load, guards nothing

    # -- offsets -------------------------------------------------------------------------------------------------

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """This broker leads under ``epoch`` from the log end offset on."""
        self._guarded(
            "note the leader epoch of", lambda: self.leader_epochs.assign(epoch, self.log_end_offset)
        )

    def set_high_watermark(self, offset: Offset) -> Offset:
        """Everything below is replicated; kept within the log. Returns what it became."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset < self.log_start_offset:
            offset = self.log_start_offset
        self.high_watermark = self.last_stable_offset = offset
        first_unstable = self.producers.on_high_watermark(offset)
        if first_unstable is not None and first_unstable <= offset:
            self.last_stable_offset = max(first_unstable, self.log_start_offset)
        return offset

    def raise_log_start_offset(self, offset: Offset) -> bool:
        """Records below ``offset`` are gone (DeleteRecords); their segments go with the next retention run.

        Returns:
            Whether it moved; it never goes back.

        Raises:
            ApiError: OFFSET_OUT_OF_RANGE above the high watermark.
        """
        if offset > self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} since it "
                f"is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self._move_log_start(offset)
        return True

    def _move_log_start(self, offset: Offset) -> None:
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self.producers.on_log_start(offset)
        self.set_high_watermark(self.high_watermark)
        self._guarded("note the start of", lambda: self.leader_epochs.truncate_from_start(offset))

    def pass_over(self, offset: Offset) -> None:
        """End at ``offset`` from now on, without records before it: compaction has left none in the log that this one
        is a copy of.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        if offset > self.log_end_offset:
            self._guarded("roll", lambda: self._pass_over(offset))

    def _pass_over(self, offset: Offset) -> None:
        self._roll(offset, self._clock.now_ms())
        self.log_end_offset = offset

    # -- truncate and delete -------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> bool:
        """Cut everything at and behind ``offset``.

        Returns:
            Whether there was anything.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        if offset < 0:
            raise ValueError(f"cannot truncate {self.topic_partition} to {offset}")
        if offset >= self.log_end_offset:
            # A new leader's epochs may still contradict ours at the very end.
            self._guarded("truncate", lambda: self.leader_epochs.truncate_from_end(offset))
            return False
        if offset < self._segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
        else:
            self._guarded("truncate", lambda: self._truncate(offset))
        return True

    @property
    def truncations(self) -> int:
        """How often it was cut so far: what is known of its segments holds as long as this number does."""
        return self._truncations

    def _truncate(self, offset: Offset) -> None:
        self._note_truncation(offset)
        # The newest first: a crash or failure on the way leaves a shorter log, never one with a hole.
        for segment in reversed(list(self._segments)):
            if segment.base_offset > offset:
                self._drop(segment, "truncated")
        last = self._segments.last
        # Inside a batch the whole batch goes, and the end is where it began: a follower fetches it anew. (Kafka would
        # keep the asked offset as the end and with it a hole; it never asks for one inside a batch.)
        offset = last.truncate_to(offset)
        last.update_config(self.config)
        self._activate(last)
        self.leader_epochs.truncate_from_end(offset)
        # The producers first: no reader may see the new end with the old state.
        self.log_start_offset = min(self.log_start_offset, offset)
        self._rebuild_producers(offset)
        self._forgotten_below = self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.set_high_watermark(self.high_watermark)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drop everything and begin again, empty, at ``offset``.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        self._guarded("truncate", lambda: self._truncate_fully(offset))

    def _note_truncation(self, offset: Offset) -> None:
        self._truncations += 1
        if self.cleaner_checkpoint is not None and self.cleaner_checkpoint > offset:
            self.cleaner_checkpoint = offset

    def _truncate_fully(self, offset: Offset) -> None:
        self._note_truncation(offset)
        for segment in reversed(list(self._segments)):
            self._drop(segment, "truncated")
        self.leader_epochs.clear()
        self.producers.clear()
        self._snapshots.remove(self._snapshots.offsets)
        self._activate(self._new_segment(offset, self._clock.now_ms()))
        self.log_start_offset = self.log_end_offset = self.recovery_point = self._forgotten_below = offset
        self._snapshots.latest_taken = offset
        self.set_high_watermark(offset)

    def _rebuild_producers(self, end_offset: Offset) -> None:
        rebuild(
            self.producers,
            self._snapshots,
            self._segments,
            log_start_offset=self.log_start_offset,
            end_offset=end_offset,
            now_ms=self._clock.now_ms,
            expiration_ms=self.producer_expiration_ms,
        )

    def delete_old_segments(self, now_ms: Millis) -> list[DeletedFiles]:
        """Let go of segments below the log start offset, beyond the size and beyond the time.

        The files are renamed now and unlinked later through the hook.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        segments = list(self._segments)
        ends = [segment.base_offset for segment in segments[1:]] + [self.log_end_offset]
        deleted: list[DeletedFiles] = []
        try:
            facts = [
                SegmentFacts(segment.base_offset, end, segment.size, segment.retention_timestamp)
                for segment, end in zip(segments, ends, strict=True)
            ]
            decisions = expired_segments(
                facts,
                RetentionLimits(self.config.retention_ms, self.config.retention_bytes, self.config.deletes),
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                now_ms=now_ms,
            )
            if decisions and sum(decision.segments for decision in decisions) == len(segments):
                # There is always a segment to append to.
                self._roll(self.log_end_offset, now_ms)
            for decision in decisions:
                for segment in segments[: decision.segments]:
                    deleted.append(self._drop(segment, decision.reason))
                del segments[: decision.segments]
        except OSError as error:
            raise self._fenced("delete segments of", error) from error
        if deleted and self._segments.first.base_offset > self.log_start_offset:
            self._move_log_start(self._segments.first.base_offset)
        return deleted

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Offset]) -> None:
        """Put cleaned segments in the place of neighbours that they were made of.

        The order is Kafka's (replaceSegments), and each step leaves what a start can sort out, see recovery.py. The
        caller has made sure that the new files are on the disk; that the directory is, too, is left to it as well.

        Args:
            old: segments of this log, increasing.
            new: the base offsets of the new ones, increasing; their files have the suffix ``.cleaned``.

        Raises:
            OSError: the new files are not there, or cannot be looked at; nothing was changed.
            StorageError: the disk refused; the log is fenced.
        """
        pieces = [
            Segment.open(
                self.directory,
                base,
                config=self.config,
                files=self._files,
                open_files=self._open_files,
                suffix=CLEANED_SUFFIX,
            )
            for base in new
        ]
        self._drop_strays(pieces)
        self._guarded("replace segments of", lambda: self._replace(old, pieces))

    def _replace(self, old: Sequence[Segment], pieces: Sequence[Segment]) -> None:
        for piece in reversed(pieces):
            renamed = piece.rename_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
            if piece.path not in renamed:
                raise FileNotFoundError(f"no file to become {piece.path}")
        bases = {piece.base_offset for piece in pieces}
        for segment in old:
            self._drop(segment, "compacted", keep_snapshot=segment.base_offset in bases)
        for piece in pieces:
            piece.rename_suffix(SWAP_SUFFIX, "")
            self._segments.add(piece)

    def _drop_strays(self, pieces: Sequence[Segment]) -> None:
        """A start takes a ``.swap`` for unfinished when there is a ``.cleaned`` below it."""
        known = {path.name for piece in pieces for path in piece.paths}
        for name in os.listdir(self.directory):
            if name.endswith(CLEANED_SUFFIX) and name not in known:
                self._files.unlink(self.directory / name)

    def _drop(self, segment: Segment, reason: str, *, keep_snapshot: bool = False) -> DeletedFiles:
        """Take a segment out of the log and rename its files, its snapshot's too."""
        self._segments.remove(segment)
        if segment.is_active:
            segment.finish()
            segment.is_active = False
        paths = segment.rename_suffix("", DELETED_SUFFIX)
        snapshot = None if keep_snapshot else self._snapshots.forget(segment.base_offset)
        if snapshot is not None:
            target = snapshot.with_name(snapshot.name + DELETED_SUFFIX)
            self._files.rename(snapshot, target)
            paths.append(target)
        deleted = DeletedFiles(segment.base_offset, segment.size, reason, paths, segment)
        self._hooks.on_deleted(deleted, self.config.file_delete_delay_ms)
        return deleted

    # -- flush ---------------------------------------------------------------------------------------------------

    def flush(self, up_to: Offset | None = None) -> None:
        """Wait until everything below ``up_to`` (the log end offset) is on the disk; moves the recovery point.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if end > self.recovery_point:
            self._guarded("flush", lambda: self._flush(end))

    def _flush(self, end: Offset) -> None:
        is_new = False
        for segment in self._segments.within(self.recovery_point, end):
            is_new = is_new or segment.base_offset >= self.recovery_point
            segment.flush()
        for descriptor in self._snapshots.open_within(self.recovery_point, end):
            try:
                self._files.fsync(descriptor)
            finally:
                self._files.close(descriptor)
        if is_new:
            self._files.fsync_directory(self.directory)
        self._mark_flushed(end)

    def prepare_flush(self, up_to: Offset | None = None) -> PendingFlush:
        """The same, for a thread: its descriptors are its own. Default: all but the active segment, as after a roll."""
        end = self._active.base_offset if up_to is None else min(up_to, self.log_end_offset)
        descriptors: list[int] = []
        is_new = False
        if end > self.recovery_point:
            for segment in self._segments.within(self.recovery_point, end):
                is_new = is_new or segment.base_offset >= self.recovery_point
                descriptors += segment.duplicate_descriptors()
            # A roll does not wait for the disk with its snapshot; like Kafka, its flush does.
            descriptors += self._snapshots.open_within(self.recovery_point, end)
        return PendingFlush(
            end, descriptors, self.directory if is_new else None, self._files, self._truncations
        )

    def finish_flush(self, pending: PendingFlush) -> None:
        """The flush has run: what it covered needs no recovery, unless a truncation has replaced it meanwhile."""
        if pending.truncations == self._truncations:
            self._mark_flushed(min(pending.offset, self.log_end_offset))

    def _mark_flushed(self, end: Offset) -> None:
        self.recovery_point = max(self.recovery_point, end)
        self.last_flush_ms = self._clock.now_ms()

    # -- life ----------------------------------------------------------------------------------------------------

    def update_config(self, config: LogConfig) -> None:
        """Hold to a new configuration from the next append on."""
        self.config = config
        self._jitter_ms = self._draw_jitter()
        for segment in self._segments:
            segment.update_config(config)

    def expire_producers(self, now_ms: Millis) -> int:
        """Forget producers that were silent for ``producer.id.expiration.ms``.

        Returns:
            How many.
        """
        return self.producers.expire(now_ms, self.producer_expiration_ms)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed or deleted; what was under way then may fail, which says nothing about the disk."""
        return self._closed

    def close(self) -> None:
        """Flush and give every file back; after this a clean-shutdown mark may be written.

        A fenced log is only given back: recovery has to look at it.

        Raises:
            StorageError: the disk refused: there must be no clean-shutdown mark.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self.failure is None:
                self._guarded("close", self._close)
        finally:
            for segment in self._segments:
                segment.release_files()

    def _close(self) -> None:
        self._snapshots.take(self.producers, self.log_end_offset, durable=True)
        self._active.finish()
        if self.log_end_offset > self.recovery_point:
            self._flush(self.log_end_offset)

    def rename_for_deletion(self) -> Path:
        """Close the log and rename its directory to ``<name>.<uuid>-delete``; removing it is the owner's.

        Raises:
            StorageError: the disk refused.
        """
        return self._rename_directory(DELETED_DIRECTORY_SUFFIX)

    def rename_as_stray(self) -> Path:
        """The same to ``<name>.<uuid>-stray``: a partition that the cluster does not know, or knows with another id.

        Raises:
            StorageError: the disk refused.
        """
        return self._rename_directory(STRAY_DIRECTORY_SUFFIX)

    @property
    def is_future(self) -> bool:
        """Whether this is a replica on its way to another log directory (KIP-113), known by its directory's name."""
        return self.directory.name.endswith(FUTURE_DIRECTORY_SUFFIX)

    def become_current(self) -> None:
        """A future replica takes the partition's own name; it stays open and goes on.

        Whatever belongs to that name must be in another log directory.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        target = self.directory.with_name(str(self.topic_partition))
        self._guarded("rename", lambda: self._files.rename(self.directory, target))
        self._follow_rename(target)
        self._guarded("rename", lambda: self._files.fsync_directory(target.parent))

    def _rename_directory(self, suffix: str) -> Path:
        end = f".{uuid.uuid4().hex}{suffix}"
        # After the partition, not after the directory: Apache Kafka stops at a name with two suffixes.
        name = str(self.topic_partition)
        target = self.directory.with_name(name[: DIRECTORY_NAME_CHARS_MAX - len(end)] + end)
        self._closed = True
        for segment in self._segments:
            segment.retire()
        self._guarded("rename", lambda: self._files.rename(self.directory, target))
        self._guarded("rename", lambda: self._files.fsync_directory(target.parent))
        self._follow_rename(target)
        return target

    def _follow_rename(self, target: Path) -> None:
        for segment in self._segments:
            segment.move_paths(target)
        self._snapshots.move(target)
        self.leader_epochs.move(target)
        self.directory = target

    def fence(self, error: OSError, action: str = "flush") -> StorageError:
        """An I/O error happened: nothing more is written; the next start recovers. Returns what to raise."""
        if self.failure is None:
            self.failure = disk_failure(self.directory, action, error)
        return self.failure

    def _fenced(self, action: str, error: OSError) -> StorageError:
        return self.fence(error, action)

    def _guarded(self, action: str, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as error:
            raise self._fenced(action, error) from error

    def _refusal(self) -> ApiError:
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The log of {self.topic_partition} is offline: {self.failure or 'it is closed'}.",
        )
