"""Which partition a record goes to: by the hash of its key, or sticky without one (PROD-11..13)."""

import random
from collections.abc import Sequence
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 that Kafka's clients use, as an unsigned number."""
    size = len(data)
    h = (_SEED ^ size) & _MASK
    whole = size & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if size > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition of all records with this key, while the topic has this many partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """For records without a key: stays with one partition until it got ``batch.size`` bytes (KIP-794).

    Args:
        bytes_per_turn: how much one partition gets before another is chosen.
        chooser: the source of randomness.
    """

    def __init__(self, bytes_per_turn: int, chooser: random.Random | None = None) -> None:
        self._bytes_per_turn = max(1, bytes_per_turn)
        self._random = chooser or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._current: dict[str, tuple[int, int]] = {}

    def choose(self, topic: str, available: Sequence[int], size_bytes: int) -> int:
        """The partition for one record.

        Args:
            available: the partitions that have a leader; at least one.
            size_bytes: the size of the record.
        """
        partition, used = self._current.get(topic, (-1, 0))
        if used >= self._bytes_per_turn or partition not in available:
            others = [each for each in available if each != partition] or list(available)
            partition, used = self._random.choice(others), 0
        self._current[topic] = (partition, used + size_bytes)
        return partition
