"""Copies one partition: what a thread of this program does, or a task of Spark's.

Nobody else may write to the copy meanwhile; that is seen by the offsets that the target answers with.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Final, NamedTuple

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import BatchFuture, Producer
from pkafka.clients.raw_batch import RawBatch
from pkafka.connect.mirror.records import OffsetSync
from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.records.batch import read_header
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import codec_of
from pkafka.tools.mirroring.back_fill.runs import Run, Runs
from pkafka.tools.mirroring.back_fill.source import SourceLog
from pkafka.tools.mirroring.back_fill.sync_writing import SyncPlace, SyncWriter
from pkafka.tools.mirroring.back_fill.tail import Tail
from pkafka.tools.mirroring.layout import Pair
from pkafka.tools.mirroring.partition_log import PartitionLog, reader_settings
from pkafka.tools.mirroring.regrouping import Made, Regrouping
from pkafka.tools.mirroring.routes import Rules, columns_of, route_of

_RULES: Final = Rules(keeps_partitions=True)
_AT_ONCE_S: Final = 0.0
_SAFE: Final = {"acks": "all", "enable.idempotence": "true"}
_NOT_OURS: Final = frozenset(
    {
        *("transactional.id", "key.serializer", "value.serializer", "interceptor.classes"),
        *("partitioner.class", "max.in.flight.requests.per.connection", "retries"),
    }
)


class OtherWriterError(PkafkaError):
    """Somebody else writes to a copy, so that it is not known which of its records are from where."""

    def __init__(self, partition: TopicPartition, expected: int, found: int) -> None:
        super().__init__(
            f"somebody else writes to {partition} of the target: offset {found} where {expected} was to come. Stop"
            " that (a mirror, a producer, an earlier run), then look at the copy with pk-mirror verify"
        )


class CopyInterruptedError(PkafkaError):
    """The copy was told to end before it was whole."""


class Job(NamedTuple):
    """A partition to copy.

    Args:
        pair: the partition and its copy.
        log: reads it.
        start, end: offsets of the source.
        target: settings of clients of the target.
        target_end: where the copy ended when this was planned.
        timeout_ms: how long to wait for the target's answers.
        syncs: where offset syncs are written.
        last_sync: the last one of an earlier run, behind which to go on; None: this is the first run.
        ignores_timestamps: whether the target's brokers set times of their own.
    """

    pair: Pair
    log: SourceLog
    start: int
    end: int
    target: Mapping[str, object]
    target_end: int
    timeout_ms: int
    syncs: SyncPlace
    last_sync: OffsetSync | None = None
    ignores_timestamps: bool = False


class Outcome(NamedTuple):
    """What became of a partition.

    Args:
        pair: the partition and its copy.
        records: that were copied.
        raw_records: of them, those whose batches went as bytes.
        size_bytes: of the batches.
        found: records behind the last sync that an earlier run had copied.
        target_end: where the copy ends now; -1 where that is not known.
        error: why it is not whole; None: it is.
    """

    pair: Pair
    records: int = 0
    raw_records: int = 0
    size_bytes: int = 0
    found: int = 0
    target_end: int = -1
    error: str | None = None


def attempt(
    job: Job,
    *,
    is_wanted: Callable[[], bool] = lambda: True,
    told: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Copy a partition; what goes wrong is in the outcome, so that others are copied all the same.

    Args:
        is_wanted: whether to go on.
        told: how many offsets of the source were passed since the last call.
    """
    with ExitStack() as opened:
        try:
            copying = Copying(job, opened)
        except (PkafkaError, OSError) as error:
            return Outcome(job.pair, error=str(error))
        try:
            copying.run(is_wanted, told)
        except (PkafkaError, OSError) as error:
            return copying.outcome(str(error))
        return copying.outcome(None)


