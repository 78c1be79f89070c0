"""The partitions that a commit of offsets names, and the code that each place is answered with."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from pkafka.errors import ErrorCode
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.groups.offsets import PartitionKey
from pkafka.server.security.rights import Rights


class Named(Protocol):
    """Names a partition in a request."""

    @property
    def partition_index(self) -> int: ...


NamedT = TypeVar("NamedT", bound=Named)
NamedT_co = TypeVar("NamedT_co", bound=Named, covariant=True)


class Topic(Protocol[NamedT_co]):
    """Names partitions of a topic in a request."""

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[NamedT_co]: ...


def unreadable_partitions(rights: Rights, topics: Iterable[Topic[Named]]) -> dict[PartitionKey, ErrorCode]:
    """The code of each partition of a request whose topic the client may not read, there or not."""
    return {
        (topic.name, one.partition_index): ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for topic in topics
        if not rights.may(Operation.READ, ResourceType.TOPIC, topic.name)
        for one in topic.partitions
    }


def known_partitions(
    metadata: MetadataCache,
    topics: Iterable[Topic[NamedT]],
    denied: Container[PartitionKey] = frozenset(),
) -> dict[PartitionKey, NamedT]:
    """The partitions of a request that the cluster has, but for those that are denied.

    When one is named twice, its last place counts.
    """
    return {
        (topic.name, one.partition_index): one
        for topic in topics
        for one in topic.partitions
        if (topic.name, one.partition_index) not in denied
        and metadata.partition(topic.name, one.partition_index) is not None
    }


def codes_by_topic(
    topics: Iterable[Topic[Named]], outcomes: Mapping[PartitionKey, ErrorCode]
) -> dict[str, dict[int, ErrorCode]]:
    """The code of each partition that a request names; UNKNOWN_TOPIC_OR_PARTITION for those without an outcome.

    A topic that is named again without partitions is answered without partitions, as in Kafka.
    """
    codes: dict[str, dict[int, ErrorCode]] = {}
    for topic in topics:
        of_topic = codes.setdefault(topic.name, {}) if topic.partitions else {}
        for one in topic.partitions:
            key = topic.name, one.partition_index
            of_topic[one.partition_index] = outcomes.get(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return codes
