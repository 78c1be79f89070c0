"""The log of one partition: append, read, roll, truncate, retain, flush.

One thread of one process owns it; nothing in here waits for another thread. What is slow (an fsync after a roll, the
removal of files) is handed to the owner through the hooks. recovery.py opens a log; replication decides what its high
watermark is.
"""

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
from pkafka.storage.fetched_batches import batches_in_order, entries_of, split_for_segments
from pkafka.storage.files import Files, disk_failure
from pkafka.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    DIRECTORY_NAME_CHARS_MAX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    LogFiles,
)
from pkafka.storage.log_reader import LogReader
from pkafka.storage.log_values import (
    AppendOrigin,
    AppendResult,
    DeletedFiles,
    LogHooks,
    LogParts,
    PendingFlush,
    UnexpectedOffsetError,
)
from pkafka.storage.open_files import OpenFiles
from pkafka.storage.producer_history import ProducerHistory
from pkafka.storage.producer_state import BatchMetadata
from pkafka.storage.producer_trial import ProducerTrial
from pkafka.storage.retention import RetentionLimits, expired_segments
from pkafka.storage.roll_time import RollTime
from pkafka.storage.segment import AppendedBatch, Segment

_new: Final = tuple.__new__

__all__ = [
    "DIRECTORY_NAME_CHARS_MAX",
    "FUTURE_DIRECTORY_SUFFIX",
    "DeletedFiles",
    "Log",
    "LogHooks",
    "PendingFlush",
]


