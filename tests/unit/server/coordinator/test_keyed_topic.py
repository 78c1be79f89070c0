"""How many partitions __consumer_offsets has, by which every group finds its coordinator."""

from types import SimpleNamespace
from typing import Any, cast

from pkafka.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from pkafka.server.coordinator.keyed_topic import KeyedTopic


def test_the_count_is_the_most_that_was_seen_until_the_topic_is_deleted() -> None:
    now = {"t": 3}
    metadata = cast("Any", SimpleNamespace(partition_count=lambda topic: now.get(topic, 0)))
    partitions = KeyedTopic(CONSUMER_OFFSETS_TOPIC, metadata, lambda: 50, cast("Any", None))
    partitions.metadata_changed([])
    assert partitions.count() == 50, "the topic is going to be made"
    now[CONSUMER_OFFSETS_TOPIC] = 4
    partitions.metadata_changed([])
    assert partitions.count() == 4
    # A control process that has just come may not know all partitions yet.
    now[CONSUMER_OFFSETS_TOPIC] = 1
    partitions.metadata_changed([TopicPartition("t", 0)])
    assert partitions.count() == 4
    del now[CONSUMER_OFFSETS_TOPIC]
    partitions.metadata_changed([TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)])
    assert partitions.count() == 50