class Copying:
    """One copy, from its beginning or from where an earlier run has come to.

    Args:
        job: what to copy.
        opened: gets the clients.

    Raises:
        ConfigError: a setting of a client is wrong.
    """

    def __init__(self, job: Job, opened: ExitStack) -> None:
        self._job = job
        self._found = 0
        self._consumer = opened.enter_context(Consumer(reader_settings(job.target)))
        producers: list[Producer] = []
        for settings in (job.target, job.syncs.settings):
            producers.append(Producer(writer_settings(settings)))
            opened.callback(
                producers[-1].close, _AT_ONCE_S
            )  # what was sent is settled by then, or has failed
        producer, syncs = producers
        self._syncs = SyncWriter(syncs, job.syncs, job.pair.source)
        self._writer = _Writer(producer, job.pair.target, self._syncs)
        self._tail: Tail | None = None
        self._tail_end = 0

    def run(self, is_wanted: Callable[[], bool], told: Callable[[int], None]) -> None:
        """Copy.

        Raises:
            OtherWriterError: somebody else writes to the copy.
            CopyInterruptedError: it was told to end.
            PkafkaError, OSError: the source cannot be read, or the target cannot be written.
        """
        start = position = self._begin()
        try:
            for batch in self._job.log.batches(start, self._job.end):
                if not is_wanted():
                    raise CopyInterruptedError("it was interrupted")
                there = self._there(batch)
                if there < batch.record_count:
                    self._send(batch, there)
                self._writer.settle()
                told(batch.next_offset - position)
                position = batch.next_offset
        except CopyInterruptedError:
            self._finish()
            raise
        self._finish()

    def outcome(self, error: str | None) -> Outcome:
        """What was done so far."""
        writer = self._writer
        return Outcome(
            self._job.pair,
            writer.records,
            writer.raw_records,
            writer.size_bytes,
            self._found,
            writer.end,
            error,
        )

    def _begin(self) -> int:
        """Where to read the source from."""
        job, end = self._job, self._target_end()
        self._writer.end = end
        if job.last_sync is None:
            if end != job.target_end:
                raise OtherWriterError(job.pair.target, job.target_end, end)
            return job.start
        _, upstream, downstream = job.last_sync
        if end < downstream:
            raise OtherWriterError(job.pair.target, downstream, end)
        self._tail = Tail(ignores_timestamps=job.ignores_timestamps)
        self._tail_end = min(end, downstream + 1)
        # A sync of the record that was about to be the first: it may not have arrived.
        return max(job.start, upstream if end == downstream else upstream + 1)

    def _there(self, batch: RawBatch) -> int:
        """How many of the first records of a batch are in the copy already."""
        if self._tail is None:
            return 0
        there = 0
        while True:
            there = self._tail.there(batch, there)
            # Asked again each time: the last request of a run that was killed may be carried out late.
            if there == batch.record_count or not self._read_tail(self._tail):
                break
        self._found += there
        if there < batch.record_count:
            self._tail = None
        return there

    def _read_tail(self, tail: Tail) -> bool:
        """Read what the copy has further on; whether there was anything."""
        end = self._target_end()
        self._writer.end = end
        log = PartitionLog(self._consumer, self._job.pair.target, self._tail_end, end, self._job.timeout_ms)
        has_more = log.has_more
        while log.has_more:
            log.read(tail.add)
        self._tail_end = end
        return has_more

    def _target_end(self) -> int:
        target = self._job.pair.target
        return self._consumer.end_offsets([target], timeout_ms=self._job.timeout_ms)[target]

    def _send(self, batch: RawBatch, skipped: int) -> None:
        if self._job.last_sync is None and not self._writer.has_begun:
            self._syncs.begin(batch.first_offset, self._writer.end)
        self._writer.send(batch, skipped)

    def _finish(self) -> None:
        self._writer.finish()
        self._syncs.finish()


class _Sent(NamedTuple):
    """A batch that is under way."""

    future: BatchFuture
    runs: list[Run]


class _Writer:
    """Writes batches to a partition, and keeps account of where their records have come from.

    Attributes:
        end: where the copy ends, as far as the target has acknowledged.
    """

    def __init__(self, producer: Producer, target: TopicPartition, syncs: SyncWriter) -> None:
        self.end = 0
        self.records = 0
        self.raw_records = 0
        self.size_bytes = 0
        self.has_begun = False
        self._producer = producer
        self._target = target
        self._syncs = syncs
        self._regrouping = Regrouping(_RULES.batch_bytes)
        self._runs = Runs()
        self._pending: deque[_Sent] = deque()

    def send(self, batch: RawBatch, skipped: int) -> None:
        """Send a batch without its first records: as bytes where that can be, else with others as a new one.

        Raises:
            RecordError: its records cannot be read.
            ApiError, ClientError: the target refuses.
        """
        self.has_begun = True
        route = columns_of(batch).part(skipped) if skipped else route_of(batch, 1, _RULES)
        if isinstance(route, RecordColumns):
            self._runs.add(batch, skipped)
            self._send_made(self._regrouped(batch, route))
            return
        self._send_made(self._regrouping.take(self._target))
        self._runs.add(batch)
        self._send(batch.data, batch.record_count)
        self.raw_records += batch.record_count

    def _regrouped(self, batch: RawBatch, columns: RecordColumns) -> Iterable[Made]:
        return self._regrouping.add(
            self._target,
            columns,
            self._target.partition + 1,
            codec_of(read_header(batch.data).attributes),
            keeps_partition=True,
            now_ms=time.time_ns() // 1_000_000,
        )

    def _send_made(self, made: Iterable[Made]) -> None:
        for _, data, count in made:
            self._send(data, count)

    def _send(self, data: Buffer, count: int) -> None:
        topic, number = self._target
        future = self._producer.send_raw_batch(topic, data, partition=number)
        self._pending.append(_Sent(future, self._runs.take(count)))
        self.size_bytes += len(data)

    def settle(self, *, waits: bool = False) -> None:
        """Look at what the target has answered.

        Args:
            waits: for all answers.

        Raises:
            OtherWriterError: records are not where they should be.
            ApiError, ClientError: the target refuses, or does not answer.
        """
        while self._pending and (waits or self._pending[0].future.done()):
            future, runs = self._pending.popleft()
            base = self.end
            for each in future.result():
                # A broker that knows the batch already, as after a lost answer, need not say where it is.
                if each.offset not in (self.end, -1):
                    raise OtherWriterError(self._target, self.end, each.offset)
                self.end += each.length
                self.records += each.length
            for upstream, position, count in runs:
                self._syncs.note(upstream, base + position, count)

    def finish(self) -> None:
        """Send what waits, and wait for all answers.

        Raises:
            OtherWriterError, ApiError, ClientError: as of :meth:`settle`.
        """
        self._send_made(self._regrouping.take_all())
        self.settle(waits=True)


def writer_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a producer that keeps the order, loses nothing and repeats nothing.

    Args:
        settings: of clients of the cluster.
    """
    return {**{key: value for key, value in settings.items() if key not in _NOT_OURS}, **_SAFE}
