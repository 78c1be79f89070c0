"""One thread that fetches and many that process: a consumer for work that takes longer than reading.

The thread that calls :meth:`ConsumerPool.run` polls, hands records to workers and commits; workers call a function of
the user's. Records of a partition (or of a key) are processed in their order, one after the other; what is committed is
the offset up to which everything is completed, so that a record is processed at least once, whatever ends when.
"""

import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from queue import SimpleQueue
from typing import Final

from pkafka.clients.consumer.consumer import Consumer
from pkafka.clients.consumer.errors import CommitFailedError
from pkafka.clients.consumer.progress import Progress
from pkafka.clients.consumer.records import ConsumerRecord, ConsumerRecords
from pkafka.clients.consumer.subscription import ConsumerRebalanceListener
from pkafka.clients.errors import ClientError, IllegalArgumentError, WakeupError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.model import TopicPartition

log = logging.getLogger(__name__)

_TURN_RECORDS: Final = 64
"""How many records of one lane are processed before the next lane has its turn."""
_LANES_PER_WORKER: Final = 4
_IDLE_MS: Final = 1_000


class Order(Enum):
    """Which records are processed one after the other."""

    PARTITION = "partition"
    """Those of a partition."""
    KEY = "key"
    """Those with the same key; those without a key in any order."""
    NONE = "none"
    """None."""


class OnRevoke(Enum):
    """What becomes of records in the pool when their partition goes to another consumer."""

    WAIT = "wait"
    """All of them are processed first, as far as ``drain_timeout_ms`` goes."""
    DISCARD = "discard"
    """Only those under way are; the new owner gets the rest."""


class ProcessingError(ClientError):
    """The user's function failed; nothing behind the record was committed.

    Args:
        record: the one that it failed with.
        cause: what it raised.
    """

    def __init__(self, record: ConsumerRecord, cause: BaseException) -> None:
        super().__init__(
            f"processing the record of {record.topic}-{record.partition} at offset {record.offset} failed: {cause!r}"
        )
        self.record = record
        self.__cause__ = cause


