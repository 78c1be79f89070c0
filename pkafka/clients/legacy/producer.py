"""The producer of Kafka 0.8 as a facade: its keys, defaults and semantics over today's producer (PROD-26, PROD-27).

``sync`` sends what one call is given and waits; ``async`` puts messages into a bounded queue from which one thread
sends batches. Defaults are 0.8's, so ``request.required.acks`` is 0: nobody says whether a message arrived.
"""

import logging
import queue
import random
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

from pkafka.clients.errors import ClientError, ClosedError
from pkafka.clients.legacy.config import OldProducerConfig
from pkafka.clients.legacy.errors import FailedToSendMessageError, QueueFullError
from pkafka.clock import Clock, SystemClock
from pkafka.coordination.znode_json import string_hash
from pkafka.errors import ApiError, ConfigError
from pkafka.model import NO_LEADER

if TYPE_CHECKING:
    from pkafka.clients.producer import Producer

Encoder: TypeAlias = Callable[[Any], bytes | None]
Partitioner: TypeAlias = Callable[[Any, int], int]

logger = logging.getLogger(__name__)


class KeyedMessage(NamedTuple):
    """What is sent.

    Args:
        part_key: chooses the partition in place of ``key``, and is not stored.
    """

    topic: str
    message: Any
    key: Any = None
    part_key: Any = None

    @property
    def partition_key(self) -> object:
        """What the partitioner is given; None for any partition."""
        return self.key if self.part_key is None else self.part_key


