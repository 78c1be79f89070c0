"""Clients of asyncio, each in a process of its own.

``python -m benchmarks.asyncio_clients WAY BOOTSTRAP TOPIC BYTES SECONDS`` sends records of so many bytes one by one, or
reads a topic of such records again and again, for so many seconds, and prints one line of JSON: records, seconds, CPU
seconds of the process. Senders have acks=all and no codec, and await the outcomes of a group before they go on.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from benchmarks import client_process

_GROUP: Final = 1_000
# At the end of the topic both clients wait for new records; the benchmark does not count that time.
_FETCH_WAIT_MS: Final = 1

Counts = AsyncGenerator[int, None]


async def pkafka_send(bootstrap: str, topic: str, record_bytes: int) -> Counts:
    """``send()``, and the outcomes of a group."""
    from pkafka.clients.aio import AsyncProducer

    value = bytes(record_bytes)
    async with AsyncProducer({"bootstrap.servers": bootstrap}) as producer:
        while True:
            await asyncio.gather(*[await producer.send(topic, value) for _ in range(_GROUP)])
            yield _GROUP


async def aiokafka_send(bootstrap: str, topic: str, record_bytes: int) -> Counts:
    """The same with aiokafka."""
    from aiokafka import AIOKafkaProducer

    value = bytes(record_bytes)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        while True:
            await asyncio.gather(*[await producer.send(topic, value) for _ in range(_GROUP)])
            yield _GROUP


async def pkafka_send_in_turn(bootstrap: str, topic: str, record_bytes: int) -> Counts:
    """``send()`` of a group, and the outcomes one after the other: without what ``gather()`` costs."""
    from pkafka.clients.aio import AsyncProducer

    value = bytes(record_bytes)
    async with AsyncProducer({"bootstrap.servers": bootstrap}) as producer:
        while True:
            for outcome in [await producer.send(topic, value) for _ in range(_GROUP)]:
                await outcome
            yield _GROUP


async def aiokafka_send_in_turn(bootstrap: str, topic: str, record_bytes: int) -> Counts:
    """The same with aiokafka."""
    from aiokafka import AIOKafkaProducer

    value = bytes(record_bytes)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        while True:
            for outcome in [await producer.send(topic, value) for _ in range(_GROUP)]:
                await outcome
            yield _GROUP


async def pkafka_read(bootstrap: str, topic: str, _record_bytes: int) -> Counts:
    """``getone()``, up to the end of the topic and again."""
    from pkafka.clients.aio import AsyncConsumer
    from pkafka.model import TopicPartition

    partition = TopicPartition(topic, 0)
    async with AsyncConsumer(
        {"bootstrap.servers": bootstrap, "fetch.max.wait.ms": _FETCH_WAIT_MS}
    ) as consumer:
        await consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while True:
            await consumer.seek_to_beginning()
            left = end
            while left:
                burst = min(_GROUP, left)
                yield sum([len((await consumer.getone()).value) > 0 for _ in range(burst)])
                left -= burst


async def aiokafka_read(bootstrap: str, topic: str, _record_bytes: int) -> Counts:
    """The same with aiokafka."""
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, fetch_max_wait_ms=_FETCH_WAIT_MS
    )
    await consumer.start()
    partition = aiokafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    end = (await consumer.end_offsets([partition]))[partition]
    try:
        while True:
            if await consumer.position(partition) >= end:
                consumer.seek(partition, 0)
            left = end - await consumer.position(partition)
            while left:
                burst = min(_GROUP, left)
                yield sum([len((await consumer.getone()).value) > 0 for _ in range(burst)])
                left -= burst
    finally:
        await consumer.stop()


WAYS: Final[dict[str, Callable[[str, str, int], Any]]] = {
    way.__name__: way
    for way in (
        pkafka_send,
        aiokafka_send,
        pkafka_send_in_turn,
        aiokafka_send_in_turn,
        pkafka_read,
        aiokafka_read,
    )
}


def main() -> None:
    """Run one of :data:`WAYS` in this process."""
    way, bootstrap, topic, record_bytes, seconds = sys.argv[1:]
    counts = WAYS[way](bootstrap, topic, int(record_bytes))
    client_process.count(counts, float(seconds), finish="_send" in way)


if __name__ == "__main__":
    main()