class ConsumerPool:
    """A consumer whose records are processed by threads of its own.

    Args:
        consumer: with ``enable.auto.commit=false``; it is the pool's until :meth:`run` returns, and is not closed.
        process: called by the workers with each record.
        workers: how many threads.
        order: which records must not be processed at the same time.
        on_error: called by a worker when ``process`` raises; True means that the record is dealt with, and counts as
            processed. Without it, or else, the pool stops.
        queued_records_max: how many records of a partition may be in the pool; then the partition is paused, until half
            of them are processed.
        commit_interval_ms: how often to commit.
        on_revoke: what becomes of records of partitions that go to another consumer.
        drain_timeout_ms: how long to wait for records under way, when partitions go or the pool stops.

    Raises:
        ConfigError: the consumer commits automatically, which would commit what is not processed.
        IllegalArgumentError: a number is not positive.
    """

    def __init__(
        self,
        consumer: Consumer,
        process: Callable[[ConsumerRecord], object],
        *,
        workers: int = 4,
        order: Order = Order.PARTITION,
        on_error: Callable[[ConsumerRecord, Exception], bool] | None = None,
        queued_records_max: int = 1_000,
        commit_interval_ms: int = 5_000,
        on_revoke: OnRevoke = OnRevoke.WAIT,
        drain_timeout_ms: int = 30_000,
    ) -> None:
        if consumer.config.group_id is not None and consumer.config.enable_auto_commit:
            raise ConfigError(
                "enable.auto.commit", "must be false for a pool, which commits what was processed"
            )
        if workers < 1 or queued_records_max < 1:
            raise IllegalArgumentError("workers and queued_records_max must be positive")
        self._consumer = consumer
        self._process = process
        self._order = order
        self._on_error = on_error
        self._queued_records_max = queued_records_max
        self._commit_interval_ms = commit_interval_ms
        self._on_revoke = on_revoke
        self._drain_timeout_ms = drain_timeout_ms
        self._lane_count = workers * _LANES_PER_WORKER
        self._changed = threading.Condition()
        # Guarded by the condition from here on.
        self._work: dict[TopicPartition, _Work] = {}
        self._failure: BaseException | None = None
        self._halted = False
        # Of the fetching thread alone.
        self._paused: set[TopicPartition] = set()
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._ready: SimpleQueue[_Lane | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run_worker, name=f"pkafka-pool-{number}", daemon=True)
            for number in range(workers)
        ]
        self._stopping = threading.Event()
        self._drain = False

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe the consumer so that the pool learns of revoked partitions in time.

        Args:
            topics, pattern: as for :meth:`Consumer.subscribe`.
            listener: a listener of the user's, called after the pool: offsets of what is revoked are committed then.
        """
        self._consumer.subscribe(topics, pattern=pattern, listener=_Listener(self, listener))

    def run(self) -> None:
        """Fetch, hand out and commit, until :meth:`stop` is called or something fails.

        Raises:
            ProcessingError: ``process`` failed, and ``on_error`` did not deal with it.
            ClientError, ApiError: what poll or commit raised.
        """
        for thread in self._threads:
            thread.start()
        try:
            self._fetch()
        except Exception:
            self._drain = True  # what came before a record that cannot be read is as good as ever
            raise
        finally:
            self._end()
        if self._failure is not None:
            raise self._failure

    def stop(self, *, drain: bool = False) -> None:
        """Make :meth:`run` end; from any thread or signal handler.

        Args:
            drain: process what was fetched, not only what is under way.
        """
        self._drain = drain
        self._stopping.set()
        self._consumer.wakeup()

    # -- the fetching thread ------------------------------------------------------------------------------

    def _fetch(self) -> None:
        commit_at = time.monotonic() + self._commit_interval_ms / 1000
        while not self._stopping.is_set() and self._failure is None:
            wait_ms = max(0, min(_IDLE_MS, int((commit_at - time.monotonic()) * 1000)))
            with suppress(WakeupError):  # a worker has room again, or the pool stops
                self._hand_out(self._consumer.poll(wait_ms))
            self._resume()
            if time.monotonic() >= commit_at:
                commit_at = time.monotonic() + self._commit_interval_ms / 1000
                offsets = self._to_commit(list(self._work))
                if offsets and self._consumer.config.group_id is not None:
                    self._consumer.commit_async(offsets)

    def _hand_out(self, records: ConsumerRecords) -> None:
        full: list[TopicPartition] = []
        for partition, found in records.by_partition().items():
            with self._changed:
                work = self._work.setdefault(partition, _Work())
                work.progress.hand_out(found)
                for record in found:
                    lane = work.lane(self._slot(record))
                    lane.records.append(record)
                    if not lane.is_scheduled:
                        lane.is_scheduled = True
                        self._ready.put(lane)
                if work.progress.outstanding >= self._queued_records_max:
                    full.append(partition)
                    work.wants_wakeup = True
        if full:
            self._paused.update(full)
            self._consumer.pause(full)

    def _resume(self) -> None:
        with self._changed:
            roomy = [
                each for each in self._paused if each not in self._work or self._has_room(self._work[each])
            ]
        if roomy:
            self._paused.difference_update(roomy)
            assigned = set(self._consumer.assignment())
            self._consumer.resume([each for each in roomy if each in assigned])

    def _has_room(self, work: "_Work") -> bool:
        return work.progress.outstanding <= self._queued_records_max // 2

    def _slot(self, record: ConsumerRecord) -> int:
        """Records in one slot are processed one after the other."""
        if self._order is Order.PARTITION:
            return 0
        if self._order is Order.KEY and record.key is not None:
            key = record.key if isinstance(record.key, bytes) else repr(record.key).encode()
            return zlib.crc32(key) % self._lane_count
        return record.offset % self._lane_count

    def _to_commit(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What was completed since it was last committed."""
        with self._changed:
            offsets = {
                each: offset
                for each in partitions
                if each in self._work and (offset := self._work[each].progress.offset) is not None
            }
        fresh = {each: offset for each, offset in offsets.items() if self._committed.get(each) != offset}
        self._committed.update(fresh)
        return fresh

    def _end(self) -> None:
        try:
            self._give_up(list(self._work), wait_for_all=self._drain and self._failure is None)
        finally:
            with self._changed:
                self._halted = True
            for _ in self._threads:
                self._ready.put(None)
            for thread in self._threads:
                thread.join(self._drain_timeout_ms / 1000)
            with suppress(WakeupError):  # no poll is left that a worker would have to wake
                self._consumer._net.raise_if_woken()

    def _give_up(self, partitions: Collection[TopicPartition], *, wait_for_all: bool) -> None:
        """Have what must be processed still be processed, commit, and forget the partitions."""
        with self._changed:
            given_up = [self._work[each] for each in partitions if each in self._work]
            if not wait_for_all:
                for work in given_up:
                    work.discard()

            def is_done() -> bool:
                if any(work.under_way for work in given_up):
                    return False
                return (
                    not wait_for_all
                    or self._failure is not None
                    or not any(work.progress.outstanding for work in given_up)
                )

            if not self._changed.wait_for(is_done, self._drain_timeout_ms / 1000):
                log.warning(
                    "records of %s were still being processed; they will be processed again", partitions
                )
        offsets = self._to_commit(partitions)
        self._forget(partitions)
        if offsets and self._consumer.config.group_id is not None:
            self._commit(offsets)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        with self._changed:
            for partition in partitions:
                if partition in self._work:
                    self._work.pop(partition).discard()
                self._committed.pop(partition, None)
                self._paused.discard(partition)

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        while True:
            try:
                self._consumer.commit_sync(offsets)
            except WakeupError:
                continue  # it was meant for the poll
            except CommitFailedError as error:
                log.warning("%s was not committed: %s", offsets, error)
            except ApiError as error:
                if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                    raise
                log.warning("%s was not committed: %s", offsets, error)
            return

    # -- the workers --------------------------------------------------------------------------------------

    def _run_worker(self) -> None:
        while (lane := self._ready.get()) is not None:
            work = lane.work
            with self._changed:
                records = lane.next_turn()
                work.under_way += 1
            try:
                self._take_turn(work, records)
            finally:
                with self._changed:
                    work.under_way -= 1
                    lane.is_scheduled = bool(lane.records) and self._failure is None
                    if lane.is_scheduled:
                        self._ready.put(lane)
                    self._changed.notify_all()

    def _take_turn(self, work: "_Work", records: list[ConsumerRecord]) -> None:
        for record in records:
            if work.is_discarded or self._halted or self._failure is not None:
                return
            try:
                self._process(record)
            except BaseException as error:  # noqa: BLE001 - the user's function; run() raises it
                if not self._is_dealt_with(record, error):
                    return
            with self._changed:
                work.progress.complete(record)
                wakes = work.wants_wakeup and self._has_room(work)
                if wakes:
                    work.wants_wakeup = False
            if wakes:
                self._consumer.wakeup()

    def _is_dealt_with(self, record: ConsumerRecord, error: BaseException) -> bool:
        failure: BaseException = ProcessingError(record, error)
        if self._on_error is not None and isinstance(error, Exception):
            try:
                if self._on_error(record, error):
                    return True
            except BaseException as second:  # noqa: BLE001 - as above
                failure = ProcessingError(record, second)
        with self._changed:
            self._failure = self._failure or failure
        self._consumer.wakeup()
        return False


