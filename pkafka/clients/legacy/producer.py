"""The producer of Kafka 0.8: its keys, defaults and semantics over today's protocol.

``sync`` sends what one call is given and waits; ``async`` puts messages into a bounded queue from which one thread
sends batches. Defaults are 0.8's, so ``request.required.acks`` is 0: the broker does not say whether a message arrived.
"""

import logging
import queue
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self, TypeAlias

from pkafka.clients.errors import ClosedError
from pkafka.clients.legacy.config import OldProducerConfig
from pkafka.clients.legacy.errors import FailedToSendMessageError, QueueFullError
from pkafka.clients.legacy.event_handler import Encoded, EventHandler, Partitioner
from pkafka.clock import Clock, SystemClock
from pkafka.coordination.znode_json import string_hash
from pkafka.errors import ConfigError

Encoder: TypeAlias = Callable[[Any], bytes | None]

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


class OldProducer:
    """Sends messages as the producer of Kafka 0.8 does. Thread-safe.

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
        partition = partitioner or _named("partitioner.class", names.partitioner_class, _PARTITIONERS)
        self._handler = EventHandler(self.config, partition, clock or SystemClock())
        self._lock = threading.Lock()
        self._closed = False
        self._queue: queue.Queue[Encoded | None] | None = None
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
            Encoded(
                each.topic,
                None if each.key is None else self._encode_key(each.key),
                None if each.message is None else self._encode(each.message),
                each.partition_key,
            )
            for each in messages
        ]
        if self._queue is None:
            self._handler.handle(encoded)
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
        self._handler.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- async --------------------------------------------------------------------------------------------

    def _enqueue(self, waiting: "queue.Queue[Encoded | None]", message: Encoded) -> None:
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
        batch: list[Encoded] = []
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

    def _deliver_or_drop(self, batch: Sequence[Encoded]) -> None:
        if not batch:
            return
        try:
            self._handler.handle(batch)
        except FailedToSendMessageError as error:
            # The application does not wait for the outcome: the log is all there is, as in 0.8.
            logger.error("Error in handling batch of %d events: %s", len(batch), error.__cause__ or error)


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
