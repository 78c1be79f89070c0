"""A sink task as it runs: a consumer's records go to the connector's task, and what it has taken is committed."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final

from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener, ConsumerRecord
from pkafka.clients.errors import WakeupError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.connect.connector import ErrantRecords, SinkTask
from pkafka.connect.data.records import SinkRecord
from pkafka.connect.dead_letters import DeadLetters
from pkafka.connect.errors import ConnectError, DataError, RetriableError
from pkafka.connect.pending_records import PendingRecords, place_of
from pkafka.connect.plugins import name_of
from pkafka.connect.states import State, Target
from pkafka.connect.steps import Converters, Transforms
from pkafka.connect.task_run import Counter, Report, TaskName, TaskRun
from pkafka.connect.tolerance import ErrorHandling, Failure, Stage
from pkafka.errors import ApiError, PkafkaError
from pkafka.model import TopicPartition

log = logging.getLogger("org.apache.kafka.connect.runtime.WorkerSinkTask")

_POLL_MS: Final = 500
_PLACE: Final = attrgetter("topic", "partition")
_CLOSE_MS: Final = 5_000
_DEAD_LETTERS_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class SinkParts:
    """What a sink task is run with."""

    task: SinkTask
    configs: Mapping[str, str]
    topics: tuple[str, ...]
    pattern: str | None
    """Topics as a pattern of Python's, where none are named."""
    transforms: Transforms
    converters: Converters
    handling: ErrorHandling
    consumer: Consumer
    dead_letters: DeadLetters | None
    commit_interval_s: float
    commit_timeout_s: float
    used_topic: Callable[[TaskName, str], None] = field(default=lambda _task, _topic: None)
    bisects: bool = False
    """Whether a batch that ``put`` refuses with a DataError is halved until the records to blame are found."""


