"""Copies one partition: what a thread of this program does, or a task of Spark's.

No other program may write to the copy meanwhile: the back-fill compares the offsets in the answers of the target with
those that it expects.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from typing import Final, NamedTuple

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.clients.raw_batch import RawBatch
from pkafka.connect.mirror.records import OffsetSync
from pkafka.errors import PkafkaError
from pkafka.tools.mirroring.back_fill.source import SourceLog
from pkafka.tools.mirroring.back_fill.sync_writing import SyncPlace, SyncWriter
from pkafka.tools.mirroring.back_fill.tail import Tail
from pkafka.tools.mirroring.back_fill.writing import BYTES_MAX, OtherWriterError, Writer, writer_settings
from pkafka.tools.mirroring.layout import Pair
from pkafka.tools.mirroring.partition_log import PartitionLog, reader_settings

_AT_ONCE_S: Final = 0.0


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
        bytes_max: of a batch of the copy.
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
    bytes_max: int = BYTES_MAX


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
            return copying.outcome(str(copying.failure or error))
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
        to_target = _opened(writer_settings(job.target, job.bytes_max), opened)
        to_syncs = _opened(writer_settings(job.syncs.settings, BYTES_MAX), opened)
        self._syncs = SyncWriter(to_syncs, job.syncs, job.pair.source)
        self._writer = Writer(to_target, job.pair.target, job.bytes_max, self._syncs.note)
        self._tail: Tail | None = None
        self._tail_end = 0

    def run(self, is_wanted: Callable[[], bool], told: Callable[[int], None]) -> None:
        """Copy.

        Raises:
            OtherWriterError: another program writes to the copy.
            CopyInterruptedError: it was told to end.
            PkafkaError, OSError: the source cannot be read, or the target cannot be written.
        """
        start = position = self._begin()
        is_whole = True
        with closing(self._job.log.batches(start, self._job.end)) as batches:
            for batch in batches:
                is_whole = is_wanted()
                if not is_whole:
                    break
                there = self._there(batch)
                if there < batch.record_count:
                    self._send(batch, there)
                self._writer.settle()
                told(batch.next_offset - position)
                position = batch.next_offset
        self._writer.finish()
        self._syncs.finish()
        if not is_whole:
            raise CopyInterruptedError("it was interrupted")

    @property
    def failure(self) -> Exception | None:
        """Why a batch did not arrive, if one did not; what was raised may be a consequence of that."""
        return self._writer.failure

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
        tail = self._tail
        if tail is None:
            return 0
        there = 0
        while True:
            there = tail.there(batch, there)
            # Asked again each time: the last request of a run that was killed may be carried out late.
            if there == batch.record_count or not self._read_tail(tail):
                break
        self._found += there
        if there and tail.last_found is not None and not batch.was_encoded_again:
            self._syncs.note(batch.first_offset + there - 1, tail.last_found, 1)
        if there < batch.record_count:
            self._tail = None
        return there

    def _read_tail(self, tail: Tail) -> bool:
        """Read what the copy has further on; whether there was anything."""
        target, end = self._job.pair.target, self._target_end()
        self._writer.end = end
        first = self._consumer.beginning_offsets([target], timeout_ms=self._job.timeout_ms)[target]
        start = min(max(self._tail_end, first), end)
        log = PartitionLog(self._consumer, target, start, end, self._job.timeout_ms)
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


def _opened(settings: Mapping[str, object], opened: ExitStack) -> Producer:
    producer = Producer(settings)
    opened.callback(producer.close, _AT_ONCE_S)  # what was sent is settled by then, or has failed
    return producer
