"""A source task as it runs: polls the connector's task, sends what it gives, and stores how far that has come."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pkafka.clients.producer import BatchMetadata, Producer, RecordMetadata
from pkafka.connect.connector import BatchSourceTask, OffsetReader, SourceBatch, SourceTask, TaskMetric
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.errors import ConnectError, RetriableError
from pkafka.connect.states import State, Target
from pkafka.connect.steps import Converters, Encoded, Transforms
from pkafka.connect.storage.offset_store import ConnectorOffsets
from pkafka.connect.submitted import Submitted, SubmittedRecords
from pkafka.connect.task_run import Counter, Report, TaskName, TaskRun
from pkafka.connect.tolerance import ErrorHandling, Failure, Stage
from pkafka.connect.topic_creation import TopicCreation
from pkafka.connect.transaction_marks import TransactionMarks

log = logging.getLogger("org.apache.kafka.connect.runtime.WorkerSourceTask")

_RETRY_S: Final = 0.1
_BATCHES_MAX: Final = 1_024
_BATCHES_LEFT: Final = _BATCHES_MAX - 32
"""A task that has the most batches under way goes on when so many are left. By memory alone it would be woken for each
of them, and each time take the interpreter's lock from the thread that sends."""
_NOWHERE: Final[Mapping[str, object]] = {}
"""The source partition of records that have none."""
_PRODUCER: Final = "org.apache.kafka.connect.source.SourceTask"


class OwnStore(Protocol):
    """A topic of offsets that lives as long as a task."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SourceParts:
    """What a source task is run with."""

    task: SourceTask
    configs: Mapping[str, str]
    transforms: Transforms
    converters: Converters
    handling: ErrorHandling
    producer: Producer
    topics: TopicCreation
    offsets: ConnectorOffsets
    flush_timeout_s: float
    used_topic: Callable[[TaskName, str], None] = field(default=lambda _task, _topic: None)
    own_store: OwnStore | None = None
    """The topic of offsets that this task reads itself, and writes by its own producer; None: it uses the worker's."""
    passes_batches: bool = False
    """Whether batches of a :class:`BatchSourceTask` go on as they are."""


class _Together:
    """Records that can be handed to the producer in one call: they stand together, and have one place and time.

    Args:
        first: as the producer takes it.
    """

    __slots__ = ("_same", "encoded", "keys", "records", "sent", "values")

    def __init__(self, first: Encoded) -> None:
        self.encoded = first
        self._same = (first.topic, first.partition, first.timestamp_ms, first.headers)
        self.records: list[SourceRecord] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.sent: list[Submitted] = []

    def takes(self, record: SourceRecord, encoded: Encoded) -> bool:
        """Take a record in, if it goes with the others."""
        topic, partition, key, value, timestamp_ms, headers = encoded
        if (topic, partition, timestamp_ms, headers) != self._same:
            return False
        self.records.append(record)
        self.keys.append(key)
        self.values.append(value)
        return True


def _place(outcome: BatchMetadata, index: int, key: bytes | None, value: bytes | None) -> RecordMetadata:
    """Where a record of a run went."""
    offset = -1 if outcome.offset < 0 else outcome.offset + index
    key_size = -1 if key is None else len(key)
    value_size = -1 if value is None else len(value)
    return RecordMetadata(
        outcome.topic, outcome.partition, offset, outcome.timestamp_ms, key_size, value_size
    )


class _Context:
    def __init__(
        self,
        configs: Mapping[str, str],
        offsets: OffsetReader,
        stopping: threading.Event,
        transactions: TransactionMarks | None,
    ) -> None:
        self.configs = configs
        self.offset_reader = offsets
        self.transactions = transactions
        self._stopping = stopping

    def wait(self, timeout_s: float) -> bool:
        return self._stopping.wait(timeout_s)


