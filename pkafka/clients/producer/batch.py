"""A batch on its way to a partition, and the futures of its records."""

import threading
from collections.abc import Callable
from typing import NamedTuple

from pkafka.clients.errors import ClientTimeoutError, Stage
from pkafka.model import TopicPartition
from pkafka.records.builder import BatchBuilder


class RecordMetadata(NamedTuple):
    """Where a record went; ``offset`` is -1 when the broker was not asked (acks=0) or did not say."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


Callback = Callable[[RecordMetadata | None, Exception | None], None]
"""Called with exactly one of the two, on the sender thread, in the order of sends within a partition."""


class ProducerBatch:
    """Records that travel together. Written under the accumulator's lock, finished by the sender thread."""

    __slots__ = (
        "_done",
        "append_time_ms",
        "attempts",
        "base_offset",
        "builder",
        "callbacks",
        "created_ms",
        "deadline_ms",
        "error",
        "finished",
        "not_before_ms",
        "partition",
        "producer",
        "reserved_bytes",
        "sequence",
        "timestamps",
    )

    def __init__(
        self,
        partition: TopicPartition,
        builder: BatchBuilder,
        *,
        now_ms: int,
        deadline_ms: int,
        reserved_bytes: int,
    ) -> None:
        self.partition = partition
        self.builder = builder
        self.created_ms = now_ms
        self.deadline_ms = deadline_ms
        self.reserved_bytes = reserved_bytes
        self.not_before_ms = 0
        self.attempts = 0
        self.producer = (-1, -1)
        self.sequence = -1
        self.timestamps: list[int] = []
        self.callbacks: list[tuple[int, Callback]] = []
        self.finished = False
        self.base_offset = -1
        self.append_time_ms = -1
        self.error: Exception | None = None
        self._done: threading.Event | None = None

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the batch is finished; returns whether it is."""
        if self.finished:
            return True
        done = self._done
        if done is None:
            done = self._done = threading.Event()
        # The batch may have been finished before the event was there to be set.
        return self.finished or done.wait(timeout_s) or self.finished

    def finish(
        self, *, base_offset: int = -1, append_time_ms: int = -1, error: Exception | None = None
    ) -> None:
        """Set the outcome and call the callbacks; a callback's own exception is logged, not raised."""
        if self.finished:
            return
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.error = error
        self.finished = True
        if self._done is not None:
            self._done.set()
        for index, callback in self.callbacks:
            try:
                callback(None if error else self.metadata(index), error)
            except Exception:
                import logging

                logging.getLogger(__name__).exception("a producer callback failed")
        self.callbacks.clear()

    def metadata(self, index: int) -> RecordMetadata:
        """Where the record at ``index`` of this batch went."""
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        timestamp_ms = self.append_time_ms if self.append_time_ms >= 0 else self.timestamps[index]
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, timestamp_ms)


class RecordFuture:
    """The outcome of one ``send()``, with the methods of ``concurrent.futures.Future`` that make sense."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.finished

    def cancelled(self) -> bool:
        """Never: a record that was handed over is sent."""
        return False

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        Args:
            timeout: seconds; None waits as long as it takes (delivery.timeout.ms bounds it).

        Raises:
            ClientTimeoutError: ``timeout`` ran out.
            ApiError: the broker refused the record.
            ClientError: it could not be delivered in time.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._batch.metadata(self._index)

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for the outcome; why it failed, or None."""
        if not self._batch.wait(timeout):
            raise ClientTimeoutError(Stage.REQUEST, f"the record is not acknowledged after {timeout} s")
        return self._batch.error
