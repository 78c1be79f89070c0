"""What admin calls give back: values per item, with the error of an item in its place."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias, TypeVar

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicId, TopicPartition

T = TypeVar("T")
Outcome: TypeAlias = T | ApiError
"""A value, or why there is none."""


def outcome_of(code: int, message: str | None, value: T) -> "T | ApiError":
    """``value``, or the error that ``code`` stands for."""
    return ApiError(ErrorCode(code), message) if code else value


def raise_first(outcomes: Mapping[object, object] | Iterable[object]) -> None:
    """Raise the first error among outcomes, if there is one."""
    for each in outcomes.values() if isinstance(outcomes, Mapping) else outcomes:
        if isinstance(each, Exception):
            raise each


class ResourceType(IntEnum):
    """What a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16


class ConfigSource(IntEnum):
    """Where a configuration value comes from; the names are what Kafka's tools print."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7


class AlterOp(IntEnum):
    """What to do with a configuration key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource(NamedTuple):
    """One thing that has a configuration; an empty name is the default of all brokers."""

    type: ResourceType
    name: str


class ConfigSynonym(NamedTuple):
    """A place that gives a value to a key, in order of precedence."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One key of a configuration. ``value`` is None when it is a secret or unset."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether nobody set it."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    """One change of one key."""

    name: str
    op: AlterOp
    value: str | None = None


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


class Reassignment(NamedTuple):
    """A reassignment of one partition that is under way."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ListedOffset(NamedTuple):
    """An offset that was looked up; all are -1 when there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


class ReplicaOnDisk(NamedTuple):
    """One replica in a log directory; sizes in bytes."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """One log directory of one broker; byte counts are -1 where the broker is too old to say."""

    path: str
    error: ApiError | None
    replicas: tuple[ReplicaOnDisk, ...]
    total_bytes: int
    usable_bytes: int


class BrokerInfo(NamedTuple):
    """A broker as DescribeCluster or metadata names it."""

    id: int
    host: str
    port: int
    rack: str | None


class ClusterDescription(NamedTuple):
    """A cluster and its live brokers."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerInfo, ...]
