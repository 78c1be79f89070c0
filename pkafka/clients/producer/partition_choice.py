"""Which partitions the records of a producer go to that name none: by its partitioner, by their keys, or left open."""

from collections.abc import Sequence
from typing import Any, Final

from pkafka.clients.cluster import Cluster
from pkafka.clients.producer.partitioner import Partitioner, partition_of_key
from pkafka.clients.producer.queues import TopicQueues
from pkafka.records.loops import partitions_of_keys

_KEYS_REMEMBERED: Final = 4_096
_ANY_PARTITION: Final = -1


class PartitionChoice:
    """Chooses partitions; remembers what it chose for keys.

    Args:
        partitioner: the application's; None for the built-in choice.
        keys_count: whether equal keys go to one partition.
    """

    def __init__(self, cluster: Cluster, partitioner: Partitioner | None, *, keys_count: bool) -> None:
        self._cluster = cluster
        self._partitioner = partitioner
        self._keys_count = keys_count
        self._partitions_of_keys: dict[int, dict[bytes, int]] = {}
        """By the number of partitions."""

    def choose(
        self,
        layout: TopicQueues,
        key: Any,  # noqa: ANN401
        key_bytes: bytes | None,
        value: Any,  # noqa: ANN401
        value_bytes: bytes | None,
    ) -> int:
        """The partition for a record that names none; -1 where the accumulator may take any."""
        if self._partitioner is not None:
            chosen = self._partitioner.partition(
                layout.name, key, key_bytes, value, value_bytes, self._cluster.view
            )
            if chosen < 0:
                raise ValueError(
                    f"The partitioner generated an invalid partition number: {chosen}. "
                    "Partition number should always be non-negative."
                )
            return chosen
        if key_bytes is None or not self._keys_count:
            return _ANY_PARTITION
        count = layout.partition_count
        known = self._partitions_of_keys.get(count)
        found = None if known is None else known.get(key_bytes)
        if found is None:
            if known is None or len(known) >= _KEYS_REMEMBERED:
                known = self._partitions_of_keys[count] = {}
            found = known[key_bytes] = partition_of_key(key_bytes, count)
        return found

    def by_partition(
        self, layout: TopicQueues, keys: list[bytes | None] | None, count: int, partition: int | None
    ) -> list[tuple[int, Sequence[int]]]:
        """Which records go to which partition; those without a key to -1, where the accumulator may take any."""
        if partition is not None or keys is None or not self._keys_count:
            return [(_ANY_PARTITION if partition is None else partition, range(count))]
        groups: dict[int, list[int]] = {}
        if None in keys:
            for index, key in enumerate(keys):
                chosen = _ANY_PARTITION if key is None else partition_of_key(key, layout.partition_count)
                groups.setdefault(chosen, []).append(index)
        else:
            for index, chosen in enumerate(partitions_of_keys(keys, layout.partition_count)):
                groups.setdefault(chosen, []).append(index)
        return list(groups.items())