class Log(LogReader):
    """One partition's log. Open one with recovery.open_log.

    It inherits its reading half, whose offsets each append changes: as a part, it would cost fetches one object more.

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
        self.producer_expiration_ms = parts.producer_expiration_ms
        self._files = LogFiles(parts, files, open_files, hooks)
        self._history = ProducerHistory(parts)
        self._clock = clock
        self._hooks = hooks
        self._closed = False
        self.truncations = 0
        """How often it was cut so far: what is known of its segments holds as long as this number does."""
        self._roll_time = RollTime(self.config)
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
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Give the batches their offsets and write them behind the last one.

        Args:
            records: as validation.validate returned them; offsets and epoch are written into their memory.
            leader_epoch: of this leader.
            now_ms: the wall clock, for rolling by age.
            flush_later: leave the flush that flush.messages asks for to the caller (see flush_is_due).
            origin: of the producers' batches; for markers it makes no difference.

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
                trial = trial or ProducerTrial(self.producers, origin)
                try:
                    duplicate = trial.take(batch, data, offset, last)
                except ApiError as error:
                    duplicate = self._recalled(batch, error)
                if duplicate is not None:
                    return AppendResult.of_resent(duplicate, self.log_start_offset)
            position, size, timestamp = batch.position, batch.size, batch.max_timestamp
            stamp(data, position, size, base_offset=offset, leader_epoch=leader_epoch)
            newest = timestamp if timestamp > newest else newest
            appended.append((position, size, last, timestamp))
            offset = last + 1
        if not appended:
            return AppendResult(-1, -1, records.log_append_time_ms, self.log_start_offset, False)
        try:
            if leader_epoch != self.leader_epochs.latest:
                self.leader_epochs.assign(leader_epoch, base)
            self._write(data, appended, base, offset, newest, now_ms)
            if trial is not None:
                self._history.commit(trial, self._active.transaction_index)
            if not flush_later and self.flush_is_due:
                self.flush()
        except OSError as failed:
            raise self.fence(failed, "append to") from failed
        found = base, offset - 1, records.log_append_time_ms, self.log_start_offset, False
        return _new(AppendResult, found)  # a call of the class takes three times as long

    def _recalled(self, batch: ValidatedBatch, refusal: ApiError) -> BatchMetadata:
        """As :meth:`ProducerHistory.recall`."""
        try:
            return self._history.recall(batch, refusal, self.log_start_offset)
        except OSError as error:
            raise self.fence(error, "read") from error

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
        except OSError as failed:
            raise self.fence(failed, "append to") from failed
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
        if not segment.takes(len(data), end_offset - 1, newest, now_ms, self._roll_time.limit_ms):
            segment = self._roll(first_offset, now_ms)
        self._remember(first_offset, segment.size)
        segment.append(data, appended, first_timestamp=appended[0][3])
        self.log_end_offset = end_offset

    def _append_run(self, view: memoryview, run: list[StoredBatch], now_ms: Millis) -> None:
        self.leader_epochs.follow(run)
        newest = max(batch.max_timestamp for batch in run)
        data = view[run[0].position : run[-1].position + run[-1].size]
        self._write(data, entries_of(run), run[0].base_offset, run[-1].last_offset + 1, newest, now_ms)
        for batch in run:
            self._history.replay(batch, self._active.transaction_index)

    # -- roll ----------------------------------------------------------------------------------------------------

    def maybe_roll(self, now_ms: Millis) -> bool:
        """Begin a new segment when the active one is full or too old.

        Returns:
            Whether it did.
        """
        if self._active.takes(0, self.log_end_offset, now_ms, now_ms, self._roll_time.limit_ms):
            return False
        self.roll(now_ms)
        return True

    def roll(self, now_ms: Millis) -> None:
        """Begin a new segment at the log end offset.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        self._guarded("roll", lambda: self._roll(self.log_end_offset, now_ms))

    def _roll(self, first_offset: Offset, now_ms: Millis) -> Segment:
        base = max(first_offset, self.log_end_offset)
        old = self._active
        if old.base_offset == base:
            # Still empty, yet it cannot take the append (its indexes have no room): begin it anew.
            old.release_files()
            self._segments.remove(old)
        else:
            old.deactivate()
            self._history.take_snapshot(base, durable=False)
        segment = self._files.new_segment(base, self.config, now_ms)
        self._activate(segment)
        self._hooks.on_rolled(self)
        return segment

    def _activate(self, segment: Segment) -> None:
        self._segments.add(segment)
        self._active = segment
        segment.activate()
        self._positions.clear()
        self._roll_time.draw(self.config)

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

    def _truncate(self, offset: Offset) -> None:
        self._note_truncation(offset)
        self._files.drop_behind(offset, self.config)
        last = self._segments.last
        # Inside a batch the whole batch goes, and the end is where it began: a follower fetches it anew. (Kafka would
        # keep the asked offset as the end and with it a hole; it never asks for one inside a batch.)
        offset = last.truncate_to(offset)
        last.update_config(self.config)
        self._activate(last)
        self.leader_epochs.truncate_from_end(offset)
        # The producers first: no reader may see the new end with the old state.
        self.log_start_offset = min(self.log_start_offset, offset)
        self._history.rebuild(self.log_start_offset, offset, self._clock.now_ms, self.producer_expiration_ms)
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.set_high_watermark(self.high_watermark)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drop everything and begin again, empty, at ``offset``.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        self._guarded("truncate", lambda: self._truncate_fully(offset))

    def _note_truncation(self, offset: Offset) -> None:
        self.truncations += 1
        if self.cleaner_checkpoint is not None and self.cleaner_checkpoint > offset:
            self.cleaner_checkpoint = offset

    def _truncate_fully(self, offset: Offset) -> None:
        self._note_truncation(offset)
        self._files.drop_behind(-1, self.config)
        self.leader_epochs.clear()
        self._history.clear()
        self._activate(self._files.new_segment(offset, self.config, self._clock.now_ms()))
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self._history.begin_at(offset)
        self.set_high_watermark(offset)

    def delete_old_segments(self, now_ms: Millis) -> list[DeletedFiles]:
        """Let go of segments below the log start offset, beyond the size and beyond the time.

        The files are renamed now and unlinked later through the hook.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        segments = list(self._segments)
        deleted: list[DeletedFiles] = []
        try:
            decisions = expired_segments(
                self._segments.facts(self.log_end_offset),
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
                    deleted.append(self._files.drop(segment, decision.reason, self.config))
                del segments[: decision.segments]
        except OSError as error:
            raise self.fence(error, "delete segments of") from error
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
        pieces = self._files.open_cleaned(new, self.config)
        self._guarded("replace segments of", lambda: self._files.replace(old, pieces, self.config))

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
        self._files.flush(self.recovery_point, end)
        self._mark_flushed(end)

    def prepare_flush(self, up_to: Offset | None = None) -> PendingFlush:
        """The same, for a thread: its descriptors are its own. Default: all but the active segment, as after a roll."""
        end = self._active.base_offset if up_to is None else min(up_to, self.log_end_offset)
        return self._files.prepare_flush(self.recovery_point, end, self.truncations)

    def finish_flush(self, pending: PendingFlush) -> None:
        """The flush has run: what it covered needs no recovery, unless a truncation has replaced it meanwhile."""
        if pending.truncations == self.truncations:
            self._mark_flushed(min(pending.offset, self.log_end_offset))

    def _mark_flushed(self, end: Offset) -> None:
        self.recovery_point = max(self.recovery_point, end)
        self.last_flush_ms = self._clock.now_ms()

    # -- life ----------------------------------------------------------------------------------------------------

    def update_config(self, config: LogConfig) -> None:
        """Hold to a new configuration from the next append on."""
        self.config = config
        self._roll_time.draw(self.config)
        for segment in self._segments:
            segment.update_config(config)

    def expire_producers(self, now_ms: Millis) -> int:
        """Forget producers that were silent for ``producer.id.expiration.ms``; returns how many."""
        return self.producers.expire(now_ms, self.producer_expiration_ms)

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return self._files.directory

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
        self._history.take_snapshot(self.log_end_offset, durable=True)
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
        self._guarded("rename", lambda: self._files.rename(target))
        self._follow_rename(target)
        self._guarded("rename", lambda: self._files.flush_name(target))

    def _rename_directory(self, suffix: str) -> Path:
        target = self._files.unused_name(self.topic_partition, suffix)
        self._closed = True
        for segment in self._segments:
            segment.retire()
        self._guarded("rename", lambda: self._files.rename(target))
        self._guarded("rename", lambda: self._files.flush_name(target))
        self._follow_rename(target)
        return target

    def _follow_rename(self, target: Path) -> None:
        self._files.follow(target)
        self.leader_epochs.move(target)

    def fence(self, error: OSError, action: str = "flush") -> StorageError:
        """An I/O error happened: nothing more is written; the next start recovers. Returns what to raise."""
        if self.failure is None:
            self.failure = disk_failure(self.directory, action, error)
        return self.failure

    def _guarded(self, action: str, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as error:
            raise self.fence(error, action) from error

    def _refusal(self) -> ApiError:
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The log of {self.topic_partition} is offline: {self.failure or 'it is closed'}.",
        )
