"""A member of a group that copies records from one topic to another in transactions, and dies where it is told.

Arguments: the keys below as JSON. Ends when everything is copied.

    bootstrap, source, target, group: from where to where, and as whom
    die_at: the number of the step at which to die; -1: at none
    die_after_ms: how long after joining the group begins to die, wherever that is; -1: not
"""

import json
import os
import signal
import sys
import threading

from pkafka.clients.consumer import Consumer, ConsumerRecords
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition


def main() -> None:
    told = json.loads(sys.argv[1])
    steps_left: int = told["die_at"]

    def step() -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left == 0:
            _die()

    def copy(records: ConsumerRecords) -> None:
        step()
        with producer.transaction():
            for record in records:
                producer.send(told["target"], record.value, record.key, partition=record.partition)
                step()
            producer.flush()
            step()
            positions: dict[TopicPartition, int] = {}
            for record in records:
                positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
            producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            step()
        step()

    consumer_keys = {
        "bootstrap.servers": told["bootstrap"],
        "group.id": told["group"],
        # A member that comes back under its name gets its partitions at once.
        "group.instance.id": "copier",
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "max.poll.records": "7",
    }
    producer_keys = {"bootstrap.servers": told["bootstrap"], "transactional.id": told["group"]}
    with Producer(producer_keys) as producer, Consumer(consumer_keys) as consumer:
        producer.init_transactions()
        consumer.subscribe([told["source"]])
        if told["die_after_ms"] >= 0:
            threading.Timer(told["die_after_ms"] / 1_000, _die).start()
        while not is_at_end(consumer):
            records = consumer.poll(500)
            if records:
                copy(records)


def is_at_end(consumer: Consumer) -> bool:
    ends = consumer.end_offsets(consumer.assignment())
    return bool(ends) and all(consumer.position(partition) == end for partition, end in ends.items())


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


main()
