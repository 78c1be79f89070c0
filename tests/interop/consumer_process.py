"""A consumer of a group as a process of its own, with the output of Kafka's VerifiableConsumer; for tests that kill it.

Arguments: the consumer's keys as JSON, the topic. SIGTERM ends it cleanly.
"""

import json
import signal
import sys
from collections.abc import Collection
from types import FrameType

from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener
from pkafka.clients.errors import WakeupError
from pkafka.model import TopicPartition


class Listener(ConsumerRebalanceListener):
    """Says what happens."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        _say("partitions_revoked", partitions)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        _say("partitions_assigned", partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        _say("partitions_lost", partitions)


def _say(name: str, partitions: Collection[TopicPartition]) -> None:
    named = [{"topic": each.topic, "partition": each.partition} for each in partitions]
    print(json.dumps({"name": name, "partitions": named}), flush=True)


def main() -> None:
    """Reads until it is told to end."""
    consumer = Consumer(json.loads(sys.argv[1]))

    def stop(_number: int, _frame: FrameType | None) -> None:
        consumer.wakeup()

    signal.signal(signal.SIGTERM, stop)
    consumer.subscribe([sys.argv[2]], listener=Listener())
    try:
        while True:
            for record in consumer.poll(1_000):
                print(json.dumps({"name": "record_data", "value": record.value.decode()}), flush=True)
    except WakeupError:
        consumer.close()


main()
