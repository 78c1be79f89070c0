"""The producer client: ``send()`` from any thread, batches in the background, idempotent by default.

A record passes interceptors, serializers and the partitioner on the thread that sends it; from the accumulator on it
is the sender thread's. Without a serializer, keys and values are bytes.
"""

import itertools
import logging
import os
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Self

from pkafka.clients import plugins
from pkafka.clients.cluster import Cluster, PartitionView
from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import (
    ClientError,
    ClientTimeoutError,
    ClosedError,
    IllegalArgumentError,
    IllegalStateError,
)
from pkafka.clients.metrics import Metric, MetricName, metrics_of
from pkafka.clients.network_metrics import NetworkMetrics
from pkafka.clients.producer.callbacks import Callback
from pkafka.clients.producer.configured import (
    all_bytes,
    partitioner_of,
    serialized,
    serializer_of,
)
from pkafka.clients.producer.encoded_headers import EncodedHeaders
from pkafka.clients.producer.errors import TransactionError
from pkafka.clients.producer.futures import (
    BatchFuture,
    BatchMetadata,
    FailedFuture,
    RecordFuture,
    Sent,
)
from pkafka.clients.producer.gathering import NO_RUN
from pkafka.clients.producer.gauges import add_gauges
from pkafka.clients.producer.interceptors import Interceptors
from pkafka.clients.producer.metadata import ProducerMetadata, closed_error
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.clients.producer.partition_choice import PartitionChoice
from pkafka.clients.producer.queues import TopicQueues
from pkafka.clients.producer.raw_sending import RawSending
from pkafka.clients.producer.record import ProducerRecord, check_place
from pkafka.clients.producer.record_metadata import RecordMetadata
from pkafka.clients.producer.sender import Sender
from pkafka.clients.producer.size_limits import SizeLimits
from pkafka.clients.producer.transaction_calls import TransactionCalls
from pkafka.clients.raw_batch import RawBatch
from pkafka.clock import Clock, SystemClock
from pkafka.errors import ApiError
from pkafka.protocol import Buffer
from pkafka.records.builder import NO_HEADERS

if TYPE_CHECKING:
    pass

_NO_HEADERS: Final = ()
_numbers: Final = itertools.count(1)
_open: Final["weakref.WeakSet[Producer]"] = weakref.WeakSet()
_log = logging.getLogger(__name__)