class _Encoded(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    partition_key: object


class OldProducer:
    """See the module. Thread-safe.

    Args:
        config: the old producer's keys (dotted), at least ``metadata.broker.list``, or the typed form.
        encoder: makes bytes of messages, in place of ``serializer.class``.
        key_encoder: makes bytes of keys, in place of ``key.serializer.class``.
        partitioner: chooses a partition by key and number of partitions, in place of ``partitioner.class``.
        clock: for time-outs.

    Raises:
        ConfigError: a key has a bad value.
    """

    def __init__(
        self,
        config: Mapping[str, object] | OldProducerConfig,
        *,
        encoder: Encoder | None = None,
        key_encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = (
            config if isinstance(config, OldProducerConfig) else OldProducerConfig.from_properties(config)
        )
        names = self.config
        self._encode = encoder or _named("serializer.class", names.serializer_class, _ENCODERS)
        self._encode_key = key_encoder or _named(
            "key.serializer.class", names.key_serializer_class or names.serializer_class, _ENCODERS
        )
        self._partition = partitioner or _named("partitioner.class", names.partitioner_class, _PARTITIONERS)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._producers: dict[object, Producer] = {}
        self._sticky = _StickyPartitions(self.config.topic_metadata_refresh_interval_ms, self._clock)
        self._closed = False
        self._queue: queue.Queue[_Encoded | None] | None = None
        if self.config.producer_type == "async":
            self._queue = queue.Queue(self.config.queue_buffering_max_messages)
            self._thread = threading.Thread(target=self._run, name="old-producer", daemon=True)
            self._thread.start()

    def send(self, *messages: KeyedMessage) -> None:
        """Send messages; those of one call and partition stay in order.

        Raises:
            FailedToSendMessageError: (sync) some were not taken after ``message.send.max.retries``.
            QueueFullError: (async) the queue stayed full for ``queue.enqueue.timeout.ms``; -1 waits for ever. The
                messages before are queued.
            ClosedError: the producer was closed.
        """
        if self._closed:
            raise ClosedError("producer already closed")
        encoded = [
            _Encoded(
                each.topic,
                None if each.key is None else self._encode_key(each.key),
                None if each.message is None else self._encode(each.message),
                each.partition_key,
            )
            for each in messages
        ]
        if self._queue is None:
            self._deliver(encoded)
            return
        for each in encoded:
            self._enqueue(self._queue, each)

    def close(self) -> None:
        """Send what is queued, and close every connection. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._queue is not None:
            self._queue.put(None)
            self._thread.join()
        for producer in self._producers.values():
            producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- sending ------------------------------------------------------------------------------------------

    def _deliver(self, messages: Sequence[_Encoded]) -> None:
        failure: Exception | None = None
        outcomes = []
        for each in messages:
            producer = self._producer(each.topic)
            try:
                partition = self._choose(producer, each)
                outcomes.append(producer.send(each.topic, each.value, each.key, partition=partition))
            except (ClientError, ApiError) as error:
                failure = error
        for outcome in outcomes:
            failure = outcome.exception() or failure
        if failure is not None:
            self._sticky.forget()
            text = f"Failed to send messages after {self.config.message_send_max_retries} tries."
            raise FailedToSendMessageError(text) from failure

    def _choose(self, producer: "Producer", message: _Encoded) -> int:
        partitions = producer.partitions_for(message.topic)
        if message.partition_key is None:
            led = [each.partition for each in partitions if each.leader != NO_LEADER]
            return self._sticky.choose(message.topic, led or [each.partition for each in partitions])
        return self._partition(message.partition_key, len(partitions))

    def _producer(self, topic: str) -> "Producer":
        from pkafka.clients.producer import Producer

        keys = self.config.new_producer_keys(topic)
        with self._lock:
            # One for compressed topics and one for the others, where only some are compressed.
            producer = self._producers.get(keys["compression.type"])
            if producer is None:
                producer = self._producers[keys["compression.type"]] = Producer(keys, clock=self._clock)
            return producer

    # -- async --------------------------------------------------------------------------------------------

    def _enqueue(self, waiting: "queue.Queue[_Encoded | None]", message: _Encoded) -> None:
        timeout_ms = self.config.queue_enqueue_timeout_ms
        try:
            if timeout_ms < 0:
                waiting.put(message)
            else:
                waiting.put(message, block=timeout_ms > 0, timeout=timeout_ms / 1000)
        except queue.Full:
            raise QueueFullError(
                f"Event queue is full of unsent messages, could not send a message of {message.topic}"
            ) from None

    def _run(self) -> None:
        assert self._queue is not None
        batch: list[_Encoded] = []
        due = 0.0
        while True:
            wait_s = max(0.0, due - time.monotonic()) if batch else None
            try:
                # Also when the time is over: what is queued already joins the batch.
                message = self._queue.get(block=wait_s is None or wait_s > 0, timeout=wait_s or None)
            except queue.Empty:
                self._deliver_or_drop(batch)
                batch = []
                continue
            if message is None:
                self._deliver_or_drop(batch)
                return
            if not batch:
                due = time.monotonic() + self.config.queue_buffering_max_ms / 1000
            batch.append(message)
            if len(batch) >= self.config.batch_num_messages:
                self._deliver_or_drop(batch)
                batch = []

    def _deliver_or_drop(self, batch: Sequence[_Encoded]) -> None:
        if not batch:
            return
        try:
            self._deliver(batch)
        except FailedToSendMessageError as error:
            # Nobody waits for the outcome: the log is all there is, as in 0.8.
            logger.error("Error in handling batch of %d events: %s", len(batch), error.__cause__ or error)


class _StickyPartitions:
    """For messages without a key: one random partition of a topic, until metadata is refreshed or a send failed."""

    def __init__(self, turn_ms: int, clock: Clock) -> None:
        self._turn_ms = turn_ms
        self._clock = clock
        self._chosen: dict[str, int] = {}
        self._since_ms = clock.monotonic_ms()

    def choose(self, topic: str, available: Sequence[int]) -> int:
        now_ms = self._clock.monotonic_ms()
        if 0 <= self._turn_ms <= now_ms - self._since_ms:
            self._chosen = {}
            self._since_ms = now_ms
        if topic not in self._chosen:
            self._chosen[topic] = random.choice(available)  # noqa: S311 - spreads load, guards nothing
        return self._chosen[topic]

    def forget(self) -> None:
        self._chosen = {}


# -- what 0.8's class names stand for ---------------------------------------------------------------------


def default_partition(key: object, count: int) -> int:
    """``kafka.producer.DefaultPartitioner``: Java's hash of the key; of bytes by content, unlike Java's.

    Raises:
        TypeError: the key is no text, integer or bytes.
    """
    if isinstance(key, str):
        value = string_hash(key)
    elif isinstance(key, int):
        value = key if -(1 << 31) <= key < 1 << 31 else key ^ (key >> 32)
    elif isinstance(key, bytes | bytearray | memoryview):
        value = 1
        for byte in bytes(key):
            value = 31 * value + (byte if byte < 128 else byte - 256)
    else:
        raise TypeError(f"{type(key).__name__} has no hash of Java's; give a part_key or a partitioner")
    return (value & 0x7FFFFFFF) % count


def _bytes(data: Any) -> bytes:  # noqa: ANN401 - whatever bytes() takes
    if isinstance(data, str | int):
        raise TypeError(f"{type(data).__name__} is not bytes; set serializer.class")
    return bytes(data)


def _text(data: Any) -> bytes:  # noqa: ANN401 - whatever has a text
    return str(data).encode()


def _nothing(_: object) -> None:
    return None


_ENCODERS: Final[Mapping[str, Encoder]] = {
    "DefaultEncoder": _bytes,
    "StringEncoder": _text,
    "NullEncoder": _nothing,
    "IntegerEncoder": struct.Struct(">i").pack,
    "LongEncoder": struct.Struct(">q").pack,
}
_PARTITIONERS: Final[Mapping[str, Partitioner]] = {
    "DefaultPartitioner": default_partition,
    "ByteArrayPartitioner": default_partition,
}


def _named(key: str, name: str, known: Mapping[str, Any]) -> Any:  # noqa: ANN401 - typed by the mapping
    package, _, simple = name.rpartition(".")
    if package not in {"", "kafka.serializer", "kafka.producer"} or simple not in known:
        raise ConfigError(key, f"must be one of {', '.join(known)}; give others as arguments", name)
    return known[simple]
