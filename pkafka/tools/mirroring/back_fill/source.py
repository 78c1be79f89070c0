"""What a back-fill asks of its source: a cluster that lives, or what is left of one."""

from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import ConfigEntry, ConfigResource, ResourceType
from pkafka.clients.consumer import Consumer
from pkafka.clients.raw_batch import RawBatch
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.flow import bounds
from pkafka.tools.mirroring.partition_log import PartitionLog, reader_settings

_ISOLATION: Final = "isolation.level"


class SourceLog(Protocol):
    """Reads one partition; it goes to where that is done, so it can be pickled."""

    def batches(self, start: int, end: int) -> Generator[RawBatch, None, None]:
        """The batches with records from one offset up to another, without those of aborted transactions.

        Raises:
            PkafkaError, OSError: the partition cannot be read.
        """


class Source(Protocol):
    """Tells what there is to copy."""

    def partitions(self) -> Mapping[str, Sequence[int]]:
        """The numbers of the partitions of every topic, in their order."""

    def configs(self, topics: Sequence[str]) -> Mapping[str, Sequence[ConfigEntry]]:
        """The settings of topics; of some there may be none."""

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        """The first offset and the end of what can be copied of partitions."""

    def log(self, partition: TopicPartition) -> SourceLog:
        """What reads a partition."""

    def notes(self) -> Sequence[str]:
        """What an operator should know of it, once :meth:`bounds` was asked."""


class ClusterLog(NamedTuple):
    """Reads a partition from its leader.

    Args:
        settings: of clients of the source.
        partition: which.
        timeout_ms: how long to wait for the next records of a log that has more.
    """

    settings: Mapping[str, object]
    partition: TopicPartition
    timeout_ms: int

    def batches(self, start: int, end: int) -> Generator[RawBatch, None, None]:
        """See :class:`SourceLog`. What retention has removed since it was planned is not there any more.

        Raises:
            ApiError, ClientError: the partition cannot be read.
        """
        settings = {**reader_settings(self.settings), "auto.offset.reset": "earliest"}
        with Consumer(settings) as consumer:
            log = PartitionLog(consumer, self.partition, start, end, self.timeout_ms)
            while log.has_more:
                found: list[RawBatch] = []
                log.read(found.append)
                yield from found


class ClusterSource:
    """A cluster that lives.

    Args:
        admin: of it.
        settings: of clients of it. Without ``isolation.level`` only what was committed is copied.
        timeout_ms: see :class:`ClusterLog`.
    """

    def __init__(self, admin: Admin, settings: Mapping[str, object], timeout_ms: int) -> None:
        self._admin = admin
        self._settings = {_ISOLATION: "read_committed", **settings}
        self._timeout_ms = timeout_ms

    def partitions(self) -> dict[str, list[int]]:
        """See :class:`Source`.

        Raises:
            ApiError, ClientError: the cluster does not say.
        """
        names = [each.name for each in self._admin.list_topics() if not each.is_internal]
        described = self._admin.describe_topics(names) if names else {}
        found = {}
        for name, outcome in described.items():
            if isinstance(outcome, ApiError):
                raise outcome
            found[name] = sorted(each.partition for each in outcome.partitions)
        return found

    def configs(self, topics: Sequence[str]) -> dict[str, list[ConfigEntry]]:
        """See :class:`Source`.

        Raises:
            ApiError, ClientError: the cluster does not say.
        """
        wanted = [ConfigResource(ResourceType.TOPIC, each) for each in topics]
        described = self._admin.describe_configs(wanted) if wanted else {}
        found = {}
        for resource, outcome in described.items():
            if isinstance(outcome, ApiError):
                raise outcome
            found[resource.name] = outcome
        return found

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """See :class:`Source`; of what is committed, up to the first transaction that is open.

        Raises:
            ApiError, ClientError: the cluster does not say.
        """
        return bounds(self._admin, partitions, read_committed=self._settings[_ISOLATION] == "read_committed")

    def log(self, partition: TopicPartition) -> ClusterLog:
        """See :class:`Source`."""
        return ClusterLog(self._settings, partition, self._timeout_ms)

    def notes(self) -> tuple[str, ...]:
        """Nothing: it can be asked."""
        return ()
