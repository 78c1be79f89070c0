"""Batches that fill up and wait, per partition, within ``buffer.memory``.

Appended to by any thread, drained by the sender thread; one lock for all, held for microseconds.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import BufferExhaustedError, ClientTimeoutError, ClosedError, Stage
from pkafka.clients.producer.batch import Part, ProducerBatch
from pkafka.clients.producer.callbacks import Callback
from pkafka.clients.producer.configured import level_of
from pkafka.clients.producer.futures import RecordFuture, Sent
from pkafka.clients.producer.gathering import NO_RUN, Run
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.clients.producer.partitioner import Weights, random_below
from pkafka.clients.producer.queues import PartitionQueue, TopicQueues
from pkafka.clients.producer.size_limits import record_bytes_max
from pkafka.clock import Clock
from pkafka.records.batch import BATCH_OVERHEAD
from pkafka.records.builder import NO_HEADERS, BatchBuilder, Headers
from pkafka.records.compression import Codec

# As Kafka's CompressionRatioEstimator: a guess gets better slowly and worse at once.
_RATIO_BETTER: Final = 0.005
_RATIO_WORSE: Final = 0.05
_RATIO_MARGIN: Final = 1.05
# send_batch() has all records at hand: larger batches cost no waiting, and half a request leaves room for others.
_BULK_BYTES: Final = 262_144
# How many times batch.size a batch gets at once that grows because it has to wait.
_STEPS: Final = 4
# After a run of so many records another one is begun at once.
_BUSY: Final = 8
# A queue of two batches is due: the sender knows, and more of them tell it nothing.
_DUE: Final = 2


class Accumulator:
    """The batches of one producer, and the memory that they take.

    Args:
        config: batch.size, linger.ms, buffer.memory, delivery.timeout.ms, compression.type and its levels.
        clock: for ages.
        metrics: of the producer.
        wake_sender: called when something became sendable while the sender sleeps.
    """

    def __init__(
        self, config: ProducerConfig, clock: Clock, metrics: ProducerMetrics, wake_sender: Callable[[], None]
    ) -> None:
        self.lock = threading.Lock()
        self.metadata_changed = threading.Condition(self.lock)
        self.waiting: dict[PartitionQueue, None] = {}
        """Queues that have batches, the one that was drained longest ago first."""
        self.free_bytes = config.buffer_memory
        self.flushing = 0
        self.incomplete: dict[ProducerBatch, None] = {}
        """Every batch that is not finished, oldest first."""
        self.closed = False
        self.shows_runs = False
        """Whether the producer adds to runs itself, as nothing has to be done with a record before."""
        self.run = NO_RUN
        """The last one of records that may go to any partition, for the producer."""
        self._waiters: deque[threading.Condition] = deque()
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self.wake_sender = wake_sender
        self._bounds_batches = (
            "batch.size" in config.originals or config.batch_size != ProducerConfig.batch_size
        )
        self._codec = Codec[config.compression_type.upper()]
        self._level = level_of(config, self._codec)

    # -- appending ----------------------------------------------------------------------------------------

    def append(
        self,
        topic: TopicQueues,
        partition: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        callback: Callback | None,
        deadline_ms: int | None,
        *,
        name: str | None = None,
        room_bytes: int = 0,
    ) -> RecordFuture:
        """Add a record to the open batch of its partition, or to a new one.

        Args:
            partition: -1 for the one that records without a key go to at the moment.
            headers: encoded.
            deadline_ms: monotonic; until when to wait for buffer memory; None: max.block.ms from now on.
            name: of the topic, as :class:`Run` wants it; None where no records may be gathered behind this one.
            room_bytes: how many bytes of them.

        Raises:
            BufferExhaustedError: the buffer stayed full.
            ClosedError: the producer was closed.
        """
        wake = gathers = False
        with self.lock:
            chosen = partition if partition >= 0 else topic.sticky.partition
            queue = topic.queues.get(chosen)
            batch = queue.open if queue is not None else None
            before = 0
            if batch is not None:
                gathered = self._encode_run(batch)
                # Not for one record in a millisecond: where few are sent, a run would be of no use.
                gathers = gathered >= _BUSY or batch.builder.max_timestamp == timestamp_ms
                before = batch.builder.size_bytes
            if batch is None or not batch.builder.append(timestamp_ms, key, value, headers):
                batch, before = self._append_to_new(
                    topic, partition, timestamp_ms, key, value, headers, deadline_ms
                )
                wake = True
            builder = batch.builder
            future = RecordFuture()
            future.batch = batch
            future.index = builder.count - 1
            future.timestamp_ms = timestamp_ms
            future.key_size = -1 if key is None else len(key)
            future.value_size = -1 if value is None else len(value)
            if callback is not None:
                batch.call_back(callback, future.index, timestamp_ms, future.key_size, future.value_size)
            size = builder.size_bytes
            if size > batch.reserved_bytes:
                self._grow(batch)
            is_full = batch.is_grown or size >= builder.bytes_max
            if partition < 0 and topic.sticky.take(size - before, batch_is_full=is_full):
                self._choose_sticky(topic)
            elif name is not None:
                me = threading.get_ident()
                if gathers and batch.thread == me:  # nor where threads take turns
                    self._open_run(
                        batch, partition, timestamp_ms, name, room_bytes, headers, has_keys=key is not None
                    )
                batch.thread = me
        if wake:
            self.wake_sender()
        return future

    def join(
        self,
        topic: TopicQueues,
        partition: int,
        now_s: float,
        generation: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        callback: Callback | None,
    ) -> RecordFuture | None:
        """Add a record to the open run of its partition; None where that does not take it.

        Args:
            partition: as for :meth:`append`.
            now_s: the time of the record, since the epoch.
            generation: of the metadata by which the partition was chosen.
        """
        if partition < 0:
            run = topic.run
        else:
            queue = topic.queues.get(partition)
            if queue is None:
                return None
            run = queue.run
        return run.add(now_s, generation, key, value, headers, callback)

    def append_raw(
        self, topic: TopicQueues, partition: int, builder: BatchBuilder, deadline_ms: int
    ) -> ProducerBatch:
        """Queue a batch that is finished, behind what waits for its partition.

        Raises:
            BufferExhaustedError, ClosedError: as :meth:`append`.
        """
        with self.lock:
            self._reserve(builder.size_bytes, deadline_ms)
            queue = topic.queue(partition)
            batch = self._queue(queue, builder, builder.size_bytes)
            is_due = len(queue.batches) > _DUE
        if not is_due:
            self.wake_sender()
        return batch

    def append_many(
        self,
        topic: TopicQueues,
        partition: int,
        timestamp_ms: int,
        values: list[bytes | None],
        keys: list[bytes | None] | None,
        headers: Headers,
        positions: Sequence[int],
        deadline_ms: int | None,
        sent: list[Sent],
    ) -> None:
        """Add records in order; those without a partition may be spread over several, in runs.

        Args:
            positions: what to call the records in ``sent``.
            sent: gets the parts that came into batches; also when an exception ends it.

        Raises:
            BufferExhaustedError, ClosedError: as :meth:`append`.
            TypeError: a key or value is not bytes.
        """
        index, stop = 0, len(values)
        while index < stop:
            with self.lock:
                queue = topic.queue(partition if partition >= 0 else self._sticky_partition(topic))
                batch = queue.open
                if batch is not None:
                    self._encode_run(batch)
                before = batch.builder.size_bytes if batch is not None else 0
                end = index
                first = 0
                if batch is not None:
                    first = batch.builder.count
                    end = batch.builder.append_many(timestamp_ms, values, keys, headers, index, stop)
                if batch is None or end == index:
                    self._seal(queue)
                    if partition < 0 and topic.sticky.take(0, batch_is_full=True):
                        self._choose_sticky(topic)
                        continue
                    limit = self._batch_bytes(topic, bulk=True)
                    # A guess by the first record: what it is short of is taken while the batch grows.
                    needed = (stop - index) * (
                        30 + len(values[index] or b"") + len(keys[index] or b"" if keys else b"")
                    )
                    reserved = min(limit, max(self._config.batch_size, needed))
                    self._reserve(reserved, deadline_ms)
                    batch = self._new_batch(queue, limit, reserved)
                    before = first = 0
                    try:
                        end = batch.builder.append_many(timestamp_ms, values, keys, headers, index, stop)
                    except TypeError:
                        self._forget(batch)
                        raise
                sent.append(Sent(Part(batch, first, end - index), positions[index:end]))
                size = batch.builder.size_bytes
                if size > batch.reserved_bytes:
                    self._grow(batch)
                if partition < 0 and topic.sticky.take(
                    size - before, batch_is_full=end < stop or size >= batch.builder.bytes_max
                ):
                    self._choose_sticky(topic)
                index = end
            self.wake_sender()

    def flush(self, timeout_s: float | None) -> None:
        """Have all sent that was appended before this call, and wait for the outcomes and their callbacks.

        Raises:
            ClientTimeoutError: ``timeout_s`` ran out.
        """
        begun_ns = time.perf_counter_ns()
        with self.lock:
            waiting = list(self.incomplete)
            self.flushing += 1
        self.wake_sender()
        try:
            deadline = None if timeout_s is None else time.monotonic() + timeout_s
            for batch in waiting:
                while (
                    leaf := next((each for each in batch.leaves() if not each.finished), None)
                ) is not None:
                    left = None if deadline is None else max(0.0, deadline - time.monotonic())
                    if not leaf.wait(left):
                        raise ClientTimeoutError(
                            Stage.REQUEST, f"records are not acknowledged after {timeout_s} s"
                        )
        finally:
            with self.lock:
                self.flushing -= 1
            self._metrics.flush_time.record(time.perf_counter_ns() - begun_ns)

    # -- for the sender -----------------------------------------------------------------------------------

    def due_ms(self, queue: PartitionQueue, now_ms: int) -> int:
        """When the first batch of a queue should go, if nothing else is in its way; call with the lock held."""
        batch = queue.batches[0]
        if batch.attempts:
            return batch.not_before_ms
        if self.flushing or self.closed or self._waiters or len(queue.batches) > 1:
            return now_ms
        if batch.is_grown or batch.builder.size_bytes >= batch.builder.bytes_max:
            return now_ms
        return batch.created_ms + self._config.linger_ms

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Remove the first batch of a queue; call with the lock held."""
        batch = queue.batches.popleft()
        self._encode_run(batch)
        if queue.open is batch:
            queue.open = None
        del self.waiting[queue]
        if queue.batches:
            self.waiting[queue] = None  # behind the others, so that each has its turn
        return batch

    def first_bytes(self, queue: PartitionQueue) -> int:
        """The size of the first batch of a queue; call with the lock held."""
        batch = queue.batches[0]
        self._encode_run(batch)
        return batch.builder.size_bytes

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch that is to be sent again, in order of sequence; call with the lock held."""
        queue = batch.queue
        position = 0
        if batch.sequence >= 0:
            for other in queue.batches:
                if other.sequence < 0 or other.sequence > batch.sequence or other.producer != batch.producer:
                    break
                position += 1
        queue.batches.insert(position, batch)
        self.waiting[queue] = None

    def release(self, batches: Sequence[ProducerBatch]) -> None:
        """Give back the memory of finished batches."""
        with self.lock:
            for batch in batches:
                self.incomplete.pop(batch, None)
                self._give_back(batch.reserved_bytes)
                batch.reserved_bytes = 0

    def split(self, batch: ProducerBatch, halves: tuple[ProducerBatch, ProducerBatch]) -> None:
        """Queue two halves in the place of a batch that was too large; call with the lock held."""
        batch.split(halves)
        self.incomplete.pop(batch, None)
        for half in reversed(halves):
            self.put_back(half)
        self.incomplete.update(dict.fromkeys(halves))
        halves[0].reserved_bytes, batch.reserved_bytes = batch.reserved_bytes, 0
        if self._codec is not Codec.NONE:
            batch.queue.topic.ratio = max(1.0, batch.queue.topic.ratio)
        batch.queue.topic.grows = False

    def note_ratio(self, topic: TopicQueues, ratio: float) -> None:
        """Learn what compression left of a batch."""
        if ratio > topic.ratio:
            topic.ratio = max(topic.ratio + _RATIO_WORSE, ratio)
        elif ratio < topic.ratio:
            topic.ratio = max(topic.ratio - _RATIO_BETTER, ratio)

    def close(self) -> None:
        """Take no more records; threads that wait for memory or metadata are told."""
        with self.lock:
            self.closed = True
            for queue in self.waiting:
                queue.shut()
            for waiter in self._waiters:
                waiter.notify_all()
            self.metadata_changed.notify_all()

    @property
    def waiting_threads(self) -> int:
        """How many threads wait for buffer memory."""
        return len(self._waiters)

    # -- inside; all with the lock held -------------------------------------------------------------------

    def _append_to_new(
        self,
        topic: TopicQueues,
        partition: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        deadline_ms: int | None,
    ) -> tuple[ProducerBatch, int]:
        """Make room for a record, and add it.

        Returns:
            The batch, and its size before.
        """
        while True:
            queue = topic.queue(partition if partition >= 0 else self._sticky_partition(topic))
            batch = queue.open
            if batch is not None:
                self._encode_run(batch)
                before = batch.builder.size_bytes
                if batch.builder.append(timestamp_ms, key, value, headers):
                    return batch, before
            if partition < 0 and topic.sticky.take(0, batch_is_full=True):
                self._choose_sticky(topic)
                if topic.sticky.partition != queue.partition.partition:
                    self._seal(queue)
                    continue
            if batch is not None:
                if self._may_grow(batch) and batch.builder.append(timestamp_ms, key, value, headers):
                    return batch, before
                self._seal(queue)
            limit = self._batch_bytes(topic, bulk=False)
            reserve = min(limit, self._config.batch_size)
            reserve = max(reserve, BATCH_OVERHEAD + record_bytes_max(key, value, headers))
            self._reserve(reserve, deadline_ms)
            # Another thread may have gone on while this one waited for memory.
            batch = queue.open
            if batch is not None:
                self._encode_run(batch)
                before = batch.builder.size_bytes
                if batch.builder.append(timestamp_ms, key, value, headers):
                    self._give_back(reserve)
                    return batch, before
            batch = self._new_batch(queue, limit, reserve)
            try:
                batch.builder.append(timestamp_ms, key, value, headers)
            except BaseException:
                self._forget(batch)
                raise
            return batch, 0

    def _grow(self, batch: ProducerBatch) -> None:
        """Take more memory for a batch that turned out larger than was expected; never waits, others will."""
        more = max(batch.builder.size_bytes - batch.reserved_bytes, self._config.batch_size)
        batch.reserved_bytes += more
        self.free_bytes -= more

    def _may_grow(self, batch: ProducerBatch) -> bool:
        """Give a full batch more room where it would wait for others of its partition, or for the sender, anyway.

        As in send_batch(), not where the user has said how large batches are to be.
        """
        queue, step = batch.queue, self._config.batch_size * _STEPS
        if self._bounds_batches or not queue.topic.grows or not (queue.unanswered or len(queue.batches) > 1):
            return False
        bound = self._batch_bytes(queue.topic, bulk=True)
        builder = batch.builder
        step = min(step, bound - builder.bytes_max)
        if step <= 0 or self._waiters or self.free_bytes < step:
            return False
        self.free_bytes -= step
        batch.reserved_bytes += step
        builder.bytes_max += step
        batch.is_grown = True
        return True

    def _encode_run(self, batch: ProducerBatch) -> int:
        """Encode what was only gathered for a batch.

        Returns:
            How many records that were.
        """
        run = batch.run
        if run is None:
            return 0
        grown, sticky = run.end(), batch.queue.topic.sticky
        if run.is_sticky and sticky.partition == batch.queue.partition.partition:
            sticky.take(grown, batch_is_full=False)  # its turn is not over: the run ends before
        return run.taken

    def _open_run(
        self,
        batch: ProducerBatch,
        partition: int,
        stamp_ms: int,
        name: str,
        room_bytes: int,
        headers: bytes,
        *,
        has_keys: bool,
    ) -> None:
        """Let records that are like the last one of a batch be gathered for it."""
        builder, topic = batch.builder, batch.queue.topic
        room = min(room_bytes, min(builder.bytes_max, batch.reserved_bytes) - builder.size_bytes)
        if partition < 0 and topic.partition_count > 1:
            room = min(room, topic.sticky.room_bytes(batch_is_full=batch.is_grown))
        run = batch.run = Run(
            batch,
            name,
            stamp_ms,
            owner=batch.thread,
            lock=self.lock,
            generation=topic.generation,
            is_sticky=partition < 0,
            has_keys=has_keys,
            headers=headers,
            room_bytes=room,
        )
        if partition < 0:
            topic.run = run
            if self.shows_runs and headers == NO_HEADERS:
                self.run = run
        else:
            batch.queue.run = run

    def _seal(self, queue: PartitionQueue) -> None:
        if queue.open is not None:
            self._encode_run(queue.open)
            queue.open.builder.bytes_max = 0
            queue.open = None

    def _new_batch(self, queue: PartitionQueue, limit: int, reserved: int) -> ProducerBatch:
        builder = BatchBuilder(limit, codec=self._codec, level=self._level)
        batch = queue.open = self._queue(queue, builder, reserved)
        return batch

    def _queue(self, queue: PartitionQueue, builder: BatchBuilder, reserved: int) -> ProducerBatch:
        now_ms = self._clock.monotonic_ms()
        batch = ProducerBatch(
            queue,
            builder,
            now_ms=now_ms,
            deadline_ms=now_ms + self._config.delivery_timeout_ms,
            reserved_bytes=reserved,
        )
        self._seal(queue)
        queue.batches.append(batch)
        self.waiting.setdefault(queue)
        self.incomplete[batch] = None
        return batch

    def _forget(self, batch: ProducerBatch) -> None:
        """Take a batch back that stayed empty."""
        queue = batch.queue
        queue.batches.remove(batch)
        queue.open = None
        if not queue.batches:
            del self.waiting[queue]
        del self.incomplete[batch]
        self._give_back(batch.reserved_bytes)

    def _batch_bytes(self, topic: TopicQueues, *, bulk: bool) -> int:
        """At how many bytes, before compression, a new batch is full."""
        size = self._config.batch_size
        if self._codec is not Codec.NONE:
            # As in Kafka, batch.size is what is expected to be left after compression; but not beyond all bounds,
            # because what waits here is not compressed yet.
            expected = int((size - BATCH_OVERHEAD) / (topic.ratio * _RATIO_MARGIN)) + BATCH_OVERHEAD
            size = max(0, min(expected, max(size, self._config.buffer_memory // 8)))
        if bulk and not self._bounds_batches:
            bound = min(_BULK_BYTES, self._config.max_request_size // 2, self._config.buffer_memory // 8)
            size = max(size, bound)
        return min(size, self._config.buffer_memory)

    def _sticky_partition(self, topic: TopicQueues) -> int:
        if topic.sticky.partition < 0:
            self._choose_sticky(topic)
        return topic.sticky.partition

    def _choose_sticky(self, topic: TopicQueues) -> None:
        count = topic.partition_count
        weights = None
        # As in Kafka, queues say something only when every partition has one.
        if self._config.partitioner_adaptive_partitioning_enable and len(topic.queues) >= count > 1:
            fit = [each for each in topic.available if each not in topic.unavailable]
            weights = Weights.of_queues([len(topic.queue(each).batches) for each in fit], fit, count)
        if weights is not None:
            chosen = weights.choose(random_below)
        elif topic.available:
            chosen = topic.available[random_below(len(topic.available))]
        else:
            chosen = random_below(count)
        topic.sticky.start(chosen)
        topic.run.end()

    def _reserve(self, size_bytes: int, deadline_ms: int | None) -> None:
        """Take memory, first come, first served; lets go of the lock while it has to wait."""
        if self.closed:
            raise ClosedError("Cannot perform operation after producer has been closed")
        if not self._waiters and self.free_bytes >= size_bytes:
            self.free_bytes -= size_bytes
            return
        begun_ms = self._clock.monotonic_ms()
        if deadline_ms is None:
            deadline_ms = begun_ms + self._config.max_block_ms
        waiter = threading.Condition(self.lock)
        self._waiters.append(waiter)
        self.wake_sender()
        try:
            while self._waiters[0] is not waiter or self.free_bytes < size_bytes:
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if left_ms <= 0:
                    self._metrics.buffer_exhausted.record()
                    raise BufferExhaustedError(
                        f"Failed to allocate {size_bytes} bytes within the configured max blocking time "
                        f"{self._config.max_block_ms} ms. Total memory: {self._config.buffer_memory} bytes. "
                        f"Available memory: {self.free_bytes} bytes."
                    )
                waiter.wait(left_ms / 1000)
                if self.closed:
                    raise ClosedError("Producer closed while allocating memory")
            self.free_bytes -= size_bytes
        finally:
            self._waiters.remove(waiter)
            if self._waiters and self.free_bytes:
                self._waiters[0].notify()
            self._metrics.buffer_wait.record((self._clock.monotonic_ms() - begun_ms) * 1_000_000)

    def _give_back(self, size_bytes: int) -> None:
        self.free_bytes += size_bytes
        if self._waiters:
            self._waiters[0].notify()