class SourceRun(TaskRun):
    """Runs a source task.

    Args:
        name, target, report: see :class:`TaskRun`.
        parts: of the task.
        stopping: the event that ``parts.handling`` waits on; it becomes this run's own.
    """

    def __init__(
        self, name: TaskName, target: Target, report: Report, parts: SourceParts, stopping: threading.Event
    ) -> None:
        super().__init__(name, target, report, parts.handling)
        self.stopping = stopping
        self._parts = parts
        self._submitted = SubmittedRecords()
        self._lock = threading.Lock()
        """Guards the submitted records, of which the producer's thread tells what came of them."""
        self._settled = threading.Condition(self._lock)
        self._storing = threading.Lock()
        self._failure: Exception | None = None
        self._batches = 0
        """How many batches are under way."""
        self._is_started = False
        self._commits_records = type(parts.task).commit_record is not SourceTask.commit_record
        self.polled = 0
        self.written = 0

    def work(self) -> None:
        """Poll and send until the task is to end."""
        parts = self._parts
        if parts.own_store is not None:
            parts.own_store.start()
        parts.task.initialize(_Context(parts.configs, parts.offsets, self.stopping, self.transactions))
        parts.task.start(parts.configs)
        self._is_started = True
        self.say(State.PAUSED if self.is_paused else State.RUNNING)
        while not self.stopping.is_set():
            self._raise_failure()
            if self.is_paused:
                parts.task.pause()
                self.say(State.PAUSED)
                self.store_offsets(wait=True)
                self.wait_while_paused()
                if not self.stopping.is_set():
                    self.say(State.RUNNING)
                continue
            records = self._poll()
            if records:
                self._send_all(records)
            self._after_poll()

    def close(self) -> None:
        """End the task, and store how far its records have come."""
        parts = self._parts
        if self._is_started:
            _quietly(parts.task.stop)
        try:
            self.store_offsets(wait=True)
        finally:
            for close in (
                lambda: parts.producer.close(int(parts.flush_timeout_s)),
                parts.topics.close,
                parts.transforms.close,
                parts.converters.close,
                parts.handling.close,
            ):
                _quietly(close)
            if parts.own_store is not None:
                _quietly(parts.own_store.stop)

    def record_counters(self) -> Sequence[Counter]:
        """How many records came and went."""
        group = "source_task_metrics_source_record"
        return (
            Counter(f"{group}_poll", "Records that the connector's task gave.", self.polled),
            Counter(f"{group}_write", "Records that are in Kafka.", self.written),
        )

    def task_metrics(self) -> Sequence[TaskMetric]:
        """What the connector's task tells of itself."""
        return list(self._parts.task.metrics()) if self._is_started else []

    def abandon(self) -> None:
        """Have the thread's next send fail."""
        _quietly(lambda: self._parts.producer.close(0))

    def store_offsets(self, *, wait: bool = False) -> None:
        """Store the offsets of what is in Kafka; any thread may call it.

        Args:
            wait: for records that are on their way, as long as the worker's ``offset.flush.timeout.ms`` says.

        Raises:
            ConnectError: they cannot be stored; the next call tries again, with newer ones.
        """
        with self._storing:
            with self._settled:
                if wait:
                    self._settled.wait_for(
                        lambda: self._submitted.waiting == 0 or self._failure is not None,
                        self._parts.flush_timeout_s,
                    )
                found = self._submitted.committable()
            if found.waiting and wait:
                log.warning(
                    "%s: %d records are not acknowledged; their offsets are not stored",
                    self.name,
                    found.waiting,
                )
            if found.offsets:
                self._parts.offsets.store(found.offsets)
                log.debug("%s stored the offsets of %d records", self.name, found.records)
        try:
            self._parts.task.commit()
        except Exception:
            log.exception("%s Exception thrown while calling task.commit()", self.name)

    def _after_poll(self) -> None:
        """Do what is due after each poll, also one that gave nothing."""

    @property
    def transactions(self) -> TransactionMarks | None:
        """What the task says of its transactions; None: it has no say."""
        return None

    # -- records --

    def _poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        task = self._parts.task
        records: Sequence[SourceRecord | SourceBatch] | None
        try:
            if self._parts.passes_batches and isinstance(task, BatchSourceTask):
                records = task.poll_batches()
            else:
                records = task.poll()
        except RetriableError as error:
            log.warning("%s failed to poll records; trying again: %s", self.name, error)
            self.stopping.wait(_RETRY_S)
            return None
        if records:
            self.polled += (
                sum(each.batch.record_count if isinstance(each, SourceBatch) else 1 for each in records)
                if self._parts.passes_batches
                else len(records)
            )
        return records

    def _send_all(self, records: Sequence[SourceRecord | SourceBatch]) -> None:
        """Send the records of one poll. Those that stand together and have one place and time are one call."""
        apply, encode = self._parts.transforms.apply, self._parts.converters.encode
        stays = self._parts.transforms.is_empty
        together: _Together | None = None
        for record in records:
            if isinstance(record, SourceBatch):
                self._produce(together)
                together = None
                self._send_batch(record)
                continue
            transformed = record if stays else apply(record, record)
            encoded = None if transformed is None else encode(record, transformed)
            if encoded is None:
                self._leave_out(record, together)
            elif together is None or not together.takes(record, encoded):
                self._produce(together)
                together = _Together(encoded)
                together.takes(record, encoded)
        self._produce(together)

    def _leave_out(self, record: SourceRecord, before: _Together | None) -> None:
        """What a transform drops is done, so that its source is not read again after a restart."""
        if before is not None:
            self._submit_all(before)
        self._acknowledge(self._submit([record]))
        self._commit_record(record, None)

    def _submit_all(self, together: _Together) -> None:
        """Note the records that are about to be sent, in the order of their source."""
        together.sent += self._submit(together.records[len(together.sent) :])

    def _submit(self, records: Sequence[SourceRecord]) -> list[Submitted]:
        submit = self._submitted.submit
        with self._lock:
            return [submit(each.source_partition or _NOWHERE, each.source_offset) for each in records]

    def _has_topic(self, topic: str) -> bool:
        """See to it that a topic exists; False: the task is to end meanwhile."""
        while True:
            try:
                self._parts.topics.see_to(topic)
            except RetriableError as error:
                log.warning("%s cannot write to %s yet; trying again: %s", self.name, topic, error)
                if self.stopping.wait(_RETRY_S):
                    return False
            else:
                return True

    # -- batches --

    def _send_batch(self, batch: SourceBatch) -> None:
        """Send records as the bytes that they are."""
        self._wait_for_room()
        with self._lock:
            sent = self._submitted.submit(batch.source_partition, batch.source_offset)
        if self._has_topic(batch.topic):
            with self._lock:
                self._batches += 1
            self._parts.producer.send_raw_batch(
                batch.topic, batch.batch, partition=batch.partition
            ).add_done_callback(lambda future: self._settle_batch(batch, sent, future.outcomes(0)))

    def _wait_for_room(self) -> None:
        """Wait while so many batches are under way that more would only lie in memory."""
        with self._settled:
            if self._batches >= _BATCHES_MAX:
                while self._batches > _BATCHES_LEFT and self._failure is None and not self.stopping.is_set():
                    self._settled.wait(_RETRY_S)

    def _settle_batch(self, batch: SourceBatch, sent: Submitted, runs: list[BatchMetadata]) -> None:
        """Note what became of a batch; on the producer's thread."""
        with self._settled:
            self._batches -= 1
            if self._batches == _BATCHES_LEFT:
                self._settled.notify_all()
        for run in runs:
            if run.error is not None:
                log.error("%s failed to send records to %s: %s", self.name, batch.topic, run.error)
                self._fail(run.error)
                return
        self.written += batch.batch.record_count
        self._parts.used_topic(self.name, batch.topic)
        self._acknowledge([sent])
        self._commit_batch(batch, runs)

    def _commit_batch(self, batch: SourceBatch, runs: list[BatchMetadata]) -> None:
        task = self._parts.task
        assert isinstance(task, BatchSourceTask)
        try:
            task.commit_batch(batch, runs)
        except Exception:
            log.exception("%s Exception thrown while calling task.commit_batch()", self.name)

    # -- records, one by one --

    def _produce(self, together: _Together | None) -> None:
        """Send records in one call. What is not sent, since the task is to end, is never acknowledged."""
        if together is None:
            return
        first, keys = together.encoded, together.keys
        self._submit_all(together)
        if not self._has_topic(first.topic):
            return
        self._parts.producer.send_batch(
            first.topic,
            together.values,
            None if keys.count(None) == len(keys) else keys,
            partition=first.partition,
            timestamp_ms=first.timestamp_ms,
            headers=first.headers,
        ).add_done_callback(lambda future: self._settle(together, future.outcomes(0)))

    def _settle(self, together: _Together, outcomes: list[BatchMetadata]) -> None:
        """Note what became of records; on the producer's thread."""
        for outcome in outcomes:
            error = outcome.error
            if error is not None and not self._parts.handling.tolerates_all:
                log.error("%s failed to send records to %s: %s", self.name, outcome.topic, error)
                self._fail(error)
                continue
            if error is not None:
                for position in outcome.positions:
                    record = together.records[position]
                    self._parts.handling.fail(Failure(record, Stage.KAFKA_PRODUCE, _PRODUCER, error, 1))
            else:
                self.written += len(outcome.positions)
                self._parts.used_topic(self.name, outcome.topic)
            self._acknowledge([together.sent[position] for position in outcome.positions])
            if self._commits_records:
                self._commit_each(together, outcome)

    def _commit_each(self, together: _Together, outcome: BatchMetadata) -> None:
        """Tell the task of each record of a run."""
        for index, at in enumerate(outcome.positions):
            place = None if outcome.error else _place(outcome, index, together.keys[at], together.values[at])
            self._commit_record(together.records[at], place)

    def _acknowledge(self, sent: Sequence[Submitted]) -> None:
        with self._settled:
            self._submitted.acknowledge(sent)
            if not self._submitted.waiting:
                self._settled.notify_all()

    def _commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        try:
            self._parts.task.commit_record(record, metadata)
        except Exception:
            log.exception("%s Exception thrown while calling task.commit_record()", self.name)

    def _fail(self, error: Exception) -> None:
        with self._settled:
            self._failure = self._failure or error
            self._settled.notify_all()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise ConnectError("Unrecoverable exception from producer send callback") from self._failure


def _quietly(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception:
        log.exception("Ignoring a failure while a task is closed")


class OffsetCommitter:
    """Stores the offsets of all source tasks of a worker, every so often.

    Args:
        interval_s: ``offset.flush.interval.ms``.
        runs: the tasks there are at the moment.
    """

    def __init__(self, interval_s: float, runs: Callable[[], Sequence[TaskRun]]) -> None:
        self._interval_s = interval_s
        self._runs = runs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source-offset-committer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; tasks store their last offsets themselves."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        due_s = time.monotonic() + self._interval_s
        while not self._stop.wait(max(0.0, due_s - time.monotonic())):
            for run in self._runs():
                if isinstance(run, SourceRun):
                    try:
                        run.store_offsets()
                    except ConnectError as error:
                        log.error("%s: offsets are not stored, which is tried again: %s", run.name, error)
            due_s = time.monotonic() + self._interval_s
