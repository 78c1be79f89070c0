"""Consumers of other makers as members of one group, on Apache Kafka and on pkafka."""

import asyncio
import subprocess
import time
from contextlib import ExitStack

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from tests.interop.conftest import System
from tests.talk import Talk, talking, wait_for

PARTITIONS = 4
PER_PARTITION = 25


def filled(talk: Talk, topic: str) -> set[tuple[int, int]]:
    """A topic with messages; where they are."""
    talk.create(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        talk.send(topic, *(b"%d" % number for number in range(PER_PARTITION)), partition=partition)
    return {(partition, offset) for partition in range(PARTITIONS) for offset in range(PER_PARTITION)}


def test_two_consumers_of_librdkafka_share_a_topic(system: System, topic: str) -> None:
    group = f"{topic}-group"
    settings = {
        "bootstrap.servers": system.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with talking(system.bootstrap) as talk, ExitStack() as stack:
        everything = filled(talk, topic)
        seen: set[tuple[int, int]] = set()
        consumers = [Consumer(settings) for _ in range(2)]
        for consumer in consumers:
            stack.callback(consumer.close)
            consumer.subscribe([topic])

        def poll() -> set[tuple[int, int]]:
            for consumer in consumers:
                for message in consumer.consume(50, timeout=0.1):
                    assert message.error() is None, message.error()
                    seen.add((message.partition() or 0, message.offset() or 0))
            return seen

        def is_shared() -> bool:
            poll()
            return sorted(len(one.assignment()) for one in consumers) == [2, 2]

        def have_read_their_shares() -> bool:
            poll()
            positions = [
                one.offset for consumer in consumers for one in consumer.position(consumer.assignment())
            ]
            return positions == [PER_PARTITION] * PARTITIONS

        wait_for(is_shared, what="two assignments")
        # Who had all partitions before the other one came may have read them all: that counts for nothing.
        wait_for(have_read_their_shares, what="all messages")
        assert seen == everything
        for consumer in consumers:
            consumer.commit(asynchronous=False)
        consumers[0].unsubscribe()
        wait_for(lambda: poll() and len(consumers[1].assignment()) == PARTITIONS, what="the other's share")
        committed = consumers[1].committed(consumers[1].assignment(), timeout=10)
        assert [one.offset for one in committed] == [PER_PARTITION] * PARTITIONS


@pytest.mark.usefixtures("sockets_of_kafka_python")
def test_a_consumer_of_kafka_python_goes_on_where_another_stopped(system: System, topic: str) -> None:
    group = f"{topic}-group"

    def read(most: int) -> set[tuple[int, int]]:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=system.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=most,
        )
        seen: set[tuple[int, int]] = set()
        try:
            deadline = time.monotonic() + 30
            while len(seen) < most and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=500, max_records=most - len(seen)).values():
                    seen |= {(record.partition, record.offset) for record in records}
            consumer.commit()
        finally:
            consumer.close()
        return seen

    with talking(system.bootstrap) as talk:
        everything = filled(talk, topic)
        first = read(30)
        second = read(PARTITIONS * PER_PARTITION - 30)
        assert not first & second
        assert first | second == everything


def test_consumers_of_aiokafka_join_and_leave(system: System, topic: str) -> None:
    group = f"{topic}-group"

    async def consume(everything: set[tuple[int, int]]) -> None:
        consumers = [
            AIOKafkaConsumer(
                topic,
                bootstrap_servers=system.bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=200,
            )
            for _ in range(3)
        ]
        seen: set[tuple[int, int]] = set()
        try:
            await asyncio.gather(*(consumer.start() for consumer in consumers))
            async with asyncio.timeout(60):
                while seen != everything or sorted(len(one.assignment()) for one in consumers) != [1, 1, 2]:
                    for consumer in consumers:
                        for records in (await consumer.getmany(timeout_ms=100)).values():
                            seen |= {(record.partition, record.offset) for record in records}
                            await consumer.commit()
                await consumers.pop().stop()
                while sorted(len(one.assignment()) for one in consumers) != [2, 2]:
                    for consumer in consumers:
                        await consumer.getmany(timeout_ms=100)
        finally:
            await asyncio.gather(*(consumer.stop() for consumer in consumers))

    with talking(system.bootstrap) as talk:
        asyncio.run(consume(filled(talk, topic)))


def test_kcat_in_a_group(system: System, topic: str) -> None:
    with talking(system.bootstrap) as talk:
        filled(talk, topic)
    words = [
        "kcat",
        "-b",
        system.bootstrap,
        "-G",
        f"{topic}-group",
        "-e",
        "-q",
        "-X",
        "auto.offset.reset=earliest",
    ]

    def lines() -> int:
        done = subprocess.run([*words, topic], capture_output=True, timeout=60, check=True)
        return len(done.stdout.splitlines())

    assert lines() == PARTITIONS * PER_PARTITION
    assert lines() == 0
