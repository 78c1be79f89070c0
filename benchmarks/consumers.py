"""Consumers of Python, each in a process of its own.

``python -m benchmarks.consumers WAY BOOTSTRAP TOPIC PARTITIONS SECONDS`` reads a topic from its beginning, again and
again, for so many seconds from the first record on, and prints one line of JSON: records, seconds, CPU seconds of the
process. Bulk ways count records as they come in lists; iterating ways look at the value of each record.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

FIRST_RECORD_S: Final = 60.0
_BULK: Final = 10_000
_CONFLUENT_BULK: Final = 1_000  # it is slower with more: they leave the cache

Counts = Iterator[int]


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

    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        consumer.seek_to_beginning()
        while True:
            yield consumer
            if all(consumer.lag(each) == 0 for each in consumer.assignment()):
                consumer.seek_to_beginning()


def confluent_bulk(bootstrap: str, topic: str, partitions: int) -> Counts:
    """``consume(n)``, without a look at the messages."""
    for consumer in _confluent(bootstrap, topic, partitions):
        yield len([each for each in consumer.consume(_CONFLUENT_BULK, 1.0) if each.error() is None])


def confluent_poll(bootstrap: str, topic: str, partitions: int) -> Counts:
    """``poll()``, message by message."""
    for consumer in _confluent(bootstrap, topic, partitions):
        message = consumer.poll(1.0)
        yield int(message is not None and message.error() is None and len(message.value()) > 0)


def _confluent(bootstrap: str, topic: str, partitions: int) -> Iterator[Any]:
    import confluent_kafka

    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "b",
        "enable.auto.commit": False,
        "log_level": 0,
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
    polls = 0
    try:
        while True:
            yield consumer
            polls += 1
            if polls % 64 == 0 and all(
                at.offset >= end for at, end in zip(consumer.position(begin), ends, strict=True)
            ):
                consumer.assign(begin)
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

    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
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


async def aiokafka_bulk(bootstrap: str, topic: str, partitions: int) -> AsyncIterator[int]:
    """``getmany()``."""
    async for consumer in _aiokafka(bootstrap, topic, partitions):
        found = await consumer.getmany(timeout_ms=1_000, max_records=_BULK)
        yield sum(map(len, found.values()))


async def aiokafka_poll(bootstrap: str, topic: str, partitions: int) -> AsyncIterator[int]:
    """``getone()``."""
    async for consumer in _aiokafka(bootstrap, topic, partitions):
        yield int(len((await consumer.getone()).value) > 0)


async def _aiokafka(bootstrap: str, topic: str, partitions: int) -> AsyncIterator[Any]:
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    assigned = [aiokafka.TopicPartition(topic, index) for index in range(partitions)]
    consumer.assign(assigned)
    await consumer.seek_to_beginning()
    ends = await consumer.end_offsets(assigned)
    polls = 0
    try:
        while True:
            yield consumer
            polls += 1
            if polls % 64 == 0 and all([await consumer.position(each) >= ends[each] for each in assigned]):
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


class _Count:
    """Counts for so many seconds from the first record on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._latest = time.perf_counter() + FIRST_RECORD_S
        self._begin = self._cpu = 0.0
        self._records = 0

    def add(self, records: int) -> bool:
        """Take note of records; returns whether there is time for more."""
        now = time.perf_counter()
        if not self._begin:
            if now > self._latest:
                raise TimeoutError("no record came")
            if records:
                self._begin, self._cpu = now, time.process_time()
                self._latest = now + self._seconds
            return True
        self._records += records
        return now < self._latest

    def line(self) -> str:
        """What was counted, as JSON."""
        return json.dumps(
            {
                "records": self._records,
                "seconds": time.perf_counter() - self._begin,
                "cpu_s": time.process_time() - self._cpu,
            }
        )


async def _count_async(counts: AsyncIterator[int], count: _Count) -> None:
    async for records in counts:
        if not count.add(records):
            return


def main() -> None:
    """Run one of :data:`WAYS` in this process."""
    way, bootstrap, topic, partitions, seconds = sys.argv[1:]
    count = _Count(float(seconds))
    counts = WAYS[way](bootstrap, topic, int(partitions))
    if isinstance(counts, AsyncIterator):
        asyncio.run(_count_async(counts, count))
    else:
        for records in counts:
            if not count.add(records):
                break
    print(count.line(), flush=True)
    os._exit(0)  # the line is the result; how long a client takes to close is not measured


if __name__ == "__main__":
    main()
