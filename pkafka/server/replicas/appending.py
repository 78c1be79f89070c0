"""Appends to logs as their leader, and waits until what was appended is as safe as its producer wants.

Records of clients and records of this broker's coordinators take this one way.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import Millis, Offset
from pkafka.records.validation import ValidatedRecords
from pkafka.server.metrics.counters import Metrics
from pkafka.server.replicas.acknowledgements import DelayedProduce, Done, Unacknowledged
from pkafka.server.replicas.partition import Partition
from pkafka.server.replicas.progress import Progress
from pkafka.storage.log_values import AppendOrigin, AppendResult

Flush: TypeAlias = Callable[[Sequence[tuple[Partition, Offset]]], Awaitable[Sequence[Partition]]]
"""Flushes logs up to an offset each, and lets readers see the records; returns the partitions whose disk refused."""


class Unsafe(NamedTuple):
    """Records that are in a log, but not yet as safe as their producer wants.

    Attributes:
        partition: of the records.
        flush_to: how far the log has to be flushed before anything else (flush.messages); None when it has not.
        unacknowledged: set when all replicas in sync have to have the records (acks=all).
    """

    partition: Partition
    flush_to: Offset | None
    unacknowledged: Unacknowledged | None


Appended: TypeAlias = tuple[AppendResult, Unsafe | None]
"""Where records went, and what they still wait for; None when the producer may have its answer now."""


class Appending:
    """Appends records to the partitions that this worker leads.

    Args:
        metrics: count what is appended.
        progress: wakes the requests that wait for records.
        flush: flushes logs.
        spawn: runs a coroutine on the worker's loop.
    """

    def __init__(
        self,
        metrics: Metrics,
        progress: Progress,
        flush: Flush,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._metrics = metrics
        self._progress = progress
        self._flush = flush
        self._spawn = spawn

    def append(
        self,
        partition: Partition,
        records: ValidatedRecords,
        *,
        needs_all: bool,
        now_ms: Millis,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> Appended:
        """Append records; those that are the repetition of some in the log stay where they are.

        Args:
            partition: one that this worker leads.
            records: offsets and epoch are written into their memory.
            needs_all: whether the producer waits for all replicas in sync (acks=all).
            now_ms: the wall clock.
            origin: of the producers' batches.

        Raises:
            ApiError, StorageError, OSError: as :meth:`Log.append_as_leader`; the records are not in the log.
        """
        log = partition.log
        result = log.append_as_leader(
            records,
            leader_epoch=partition.leader_epoch,
            now_ms=now_ms,
            flush_later=True,
            origin=origin,
        )
        is_new = not result.duplicate
        if is_new:
            self._metrics.appended(partition.topic, records)
        if (
            log.log_end_offset - log.recovery_point >= log.config.flush_messages
        ):  # log.flush_is_due, without a call
            # A duplicate waits, too: the batch that it repeats may not be flushed yet.
            flush_to = log.log_end_offset
        else:
            if is_new:
                self._progress.appended(partition)
            leadership = partition.leadership
            if not needs_all or leadership is None or not leadership.has_followers:
                return result, None
            flush_to = None
        waits_for = Unacknowledged.up_to(partition, result.last_offset + 1) if needs_all else None
        return result, Unsafe(partition, flush_to, waits_for)

    def when_safe(self, unsafe: Sequence[Unsafe], done: Done, *, timeout_ms: Millis) -> None:
        """Call back when records are as safe as their producers want, or cannot become so; now or later.

        Args:
            unsafe: the records.
            done: called with the error codes.
            timeout_ms: how long to wait for replicas.
        """
        waiting = DelayedProduce((one.unacknowledged for one in unsafe if one.unacknowledged), done)
        flushes = [(one.partition, one.flush_to) for one in unsafe if one.flush_to is not None]
        if flushes:
            self._spawn(self._flush_first(flushes, waiting, timeout_ms))
        else:
            waiting.begin(self._progress.produces, timeout_ms=timeout_ms)

    async def _flush_first(
        self, flushes: Sequence[tuple[Partition, Offset]], waiting: DelayedProduce, timeout_ms: Millis
    ) -> None:
        for partition in await self._flush(flushes):
            waiting.fail(partition.key, ErrorCode.KAFKA_STORAGE_ERROR)
        waiting.begin(self._progress.produces, timeout_ms=timeout_ms)
