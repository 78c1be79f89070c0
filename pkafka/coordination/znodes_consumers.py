"""The znodes of the old consumers' groups, as the consumers of Kafka 0.8 and 0.9 wrote them, below ``/consumers/G``.

The offsets, which brokers write too (OffsetCommit v0), are :class:`~pkafka.coordination.znodes.ConsumerOffset`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pkafka.coordination.znode_json import from_json, to_json
from pkafka.coordination.znodes import CONSUMERS, decoder
from pkafka.java.numbers import parse_int
from pkafka.model import Millis, TopicPartition

STATIC: Final = "static"
WHITE_LIST: Final = "white_list"
BLACK_LIST: Final = "black_list"


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """``/consumers/G/ids/C`` (ephemeral): a live member and how many threads it has for what.

    ``subscription`` maps topics to thread counts where ``pattern`` is ``static``; otherwise it has one entry, the
    regular expression.
    """

    subscription: Mapping[str, int]
    pattern: str
    timestamp_ms: Millis

    @staticmethod
    def parent(group: str) -> str:
        return f"{CONSUMERS}/{group}/ids"

    @staticmethod
    def path(group: str, consumer_id: str) -> str:
        return f"{CONSUMERS}/{group}/ids/{consumer_id}"

    def encode(self) -> bytes:
        return to_json(
            {
                "version": 1,
                "subscription": dict(self.subscription),
                "pattern": self.pattern,
                "timestamp": str(self.timestamp_ms),
            }
        )

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "ConsumerRegistration":
        value = from_json(data, "consumer registration")
        pattern = str(value["pattern"])
        if pattern not in {STATIC, WHITE_LIST, BLACK_LIST}:
            raise ValueError(f"unknown pattern {pattern!r}")
        return cls(
            subscription={str(name): int(count) for name, count in value["subscription"].items()},
            pattern=pattern,
            timestamp_ms=int(value.get("timestamp", -1)),
        )


class ConsumerThread(NamedTuple):
    """One stream of one member; the unit to which partitions are assigned."""

    consumer_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer_id}-{self.number}"


@dataclass(frozen=True, slots=True)
class PartitionOwner:
    """``/consumers/G/owners/T/P`` (ephemeral): the thread that reads a partition; no other thread of its group may."""

    thread: ConsumerThread

    @staticmethod
    def path(group: str, partition: TopicPartition) -> str:
        return f"{CONSUMERS}/{group}/owners/{partition.topic}/{partition.partition}"

    def encode(self) -> bytes:
        return str(self.thread).encode()

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "PartitionOwner":
        consumer_id, dash, number = data.decode().rpartition("-")
        if not dash:
            raise ValueError(f"{data[:80]!r} is no thread of a consumer")
        return cls(ConsumerThread(consumer_id, parse_int(number)))