class SinkRun(TaskRun):
    """Runs a sink task.

    Args:
        name, target, report: see :class:`TaskRun`.
        parts: of the task.
        stopping: the event that ``parts.handling`` waits on; it becomes this run's own.
    """

    def __init__(
        self, name: TaskName, target: Target, report: Report, parts: SinkParts, stopping: threading.Event
    ) -> None:
        super().__init__(name, target, report, parts.handling)
        self.stopping = stopping
        self._parts = parts
        self._consumer = parts.consumer
        self._context = _Context(self, parts)
        self._is_started = False
        self._taken: dict[TopicPartition, OffsetAndMetadata] = {}
        """Behind the last record of each partition that the task took."""
        self._polled: dict[TopicPartition, OffsetAndMetadata] = {}
        """Behind the last record of each partition that was read; taken when ``put`` returns."""
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._pending = PendingRecords()
        """What was read and is not taken: ``put`` refused it for now, or a part of its batch."""
        self._goes_on = False
        """Whether the next part of a batch is to be put without waiting for records."""
        self._raw: dict[tuple[str, int, int], ConsumerRecord] = {}
        self._commit_due_s = time.monotonic() + parts.commit_interval_s
        self._failure: Exception | None = None
        self.read = 0
        self.sent = 0

    def record_counters(self) -> Sequence[Counter]:
        """How many records came and went."""
        group = "sink_task_metrics_sink_record"
        return (
            Counter(f"{group}_read", "Records that were read from Kafka.", self.read),
            Counter(f"{group}_send", "Records that the connector's task took.", self.sent),
        )

    # -- what the thread does --

    def work(self) -> None:
        """Poll and put until the task is to end."""
        parts = self._parts
        listener = _Listener(self)
        if parts.pattern is None:
            self._consumer.subscribe(parts.topics, listener=listener)
        else:
            self._consumer.subscribe(pattern=parts.pattern, listener=listener)
        parts.task.initialize(self._context)
        parts.task.start(parts.configs)
        self._is_started = True
        self.say(State.PAUSED if self.is_paused else State.RUNNING)
        was_paused = False
        while not self.stopping.is_set():
            if self.is_paused != was_paused:
                was_paused = self.is_paused
                self._pause_or_resume()
            try:
                self._round()
            except WakeupError:
                continue

    def _round(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._commit_due_s or self._context.wants_commit:
            self._context.wants_commit = False
            self._commit(self._consumer.assignment())
            self._commit_due_s = time.monotonic() + self._parts.commit_interval_s
        self._context.seek_where_asked(self._consumer)
        wait_ms = self._context.next_timeout_ms()
        if self._goes_on:
            wait_ms = 0
        elif wait_ms is None:
            wait_ms = _POLL_MS
        wait_ms = min(wait_ms, max(0, int((self._commit_due_s - time.monotonic()) * 1000)))
        records = self._consumer.poll(wait_ms)
        self._raise_failure()
        if self.is_paused and not self._pending and not records:
            return
        # What has come while the task was told to pause is put all the same: nobody would read it again.
        self._convert(records)
        self._put()

    def _pause_or_resume(self) -> None:
        if self.is_paused:
            self._commit(self._consumer.assignment())
            self._consumer.pause(self._consumer.assignment())
            self.say(State.PAUSED)
        else:
            if not self._context.is_waiting:
                self._consumer.resume(self._unpaused())
            self.say(State.RUNNING)

    def _unpaused(self) -> list[TopicPartition]:
        return [each for each in self._consumer.assignment() if each not in self._context.paused]

    def _convert(self, records: Sequence[ConsumerRecord]) -> None:
        parts = self._parts
        decode, apply = parts.converters.decode, parts.transforms.apply
        self.read += len(records)
        for at, run in groupby(records, _PLACE):
            last = None
            for raw in run:
                last = raw
                decoded = decode(raw)
                record = None if decoded is None else apply(raw, decoded)
                if record is None:
                    continue
                self._pending.add(record)
                if parts.dead_letters is not None:
                    self._raw[raw.topic, raw.partition, raw.offset] = raw
            assert last is not None
            self._polled[TopicPartition(*at)] = OffsetAndMetadata(last.offset + 1)
            parts.used_topic(self.name, last.topic)

    def _put(self) -> None:
        """Put what is pending, or the first part of it."""
        part = self._pending.first
        self._goes_on = False
        try:
            self._parts.task.put(part)
        except RetriableError as error:
            log.error("%s RetriableException from SinkTask:", self.name, exc_info=error)
            self._hold()
            return
        except Exception as error:
            if self._parts.bisects and part and isinstance(error, DataError):
                self._narrow(part, error)
                return
            log.error("%s Task threw an uncaught and unrecoverable exception: %s", self.name, error)
            raise ConnectError("Exiting WorkerSinkTask due to unrecoverable exception.") from error
        self.sent += len(part)
        self._settle(part)

    def _narrow(self, part: Sequence[SinkRecord], error: DataError) -> None:
        """Look for the record that ``put`` refused: halve what it was in; one that is alone becomes a dead letter."""
        if len(part) > 1:
            log.warning("%s One of %d records is refused, and looked for: %s", self.name, len(part), error)
            self._pending.halve()
            self._go_on()
            return
        (record,) = part
        self._context.refuse(record, error)
        self._settle(part)

    def _settle(self, part: Sequence[SinkRecord]) -> None:
        """Note that nothing more becomes of some records; what comes after them in their batch may be pending still."""
        self._pending.settle()
        if self._pending:
            for topic, partition, offset in map(place_of, part):
                self._taken[TopicPartition(topic, partition)] = OffsetAndMetadata(offset + 1)
            self._go_on()
            return
        self._raw.clear()
        self._context.forget_reports()
        self._taken.update(self._polled)
        self._polled.clear()
        if self._context.is_waiting:
            self._context.is_waiting = False
            if not self.is_paused:
                self._consumer.resume(self._unpaused())

    def _hold(self) -> None:
        """Read nothing more, until what is pending is taken."""
        self._consumer.pause(self._consumer.assignment())
        self._context.is_waiting = True

    def _go_on(self) -> None:
        """Put the next part in the next round: in between, the consumer polls and offsets are committed."""
        if not self._context.is_waiting:
            self._hold()
        self._goes_on = True

    # -- offsets --

    def _commit(self, partitions: Collection[TopicPartition], *, closing: bool = False) -> None:
        """Commit what the task has taken of some partitions."""
        current = {each: self._taken[each] for each in partitions if each in self._taken}
        if not current:
            return
        if self._parts.dead_letters is not None and not self._parts.dead_letters.flush(_DEAD_LETTERS_S):
            log.error("%s Dead letters are on their way still; offsets are not committed", self.name)
            return
        self._raise_failure()
        try:
            allowed = self._parts.task.pre_commit(dict(current))
        except Exception as error:
            if closing:
                log.warning("%s Offset commit failed during close", self.name, exc_info=error)
            else:
                log.error(
                    "%s Offset commit failed, rewinding to last committed offsets", self.name, exc_info=error
                )
                self._rewind(current)
            return
        wanted = {
            at: offset for at, offset in (allowed or {}).items() if self._may_commit(at, offset, current)
        }
        new = {at: offset for at, offset in wanted.items() if self._committed.get(at) != offset}
        if not new:
            return
        try:
            self._store(new, closing=closing)
        except WakeupError:
            self._context.wants_commit = True
            return
        except PkafkaError as error:
            if isinstance(error, ApiError) and not error.retriable and not closing:
                log.error("%s Commit of offsets threw an unexpected exception: %s", self.name, error)
            else:
                log.warning("%s Offsets are not committed, which is tried again: %s", self.name, error)
            return
        self._committed.update(new)

    def _store(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, closing: bool) -> None:
        timeout_ms = int(self._parts.commit_timeout_s * 1000)
        if closing:
            # What woke the consumer so that it closes must not keep it from committing: raised once, it is used up.
            with suppress(WakeupError):
                self._consumer.commit_sync(offsets, timeout_ms=timeout_ms)
                return
        self._consumer.commit_sync(offsets, timeout_ms=timeout_ms)

    def _may_commit(
        self,
        at: TopicPartition,
        offset: OffsetAndMetadata,
        current: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> bool:
        known = current.get(at)
        if known is None:
            log.warning(
                "%s Ignoring offset %s of %s, which is not assigned or has no records", self.name, offset, at
            )
            return False
        if offset.offset > known.offset:
            log.warning(
                "%s Ignoring offset %d of %s, behind the last record that the task took",
                self.name,
                offset.offset,
                at,
            )
            return False
        return True

    def _rewind(self, current: Collection[TopicPartition]) -> None:
        """Read on where was committed last: the task could not write what it had taken since."""
        known = self._consumer.committed(current)
        for at in current:
            committed = self._committed.get(at) or known.get(at)
            if committed is not None:
                self._consumer.seek(at, committed.offset)
                self._taken[at] = committed
            else:
                self._consumer.seek_to_beginning([at])
                self._taken.pop(at, None)
        self._pending.clear()
        self._goes_on = False
        self._polled.clear()

    # -- rebalances --

    def came(self, partitions: Collection[TopicPartition]) -> None:
        """Open partitions that the group gave."""
        if not self._is_started:
            return
        if self.is_paused or self._context.is_waiting:
            self._consumer.pause(partitions)
        if partitions:
            self._parts.task.open(partitions)

    def go(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        """Close partitions that go to another member; what was taken is committed while they are owned."""
        if not self._is_started or not partitions:
            return
        if not lost:
            self._commit(partitions, closing=True)
        self._parts.task.close(partitions)
        gone = set(partitions)
        self._pending.drop(gone)
        for table in (self._taken, self._polled, self._committed):
            for at in gone:
                table.pop(at, None)
        self._context.forget(gone)

    # -- the end --

    def close(self) -> None:
        """Commit, end the task, leave the group."""
        parts = self._parts

        def stop() -> None:
            if self._is_started:
                parts.task.stop()

        def leave() -> None:
            self._consumer.close(_CLOSE_MS)

        for close in (leave, stop, parts.transforms.close, parts.converters.close, parts.handling.close):
            try:
                close()
            except Exception:
                log.exception("%s Ignoring a failure while the task is closed", self.name)

    def nudge(self) -> None:
        """Make the consumer's poll return."""
        self._consumer.wakeup()

    def fail(self, error: Exception) -> None:
        """End the task: a dead letter could not be written. Called by the producer's thread."""
        self._failure = self._failure or error
        self._consumer.wakeup()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise ConnectError("A dead letter could not be written") from self._failure

    def raw(self, record: SinkRecord) -> ConsumerRecord | None:
        """The record as it was read, while its batch is with the task."""
        return self._raw.get(place_of(record))


class _Listener(ConsumerRebalanceListener):
    def __init__(self, run: SinkRun) -> None:
        self._run = run

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._run.came(partitions)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._run.go(partitions, lost=False)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._run.go(partitions, lost=True)


class _Context:
    """What the task may ask for; it takes effect in the next round of its own thread."""

    def __init__(self, run: SinkRun, parts: SinkParts) -> None:
        self._parts = parts
        self._seeks: dict[TopicPartition, int] = {}
        self._timeout_ms: int | None = None
        self.paused: set[TopicPartition] = set()
        self.wants_commit = False
        self.is_waiting = False
        """Whether ``put`` refused a batch for now."""
        reports = parts.handling.tolerates_all or parts.dead_letters is not None
        self._reports = _ErrantRecords(run, parts)
        self.errant_records: ErrantRecords | None = self._reports if reports else None
        self.refuse = self._reports.refuse
        self.forget_reports = self._reports.forget

    @property
    def configs(self) -> Mapping[str, str]:
        return self._parts.configs

    @property
    def assignment(self) -> Collection[TopicPartition]:
        return self._parts.consumer.assignment()

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._seeks.update(offsets)

    def timeout(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused.update(partitions)
        self._parts.consumer.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self.paused.difference_update(partitions)
        self._parts.consumer.resume(partitions)

    def request_commit(self) -> None:
        self.wants_commit = True

    def seek_where_asked(self, consumer: Consumer) -> None:
        for at, offset in self._seeks.items():
            consumer.seek(at, offset)
        self._seeks.clear()

    def next_timeout_ms(self) -> int | None:
        timeout_ms, self._timeout_ms = self._timeout_ms, None
        return timeout_ms

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        self.paused.difference_update(partitions)
        for at in partitions:
            self._seeks.pop(at, None)


class _ErrantRecords:
    """Tells of records that the task reports, and of those that ``put`` refuses."""

    def __init__(self, run: SinkRun, parts: SinkParts) -> None:
        self._run = run
        self._parts = parts
        self._executing = name_of(type(parts.task))
        self._known: dict[tuple[str, int, int], Future[None]] = {}
        """Records that were reported in batches which are put once more, as the search for a bad record does."""

    def report(self, record: SinkRecord, error: Exception) -> "Future[None]":
        known = self._known.get(place_of(record))
        if known is not None:
            return known
        failure = self._failure(record, error)
        done: Future[None] = Future()
        if self._parts.dead_letters is not None:
            done = self._parts.dead_letters.send(failure)
        else:
            done.set_result(None)
        if not self._parts.handling.tolerates_all:
            raise ConnectError("Error handler is not configured to tolerate errors") from error
        self._parts.handling.skipped += 1
        if self._parts.bisects:
            self._known[place_of(record)] = done
        return done

    def refuse(self, record: SinkRecord, error: Exception) -> None:
        """Tell of a record that ``put`` refuses though it is alone, unless the task has reported it."""
        if place_of(record) not in self._known:
            self._parts.handling.failures += 1
            self._parts.handling.fail(self._failure(record, error))

    def forget(self) -> None:
        """The batch is settled: none of its records comes again."""
        self._known.clear()

    def _failure(self, record: SinkRecord, error: Exception) -> Failure:
        return Failure(self._run.raw(record) or _bare(record), Stage.TASK_PUT, self._executing, error, 1)


def _bare(record: SinkRecord) -> ConsumerRecord:
    """What is known of a record whose bytes are gone: where it stands."""
    return ConsumerRecord(
        record.original_topic or "", record.original_partition or 0, record.original_offset,
        -1 if record.timestamp is None else record.timestamp, 0, None, None, (), -1,
    )  # fmt: skip
