"""aiokafka, without a group, on Apache Kafka and on pkafka."""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.interop.conftest import System

COUNT = 300


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_there_and_back(system: System, topic: str, codec: str | None) -> None:
    asyncio.run(asyncio.wait_for(there_and_back(system.bootstrap, topic, codec), timeout=60))


async def there_and_back(bootstrap: str, topic: str, codec: str | None) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()

    now = int(time.time() * 1000)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=True, linger_ms=10
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                topic,
                key=b"key %d" % number,
                value=b"value %d" % number,
                headers=[("number", b"%d" % number)],
                partition=0,
                timestamp_ms=now + number,
            )
            for number in range(COUNT)
        ]
        assert [ack.offset for ack in await asyncio.gather(*sent)] == list(range(COUNT))
    finally:
        await producer.stop()

    partition = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    await consumer.start()
    try:
        consumer.assign([partition])
        records = [await consumer.getone() for _ in range(COUNT)]
        assert [record.offset for record in records] == list(range(COUNT))
        assert [record.timestamp for record in records] == list(range(now, now + COUNT))
        assert (records[7].key, records[7].value) == (b"key 7", b"value 7")
        assert records[7].headers == (("number", b"7"),)
        assert await consumer.end_offsets([partition]) == {partition: COUNT}
        assert (await consumer.offsets_for_times({partition: now + 5}))[partition].offset == 5
    finally:
        await consumer.stop()