class Producer(TransactionCalls):
    """A client that sends records. Thread-safe; not across ``fork()``: a child process makes a producer of its own.

    Args:
        config: Kafka's producer keys (dotted), or the typed form.
        clock: for time-outs, linger and record timestamps.

    Raises:
        ConfigError: a key has a bad value, or keys contradict each other.
    """

    def __init__(self, config: Mapping[str, object] | ProducerConfig, *, clock: Clock | None = None) -> None:
        self._closed = True  # so that __del__ has nothing to say when this fails
        self._is_forsaken = False
        self._is_guarded = True
        """Whether sending is to be looked at first: the producer is closed, or has transactions."""
        config = config if isinstance(config, ProducerConfig) else ProducerConfig.from_properties(config)
        self._client_id = config.client_id or f"producer-{config.transactional_id or next(_numbers)}"
        self.config = config = config.but(client_id=self._client_id)
        self._clock = clock or SystemClock()
        originals: Mapping[str, object] = {**config.originals, "client.id": self._client_id}
        self._key_serializer = serializer_of("key.serializer", config.key_serializer, originals)
        self._value_serializer = serializer_of("value.serializer", config.value_serializer, originals)
        self._takes_bytes = self._key_serializer is None and self._value_serializer is None
        self._partitioner, ignores_keys = partitioner_of(config.partitioner_class, originals)
        self._interceptors = Interceptors(config.interceptor_classes, originals)
        self._metrics = metrics_of(config, self._clock, originals)
        self._sensors = ProducerMetrics(self._metrics)
        self._cluster = Cluster(config, clock=self._clock)
        self._cluster.network.measure(NetworkMetrics(self._metrics, "producer", self._cluster.node_of))
        self._topics: dict[str, TopicQueues] = {}
        self._sender = Sender(self._cluster, config, self._sensors, self._topics)
        self._accumulator = self._sender.accumulator
        self._transactions = self._sender.transactions
        self._metadata = ProducerMetadata(
            self._cluster, config, self._accumulator, self._sensors, self._topics, self._sender.wake
        )
        self._choice = PartitionChoice(
            self._cluster, self._partitioner, keys_count=not (config.partitioner_ignore_keys or ignores_keys)
        )
        self._limits = SizeLimits(config)
        self._headers = EncodedHeaders()
        self._raw = RawSending(config, self._accumulator, self._metadata, self._limits)
        self._size_unchecked = self._limits.unchecked
        add_gauges(self._metrics, config, self._accumulator, self._sender, self._cluster)
        self._sender.start()
        self._closed = False
        self._is_guarded = self._transactions is not None
        self._now_s = self._seconds()
        self._accumulator.shows_runs = (
            self._takes_bytes
            and not self._is_guarded
            and not self._interceptors.is_needed
            and self._partitioner is None
        )
        _open.add(self)

    # -- sending ------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,  # noqa: ANN401 - what the serializers know
        key: Any = None,  # noqa: ANN401 - as above
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = _NO_HEADERS,
        callback: Callback | None = None,
    ) -> RecordFuture:
        """Hand a record over; it is sent in the background.

        Waits only for metadata of a new topic or for buffer memory, together at most ``max.block.ms``. What goes
        wrong on the way to the broker, also before the record is under way, is the future's and the callback's to
        tell, as in Kafka.

        Args:
            topic: its name; or a :class:`ProducerRecord`, which has the rest in it.
            value: the payload; None is a tombstone in a compacted topic.
            key: equal keys go to one partition.
            partition: overrides the choice by key.
            timestamp_ms: since the epoch; now when left out.
            callback: called once with the outcome, in the order of sends within a partition, on the sender thread;
                must be short.

        Returns:
            The outcome to come.

        Raises:
            ClosedError: the producer was closed.
            SerializationError: key or value is not what the serializer knows; without one, not bytes.
            IllegalArgumentError: a negative partition or timestamp, also one that ``partitioner.class`` gave.
            IllegalStateError: the producer has a ``transactional.id``, and no transaction is begun.
            TransactionError: the transaction has failed already.
        """
        # The short way: most records are like the one before, and join its run. The lines are here, and not in methods,
        # because calling those would take a good part of the time that all of it takes.
        run = self._accumulator.run
        if (
            topic is run.topic
            and key is None
            and partition is None
            and timestamp_ms is None
            and type(value) is bytes
            and not headers
            and (room := run.room - len(value)) >= 0
            and run.begin_s <= self._now_s() < run.end_s
            and run.owner == get_ident()
            and run.keys is None
            and run.is_open
            and run.generation == self._cluster.generation
        ):
            run.room = room - run.overhead
            assert run.batch is not None
            future = RecordFuture()
            future.batch = run.batch
            future.index = run.first + len(run.values)
            future.timestamp_ms = run.stamp_ms
            future.key_size = -1
            future.value_size = len(value)
            if callback is not None:
                run.callbacks[len(run.values)] = callback
            elif run.callbacks:
                run.callbacks.pop(len(run.values), None)  # of a record that a Ctrl-C kept out
            run.values.append(value)
            if run.is_open or run.has(future):
                return future
        if (
            (type(key) is bytes or (headers and key is None))
            and partition is None
            and timestamp_ms is None
            and type(value) is bytes
            and type(topic) is str
            and self._accumulator.shows_runs
            and (layout := self._topics.get(topic)) is not None
            and layout.generation == self._cluster.generation
        ):
            joined = self._accumulator.join(
                layout,
                self._choice.choose(layout, key, key, value, value),
                self._now_s(),
                layout.generation,
                key,
                value,
                self._headers.of(headers) if headers else NO_HEADERS,
                callback,
            )
            if joined is not None:
                return joined
        if isinstance(topic, ProducerRecord) or self._interceptors.is_needed:
            return self._send_record(
                topic
                if isinstance(topic, ProducerRecord)
                else ProducerRecord(
                    topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
                ),
                callback,
            )
        if partition is not None or timestamp_ms is not None:
            check_place(topic, partition, timestamp_ms)
        return self._send(topic, value, key, partition, timestamp_ms, headers, callback)

    def send_batch(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = _NO_HEADERS,
    ) -> BatchFuture:
        """Hand many records over at once: the fast way to send, several times as fast as ``send()`` each.

        They go the way of records from ``send()``, with these differences: one time and one set of headers for all,
        one future for all, and where ``batch.size`` is not set, batches of up to 256 KiB, because all are at hand.
        Records without a key or partition are spread over partitions in runs. Where interceptors or a
        ``partitioner.class`` are configured, they see every record, and the speed is that of ``send()``.

        Args:
            values: the payloads.
            keys: beside them; None for no keys.
            partition: of all records; chosen by key or spread out when left out.
            timestamp_ms: of all records, since the epoch; now when left out.
            headers: of all records.

        Returns:
            Where the records went, run by run; see :class:`BatchFuture`. When memory or metadata did not come in time,
            it says which records were not sent.

        Raises:
            ClosedError, SerializationError, ValueError, IllegalStateError, TransactionError: as :meth:`send`; nothing
                was sent then. ProducerFencedError too.
        """
        check_place(topic, partition, timestamp_ms)
        if keys is not None and len(keys) != len(values):
            raise IllegalArgumentError(f"{len(keys)} keys for {len(values)} values")
        if self._is_guarded:
            self._check_may_send()
        stamp = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        if self._interceptors.is_needed or (self._partitioner is not None and partition is None):
            each = zip(values, repeat(None) if keys is None else keys, strict=False)
            return BatchFuture.of_records(
                stamp,
                [
                    self.send(topic, value, key, partition=partition, timestamp_ms=stamp, headers=headers)
                    for value, key in each
                ],
            )
        value_bytes = all_bytes(self._value_serializer, topic, values, headers, "value")
        key_bytes = None if keys is None else all_bytes(self._key_serializer, topic, keys, headers, "key")
        sent: list[Sent] = []
        try:
            self._limits.check_all(value_bytes, key_bytes, headers)
            deadline_ms = self._clock.monotonic_ms() + self.config.max_block_ms
            layout = self._metadata.layout(topic, partition, deadline_ms)
            for chosen, positions in self._choice.by_partition(layout, key_bytes, len(values), partition):
                whole = len(positions) == len(values)
                self._accumulator.append_many(
                    layout,
                    chosen,
                    stamp,
                    value_bytes if whole else [value_bytes[index] for index in positions],
                    key_bytes if whole or key_bytes is None else [key_bytes[index] for index in positions],
                    headers,
                    positions,
                    deadline_ms,
                    sent,
                )
        except (ApiError, ClientTimeoutError, ClientError) as error:
            if isinstance(error, ClosedError) and not sent:
                raise
            self._note_failure(error)
            gone = {index for each in sent for index in each.positions}
            left = [index for index in range(len(values)) if index not in gone]
            where = -1 if partition is None else partition
            return BatchFuture(stamp, sent, BatchMetadata(topic, where, -1, len(left), -1, left, error))
        return BatchFuture(stamp, sent)

    def send_raw_batch(self, topic: str, batch: RawBatch | Buffer, *, partition: int) -> BatchFuture:
        """Send a finished batch of ``Consumer.poll_batches()`` on: compressed as it is, under this producer's sequence.

        Neither serializers nor interceptors see it. One larger than ``max.request.size`` is encoded again, in parts.

        Raises:
            RecordError: it is no whole v2 batch, is damaged, or has holes, a marker or the broker's time.
            ClosedError, IllegalArgumentError, IllegalStateError, TransactionError: as :meth:`send`.
        """
        check_place(topic, partition, None)
        if self._is_guarded:
            self._check_may_send()
        data = batch.data if isinstance(batch, RawBatch) else batch
        future, error = self._raw.send(topic, data, partition, self._clock.monotonic_ms())
        if error is not None:
            self._note_failure(error)
        return future

    # -- the rest of the interface ------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> list[PartitionView]:
        """The partitions of a topic, asked for when they are not known; waits at most ``max.block.ms``.

        Raises:
            ClosedError: the producer was closed.
            ClientTimeoutError, ApiError: there is no metadata of the topic.
        """
        if self._closed:
            raise closed_error()
        self._metadata.layout(topic, None, self._clock.monotonic_ms() + self.config.max_block_ms)
        return list(self._cluster.view.topics[topic].partitions)

    def metrics(self) -> dict[MetricName, Metric]:
        """The producer's metrics, under Kafka's names."""
        return self._metrics.metrics()

    def flush(self, timeout_s: float | None = None) -> None:
        """Send all that was handed over before this call, and wait for the outcomes and their callbacks.

        Raises:
            ClientTimeoutError: ``timeout_s`` ran out.
            ClientError: called from a callback, which it would wait for.
            ClosedError: this is a child of the process that made the producer.
        """
        if self._is_forsaken:
            raise closed_error()
        if self._sender.is_current_thread():
            raise ClientError("flush() in a callback would wait for that callback to return")
        self._accumulator.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Send what is left, wait for the outcomes, and end; after ``timeout_s`` fail what is left.

        In a callback it cannot wait: what is left fails at once, as with a time-out of 0. Where another thread
        closes it already, this waits for the same end.

        Raises:
            IllegalArgumentError: a negative time-out.
        """
        if timeout_s is not None and timeout_s < 0:
            raise IllegalArgumentError("The timeout cannot be negative.")
        if self._closed:
            if not self._is_forsaken:
                self._sender.stop(timeout_s)
            return
        self._closed = self._is_guarded = True
        _open.discard(self)
        if self._sender.is_current_thread() and timeout_s != 0:
            _log.warning(
                "close() in a callback cannot wait for that callback to return; it fails what is left at once"
            )
        self._sender.stop(timeout_s)
        self._interceptors.close()
        self._metrics.close()
        for each in (self._key_serializer, self._value_serializer, self._partitioner):
            if each is not None:
                plugins.close_quietly(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed:
            self._closed = True
            warnings.warn(
                f"the producer {self._client_id} was dropped without close(): what it has not sent may be lost",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            self._sender.finish_in_background()

    # -- one record ---------------------------------------------------------------------------------------

    def _send_record(self, record: ProducerRecord, callback: Callback | None) -> RecordFuture:
        if self._closed:
            raise closed_error()
        interceptors = self._interceptors
        if not interceptors.is_needed:
            return self._send(
                record.topic,
                record.value,
                record.key,
                record.partition,
                record.timestamp_ms,
                record.headers,
                callback,
            )
        record = interceptors.on_send(record)
        outcome = interceptors.around(callback)
        try:
            return self._send(
                record.topic,
                record.value,
                record.key,
                record.partition,
                record.timestamp_ms,
                record.headers,
                outcome,
            )
        except Exception as error:
            partition = -1 if record.partition is None else record.partition
            interceptors.on_acknowledgement(RecordMetadata(record.topic, partition, -1, -1), error)
            raise

    def _send(
        self,
        topic: str,
        value: Any,  # noqa: ANN401
        key: Any,  # noqa: ANN401
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[tuple[str, bytes | None]],
        callback: Callback | None,
    ) -> RecordFuture:
        try:
            if self._is_guarded:
                self._check_may_send()
            deadline_ms = None
            layout = self._topics.get(topic)
            if (
                layout is None
                or layout.generation != self._cluster.generation
                or (partition is not None and partition >= layout.partition_count)
            ):
                deadline_ms = self._clock.monotonic_ms() + self.config.max_block_ms
                layout = self._metadata.layout(topic, partition, deadline_ms)
            layout.was_used = True
            key_bytes, value_bytes = self._bytes(topic, key, value, headers)
            encoded = self._headers.of(headers) if headers else NO_HEADERS
            if len(value_bytes or b"") + len(key_bytes or b"") + len(encoded) > self._size_unchecked:
                self._limits.check(key_bytes, value_bytes, encoded)
            if partition is None:
                partition = self._choice.choose(layout, key, key_bytes, value, value_bytes)
            if timestamp_ms is not None:
                return self._accumulator.append(
                    *(layout, partition, timestamp_ms, key_bytes, value_bytes, encoded, callback, deadline_ms)
                )
            generation = layout.generation
            joined = self._accumulator.join(
                layout, partition, self._now_s(), generation, key_bytes, value_bytes, encoded, callback
            )
            return joined or self._accumulator.append(
                *(
                    layout,
                    partition,
                    self._clock.now_ms(),
                    key_bytes,
                    value_bytes,
                    encoded,
                    callback,
                    deadline_ms,
                ),
                name=topic,
                room_bytes=self._size_unchecked,
            )
        except (ApiError, ClientTimeoutError, ClientError) as error:
            if isinstance(error, (ClosedError, IllegalStateError, TransactionError)):
                raise
            self._note_failure(error)
            failed = FailedFuture(topic, partition, error)
            if callback is not None:
                try:
                    callback(*failed.settled())
                except Exception:  # noqa: BLE001 - the user's, and no concern of the send
                    _log.exception("a producer callback failed")
            return failed

    def _bytes(
        self,
        topic: str,
        key: Any,  # noqa: ANN401
        value: Any,  # noqa: ANN401
        headers: Sequence[tuple[str, bytes | None]],
    ) -> tuple[bytes | None, bytes | None]:
        """What goes into a record for a key and a value."""
        if (
            self._takes_bytes
            and (key is None or type(key) is bytes)
            and (value is None or type(value) is bytes)
        ):
            return key, value
        key_bytes = serialized(self._key_serializer, topic, key, headers, "key")
        return key_bytes, serialized(self._value_serializer, topic, value, headers, "value")

    def _seconds(self) -> Callable[[], float]:
        """The clock's time; of the machine's clock without a call in between."""
        now_ms = self._clock.now_ms
        return time.time if type(self._clock) is SystemClock else lambda: now_ms() / 1_000

    def _check_may_send(self) -> None:
        if self._closed:
            raise closed_error()
        if self._transactions is not None:
            self._transactions.check_send()

    def _note_failure(self, error: Exception) -> None:
        """A record could not be handed over."""
        self._sensors.errors.record()
        if self._transactions is not None:
            self._transactions.failed(error, was_sent=False)

    def _forsake(self) -> None:
        """In a child process, which has no sender thread: take nothing more, and wait for nothing."""
        self._closed = self._is_guarded = self._is_forsaken = True
        self._accumulator.run, self._accumulator.shows_runs = NO_RUN, False


def _after_fork() -> None:
    for producer in list(_open):
        producer._forsake()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
