"""Batches that fill up and wait, per partition, within ``buffer.memory`` (PROD-15..17).

Appended to by any thread, drained by the sender thread; one lock for all, held for microseconds.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import ClientTimeoutError, ClosedError, Stage
from pkafka.clients.producer.batch import Callback, ProducerBatch, RecordFuture
from pkafka.clock import Clock
from pkafka.model import TopicPartition
from pkafka.records.builder import BatchBuilder, Headers
from pkafka.records.compression import Codec


class PartitionQueue:
    """What waits for one partition, and what the sender has under way to it."""

    __slots__ = ("batches", "in_flight", "next_sequence", "recovering")

    def __init__(self) -> None:
        self.batches: deque[ProducerBatch] = deque()
        self.in_flight = 0
        self.next_sequence = 0
        self.recovering = False


class Accumulator:
    """See the module.

    Args:
        config: batch.size, linger.ms, buffer.memory, delivery.timeout.ms, compression.type.
        clock: for ages and record timestamps.
        wake_sender: called when something became sendable while the sender sleeps.
    """

    def __init__(self, config: ProducerConfig, clock: Clock, wake_sender: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.free_bytes = config.buffer_memory
        self.waiting_for_memory = 0
        self.flushing = 0
        self.incomplete: set[ProducerBatch] = set()
        self.closed = False
        self._config = config
        self._clock = clock
        self._wake_sender = wake_sender
        self._codec = Codec[config.compression_type.upper()]

    def append(
        self,
        partition: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        callback: Callback | None,
        size_bytes: int,
        deadline_ms: int,
    ) -> RecordFuture:
        """Add a record to the open batch of its partition, or to a new one.

        Args:
            size_bytes: an upper bound of what the record takes in a batch.
            deadline_ms: monotonic; how long to wait for buffer memory.

        Raises:
            ClientTimeoutError: the buffer stayed full.
            ClosedError: the producer was closed.
        """
        with self.lock:
            if self.closed:
                raise ClosedError("the producer is closed")
            queue = self.queues.get(partition)
            if queue is None:
                queue = self.queues[partition] = PartitionQueue()
            batch = queue.batches[-1] if queue.batches else None
            if batch is None or batch.attempts or not batch.builder.append(timestamp_ms, key, value, headers):
                was_full = batch is not None
                batch = self._new_batch(partition, queue, size_bytes, deadline_ms)
                batch.builder.append(timestamp_ms, key, value, headers)
                wake = was_full or self._config.linger_ms == 0 or len(queue.batches) == 1
            else:
                wake = False
            index = batch.builder.count - 1
            batch.timestamps.append(timestamp_ms)
            if callback is not None:
                batch.callbacks.append((index, callback))
        if wake:
            self._wake_sender()
        return RecordFuture(batch, index)

    def ready(self, now_ms: int) -> Iterator[tuple[TopicPartition, PartitionQueue]]:
        """The partitions whose first batch should go now; call with the lock held."""
        everything = self.flushing > 0 or self.closed or self.waiting_for_memory > 0
        linger_ms = self._config.linger_ms
        for partition, queue in self.queues.items():
            if not queue.batches or (queue.recovering and queue.in_flight):
                continue
            batch = queue.batches[0]
            if now_ms < batch.not_before_ms:
                continue
            if (
                everything
                or batch.attempts
                or len(queue.batches) > 1
                or now_ms - batch.created_ms >= linger_ms
            ):
                yield partition, queue

    def next_due_ms(self, now_ms: int) -> int | None:
        """In how many milliseconds a waiting batch becomes sendable or expires; call with the lock held."""
        due = [
            min(
                max(batch.not_before_ms, 0 if batch.attempts else batch.created_ms + self._config.linger_ms),
                batch.deadline_ms,
            )
            for queue in self.queues.values()
            if queue.batches
            for batch in (queue.batches[0],)
        ]
        return max(0, min(due) - now_ms) if due else None

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch that is to be sent again, in order of sequence; call with the lock held."""
        queue = self.queues[batch.partition]
        position = 0
        for position, other in enumerate(queue.batches):  # noqa: B007 - the position is used behind the loop
            if other.sequence < 0 or other.sequence > batch.sequence:
                break
        else:
            position = len(queue.batches)
        queue.batches.insert(position, batch)

    def release(self, batches: Sequence[ProducerBatch]) -> None:
        """Give back the memory of finished batches."""
        with self.changed:
            for batch in batches:
                self.free_bytes += batch.reserved_bytes
                batch.reserved_bytes = 0
                self.incomplete.discard(batch)
            self.changed.notify_all()

    def _new_batch(
        self, partition: TopicPartition, queue: PartitionQueue, size_bytes: int, deadline_ms: int
    ) -> ProducerBatch:
        reserve = max(self._config.batch_size, size_bytes)
        self._reserve(reserve, deadline_ms)
        now_ms = self._clock.monotonic_ms()
        batch = ProducerBatch(
            partition,
            BatchBuilder(self._config.batch_size, codec=self._codec),
            now_ms=now_ms,
            deadline_ms=now_ms + self._config.delivery_timeout_ms,
            reserved_bytes=reserve,
        )
        queue.batches.append(batch)
        self.incomplete.add(batch)
        return batch

    def _reserve(self, size_bytes: int, deadline_ms: int) -> None:
        while self.free_bytes < size_bytes:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0 or size_bytes > self._config.buffer_memory:
                text = f"the send buffer stayed full for {self._config.max_block_ms} ms"
                hint = "raise buffer.memory or max.block.ms, or send less"
                raise ClientTimeoutError(Stage.REQUEST, text, hint=hint)
            self.waiting_for_memory += 1
            try:
                self._wake_sender()
                self.changed.wait(left_ms / 1000)
            finally:
                self.waiting_for_memory -= 1
            if self.closed:
                raise ClosedError("the producer is closed")
        self.free_bytes -= size_bytes
