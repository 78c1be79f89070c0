"""Transactions of the clients of others: each commits and aborts, and each reads exactly what is committed."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from pkafka.clients.admin.coordinators import CoordinatorType, find_coordinators
from pkafka.clients.consumer import Consumer
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tests.interop.conftest import System
from tests.talk import Talk, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PARTITIONS = 3
TRANSACTIONS = 12
EACH = 10

Values = dict[int, list[bytes]]
"""By partition, in order."""


def plan(name: str) -> Iterator[tuple[list[tuple[int, bytes]], bool]]:
    """The records of each transaction with their partitions, and whether it is committed: every third is not."""
    for number in range(TRANSACTIONS):
        records = [
            (place % PARTITIONS, b"%s-%d-%d" % (name.encode(), number, place)) for place in range(EACH)
        ]
        yield records, number % 3 != 2


def committed_of(name: str) -> Values:
    values: Values = {partition: [] for partition in range(PARTITIONS)}
    for records, is_committed in plan(name):
        for partition, value in records if is_committed else ():
            values[partition].append(value)
    return values


# -- producers --


def confluent_sends(bootstrap: str, topic: str) -> None:
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-confluent"})
    producer.init_transactions(30)
    for records, is_committed in plan("confluent"):
        producer.begin_transaction()
        for partition, value in records:
            producer.produce(topic, value, partition=partition)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)


def kafka_python_sends(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-kafka-python")
    try:
        producer.init_transactions()
        for records, is_committed in plan("kafka-python"):
            producer.begin_transaction()
            for partition, value in records:
                producer.send(topic, value, partition=partition)
            if is_committed:
                producer.commit_transaction()
            else:
                producer.flush(30)
                producer.abort_transaction()
    finally:
        producer.close(timeout=20)


def aiokafka_sends(bootstrap: str, topic: str) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-aiokafka")
        await producer.start()
        try:
            for records, is_committed in plan("aiokafka"):
                await producer.begin_transaction()
                sent = [
                    await producer.send(topic, value, partition=partition) for partition, value in records
                ]
                if is_committed:
                    await producer.commit_transaction()
                else:
                    await asyncio.gather(*sent)
                    await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(send(), timeout=90))


PRODUCERS: Mapping[str, Callable[[str, str], None]] = {
    "confluent": confluent_sends,
    "kafka-python": kafka_python_sends,
    "aiokafka": aiokafka_sends,
}


# -- consumers: each reads what is committed until it has so many records, and a little longer --


def confluent_reads(bootstrap: str, topic: str, count: int) -> Values:
    keys = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-r", "isolation.level": "read_committed"}
    consumer = ConfluentConsumer({**keys, "enable.auto.commit": False})
    found: Values = {partition: [] for partition in range(PARTITIONS)}
    try:
        consumer.assign([ConfluentPartition(topic, each, OFFSET_BEGINNING) for each in found])
        for message in _until_quiet(lambda: consumer.poll(0.2), count):
            assert message.error() is None
            found[message.partition()].append(message.value())
    finally:
        consumer.close()
    return found


def kafka_python_reads(bootstrap: str, topic: str, count: int) -> Values:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    found: Values = {partition: [] for partition in range(PARTITIONS)}
    try:
        consumer.assign([PythonPartition(topic, each) for each in found])
        for records in _until_quiet(lambda: consumer.poll(timeout_ms=200), count, size=_size_of):
            for partition, some in records.items():
                found[partition.partition] += [record.value for record in some]
    finally:
        consumer.close()
    return found


def _size_of(records: Mapping[object, list[object]]) -> int:
    return sum(len(some) for some in records.values())


def aiokafka_reads(bootstrap: str, topic: str, count: int) -> Values:
    async def read() -> Values:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            group_id=None,
            isolation_level="read_committed",
        )
        await consumer.start()
        found: Values = {partition: [] for partition in range(PARTITIONS)}
        have, quiet = 0, 0
        try:
            consumer.assign([AioPartition(topic, each) for each in found])
            while have < count or quiet < 2:
                records = await consumer.getmany(timeout_ms=200)
                quiet = 0 if records else quiet + 1
                for partition, some in records.items():
                    have += len(some)
                    found[partition.partition] += [record.value for record in some]
        finally:
            await consumer.stop()
        return found

    return asyncio.run(asyncio.wait_for(read(), timeout=60))


def pkafka_reads(bootstrap: str, topic: str, count: int) -> Values:
    keys = {
        "bootstrap.servers": bootstrap,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    found: Values = {partition: [] for partition in range(PARTITIONS)}
    with Consumer(keys) as consumer:
        consumer.assign([TopicPartition(topic, each) for each in found])
        for records in _until_quiet(lambda: list(consumer.poll(200)), count, size=len):
            for record in records:
                found[record.partition].append(record.value or b"")
    return found


def _until_quiet(
    poll: Callable[[], object], count: int, size: Callable[..., int] = lambda _one: 1
) -> Iterator:  # type: ignore[type-arg]
    have, quiet = 0, 0
    deadline = time.monotonic() + 60
    while (have < count or quiet < 2) and time.monotonic() < deadline:
        found = poll()
        quiet = 0 if found else quiet + 1
        if found:
            have += size(found)
            yield found


CONSUMERS: Mapping[str, Callable[[str, str, int], Values]] = {
    "confluent": confluent_reads,
    "kafka-python": kafka_python_reads,
    "aiokafka": aiokafka_reads,
    "pkafka": pkafka_reads,
}


def ended(talk: Talk, transactional_id: str) -> None:
    """Wait until the markers of the last transaction are written."""
    cluster = talk.admin.cluster

    def is_over() -> bool:
        found = find_coordinators(cluster, [transactional_id], CoordinatorType.TRANSACTION)[transactional_id]
        assert not isinstance(found, ApiError)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = cluster.request(request, DescribeTransactionsResponse, to=found.id)
        return answer.transaction_states[0].transaction_state.startswith("Complete")

    wait_for(is_over, what="the end of the transaction")


@pytest.mark.usefixtures("sockets_of_kafka_python")
@pytest.mark.parametrize("producer", PRODUCERS)
def test_every_client_reads_exactly_what_another_has_committed(
    system: System, talk: Talk, topic: str, producer: str
) -> None:
    talk.create(topic, PARTITIONS)
    PRODUCERS[producer](system.bootstrap, topic)
    ended(talk, f"{topic}-{producer}")
    expected = committed_of(producer)
    count = sum(map(len, expected.values()))
    for name, reads in CONSUMERS.items():
        assert reads(system.bootstrap, topic, count) == expected, name
    assert talk.ends(topic)[1] > len(expected[0])  # the aborted ones and the markers are in the log
