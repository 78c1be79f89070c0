"""A source task that writes exactly once (KIP-618): records and the offsets of their source in one transaction.

Before it starts, the producers of former tasks are fenced, and it is looked whether the task is this worker's still.
What was read and not committed is read again after a failure, and nobody who reads committed records saw it.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from pkafka.clients.producer import BatchMetadata, RecordMetadata
from pkafka.connect.connector import SourceBatch
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.source_run import SourceParts, SourceRun
from pkafka.connect.states import Target
from pkafka.connect.task_run import Report, TaskName
from pkafka.connect.transaction_marks import TransactionMarks

log = logging.getLogger("org.apache.kafka.connect.runtime.ExactlyOnceWorkerSourceTask")


class Boundary(Enum):
    """Where one transaction ends and the next begins: ``transaction.boundary``."""

    POLL = "poll"
    """The records of one call of ``poll``."""
    INTERVAL = "interval"
    """What comes in so many milliseconds."""
    CONNECTOR = "connector"
    """As the task says by its context."""


@dataclass(frozen=True, slots=True)
class ExactlyOnceParts:
    """What such a task is run with beside what every source task has.

    Args:
        boundary: of transactions.
        interval_s: between two of them, for INTERVAL.
        before: fences former producers; may wait, but no longer than until the event is set, and raises what keeps the
            task from running.
        after: looks whether the task may run still, now that nobody else writes.
    """

    boundary: Boundary
    interval_s: float
    before: Callable[[threading.Event], None]
    after: Callable[[], None]


class ExactlyOnceRun(SourceRun):
    """Runs the task.

    Args:
        name, target, report, parts, stopping: see :class:`SourceRun`; the producer has a ``transactional.id``, and
            offsets are written by it.
        own: of this kind of task.
    """

    def __init__(
        self,
        name: TaskName,
        target: Target,
        report: Report,
        parts: SourceParts,
        stopping: threading.Event,
        own: ExactlyOnceParts,
    ) -> None:
        super().__init__(name, target, report, parts, stopping)
        self._own = own
        self._is_open = False
        self._has_failed = False
        self._due_s = time.monotonic() + own.interval_s
        self._written: list[Callable[[], None]] = []
        """What the task is told of once it is committed."""
        self._marks = TransactionMarks() if own.boundary is Boundary.CONNECTOR else None

    @property
    def transactions(self) -> TransactionMarks | None:
        """What the task says of its transactions; None: it has no say."""
        return self._marks

    def work(self) -> None:
        """See that nobody else writes, then poll and send until the task is to end."""
        try:
            self._own.before(self.stopping)
            if self.stopping.is_set():
                return
            self._parts.producer.init_transactions()
            self._own.after()
            super().work()
        except BaseException:
            self._has_failed = True
            raise

    def store_offsets(self, *, wait: bool = False) -> None:
        """Commit what is open, when the task pauses or ends. The worker's clock has no say in transactions."""
        if not wait or not self._is_started:
            return
        if self._has_failed or self._failure is not None or self._marks is not None:
            self._abort()
        else:
            self._commit()

    # -- transactions --

    def _send_all(self, records: Sequence[SourceRecord | SourceBatch]) -> None:
        if self._marks is not None:
            self._send_marked(records, self._marks)
            return
        self._begin()
        super()._send_all(records)
        if self._own.boundary is Boundary.POLL or time.monotonic() >= self._due_s:
            self._commit()

    def _after_poll(self) -> None:
        """Commit by the clock also when the source gives nothing."""
        if self._own.boundary is Boundary.INTERVAL and self._is_open and time.monotonic() >= self._due_s:
            self._commit()

    def _send_marked(self, records: Sequence[SourceRecord | SourceBatch], marks: TransactionMarks) -> None:
        for record in records:
            assert isinstance(record, SourceRecord)  # batches are for transactions that the worker ends
            self._begin()
            super()._send_all([record])
            self._obey(aborts=marks.takes_abort(record), commits=marks.takes_commit(record))
        self._obey(aborts=marks.takes_abort(None), commits=marks.takes_commit(None))

    def _obey(self, *, aborts: bool, commits: bool) -> None:
        if aborts:
            # The records are gone, but not to be read again: their offsets are committed by themselves.
            log.info("%s Aborting transaction as requested by connector", self.name)
            self._abort()
        if aborts or commits:
            self._commit()

    def _begin(self) -> None:
        if not self._is_open:
            self._parts.producer.begin_transaction()
            self._is_open = True

    def _commit(self) -> None:
        """Commit records and offsets.

        Raises:
            ConnectError: a record could not be written, or offsets.
            ClientError, ApiError: the transaction could not be committed.
        """
        self._due_s = time.monotonic() + self._own.interval_s
        self._parts.producer.flush()
        with self._settled:
            # The last callbacks may still be under way; records without their offsets must not be committed.
            self._settled.wait_for(lambda: self._submitted.waiting == 0 or self._failure is not None)
            found = self._submitted.committable()
        self._raise_failure()
        if found.offsets:
            self._begin()
            self._parts.offsets.store(found.offsets)
        if not self._is_open:
            return
        self._parts.producer.commit_transaction()
        self._is_open = False
        written, self._written = self._written, []
        for tell in written:
            tell()
        try:
            self._parts.task.commit()
        except Exception:
            log.exception("%s Exception thrown while calling task.commit()", self.name)

    def _abort(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._written.clear()
        try:
            if self._failure is None:
                self._parts.producer.flush()  # what is not sent would count as failed
            self._parts.producer.abort_transaction()
        except Exception:
            if not self._has_failed:
                raise
            log.exception("%s The transaction could not be aborted; the brokers do it in time", self.name)

    def _commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        tell = super()._commit_record
        self._written.append(lambda: tell(record, metadata))

    def _commit_batch(self, batch: SourceBatch, runs: list[BatchMetadata]) -> None:
        tell = super()._commit_batch
        self._written.append(lambda: tell(batch, runs))
