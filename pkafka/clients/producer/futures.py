"""What ``send()`` and ``send_batch()`` give back: outcomes to come."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from pkafka.clients.errors import ClientTimeoutError, Stage
from pkafka.clients.producer.batch import Part, ProducerBatch
from pkafka.clients.producer.record_metadata import RecordMetadata, new_metadata


class Placed:
    """A record with its place in a batch."""

    # Without a method that fills them in: calling it would take longer than all that it does.
    __slots__ = ()
    batch: ProducerBatch
    """The one that the record was put into."""
    index: int
    """Its place there."""
    timestamp_ms: int
    key_size: int
    """In bytes; -1 for null, as :attr:`value_size`."""
    value_size: int

    def place(self) -> tuple[ProducerBatch, int]:
        """The batch that the record is in by now, and its index there."""
        batch, index = self.batch, self.index
        while (halves := batch.halves) is not None:
            first, second = halves
            if index < first.count:
                batch = first
            else:
                batch, index = second, index - first.count
        return batch, index

    def settled(self) -> tuple[RecordMetadata, Exception | None]:
        """The outcome of a record whose batch is finished, or being finished."""
        batch, index = self.batch, self.index
        if batch.halves is not None:
            batch, index = self.place()
        topic, partition = batch.queue.partition
        if batch.error is not None or batch.record_errors is not None:
            error = batch.error_of(index)
            if error is not None:
                return RecordMetadata(topic, partition, -1, -1), error
        base, timestamp_ms = batch.base_offset, batch.append_time_ms
        return new_metadata(
            RecordMetadata,
            (
                topic,
                partition,
                base + index if base >= 0 else -1,
                timestamp_ms if timestamp_ms >= 0 else self.timestamp_ms,
                self.key_size,
                self.value_size,
            ),
        ), None


def metadata_of(batch: ProducerBatch, places: Iterable[Placed]) -> list[RecordMetadata]:
    """What :meth:`Placed.settled` gives of many records at once.

    Args:
        batch: of all of them; it is finished, was not split, and has no errors.
        places: of the records.
    """
    topic, partition = batch.queue.partition
    base, stamp_ms = batch.base_offset, batch.append_time_ms
    return [
        new_metadata(
            RecordMetadata,
            (
                topic,
                partition,
                base + each.index if base >= 0 else -1,
                stamp_ms if stamp_ms >= 0 else each.timestamp_ms,
                each.key_size,
                each.value_size,
            ),
        )
        for each in places
    ]


class RecordFuture(Placed):
    """The outcome of one ``send()``, with the methods of ``concurrent.futures.Future``."""

    __slots__ = ("batch", "index", "key_size", "timestamp_ms", "value_size")

    def done(self) -> bool:
        """Whether the outcome is known; callbacks have been called then."""
        return self.place()[0].finished

    def running(self) -> bool:
        """Whether the outcome is to come: a record is under way as soon as it was handed over."""
        return not self.done()

    def cancel(self) -> bool:
        """Does nothing and says so: a record that was handed over is sent."""
        return False

    def cancelled(self) -> bool:
        """Never."""
        return False

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        Args:
            timeout: seconds; None waits as long as it takes (delivery.timeout.ms bounds it).

        Raises:
            ClientTimeoutError: ``timeout`` ran out, or the record could not be delivered in time.
            ApiError: the broker refused the record.
            ClientError: it could not be delivered.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.settled()[0]

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for the outcome; why it failed, or None.

        Raises:
            ClientTimeoutError: ``timeout`` ran out.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        batch, index = self.place()
        while not batch.finished:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not batch.wait(left):
                raise ClientTimeoutError(Stage.REQUEST, f"the record is not acknowledged after {timeout:g} s")
            batch, index = self.place()
        return batch.error_of(index)

    def add_done_callback(self, function: Callable[["RecordFuture"], object]) -> None:
        """Have ``function`` called with this future when it is done: on the sender thread, or at once here."""
        # Not a function in here that knows itself: such a circle keeps the batch until garbage is collected.
        batch, _ = self.place()
        if not batch.listen(partial(self.add_done_callback, function)):
            function(self)


class FailedFuture(RecordFuture):
    """The outcome of a record that never came into a batch."""

    __slots__ = ("_error", "_metadata")

    def __init__(self, topic: str, partition: int | None, error: Exception) -> None:
        self._metadata = RecordMetadata(topic, -1 if partition is None else partition, -1, -1)
        self._error = error

    def done(self) -> bool:
        return True

    def exception(self, timeout: float | None = None) -> Exception | None:
        return self._error

    def add_done_callback(self, function: Callable[[RecordFuture], object]) -> None:
        function(self)

    def settled(self) -> tuple[RecordMetadata, Exception | None]:
        return self._metadata, self._error


class BatchMetadata(NamedTuple):
    """Where a run of records of one ``send_batch()`` went: ``length`` of them from ``offset`` on.

    ``positions`` are their places in the lists that were given. With an ``error`` none of them was written.
    """

    topic: str
    partition: int
    offset: int
    length: int
    timestamp_ms: int
    positions: Sequence[int]
    error: Exception | None = None


class Sent(NamedTuple):
    """A part of what ``send_batch()`` was given: the records of ``positions``, and where they wait."""

    part: Part
    positions: Sequence[int]


class BatchFuture:
    """The outcome of one ``send_batch()``.

    Args:
        timestamp_ms: of all records.
        sent: what came into batches.
        failed: what did not.
    """

    __slots__ = ("_failed", "_sent", "_timestamp_ms")

    def __init__(self, timestamp_ms: int, sent: list[Sent], failed: BatchMetadata | None = None) -> None:
        self._timestamp_ms = timestamp_ms
        self._sent = sent
        self._failed = failed

    @classmethod
    def of_records(cls, timestamp_ms: int, futures: Sequence[RecordFuture]) -> "BatchFuture":
        """The outcome of records that were sent one by one."""
        sent: list[Sent] = []
        left: list[int] = []
        error: Exception | None = None
        for index, future in enumerate(futures):
            if isinstance(future, FailedFuture):
                left.append(index)
                error = error or future.exception()
            else:
                sent.append(Sent(Part(*future.place(), 1), (index,)))
        if error is None:
            return cls(timestamp_ms, sent)
        topic = futures[left[0]].settled()[0].topic
        return cls(timestamp_ms, sent, BatchMetadata(topic, -1, -1, len(left), -1, left, error))

    def done(self) -> bool:
        """Whether every outcome is known."""
        return all(leaf.finished for sent in self._sent for leaf in sent.part.batch.leaves())

    def result(self, timeout: float | None = None) -> list[BatchMetadata]:
        """Wait for all outcomes.

        Args:
            timeout: seconds; None waits as long as it takes.

        Returns:
            Where the records went, run by run; in the order of the records where they have one partition.

        Raises:
            ClientTimeoutError, ApiError, ClientError: as :meth:`RecordFuture.result`, of the first run that failed;
                :meth:`outcomes` tells of the others.
        """
        outcomes = self.outcomes(timeout)
        for each in outcomes:
            if each.error is not None:
                raise each.error
        return outcomes

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for all outcomes; the error of the first run that failed, or None."""
        return next((each.error for each in self.outcomes(timeout) if each.error is not None), None)

    def outcomes(self, timeout: float | None = None) -> list[BatchMetadata]:
        """Wait for all outcomes; every run, failed ones too.

        Raises:
            ClientTimeoutError: ``timeout`` ran out.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        found: list[BatchMetadata] = []
        for part, positions in self._sent:
            while (
                waiting := next((leaf for leaf in part.batch.leaves() if not leaf.finished), None)
            ) is not None:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not waiting.wait(left):
                    raise ClientTimeoutError(
                        Stage.REQUEST, f"the records are not acknowledged after {timeout:g} s"
                    )
            start = 0
            for run in part.batch.parts(part.first, part.length):
                found.append(self._outcome(run, positions[start : start + run.length]))
                start += run.length
        return found if self._failed is None else [*found, self._failed]

    def add_done_callback(self, function: Callable[["BatchFuture"], object]) -> None:
        """Have ``function`` called with this future when all is done: on the sender thread, or at once here."""
        look = partial(self.add_done_callback, function)
        for sent in self._sent:
            for leaf in sent.part.batch.leaves():
                if leaf.listen(look):
                    return
        function(self)

    def _outcome(self, run: Part, positions: Sequence[int]) -> BatchMetadata:
        batch = run.batch
        topic, partition = batch.queue.partition
        if batch.error is not None:
            errors = batch.record_errors or {}
            own = next(
                (error for index, error in errors.items() if 0 <= index - run.first < run.length), None
            )
            return BatchMetadata(topic, partition, -1, run.length, -1, positions, own or batch.error)
        offset = batch.base_offset + run.first if batch.base_offset >= 0 else -1
        timestamp_ms = batch.append_time_ms if batch.append_time_ms >= 0 else self._timestamp_ms
        return BatchMetadata(topic, partition, offset, run.length, timestamp_ms, positions)
