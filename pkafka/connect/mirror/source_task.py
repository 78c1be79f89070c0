"""``MirrorSourceTask``: reads partitions of the source, gives their records, and writes offset syncs."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import ClassVar, Final

from pkafka.clients.consumer import Chunk, Consumer
from pkafka.clients.producer import BatchMetadata, Producer, RecordMetadata
from pkafka.clients.producer.futures import RecordFuture
from pkafka.connect.connector import BatchSourceTask, SourceBatch, SourcePlace, TaskMetric
from pkafka.connect.data.headers import Header, Headers
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.data.schema import Schema
from pkafka.connect.errors import ConnectError
from pkafka.connect.mirror.settings import EMITS_SYNCS, SOURCE_CONFIG, TASK_PARTITIONS, MirrorSettings
from pkafka.connect.mirror.sync_queue import OffsetSyncQueue
from pkafka.connect.mirror.task_metrics import SourceMetrics
from pkafka.connect.mirror.topic_plan import partitions_of
from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition

log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorSourceTask")

_PAUSE_S: Final = 1.0
_FLUSH_S: Final = 5.0
_RECORDS_MAX: Final = 50_000
"""One poll takes so many records of whole batches."""
_FEW_RECORDS: Final = 50
"""A batch of fewer is taken apart."""
_POLLS_OF_RECORDS: Final = 100
"""After small batches, so many polls ask for records."""
_Row = tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


class MirrorSourceTask(BatchSourceTask):
    """Copies records as they are: key, value, headers, time, partition.

    Whole batches go on as bytes where the worker allows that, which costs a fraction. A batch of few records is taken
    apart: a producer sends each batch by itself, and makes large ones of records.
    """

    JAVA_NAME: ClassVar[str] = "org.apache.kafka.connect.mirror.MirrorSourceTask"

    def start(self, configs: Mapping[str, str]) -> None:
        """Go on behind the last offset that was stored of each partition.

        Raises:
            ConfigError: a setting is refused.
        """
        settings = MirrorSettings(SOURCE_CONFIG, configs)
        self._policy, self._source = settings.policy, settings.source
        self._poll_ms: int = settings.parsed["consumer.poll.timeout.ms"]
        partitions = partitions_of(configs[TASK_PARTITIONS])
        self._places: dict[TopicPartition, SourcePlace] = {
            each: {"cluster": settings.source, "partition": each.partition, "topic": each.topic}
            for each in partitions
        }
        self._remotes = {
            each.topic: settings.policy.format_remote_topic(settings.source, each.topic)
            for each in partitions
        }
        tags = {"source": settings.source} if settings.parsed["add.source.alias.to.metrics"] else {}
        self._metrics = SourceMetrics({**tags, "target": settings.target})
        self._queue = OffsetSyncQueue(settings.parsed["offset.lag.max"])
        self._syncs_topic = settings.offset_syncs_topic
        self._sync_producer: Producer | None = None
        self._polls_of_records = 0
        """How many polls read records, as the last batches were small."""
        with ExitStack() as opened:  # a start that fails leaves nothing open
            self._consumer = Consumer(settings.client("source", "consumer", "replication-consumer"))
            opened.callback(self._consumer.close)
            if settings.parsed[EMITS_SYNCS]:
                self._sync_producer = Producer(settings.sync_client("producer"))
                opened.callback(self._sync_producer.close, 0)
            self._seek(partitions)
            opened.pop_all()
        log.info("Replicating %d topic-partitions %s->%s", len(partitions), settings.source, settings.target)

    def _seek(self, partitions: Sequence[TopicPartition]) -> None:
        self._consumer.assign(partitions)
        stored = {each: self._stored(each) for each in partitions}
        log.info(
            "Starting with %d previously uncommitted partitions.",
            sum(each is None for each in stored.values()),
        )
        for partition, offset in stored.items():
            if offset is not None:
                self._consumer.seek(partition, offset + 1)

    def _stored(self, partition: TopicPartition) -> int | None:
        """The offset of the last record that was copied; None: none was, and ``auto.offset.reset`` decides."""
        found = self.context.offset_reader.offset(self._places[partition])
        offset = None if found is None else found.get("offset")
        if offset is None or (isinstance(offset, int) and offset < 0):
            return None
        if not isinstance(offset, int) or isinstance(offset, bool):
            raise ConnectError(f"The stored offset of {partition} is no number: {offset!r}")
        return offset

    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records."""
        self._send_syncs()  # that waited for others to be acknowledged
        try:
            chunks = self._consumer.poll_chunks(self._poll_ms)
        except PkafkaError as error:
            # As in Java, what clients fail with does not end the task: the source may come back.
            log.warning("Failure during poll: %s", error)
            self.context.wait(_PAUSE_S)
            return None
        return [record for chunk in chunks for record in self._records(chunk)] or None

    def _records(self, chunk: Chunk) -> list[SourceRecord]:
        self._metrics.polled(self._copy_of(chunk.partition), chunk, time.time() * 1000)
        return self._made(chunk.partition, chunk.rows())

    def _made(self, partition: TopicPartition, rows: Iterable[_Row]) -> list[SourceRecord]:
        place, remote = self._places[partition], self._remotes[partition.topic]
        return [
            SourceRecord(
                remote,
                partition.partition,
                Schema.OPTIONAL_BYTES,
                key,
                Schema.OPTIONAL_BYTES if value is None else Schema.BYTES,
                value,
                None if timestamp < 0 else timestamp,
                Headers([Header(name, data, Schema.BYTES) for name, data in headers])
                if headers
                else Headers(),
                source_partition=place,
                source_offset={"offset": offset},
            )
            for offset, timestamp, key, value, headers in rows
        ]

    def _copy_of(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._remotes[partition.topic], partition.partition)

    # -- whole batches --

    def poll_batches(self) -> Sequence[SourceBatch | SourceRecord] | None:
        """The next batches; records, where batches are small."""
        if self._polls_of_records:
            self._polls_of_records -= 1
            return self.poll()
        self._send_syncs()
        try:
            batches = self._consumer.poll_batches(self._poll_ms, records_max=_RECORDS_MAX)
        except PkafkaError as error:
            log.warning("Failure during poll: %s", error)
            self.context.wait(_PAUSE_S)
            return None
        if sum(each.record_count for each in batches) < _FEW_RECORDS * len(batches):
            self._polls_of_records = _POLLS_OF_RECORDS
        now_ms = time.time() * 1000
        found: list[SourceBatch | SourceRecord] = []
        for batch in batches:
            self._metrics.polled_batch(self._copy_of(batch.partition), batch, now_ms)
            if batch.record_count < _FEW_RECORDS and not batch.was_encoded_again:
                found += self._made(batch.partition, batch.records())
            else:
                place, remote = self._places[batch.partition], self._remotes[batch.partition.topic]
                last = {"offset": batch.next_offset - 1}
                found.append(SourceBatch(remote, batch.partition.partition, batch, place, last))
        return found or None

    def commit_batch(self, batch: SourceBatch, runs: Sequence[BatchMetadata]) -> None:
        """Note where the records of a batch went, and write syncs that are due."""
        raw = batch.batch
        self._metrics.copied_batch(self._copy_of(raw.partition), raw, time.time() * 1000)
        if self._sync_producer is None:
            return
        if any(run.offset < 0 for run in runs):
            log.error("RecordMetadata has no offset -- can't sync offsets for %s.", batch.topic)
            return
        if raw.was_encoded_again:
            # Of its records the first has a known offset in the source, and all are before the next batch: enough for
            # translations that miss nothing.
            last = runs[-1].offset + runs[-1].length - 1
            pairs = [(raw.first_offset, runs[0].offset, 1), (raw.next_offset - 1, last, 1)]
        else:
            pairs = [(raw.first_offset + run.positions[0], run.offset, run.length) for run in runs]
        for upstream, downstream, count in pairs:
            for _ in self._queue.note_run(raw.partition, upstream, downstream, count):
                self._send_syncs()

    # -- offset syncs; on the threads of producers, too --

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Note where a record went, and write syncs that are due."""
        if metadata is None:
            return  # a transform dropped it
        if metadata.offset < 0:
            log.error("RecordMetadata has no offset -- can't sync offsets for %s.", record.topic)
            return
        place, offset = record.source_partition, record.source_offset
        assert place is not None
        assert offset is not None
        self._metrics.copied(
            TopicPartition(metadata.topic, metadata.partition), record.timestamp, time.time() * 1000
        )
        if self._sync_producer is not None:
            partition = TopicPartition(place["topic"], place["partition"])
            self._queue.note(partition, offset["offset"], metadata.offset)
            self._send_syncs()

    def commit(self) -> None:
        """Write syncs of partitions in which nothing was due for a while."""
        if self._sync_producer is not None:
            self._queue.promote()
            self._send_syncs()

    def _send_syncs(self) -> None:
        producer = self._sync_producer
        while producer is not None and (sync := self._queue.take()) is not None:
            try:
                sent = producer.send(self._syncs_topic, sync.value, sync.key, partition=0)
            except PkafkaError as error:
                self._queue.settled()
                log.error("Failure sending offset sync: %s", error)
                return
            sent.add_done_callback(self._sync_sent)

    def _sync_sent(self, sent: RecordFuture) -> None:
        self._queue.settled()
        error = sent.exception(0)
        if error is not None:
            log.error("Failure sending offset sync: %s", error)

    def metrics(self) -> Iterable[TaskMetric]:
        """What was copied, by partitions."""
        return self._metrics.rows()

    def stop(self) -> None:
        """Close the clients, when the syncs of what was copied are written."""
        self._consumer.close()
        producer, self._sync_producer = self._sync_producer, None
        if producer is not None:
            self._queue.promote()
            while (sync := self._queue.take()) is not None:
                producer.send(self._syncs_topic, sync.value, sync.key, partition=0).add_done_callback(
                    self._sync_sent
                )
            producer.close(_FLUSH_S)
