"""An internal topic whose partitions are chosen by a name: that of a group, or a transactional id."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from pkafka.server.cluster.metadata import MetadataCache


def partition_of(name: str, partitions: int) -> int:
    """The partition whose leader coordinates what has this name: by Java's hash of it."""
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    if value >= 1 << 31:
        value = (1 << 32) - value
    # As Utils.abs of Kafka: -2^31, which has no positive counterpart, counts as 0.
    return (0 if value == 1 << 31 else value) % partitions


_partition_of: Final = lru_cache(maxsize=20_000)(partition_of)


class KeyedTopic:
    """Knows how many partitions the topic has, and has it created when it is first needed.

    The count never becomes less than was seen, until the topic is deleted: with another number every name would be
    looked for, and made, in another partition.

    Args:
        topic: its name.
        metadata: names the partitions that there are.
        configured: gives the number with which the topic is going to be made.
        auto_create: has topics created; returns what became of each.
    """

    def __init__(
        self,
        topic: str,
        metadata: MetadataCache,
        configured: Callable[[], int],
        auto_create: Callable[[Sequence[str]], Awaitable[dict[str, ErrorCode]]],
    ) -> None:
        self.topic = topic
        self._metadata = metadata
        self._configured = configured
        self._auto_create = auto_create
        self._seen = 0
        self._is_on_its_way = False

    def metadata_changed(self, deleted: Iterable[TopicPartition]) -> None:
        """Look at the metadata after each update, of which these partitions are deleted."""
        if any(one.topic == self.topic for one in deleted):
            self._seen = 0
        self._seen = max(self._metadata.partition_count(self.topic), self._seen)

    def count(self) -> int:
        """How many partitions the topic has, or is going to have."""
        return self._seen or self._configured()

    def partition_of(self, name: str) -> int:
        """The partition that a name belongs to."""
        return _partition_of(name, self.count())

    @property
    def is_missing(self) -> bool:
        """Whether the topic is still to be created, as far as this worker knows."""
        return self._metadata.topic(self.topic) is None

    async def create(self) -> None:
        """Have the topic created: once, however many clients look for a coordinator of a new broker."""
        if self._is_on_its_way:
            return
        self._is_on_its_way = True
        try:
            await self._auto_create([self.topic])
        finally:
            self._is_on_its_way = False