class _Work:
    """What the pool has of one partition, from when it was assigned until it is given up."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.under_way = 0
        """How many workers have records of it in hand."""
        self.is_discarded = False
        self.wants_wakeup = False
        """The partition is paused: the fetching thread wants to know when there is room."""
        self._lanes: dict[int, _Lane] = {}

    def lane(self, slot: int) -> "_Lane":
        """The lane of a slot."""
        lane = self._lanes.get(slot)
        if lane is None:
            lane = self._lanes[slot] = _Lane(self)
        return lane

    def discard(self) -> None:
        """Process nothing more of it."""
        self.is_discarded = True
        for lane in self._lanes.values():
            lane.records.clear()


class _Lane:
    """Records that one worker at a time processes, in order."""

    def __init__(self, work: _Work) -> None:
        self.work = work
        self.records: deque[ConsumerRecord] = deque()
        self.is_scheduled = False

    def next_turn(self) -> list[ConsumerRecord]:
        """The records of the next turn."""
        return [self.records.popleft() for _ in range(min(_TURN_RECORDS, len(self.records)))]


class _Listener(ConsumerRebalanceListener):
    """Tells the pool, then the user's listener."""

    def __init__(self, pool: ConsumerPool, users: ConsumerRebalanceListener | None) -> None:
        self._pool = pool
        self._users = users

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._pool._give_up(partitions, wait_for_all=self._pool._on_revoke is OnRevoke.WAIT)
        if self._users is not None:
            self._users.on_partitions_revoked(partitions)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        if self._users is not None:
            self._users.on_partitions_assigned(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        # Another consumer may have them already, and nothing can be committed any more.
        self._pool._forget(partitions)
        if self._users is not None:
            self._users.on_partitions_lost(partitions)
