"""Consumers of Python, each in a process of its own.

``python -m benchmarks.consumers WAY BOOTSTRAP TOPIC PARTITIONS SECONDS`` reads a topic from its beginning, again and
again, for so many seconds from the first record on, and prints one line of JSON: records, seconds, CPU seconds of the
process. Bulk ways count records as they come in lists; iterating ways look at the value of each record.
"""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any, Final

from benchmarks import client_process

_BULK: Final = 10_000
_BURST: Final = (
    500  # what the others get of a poll; counting each record would be a good part of what is measured
)
# At the end of the topic all of them ask for what is not there yet, and nobody's answer to that is measured.
_FETCH_WAIT_MS: Final = 1
_CONFLUENT_BULK: Final = 1_000  # it is slower with more: they leave the cache
_CONFLUENT_WAIT_S: Final = (
    0.02  # it waits for as many as it was asked for, and at the end of the topic in vain
)

Counts = Generator[int, None, None]


def pkafka_bulk(bootstrap: str, topic: str, partitions: int) -> Counts:
    """Chunks of columns."""
    for consumer in _pkafka(bootstrap, topic, partitions):
        yield sum(map(len, consumer.poll_chunks(1_000, records_max=_BULK)))


def pkafka_poll(bootstrap: str, topic: str, partitions: int) -> Counts:
    """Records, one by one."""
    for consumer in _pkafka(bootstrap, topic, partitions):
        count = 0
        for record in consumer.poll(1_000):
            count += len(record.value) > 0
        yield count


def _pkafka(bootstrap: str, topic: str, partitions: int) -> Iterator[Any]:
    from pkafka.clients.consumer import Consumer
    from pkafka.model import TopicPartition

    config = {"bootstrap.servers": bootstrap, "fetch.max.wait.ms": _FETCH_WAIT_MS}
    with Consumer(config) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        consumer.seek_to_beginning()
        while True:
            yield consumer
            if all(consumer.lag(each) == 0 for each in consumer.assignment()):
                consumer.seek_to_beginning()


def confluent_bulk(bootstrap: str, topic: str, partitions: int) -> Counts:
    """``consume(n)``, without a look at the messages."""
    for consumer in _confluent(bootstrap, topic, partitions):
        yield len(
            [each for each in consumer.consume(_CONFLUENT_BULK, _CONFLUENT_WAIT_S) if each.error() is None]
        )


def confluent_poll(bootstrap: str, topic: str, partitions: int) -> Counts:
    """``poll()``, message by message."""
    for consumer in _confluent(bootstrap, topic, partitions):
        count = 0
        for _ in range(_BURST):
            message = consumer.poll(_CONFLUENT_WAIT_S)
            if message is None:
                break  # the end of the topic
            count += message.error() is None and len(message.value()) > 0
        yield count


def _confluent(bootstrap: str, topic: str, partitions: int) -> Iterator[Any]:
    import confluent_kafka

    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "b",
        "enable.auto.commit": False,
        "log_level": 0,
        "fetch.wait.max.ms": _FETCH_WAIT_MS,
        # By default it rests for a second whenever it has 100,000 records in hand, which would be all that is measured.
        "fetch.queue.backoff.ms": 1,
    }
    consumer = confluent_kafka.Consumer(config)
    begin = [
        confluent_kafka.TopicPartition(topic, each, confluent_kafka.OFFSET_BEGINNING)
        for each in range(partitions)
    ]
    ends = [consumer.get_watermark_offsets(each, timeout=30)[1] for each in begin]
    consumer.assign(begin)
    try:
        while True:
            yield consumer
            if all(at.offset >= end for at, end in zip(consumer.position(begin), ends, strict=True)):
                for each in begin:
                    consumer.seek(each)
    finally:
        consumer.close()


def kafka_python_bulk(bootstrap: str, topic: str, partitions: int) -> Counts:
    """``poll(max_records=n)``."""
    for consumer in _kafka_python(bootstrap, topic, partitions):
        yield sum(map(len, consumer.poll(1_000, max_records=_BULK).values()))


def kafka_python_poll(bootstrap: str, topic: str, partitions: int) -> Counts:
    """Records, one by one."""
    for consumer in _kafka_python(bootstrap, topic, partitions):
        count = 0
        for records in consumer.poll(1_000).values():
            for record in records:
                count += len(record.value) > 0
        yield count


def _kafka_python(bootstrap: str, topic: str, partitions: int) -> Iterator[Any]:
    import kafka

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, fetch_max_wait_ms=_FETCH_WAIT_MS
    )
    assigned = [kafka.TopicPartition(topic, index) for index in range(partitions)]
    consumer.assign(assigned)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(assigned)
    try:
        while True:
            yield consumer
            if all(consumer.position(each) >= ends[each] for each in assigned):
                consumer.seek_to_beginning()
    finally:
        consumer.close()


async def aiokafka_bulk(bootstrap: str, topic: str, partitions: int) -> AsyncGenerator[int, None]:
    """``getmany()``."""
    async for consumer in _aiokafka(bootstrap, topic, partitions):
        found = await consumer.getmany(timeout_ms=1_000, max_records=_BULK)
        yield sum(map(len, found.values()))


async def aiokafka_poll(bootstrap: str, topic: str, partitions: int) -> AsyncGenerator[int, None]:
    """``getone()``."""
    async for consumer in _aiokafka(bootstrap, topic, partitions):
        count = 0
        ends = {
            each: consumer.highwater(each) for each in consumer.assignment()
        }  # None before the first fetch
        left = sum([end - await consumer.position(each) if end else 1 for each, end in ends.items()])
        for _ in range(min(_BURST, left)):
            count += len((await consumer.getone()).value) > 0
        yield count


async def _aiokafka(bootstrap: str, topic: str, partitions: int) -> AsyncIterator[Any]:
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, fetch_max_wait_ms=_FETCH_WAIT_MS
    )
    await consumer.start()
    assigned = [aiokafka.TopicPartition(topic, index) for index in range(partitions)]
    consumer.assign(assigned)
    await consumer.seek_to_beginning()
    ends = await consumer.end_offsets(assigned)
    try:
        while True:
            yield consumer
            if all([await consumer.position(each) >= ends[each] for each in assigned]):
                await consumer.seek_to_beginning()
    finally:
        await consumer.stop()


WAYS: Final[dict[str, Callable[[str, str, int], Any]]] = {
    way.__name__: way
    for way in (
        pkafka_bulk,
        pkafka_poll,
        confluent_bulk,
        confluent_poll,
        kafka_python_bulk,
        kafka_python_poll,
        aiokafka_bulk,
        aiokafka_poll,
    )
}


def main() -> None:
    """Run one of :data:`WAYS` in this process."""
    way, bootstrap, topic, partitions, seconds = sys.argv[1:]
    client_process.count(WAYS[way](bootstrap, topic, int(partitions)), float(seconds), finish=False)


if __name__ == "__main__":
    main()
