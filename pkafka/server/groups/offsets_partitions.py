"""How many partitions __consumer_offsets has, by which the coordinator of a group is found."""

from collections.abc import Callable, Iterable

from pkafka.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from pkafka.server.cluster.metadata import MetadataCache


class OffsetsPartitions:
    """Counts the partitions of __consumer_offsets.

    The count never becomes less than was seen, until the topic is deleted: with another number every group would be
    looked for, and made, in another partition.

    Args:
        metadata: names the partitions that there are.
        configured: gives the number with which the topic is going to be made.
    """

    def __init__(self, metadata: MetadataCache, configured: Callable[[], int]) -> None:
        self._metadata = metadata
        self._configured = configured
        self._seen = 0

    def metadata_changed(self, deleted: Iterable[TopicPartition]) -> None:
        """Look at the metadata after each update, of which these partitions are deleted."""
        if any(one.topic == CONSUMER_OFFSETS_TOPIC for one in deleted):
            self._seen = 0
        self._seen = max(self._metadata.partition_count(CONSUMER_OFFSETS_TOPIC), self._seen)

    def count(self) -> int:
        """How many partitions the topic has, or is going to have."""
        return self._seen or self._configured()
