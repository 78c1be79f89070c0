"""The producer client: ``send()`` from any thread, batches in the background, idempotent by default.

Keys and values are bytes; serializers, interceptors, metrics and transactions are layers above.
"""

from collections.abc import Mapping, Sequence
from typing import Self

from pkafka.clients.cluster import Cluster, TopicView
from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import ClientTimeoutError, ClosedError, Stage
from pkafka.clients.producer.accumulator import Accumulator
from pkafka.clients.producer.batch import Callback, RecordFuture
from pkafka.clients.producer.partitioner import StickyPartitioner, partition_of_key
from pkafka.clients.producer.sender import Sender, expected_size
from pkafka.clock import Clock, SystemClock
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition, topic_name_problem

_NO_HEADERS: tuple[tuple[str, bytes | None], ...] = ()


class Producer:
    """See the module. Thread-safe.

    Args:
        config: Kafka's producer keys (dotted), or the typed form.
        clock: for time-outs, linger and record timestamps.

    Raises:
        ConfigError: a key has a bad value, or keys contradict each other.
    """

    def __init__(self, config: Mapping[str, object] | ProducerConfig, *, clock: Clock | None = None) -> None:
        self.config = config if isinstance(config, ProducerConfig) else ProducerConfig.from_properties(config)
        self._clock = clock or SystemClock()
        self._cluster = Cluster(self.config, clock=self._clock)
        self._topics: set[str] = set()
        self._accumulator = Accumulator(self.config, self._clock, self._wake)
        self._sender = Sender(self._cluster, self.config, self._accumulator, self._topics)
        self._partitioner = StickyPartitioner(self.config.batch_size)
        # topic: (metadata generation, all partitions, those with a leader)
        self._layouts: dict[str, tuple[int, int, list[int]]] = {}
        self._sender.start()

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = _NO_HEADERS,
        callback: Callback | None = None,
    ) -> RecordFuture:
        """Hand a record over; it is sent in the background.

        Waits only for metadata of a new topic or for buffer memory, together at most ``max.block.ms``.

        Args:
            value: the payload; None is a tombstone in a compacted topic.
            key: equal keys go to one partition.
            partition: overrides the choice by key.
            timestamp_ms: since the epoch; now when left out.
            callback: called with the outcome on the sender thread; must be short.

        Returns:
            The outcome to come.

        Raises:
            ClosedError: the producer was closed.
            ClientTimeoutError: the topic's metadata or buffer memory did not come in time.
            ApiError: the topic's name is not legal, the record is larger than ``max.request.size``, or the
                partition does not exist.
        """
        deadline_ms = self._clock.monotonic_ms() + self.config.max_block_ms
        size_bytes = expected_size(key, value, headers)
        if size_bytes > self.config.max_request_size:
            text = f"the record of {size_bytes} bytes is larger than max.request.size={self.config.max_request_size}"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, text)
        count, available = self._layout(topic, partition, deadline_ms)
        if partition is None:
            if key is not None and not self.config.partitioner_ignore_keys:
                partition = partition_of_key(key, count)
            else:
                partition = self._partitioner.choose(topic, available or range(count), size_bytes)
        stamp = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        return self._accumulator.append(
            TopicPartition(topic, partition), stamp, key, value, headers, callback, size_bytes, deadline_ms
        )

    def partitions_for(self, topic: str) -> int:
        """The number of partitions of a topic, asked for when it is not known."""
        return self._layout(topic, None, self._clock.monotonic_ms() + self.config.max_block_ms)[0]

    def flush(self, timeout_s: float | None = None) -> None:
        """Send all that was handed over before this call, and wait for the outcomes.

        Raises:
            ClientTimeoutError: ``timeout_s`` ran out.
        """
        with self._accumulator.lock:
            waiting = list(self._accumulator.incomplete)
            self._accumulator.flushing += 1
        self._wake()
        try:
            deadline = None if timeout_s is None else self._clock.monotonic_ms() + int(timeout_s * 1000)
            for batch in waiting:
                left = None if deadline is None else max(0, deadline - self._clock.monotonic_ms()) / 1000
                if not batch.wait(left):
                    raise ClientTimeoutError(
                        Stage.REQUEST, f"records are not acknowledged after {timeout_s} s"
                    )
        finally:
            with self._accumulator.lock:
                self._accumulator.flushing -= 1

    def close(self, timeout_s: float | None = None) -> None:
        """Send what is left, wait for the outcomes, and end; after ``timeout_s`` fail what is left."""
        with self._accumulator.changed:
            self._accumulator.closed = True
            self._accumulator.changed.notify_all()
        self._sender.stop(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wake(self) -> None:
        self._sender.wake()

    def _layout(self, topic: str, partition: int | None, deadline_ms: int) -> tuple[int, list[int]]:
        """The number of partitions of a topic and those that have a leader, waiting for metadata if need be."""
        known = self._layouts.get(topic)
        if known is None or known[0] != self._cluster.generation or (partition or 0) >= known[1]:
            known = self._learn(topic, partition, deadline_ms)
        return known[1], known[2]

    def _learn(self, topic: str, partition: int | None, deadline_ms: int) -> tuple[int, int, list[int]]:
        if problem := topic_name_problem(topic):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Invalid topic name: {problem}")
        changed = self._accumulator.changed
        with changed:
            while True:
                generation = self._cluster.generation
                view = self._cluster.view.topics.get(topic)
                count = len(view.partitions) if view is not None else 0
                if view is not None and count > (partition or 0):
                    available = [each.partition for each in view.partitions if each.leader >= 0]
                    layout = (generation, count, available)
                    self._layouts[topic] = layout
                    return layout
                if self._accumulator.closed:
                    raise ClosedError("the producer is closed")
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if left_ms <= 0:
                    raise self._no_metadata(topic, view, partition)
                self._topics.add(topic)
                self._cluster.want_refresh()
                self._sender.wake()
                changed.wait(left_ms / 1000)

    def _no_metadata(self, topic: str, view: TopicView | None, partition: int | None) -> Exception:
        if view is not None and view.partitions:
            text = (
                f"Partition {partition} of topic {topic} with partition count {len(view.partitions)} "
                f"is not present in metadata after {self.config.max_block_ms} ms."
            )
            return ClientTimeoutError(Stage.METADATA, text)
        if view is not None and view.error and not view.error.retriable:
            return ApiError(view.error)
        cause = self._cluster.last_refresh_error
        if cause is not None:
            return cause
        text = f"Topic {topic} not present in metadata after {self.config.max_block_ms} ms."
        return ClientTimeoutError(Stage.METADATA, text, hint="create the topic first")
