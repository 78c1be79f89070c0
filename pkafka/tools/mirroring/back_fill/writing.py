"""Writes one partition of the target in whole batches, and notices when another program writes there too."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from pkafka.clients.producer import BatchFuture
from pkafka.clients.raw_batch import RawBatch
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.records.batch import read_header
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import codec_of
from pkafka.records.forwarding import in_pieces
from pkafka.tools.mirroring.back_fill.runs import Run, Runs
from pkafka.tools.mirroring.regrouping import Made, Regrouping
from pkafka.tools.mirroring.routes import Rules, columns_of, route_of

_RULES: Final = Rules(keeps_partitions=True)
_AT_ONCE_S: Final = 0.0
_SAFE: Final = {"acks": "all", "enable.idempotence": "true"}
_NOT_OURS: Final = frozenset(
    {
        *("transactional.id", "key.serializer", "value.serializer", "interceptor.classes"),
        *("partitioner.class", "max.in.flight.requests.per.connection", "retries", "max.request.size"),
    }
)
BYTES_MAX: Final = 1 << 20
"""Of a batch, where the target does not say: ``max.request.size`` of producers."""
Note: TypeAlias = Callable[[int, int, int], object]


class OtherWriterError(PkafkaError):
    """Another program writes to a copy, so that the back-fill does not know which records are its own."""

    def __init__(self, partition: TopicPartition, expected: int, found: int) -> None:
        super().__init__(
            f"another program writes to {partition} of the target: offset {found} where {expected} was to come. Stop"
            " that (a mirror, a producer, an earlier run), then look at the copy with pk-mirror verify"
        )


class RawProducer(Protocol):
    """What a writer needs of a producer."""

    def send_raw_batch(self, topic: str, batch: RawBatch | Buffer, *, partition: int) -> BatchFuture:
        """See :class:`~pkafka.clients.producer.Producer`."""

    def close(self, timeout_s: float | None = None) -> None:
        """See :class:`~pkafka.clients.producer.Producer`."""


class _Sent(NamedTuple):
    """A batch that is under way."""

    future: BatchFuture
    runs: list[Run]


class Writer:
    """Writes batches, and keeps account of where their records have come from.

    Args:
        producer: to the target.
        target: the partition.
        bytes_max: of a batch there, ``max.message.bytes``.
        note: told what arrived: offsets of the source and of the copy, and how many records follow each other there.

    Attributes:
        end: where the copy ends, as far as the target has acknowledged.
        records, raw_records: that arrived; that were sent in batches as bytes.
        size_bytes: of the batches that were sent.
        has_begun: whether anything was sent.
        failure: why a batch did not arrive, if one did not.
    """

    def __init__(self, producer: RawProducer, target: TopicPartition, bytes_max: int, note: Note) -> None:
        self.end = 0
        self.records = 0
        self.raw_records = 0
        self.size_bytes = 0
        self.has_begun = False
        self.failure: Exception | None = None
        self._producer = producer
        self._target = target
        self._bytes_max = bytes_max
        self._note = note
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
        if len(batch.data) <= self._bytes_max:
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
        if len(data) <= self._bytes_max:
            self._send_one(data, count)
            return
        # Not left to the producer: when it divides a batch, parts may arrive behind one that does not.
        for builder in in_pieces(data, self._bytes_max):
            piece = builder.build()
            if len(piece) > self._bytes_max:
                raise ApiError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a record of {len(piece)} bytes is too large for {self._target.topic} of the target, whose"
                    f" max.message.bytes is {self._bytes_max}",
                )
            self._send_one(piece, builder.count)

    def _send_one(self, data: Buffer, count: int) -> None:
        topic, number = self._target
        future = self._producer.send_raw_batch(topic, data, partition=number)
        future.add_done_callback(self._on_done)
        self._pending.append(_Sent(future, self._runs.take(count)))
        self.size_bytes += len(data)

    def _on_done(self, future: BatchFuture) -> None:
        """On the producer's thread: behind a batch that did not arrive none may, as it would be at a wrong place."""
        if self.failure is None:
            self.failure = future.exception(0)
            if self.failure is not None:
                self._producer.close(_AT_ONCE_S)

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
                self._note(upstream, base + position, count)

    def finish(self) -> None:
        """Send what waits, and wait for all answers.

        Raises:
            OtherWriterError, ApiError, ClientError: as of :meth:`settle`.
        """
        self._send_made(self._regrouping.take_all())
        self.settle(waits=True)


def writer_settings(settings: Mapping[str, object], bytes_max: int) -> dict[str, object]:
    """The settings of a producer that keeps the order, loses nothing and repeats nothing.

    Args:
        settings: of clients of the cluster.
        bytes_max: of a batch.
    """
    given = {key: value for key, value in settings.items() if key not in _NOT_OURS}
    return {**given, **_SAFE, "max.request.size": bytes_max}
