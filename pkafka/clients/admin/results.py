"""What admin calls are given and give back; what is about topics, and outcomes of items, have modules of their own."""

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

from pkafka.clients.admin.outcomes import Outcome as Outcome
from pkafka.clients.admin.outcomes import error_outcome as error_outcome
from pkafka.clients.admin.outcomes import outcome_of as outcome_of
from pkafka.clients.admin.outcomes import raise_first as raise_first
from pkafka.clients.admin.topic_results import CreatedTopic as CreatedTopic
from pkafka.clients.admin.topic_results import NewTopic as NewTopic
from pkafka.clients.admin.topic_results import PartitionDescription as PartitionDescription
from pkafka.clients.admin.topic_results import TopicDescription as TopicDescription
from pkafka.clients.admin.topic_results import TopicListing as TopicListing
from pkafka.errors import ApiError
from pkafka.model import TopicPartition


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


class ConfigType(Enum):
    """What kind of value a key has; the numbers are those on the wire."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


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
    """One key of a configuration. ``value`` is None when it is a secret or unset.

    ``documentation`` is there where it was asked for.
    """

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether it was not set: the value is the default."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    """One change of one key."""

    name: str
    op: AlterOp
    value: str | None = None


class ElectionType(Enum):
    """Which replica may become leader: the first if in sync, or any that lives; the values are those on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A move of one partition that is under way.

    Args:
        replicas: old and new ones.
        adding: those of them that are new.
        removing: those of them that go.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReplicaOnDisk(NamedTuple):
    """One replica in a log directory; sizes in bytes."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class ProducerState(NamedTuple):
    """What the leader of a partition remembers of one producer.

    Args:
        last_sequence: of its last record; -1 where a marker is all that there is of its epoch.
        last_timestamp: of what it wrote last, in milliseconds since the epoch.
        coordinator_epoch: of the coordinator that wrote its last marker; None where there is none.
        transaction_start_offset: of its open transaction in this partition; None where it has none.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


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


class FeatureUpdate(NamedTuple):
    """A feature of the cluster that is to be finalized at another level, or at none (level 0)."""

    feature: str
    max_level: int
    kind: "FeatureUpdateKind"


class FeatureUpdateKind(Enum):
    """What an update may do; the values are those of the request."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class LevelRange(NamedTuple):
    """Levels of a feature, both included."""

    min: int
    max: int


class FeatureDescription(NamedTuple):
    """What a broker supports, and what the cluster has agreed on."""

    supported: Mapping[str, LevelRange]
    finalized: Mapping[str, LevelRange]
    finalized_epoch: int | None
    """Grows with every change of what is finalized; None where the broker knows none."""


class GroupState(Enum):
    """Where a group is in its life; the values are what Kafka's tools print."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"

    @classmethod
    def parse(cls, text: str) -> "GroupState":
        """The state of that name, in any case; UNKNOWN for every other text."""
        return _STATES.get(text.lower(), cls.UNKNOWN)


_STATES = {state.value.lower(): state for state in GroupState}


class GroupType(Enum):
    """What assigns the partitions of a group: one of its members, or the coordinator (KIP-848)."""

    UNKNOWN = "Unknown"
    CONSUMER = "Consumer"
    CLASSIC = "Classic"

    @classmethod
    def parse(cls, text: str) -> "GroupType":
        """The type of that name, in any case; UNKNOWN for every other text."""
        return _TYPES.get(text.lower(), cls.UNKNOWN)


_TYPES = {type.value.lower(): type for type in GroupType}


class GroupListing(NamedTuple):
    """One group by name. State and type are UNKNOWN where the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: GroupState
    type: GroupType

    @property
    def is_consumer_group(self) -> bool:
        """Whether its members are consumers, or it has only stored offsets."""
        return self.protocol_type in ("consumer", "")


class GroupList(NamedTuple):
    """All groups of the brokers that answered, and why the others did not, by broker id."""

    groups: tuple[GroupListing, ...]
    errors: Mapping[int, ApiError]


class MemberDescription(NamedTuple):
    """One member of a group. ``client_host`` is as the coordinator writes it: ``/10.0.0.1``.

    ``metadata`` and ``assignment_bytes`` are what the member's own protocol says; ``assignment`` is read from it where
    that is the consumers'.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    metadata: bytes
    assignment_bytes: bytes


class GroupDescription(NamedTuple):
    """One group with its members. ``assignor`` is the protocol that the members agreed on.

    A group that does not exist is in state DEAD.
    """

    group_id: str
    protocol_type: str
    assignor: str
    state: GroupState
    type: GroupType
    members: tuple[MemberDescription, ...]
    coordinator: BrokerInfo
    authorized_operations: int | None
