"""Outcomes of sends on their way from the sender to the event loop: one wake-up for many."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial

from pkafka.clients.producer.batch import ProducerBatch
from pkafka.clients.producer.futures import (
    BatchFuture,
    BatchMetadata,
    FailedFuture,
    Placed,
    RecordFuture,
    metadata_of,
)
from pkafka.clients.producer.record_metadata import RecordMetadata

RecordOutcome = asyncio.Future[RecordMetadata]
BatchOutcome = asyncio.Future[list[BatchMetadata]]


class Outcome(RecordOutcome, Placed):
    """The outcome to come of one record."""

    __slots__ = ("batch", "index", "key_size", "timestamp_ms", "value_size")


class Outcomes:
    """The outcomes to come of one producer, as futures of a loop.

    The sender says once for each batch that it is finished, on whichever thread it works; what became of its records
    is worked out on the loop. Where the program awaits no outcome of a send that failed, the loop reports nothing: the
    producer has counted the error.

    Args:
        loop: all methods are called on its thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = threading.get_ident()
        self.new: Callable[[], Outcome] = partial(Outcome, loop=loop)
        """Makes one that waits for nothing yet."""
        self._waiting: dict[ProducerBatch, list[Outcome]] = {}
        self.latest: ProducerBatch | None = None
        """One of those: the next record is likely to be in it, too."""
        self.of_latest: list[Outcome] = []
        """What waits for it."""
        self._lock = threading.Lock()
        self._known: list[Callable[[], None]] = []
        """What is to be done on the loop; under the lock."""

    def of_record(self, sent: RecordFuture) -> RecordOutcome:
        """The outcome of one record."""
        if isinstance(sent, FailedFuture):
            _, error = sent.settled()
            assert error is not None
            failed: RecordOutcome = self.loop.create_future()
            _fail(failed, error)
            return failed
        future = self.new()
        future.batch, future.index = sent.batch, sent.index
        future.timestamp_ms, future.key_size, future.value_size = (
            sent.timestamp_ms,
            sent.key_size,
            sent.value_size,
        )
        self.wait_for(future)
        return future

    def of_batch(self, sent: BatchFuture) -> BatchOutcome:
        """The outcome of one ``send_batch()``."""
        future: BatchOutcome = self.loop.create_future()
        sent.add_done_callback(lambda done: self._post(partial(_settle_runs, done, future)))
        return future

    def settle(self) -> None:
        """Settle all that is finished, without waiting for the word of the sender."""
        for batch in list(self._waiting):
            if batch.finished or batch.halves is not None:
                self._settle_records(batch)
        self.work()

    def wait_for(self, future: Outcome) -> None:
        """Settle an outcome when the batch of its record is finished."""
        batch, _ = future.place()
        waiting = self._waiting.get(batch)
        if waiting is not None:
            waiting.append(future)
            self.latest, self.of_latest = batch, waiting
            return
        self._waiting[batch] = self.of_latest = [future]
        self.latest = batch
        finished = partial(self._post, partial(self._settle_records, batch))
        if not batch.listen(finished):
            finished()

    def _settle_records(self, batch: ProducerBatch) -> None:
        if batch is self.latest:
            self.latest, self.of_latest = None, []
        waiting = self._waiting.pop(batch, [])
        if batch.finished and batch.halves is None and batch.error is None and batch.record_errors is None:
            for future, metadata in zip(waiting, metadata_of(batch, waiting), strict=True):
                if not future.done():
                    future.set_result(metadata)
                # The outcome may be kept for long, and the batch has the bytes of all its records.
                del future.batch
            return
        for future in waiting:
            if future.done():
                continue  # cancelled: the record was sent nevertheless
            if batch.finished or future.place()[0].finished:
                metadata, error = future.settled()
                del future.batch
                if error is None:
                    future.set_result(metadata)
                else:
                    _fail(future, error)
            else:
                self.wait_for(future)  # the batch was split, and this part of it is still under way

    def _post(self, work: Callable[[], None]) -> None:
        """Have work done on the loop; from any thread."""
        with self._lock:
            self._known.append(work)
            if len(self._known) > 1:
                return  # the loop was woken, and has not come yet
        if threading.get_ident() == self._thread:
            self.loop.call_soon(self.work)
            return
        try:
            self.loop.call_soon_threadsafe(self.work)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def work(self) -> None:
        """Settle what the sender has told of."""
        with self._lock:
            known, self._known = self._known, []
        for work in known:
            work()


def _settle_runs(sent: BatchFuture, future: BatchOutcome) -> None:
    if future.done():
        return
    runs = sent.outcomes(0)
    error = next((each.error for each in runs if each.error is not None), None)
    if error is None:
        future.set_result(runs)
    else:
        _fail(future, error)


def _fail(future: "RecordOutcome | BatchOutcome", error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # so that asyncio does not complain where nobody looks
