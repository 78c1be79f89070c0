"""Between the fetchers and the application: partitions with their two positions, chunks, and streams of messages.

One lock per stream orders everything that a rebalance could race with: a message is either returned, and then counted
as consumed, or its partition was taken away before, and then it is never returned here.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self, TypeAlias

from pkafka.clients.legacy.errors import ConsumerTimeoutError
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.records.reading import Record, read_records

Decoder: TypeAlias = Callable[[bytes], Any]
"""Makes an object of a key or a message; not asked about null."""

"""The position of a partition without one: the fetcher makes it of ``auto.offset.reset``."""


class MessageAndMetadata(NamedTuple):
    """A message and where it was read; ``key`` and ``message`` are what the stream's decoders made of them."""

    topic: str
    partition: int
    offset: int
    key: Any
    message: Any
    timestamp_ms: int


class PartitionTopicInfo:
    """One partition that this member owns.

    Attributes:
        fetch_offset: the next offset to fetch; moved by the fetcher that has the partition.
        consumed_offset: behind the last message that the application got, which is what is committed; moved by the
            application's thread.
    """

    __slots__ = ("consumed_offset", "fetch_offset", "partition", "stream")

    def __init__(self, partition: TopicPartition, offset: int, stream: "KafkaStream") -> None:
        self.partition = partition
        self.stream = stream
        self.fetch_offset = offset
        self.consumed_offset = offset

    def reset(self, offset: int) -> None:
        """Begin at ``offset``, as there was no position, or one that the log does not have."""
        self.fetch_offset = offset
        self.consumed_offset = offset


class Chunk(NamedTuple):
    """What one fetch brought of one partition."""

    info: PartitionTopicInfo
    fetch_offset: int
    records: Buffer


class KafkaStream:
    """The messages of one thread of a connector, in order per partition; an iterator for one thread at a time.

    Ends when the connector is shut down. ``next()`` raises ``ConsumerTimeoutError`` after ``consumer.timeout.ms``
    without a message (and may be called again), and ``ApiError`` when records are damaged.

    Args:
        chunks_max: ``queued.max.message.chunks``.
        timeout_ms: ``consumer.timeout.ms``; negative waits for ever.
        key_decoder, value_decoder: make objects of keys and messages.
    """

    def __init__(
        self,
        chunks_max: int,
        timeout_ms: int,
        key_decoder: Decoder,
        value_decoder: Decoder,
    ) -> None:
        self._chunks_max = chunks_max
        self._timeout_ms = timeout_ms
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._changed = threading.Condition()
        self._chunks: deque[Chunk] = deque()
        self._current: tuple[PartitionTopicInfo, Iterator[Record]] | None = None
        self._closed = False

    # -- the fetchers' and the rebalancer's side ----------------------------------------------------------

    def put(self, chunk: Chunk, is_stopped: Callable[[], bool]) -> bool:
        """Queue a chunk, waiting while the queue is full.

        Args:
            is_stopped: whether the fetcher that asks has been stopped meanwhile; :meth:`wake` makes it looked at.

        Returns:
            False when the fetcher was stopped and the chunk dropped.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._chunks) < self._chunks_max or self._closed or is_stopped()
            )
            if self._closed or is_stopped():
                return False
            self._chunks.append(chunk)
            self._changed.notify_all()
            return True

    def wake(self) -> None:
        """Let fetchers that wait in :meth:`put` see that they are stopped."""
        with self._changed:
            self._changed.notify_all()

    def clear(self) -> None:
        """Drop everything that the application has not got; from then on ``consumed_offset`` stands still."""
        with self._changed:
            self._chunks.clear()
            self._current = None
            self._changed.notify_all()

    def close(self) -> None:
        """End the stream for its reader."""
        with self._changed:
            self._closed = True
            self._chunks.clear()
            self._current = None
            self._changed.notify_all()

    # -- the application's side ---------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageAndMetadata:
        deadline = None if self._timeout_ms < 0 else time.monotonic() + self._timeout_ms / 1000
        with self._changed:
            while True:
                found = self._next_record()
                if found is not None:
                    break
                if self._closed:
                    raise StopIteration
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise ConsumerTimeoutError(f"no message within {self._timeout_ms} ms")
                self._changed.wait(left)
        partition, record = found
        return MessageAndMetadata(
            partition.topic,
            partition.partition,
            record.offset,
            None if record.key is None else self._key_decoder(record.key),
            None if record.value is None else self._value_decoder(record.value),
            record.timestamp,
        )

    def _next_record(self) -> tuple[TopicPartition, Record] | None:
        """The next record of what is here, counted as consumed; called under the lock."""
        while True:
            if self._current is not None:
                info, records = self._current
                try:
                    record = next(records, None)
                except ApiError:
                    self._current = None
                    raise
                if record is not None:
                    info.consumed_offset = record.offset + 1
                    return info.partition, record
                self._current = None
            if not self._chunks:
                return None
            chunk = self._chunks.popleft()
            self._changed.notify_all()
            # Behind a reset of the position the chunk begins later than what was consumed, elsewhere at the same place.
            start = max(chunk.fetch_offset, chunk.info.consumed_offset)
            self._current = (chunk.info, read_records(chunk.records, from_offset=start))
