"""Which partition a record goes to: by the hash of its key, or spread out without one."""

import bisect
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from pkafka.clients.cluster import ClusterView
from pkafka.records.loops import murmur2


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition of all records with this key, while the topic has this many partitions."""
    return int((murmur2(key) & 0x7FFFFFFF) % partition_count)


class Partitioner(Protocol):
    """What ``partitioner.class`` names; ``configure`` and ``close`` are called where it has them."""

    def partition(
        self,
        topic: str,
        key: Any,  # noqa: ANN401 - what the application sends
        key_bytes: bytes | None,
        value: Any,  # noqa: ANN401 - as above
        value_bytes: bytes | None,
        cluster: ClusterView,
    ) -> int:
        """The partition for a record, called on the thread that sends it.

        Args:
            key, value: as given to ``send()``; the bytes are what the serializers made of them.
            cluster: the metadata; ``cluster.topics[topic].partitions`` are the partitions.
        """


class RoundRobinPartitioner:
    """Every record to the next partition that has a leader, whatever its key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._lock = threading.Lock()

    def partition(
        self,
        topic: str,
        key: Any,  # noqa: ANN401
        key_bytes: bytes | None,
        value: Any,  # noqa: ANN401
        value_bytes: bytes | None,
        cluster: ClusterView,
    ) -> int:
        """As :class:`Partitioner`."""
        with self._lock:
            number = self._next.get(topic, 0)
            self._next[topic] = number + 1 & 0x7FFFFFFF
        partitions = cluster.topics[topic].partitions
        available = [each.partition for each in partitions if each.leader >= 0]
        return available[number % len(available)] if available else number % len(partitions)


PARTITIONERS: Final[dict[str, type[Any]]] = {"RoundRobinPartitioner": RoundRobinPartitioner}
"""Kafka's own, by their simple names in Java."""


class Weights:
    """A choice among partitions that prefers those with short queues (KIP-794).

    Args:
        partitions: those to choose from.
        cumulated: the running sum of their weights.
    """

    __slots__ = ("_cumulated", "_partitions")

    def __init__(self, partitions: Sequence[int], cumulated: Sequence[int]) -> None:
        self._partitions = partitions
        self._cumulated = cumulated

    @classmethod
    def of_queues(
        cls, sizes: Sequence[int], partitions: Sequence[int], partition_count: int
    ) -> "Weights | None":
        """The weights for queues of ``sizes``; None where an even choice among all is as good.

        Args:
            sizes: how many batches wait for each of ``partitions``.
            partition_count: how many partitions the topic has, those that are not available too.
        """
        if not partitions or partition_count < 2:
            return None
        longest = max(sizes)
        if len(partitions) == partition_count and min(sizes) == longest:
            return None
        cumulated, total = [], 0
        for size in sizes:
            total += longest + 1 - size
            cumulated.append(total)
        return cls(partitions, cumulated)

    def choose(self, below: Callable[[int], int]) -> int:
        """A partition; ``below(n)`` gives a random number from 0 to n - 1."""
        drawn = below(self._cumulated[-1])
        return self._partitions[bisect.bisect_right(self._cumulated, drawn)]


class Sticky:
    """The partition that records without a key go to for now (KIP-480): it changes with every ``batch.size`` bytes.

    Args:
        bytes_per_turn: ``batch.size``.
    """

    __slots__ = ("_bytes_per_turn", "_used_bytes", "partition")

    def __init__(self, bytes_per_turn: int) -> None:
        self._bytes_per_turn = max(1, bytes_per_turn)
        self._used_bytes = 0
        self.partition = -1
        """-1 before the first choice."""

    def start(self, partition: int) -> None:
        """Begin a turn."""
        self.partition = partition
        self._used_bytes = 0

    def take(self, size_bytes: int, *, batch_is_full: bool) -> bool:
        """Count bytes that went to the partition; True when its turn is over.

        As long as a batch has room, the turn goes on up to twice the bytes, so that batches are not left half full.
        """
        self._used_bytes += size_bytes
        used = self._used_bytes
        return used >= self._bytes_per_turn * 2 or (batch_is_full and used >= self._bytes_per_turn)

    def room_bytes(self, *, batch_is_full: bool) -> int:
        """How many bytes may go to the partition until its turn is over, at least 0."""
        limit = self._bytes_per_turn if batch_is_full else self._bytes_per_turn * 2
        return max(0, limit - self._used_bytes - 1)


def random_below(limit: int) -> int:
    """A random number from 0 to ``limit`` - 1; spreads load and guards nothing."""
    return int(random.random() * limit)  # noqa: S311 - as above
