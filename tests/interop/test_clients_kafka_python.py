"""kafka-python, without a group, on Apache Kafka and on pkafka."""

import time

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from tests.interop.conftest import System

TIMEOUT_S = 60


@pytest.mark.usefixtures("sockets_of_kafka_python")
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_there_and_back(system: System, topic: str, codec: str, idempotent: bool) -> None:
    now = int(time.time() * 1000)
    producer = KafkaProducer(
        bootstrap_servers=system.bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        linger_ms=10,
    )
    try:
        futures = [
            producer.send(
                topic,
                key=b"key %d" % number,
                value=b"value %d" % number,
                headers=[("number", b"%d" % number)],
                partition=0,
                timestamp_ms=now + number,
            )
            for number in range(300)
        ]
        assert [future.get(timeout=TIMEOUT_S).offset for future in futures] == list(range(300))
    finally:
        producer.close(timeout=TIMEOUT_S)

    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=system.bootstrap, auto_offset_reset="earliest")
    try:
        consumer.assign([partition])
        records: list[ConsumerRecord] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(records) < 300 and time.monotonic() < deadline:
            records += consumer.poll(timeout_ms=1_000).get(partition, [])
        assert [record.offset for record in records] == list(range(300))
        assert [record.timestamp for record in records] == list(range(now, now + 300))
        assert records[7].key == b"key 7"
        assert records[7].value == b"value 7"
        assert list(records[7].headers) == [("number", b"7")]
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 300}
        assert consumer.offsets_for_times({partition: now + 5})[partition].offset == 5
    finally:
        consumer.close()
