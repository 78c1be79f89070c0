"""A batch on its way to a partition, and what it is on its way to: a place in the log, or an error.

Any thread waits for a batch; the sender thread alone ends it. A batch that the broker finds too large is split, and
from then on its records are looked for in its parts.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pkafka.clients.producer.callbacks import Callback, RecordCallbacks
from pkafka.records.builder import BatchBuilder

if TYPE_CHECKING:
    from pkafka.clients.producer.gathering import Run
    from pkafka.clients.producer.queues import PartitionQueue

# Waiters and the sender meet here; held for a few instructions, once a wait and once a batch.
_SETTLING = threading.Lock()
_log = logging.getLogger(__name__)


class Part(NamedTuple):
    """Records of a batch that stand in one row in the log, or failed together."""

    batch: "ProducerBatch"
    first: int
    length: int


class ProducerBatch:
    """Records that travel together. Filled under the accumulator's lock.

    Args:
        queue: of its partition.
        builder: what the records go into.
        now_ms, deadline_ms: monotonic; when it was made, and when it is given up.
        reserved_bytes: of ``buffer.memory``.
    """

    __slots__ = (
        "_event",
        "_listeners",
        "append_time_ms",
        "attempts",
        "base_offset",
        "builder",
        "callbacks",
        "created_ms",
        "deadline_ms",
        "drained_ms",
        "error",
        "finished",
        "halves",
        "is_grown",
        "last_leader",
        "not_before_ms",
        "producer",
        "queue",
        "record_errors",
        "reserved_bytes",
        "run",
        "sequence",
        "sequence_was_reset",
        "thread",
    )

    def __init__(
        self,
        queue: "PartitionQueue",
        builder: BatchBuilder,
        *,
        now_ms: int,
        deadline_ms: int,
        reserved_bytes: int,
    ) -> None:
        self.queue = queue
        self.builder = builder
        self.created_ms = now_ms
        self.deadline_ms = deadline_ms
        self.reserved_bytes = reserved_bytes
        self.drained_ms = now_ms
        self.not_before_ms = 0
        self.attempts = 0
        self.last_leader = (-1, -1)
        self.producer = (-1, -1)
        self.sequence = -1
        self.sequence_was_reset = False
        self.is_grown = False
        """Whether it has the size that is wanted, and grows on while it cannot be sent."""
        self.thread = 0
        """The one whose record was added last."""
        self.run: Run | None = None
        """Its last records, while they are not encoded."""
        self.callbacks: list[RecordCallbacks] = []
        self.finished = False
        self.base_offset = -1
        self.append_time_ms = -1
        self.error: Exception | None = None
        self.record_errors: Mapping[int, Exception] | None = None
        self.halves: tuple[ProducerBatch, ProducerBatch] | None = None
        self._event: threading.Event | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def count(self) -> int:
        """How many records it has."""
        run = self.run
        return self.builder.count if run is None else run.first + len(run.values)

    def finish(
        self,
        *,
        base_offset: int = -1,
        append_time_ms: int = -1,
        error: Exception | None = None,
        record_errors: Mapping[int, Exception] | None = None,
    ) -> bool:
        """Set the outcome, call the callbacks, and then let the waiting threads go; False when it was set before.

        Args:
            base_offset: of the first record; -1 when it is not known.
            append_time_ms: the broker's, when the topic wants that; else -1.
            error: why none of the records was written.
            record_errors: by index, the errors of those records that have one of their own.
        """
        if self.finished:
            return False
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.error = error
        self.record_errors = record_errors
        callbacks, self.callbacks = self.callbacks, []
        for each in callbacks:
            each.call(self)
        with _SETTLING:
            self.finished = True
            event, listeners, self._listeners = self._event, self._listeners, []
        if event is not None:
            event.set()
        for listener in listeners:
            try:
                listener()
            except Exception:  # noqa: BLE001 - as above
                _log.exception("a listener for a batch of %s failed", self.queue.partition)
        return True

    def call_back(
        self, callback: Callback, index: int, timestamp_ms: int, key_size: int, value_size: int
    ) -> None:
        """Have ``callback`` told the outcome of the last record; its arguments are as in :class:`RecordCallbacks`."""
        if not self.callbacks or self.callbacks[-1].timestamp_ms != timestamp_ms:
            self.callbacks.append(RecordCallbacks(timestamp_ms, [], [], [], []))
        last = self.callbacks[-1]
        # A Ctrl-C may have ended an earlier call between two of these columns: there are as many rows as indexes.
        count = len(last.indexes)
        del last.callbacks[count:], last.key_sizes[count:], last.value_sizes[count:]
        last.callbacks.append(callback)
        last.key_sizes.append(key_size)
        last.value_sizes.append(value_size)
        last.indexes.append(index)

    def split(self, halves: tuple["ProducerBatch", "ProducerBatch"]) -> None:
        """From now on the records of this batch are those of two others; callbacks and listeners go along."""
        middle = halves[0].count
        for each in self.callbacks:
            for half, part in zip(halves, each.split(middle), strict=True):
                half.callbacks.append(part)
        self.callbacks = []
        with _SETTLING:
            self.halves = halves
            event = self._event
            # What listens looks again when it is called: either half will do.
            halves[1]._listeners, self._listeners = self._listeners, []
        if event is not None:
            event.set()

    def leaves(self) -> Iterator["ProducerBatch"]:
        """The batches that its records are in: itself, or the parts it was split into."""
        if self.halves is None:
            yield self
        else:
            for half in self.halves:
                yield from half.leaves()

    def parts(self, first: int, count: int) -> Iterator[Part]:
        """Where ``count`` of its records from ``first`` on are."""
        if self.halves is None:
            yield Part(self, first, count)
            return
        middle = self.halves[0].count
        if first < middle:
            yield from self.halves[0].parts(first, min(count, middle - first))
        if first + count > middle:
            start = max(first, middle)
            yield from self.halves[1].parts(start - middle, first + count - start)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the batch is finished or split.

        Returns:
            Whether it is.
        """
        if self.finished or self.halves is not None:
            return True
        with _SETTLING:
            if self.finished or self.halves is not None:
                return True
            event = self._event
            if event is None:
                event = self._event = threading.Event()
        return event.wait(timeout_s)

    def listen(self, listener: Callable[[], None]) -> bool:
        """Have ``listener`` called when the batch is finished; False when it is already."""
        last = self
        while True:
            with _SETTLING:
                if last.halves is not None:
                    last = last.halves[1]
                    continue
                if last.finished:
                    return False
                last._listeners.append(listener)
                return True

    def error_of(self, index: int) -> Exception | None:
        """Why the record at ``index`` failed; its own reason where it has one."""
        if self.record_errors is not None and index in self.record_errors:
            return self.record_errors[index]
        return self.error
