"""Producers of Python, each in a process of its own.

``python -m benchmarks.producers WAY BOOTSTRAP TOPIC BYTES SECONDS`` sends records of so many bytes, acks=all,
no codec, for so many seconds, waits until all are acknowledged, and prints one line of JSON: records, seconds, CPU
seconds of the process. Every client has its own defaults, but for what keeps its queue from overflowing. Bulk ways
hand lists over, the others one record after the other.
"""

import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any, Final

from benchmarks import client_process

_LIST: Final = 1_000
_BURST: Final = 1_000
_KEYS: Final = [b"key-%d" % number for number in range(_BURST)]
_HEADERS: Final = [("origin", b"benchmark")]
_QUEUE: Final = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 512_000}

Counts = Generator[int, None, None]
"""How many more were handed over; the end of the iterator is the end of the sending."""


def pkafka_bulk(bootstrap: str, topic: str, value: bytes) -> Counts:
    """``send_batch()`` of lists."""
    from pkafka.clients.producer import Producer

    values = [value] * _LIST
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        future = producer.send_batch(topic, values)
        try:
            while True:
                future = producer.send_batch(topic, values)
                yield _LIST
        finally:
            producer.flush()
            future.result(0)


def pkafka_send(bootstrap: str, topic: str, value: bytes) -> Counts:
    """``send()``, record by record."""
    from pkafka.clients.producer import Producer

    with Producer({"bootstrap.servers": bootstrap}) as producer:
        future = producer.send(topic, value)
        try:
            while True:
                for _ in range(_BURST):
                    future = producer.send(topic, value)
                yield _BURST
        finally:
            producer.flush()
            future.result(0)


def pkafka_send_all(bootstrap: str, topic: str, value: bytes) -> Counts:
    """``send()`` with a key, a header and a callback."""
    from pkafka.clients.producer import Producer, RecordMetadata

    done = 0

    def callback(_metadata: RecordMetadata, error: Exception | None) -> None:
        nonlocal done
        done += error is None

    with Producer({"bootstrap.servers": bootstrap}) as producer:
        handed_over = 0
        try:
            while True:
                for key in _KEYS:
                    producer.send(topic, value, key, headers=_HEADERS, callback=callback)
                handed_over += len(_KEYS)
                yield len(_KEYS)
        finally:
            producer.flush()
            assert done == handed_over


def confluent_bulk(bootstrap: str, topic: str, value: bytes) -> Counts:
    """``produce_batch()`` of lists."""
    for producer in _confluent(bootstrap):
        messages = [{"value": value} for _ in range(_LIST)]
        yield int(producer.produce_batch(topic, messages))
        producer.poll(0)


def confluent_send(bootstrap: str, topic: str, value: bytes) -> Counts:
    """``produce()``, record by record."""
    for producer in _confluent(bootstrap):
        for _ in range(_BURST):
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
        yield _BURST


def confluent_send_all(bootstrap: str, topic: str, value: bytes) -> Counts:
    """``produce()`` with a key, a header and a callback."""
    done = 0

    def callback(error: object, _message: object) -> None:
        nonlocal done
        done += error is None

    for producer in _confluent(bootstrap):
        for key in _KEYS:
            while True:
                try:
                    producer.produce(topic, value, key, headers=_HEADERS, on_delivery=callback)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
        yield len(_KEYS)


def _confluent(bootstrap: str) -> Iterator[Any]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **_QUEUE})
    try:
        while True:
            yield producer
            while len(producer) > _QUEUE["queue.buffering.max.messages"] - _LIST:
                producer.poll(0.01)
    finally:
        assert producer.flush(60) == 0


def kafka_python_send(bootstrap: str, topic: str, value: bytes) -> Counts:
    """``send()``, record by record."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    try:
        while True:
            for _ in range(_BURST):
                producer.send(topic, value)
            yield _BURST
    finally:
        producer.flush()


async def aiokafka_send(bootstrap: str, topic: str, value: bytes) -> AsyncGenerator[int, None]:
    """``send()``, record by record, with a wait for the last of a burst now and then."""
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        try:
            while True:
                for _ in range(_BURST):
                    await producer.send(topic, value)
                yield _BURST
        finally:
            await producer.flush()


async def aiokafka_bulk(bootstrap: str, topic: str, value: bytes) -> AsyncGenerator[int, None]:
    """Batches filled by hand, sent as they are."""
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        try:
            while True:
                batch = producer.create_batch()
                while batch.append(key=None, value=value, timestamp=None) is not None:
                    pass
                await producer.send_batch(batch, topic, partition=0)
                yield batch.record_count()
        finally:
            await producer.flush()


WAYS: Final[dict[str, Callable[[str, str, bytes], Any]]] = {
    way.__name__: way
    for way in (
        pkafka_bulk,
        pkafka_send,
        pkafka_send_all,
        confluent_bulk,
        confluent_send,
        confluent_send_all,
        kafka_python_send,
        aiokafka_bulk,
        aiokafka_send,
    )
}


def main() -> None:
    """Run one of :data:`WAYS` in this process."""
    way, bootstrap, topic, record_bytes, seconds = sys.argv[1:]
    client_process.count(WAYS[way](bootstrap, topic, bytes(int(record_bytes))), float(seconds), finish=True)


if __name__ == "__main__":
    main()
