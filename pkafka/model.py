"""Ids and values that every layer shares. No behaviour beyond what their text form needs."""

import binascii
import re
from typing import Final, NamedTuple, TypeAlias

# Plain integers at run time (a NewType would cost a call on the hot paths); the aliases document signatures.
Offset: TypeAlias = int
LeaderEpoch: TypeAlias = int
BrokerId: TypeAlias = int
BrokerEpoch: TypeAlias = int
ProducerId: TypeAlias = int
Millis: TypeAlias = int

# base64 would take longer to import than everything else here.
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")
TopicId: TypeAlias = bytes
"""16 raw bytes, big-endian, as Kafka's Uuid travels on the wire."""

NO_TOPIC_ID: Final[TopicId] = bytes(16)
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_LEADER: Final = -1

# What ListOffsets takes in place of a time.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

TOPIC_NAME_CHARS_MAX: Final = 249
CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state"})

_LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicPartitionReplica(NamedTuple):
    """One replica of a partition: that on one broker."""

    topic: str
    partition: int
    broker: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Of which partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


def topic_name_problem(name: str) -> str | None:
    """What is wrong with ``name`` as a topic name, or None when it is legal.

    The texts are those that Kafka's tools show, because scripts match them.
    """
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > TOPIC_NAME_CHARS_MAX:
        return f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_CHARS_MAX}"
    if _LEGAL_TOPIC_NAME.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def topic_names_collide(one: str, other: str) -> bool:
    """Whether two names become the same metric name, in which '.' turns into '_'."""
    return one.replace(".", "_") == other.replace(".", "_")


def topic_id_text(topic_id: TopicId) -> str:
    """The 22 characters of URL-safe base64 that Kafka prints for a Uuid."""
    return binascii.b2a_base64(topic_id, newline=False).translate(_TO_URL).rstrip(b"=").decode("ascii")


def parse_topic_id(text: str) -> TopicId:
    """Invert :func:`topic_id_text`.

    Raises:
        ValueError: ``text`` is not the base64 form of 16 bytes.
    """
    padded = f"{text}{'=' * (-len(text) % 4)}".encode("ascii").translate(_FROM_URL)
    raw = binascii.a2b_base64(padded, strict_mode=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a 16-byte id in URL-safe base64")
    return raw
