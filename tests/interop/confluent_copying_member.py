"""As copying_member.py, by confluent-kafka (librdkafka).

Arguments: the keys below as JSON. Ends when everything is copied.

    bootstrap, source, target, group: from where to where, and as whom
    die_after_ms: how long after the first record the process dies; -1: not
"""

import json
import os
import signal
import sys
import threading

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition


def main() -> None:
    told = json.loads(sys.argv[1])
    servers = {"bootstrap.servers": told["bootstrap"]}
    producer = Producer({**servers, "transactional.id": told["group"]})
    consumer = Consumer(
        {
            **servers,
            "group.id": told["group"],
            "group.instance.id": "copier",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([told["source"]])
    producer.init_transactions(60)
    is_dying = False
    while not is_at_end(consumer):
        messages = consumer.consume(25, timeout=0.3)
        if messages and told["die_after_ms"] >= 0 and not is_dying:
            is_dying = True
            threading.Timer(told["die_after_ms"] / 1_000, _die).start()
        if messages:
            copy(producer, consumer, told["target"], messages)
    consumer.close()


def copy(producer: Producer, consumer: Consumer, target: str, messages: list[Message]) -> None:
    """Copy some records in one transaction. Any error ends the process; the next process begins where this one was."""
    producer.begin_transaction()
    for message in messages:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        producer.produce(target, message.value(), message.key(), partition=message.partition() or 0)
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 60)
    producer.commit_transaction(60)


def is_at_end(consumer: Consumer) -> bool:
    places: list[TopicPartition] = consumer.position(consumer.assignment())
    if not places:
        return False
    for place in places:
        end = consumer.get_watermark_offsets(TopicPartition(place.topic, place.partition), timeout=60)
        if end is None:
            return False
        # Before its first record the position of a consumer is not known; the committed one is.
        offset = place.offset if place.offset >= 0 else consumer.committed([place], timeout=60)[0].offset
        if offset < end[1]:
            return False
    return True


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


main()
