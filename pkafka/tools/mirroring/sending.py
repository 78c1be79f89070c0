"""The way to the target that all streams of a mirror share: records and batches, and what became of them."""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from pkafka.clients.consumer import ConsumerRecord
from pkafka.clients.errors import ClientError
from pkafka.clients.producer import BatchFuture, Producer, ProducerRecord, RecordMetadata
from pkafka.clients.raw_batch import RawBatch
from pkafka.errors import ApiError, PkafkaError
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.records.batch import read_header
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import codec_of
from pkafka.tools.mirroring.handlers import MessageHandler, handled
from pkafka.tools.mirroring.regrouping import Made, Regrouping
from pkafka.tools.mirroring.routes import Rules, route_of
from pkafka.tools.mirroring.statistics import Statistics

log = logging.getLogger("kafka.tools.MirrorMaker$MirrorMakerProducerCallback")

_NO_TIME: Final = -1


class FewPartitionsError(PkafkaError):
    """A record has to keep its partition, which the target's topic does not have."""

    def __init__(self, partition: TopicPartition, there: int) -> None:
        super().__init__(
            f"topic {partition.topic} has {there} partition(s) on the target, so partition {partition.partition} of the"
            " source cannot keep its number"
        )
        self.partition = partition


class Sending:
    """Sends what streams have read.

    Args:
        producer: to the target.
        rules: which batches may go as bytes.
        statistics: counts.
        handler: the user's, that makes records of records.
        aborts: whether the first record that cannot be sent stops the mirror; else it is left out.
    """

    def __init__(
        self,
        producer: Producer,
        rules: Rules,
        statistics: Statistics,
        *,
        handler: MessageHandler | None = None,
        aborts: bool = True,
    ) -> None:
        self.rules = rules
        self._producer = producer
        self._statistics = statistics
        self._handler = handler
        self._aborts = aborts
        self._failure: Exception | None = None
        self._pending: deque[tuple[str, BatchFuture]] = deque()
        self._lock = threading.Lock()

    def send_batch(self, batch: RawBatch, regrouping: Regrouping) -> None:
        """Send a batch, as bytes where the rules allow it.

        Args:
            batch: as it was read.
            regrouping: of the stream, for its records otherwise; what waits there is to be sent by :meth:`send_made`.

        Raises:
            FewPartitionsError: it has to keep its partition, and the target has too few.
            ApiError, ClientError: the target refuses.
        """
        partition = batch.partition
        topic = partition.topic
        try:
            count = self._partition_count(partition)
        except (ApiError, ClientError) as error:
            self._failed(topic, batch.record_count, error)
            self.check()
            return
        route = route_of(batch, count, self.rules)
        is_raw = not isinstance(route, RecordColumns)
        if isinstance(route, RecordColumns):
            self.send_made(self._regrouped(batch, route, count, regrouping))
        else:
            self.send_made(regrouping.take(TopicPartition(topic, route)))
            self._send_raw(topic, batch, route)
        self._statistics.sent(topic, batch.record_count, len(batch.data), raw=is_raw)

    def _regrouped(
        self, batch: RawBatch, columns: RecordColumns, partition_count: int, regrouping: Regrouping
    ) -> Iterator[Made]:
        codec = self.rules.codec
        return regrouping.add(
            batch.partition,
            columns,
            partition_count,
            codec_of(read_header(batch.data).attributes) if codec is None else codec,
            level=self.rules.level,
            keeps_partition=self.rules.keeps_partitions,
            now_ms=time.time_ns() // 1_000_000,
        )

    def send_made(self, made: Iterable[Made]) -> None:
        """Send batches that were made of records.

        Raises:
            ApiError, ClientError: the target refuses.
        """
        for (topic, partition), data, _ in made:
            self._send_raw(topic, data, partition)

    def _send_raw(self, topic: str, batch: RawBatch | Buffer, partition: int) -> None:
        future = self._producer.send_raw_batch(topic, batch, partition=partition)
        with self._lock:
            self._pending.append((topic, future))

    def _partition_count(self, partition: TopicPartition) -> int:
        count = len(self._producer.partitions_for(partition.topic))
        if self.rules.keeps_partitions and partition.partition >= count:
            raise FewPartitionsError(partition, count)
        return count

    def send_record(self, record: ConsumerRecord) -> None:
        """Send a record, or what the handler makes of it.

        Raises:
            HandlerError: the handler failed.
            FewPartitionsError, ApiError, ClientError: as :meth:`send_batch`.
        """
        callback = partial(self._on_sent, record.topic)
        for each in self._made_of(record):
            self._producer.send(each, callback=callback)
        size_bytes = len(record.key or b"") + len(record.value or b"")
        self._statistics.sent(record.topic, 1, size_bytes, raw=False)

    def _made_of(self, record: ConsumerRecord) -> Sequence[ProducerRecord]:
        if self._handler is not None:
            return list(handled(self._handler, record))
        partition = None
        if self.rules.keeps_partitions:
            partition = record.partition
            self._partition_count(TopicPartition(record.topic, partition))
        stamp = None if record.timestamp == _NO_TIME else record.timestamp
        return [
            ProducerRecord(
                record.topic,
                record.value,
                record.key,
                partition=partition,
                timestamp_ms=stamp,
                headers=record.headers,
            )
        ]

    def abandon(self, error: Exception) -> None:
        """Have every later :meth:`check` fail, so that nothing more is committed."""
        self._aborts = True
        self._failure = self._failure or error

    def check(self) -> None:
        """Look at what became of the batches so far.

        Raises:
            ApiError, ClientError: a record could not be sent, and that stops the mirror.
        """
        with self._lock:
            while self._pending and self._pending[0][1].done():
                self._look(*self._pending.popleft())
        if self._failure is not None and self._aborts:
            raise self._failure

    def settle(self) -> None:
        """Wait until the target has answered for all that was sent.

        Raises:
            ApiError, ClientError: as :meth:`check`.
        """
        self.check()
        self._producer.flush()
        self.check()

    def _look(self, topic: str, future: BatchFuture) -> None:
        for run in future.outcomes(0):
            if run.error is not None:
                self._failed(topic, run.length, run.error)

    def _on_sent(self, topic: str, _: RecordMetadata, error: Exception | None) -> None:
        if error is not None:
            self._failed(topic, 1, error)

    def _failed(self, topic: str, records: int, error: Exception) -> None:
        self._statistics.dropped(topic, records)
        if self._failure is None or not self._aborts:
            log.error("Error when sending %d record(s) of topic %s: %s", records, topic, error)
        self._failure = self._failure or error
