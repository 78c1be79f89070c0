"""What admin calls about topics are given and give back."""

from collections.abc import Mapping
from typing import NamedTuple

from pkafka.model import TopicId


class PartitionDescription(NamedTuple):
    """One partition. ``elr`` and ``last_known_elr`` are None where the cluster does not keep them (KIP-966)."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


class TopicDescription(NamedTuple):
    """One topic with all its partitions."""

    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class TopicListing(NamedTuple):
    """One topic by name and id."""

    name: str
    topic_id: TopicId
    is_internal: bool


class NewTopic(NamedTuple):
    """A topic to create. -1 leaves a number to the broker; ``assignments`` (partition to brokers) rules both out."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, tuple[int, ...]] | None = None
    configs: Mapping[str, str] | None = None


class CreatedTopic(NamedTuple):
    """What was created, or would be with ``validate_only``; -1 where the broker does not say."""

    name: str
    topic_id: TopicId
    partitions: int
    replication_factor: int
