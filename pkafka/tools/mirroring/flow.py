"""The two clusters of a mirror, as tools look at them: topics, offsets, offset syncs, checkpoints, groups."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple, Self

from pkafka.clients.admin import Admin
from pkafka.clients.consumer import ConsumerRecord
from pkafka.connect.mirror.classes import replication_policy
from pkafka.connect.mirror.policies import ReplicationPolicy
from pkafka.connect.mirror.records import Checkpoint, OffsetSync, RecordFormatError
from pkafka.connect.mirror.topic_reading import TopicReader
from pkafka.errors import ApiError
from pkafka.model import EARLIEST, LATEST, TopicPartition
from pkafka.tools.mirroring.layout import Layout, layout_of, topics_to_mirror

_DEFAULT_POLICY: Final = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
_IDENTITY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class Names(NamedTuple):
    """How a mirror names things.

    Args:
        source, target: aliases of MirrorMaker 2; empty: there are none, and copies keep their names.
        policy: the class that names copies; None: Kafka's default with aliases, and the same names without.
        include: whole names of topics of the source.
    """

    source: str
    target: str
    policy: str | None
    include: re.Pattern[str]

    def made_policy(self) -> ReplicationPolicy:
        """The policy.

        Raises:
            ConfigError: there is no such class.
        """
        named = self.policy or (_DEFAULT_POLICY if self.source else _IDENTITY)
        return replication_policy({"replication.policy.class": named, "source.cluster.alias": self.source})


class Flow:
    """Asks both clusters.

    Args:
        source, target: settings of clients.
        names: of the mirror.

    Raises:
        ConfigError: a setting is wrong.
        ClientError: a cluster cannot be reached.
    """

    def __init__(self, source: Mapping[str, object], target: Mapping[str, object], names: Names) -> None:
        self.names = names
        self.policy = names.made_policy()
        self.source = dict(source)
        self.target = dict(target)
        self.source_admin = Admin(source, fail_fast=True)
        try:
            self.target_admin = Admin(target, fail_fast=True)
        except BaseException:
            self.source_admin.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.source_admin.close()
        self.target_admin.close()

    def layout(self) -> Layout:
        """Which partitions of the source have copies.

        Raises:
            ApiError, ClientError: a cluster does not say.
        """
        listed = [each.name for each in self.source_admin.list_topics()]
        wanted = [
            each
            for each in topics_to_mirror(listed, self.policy, self.names.target)
            if self.names.include.fullmatch(each)
        ]
        copies = [self.policy.format_remote_topic(self.names.source, each) for each in wanted]
        there = {each.name for each in self.target_admin.list_topics()}
        return layout_of(
            _counts(self.source_admin, wanted),
            _counts(self.target_admin, [each for each in copies if each in there]),
            self.policy,
            self.names.source,
        )

    def syncs(self) -> dict[TopicPartition, list[OffsetSync]]:
        """All offset syncs that MirrorMaker 2 has written, by the partition of the source; none where it has not run.

        Raises:
            ApiError, ClientError: their topic cannot be read.
        """
        found: dict[TopicPartition, list[OffsetSync]] = {}
        if self.names.source and self.names.target:
            for admin, configs, other in (
                (self.source_admin, self.source, self.names.target),
                (self.target_admin, self.target, self.names.source),
            ):
                for sync in read_syncs(admin, configs, self.policy.offset_syncs_topic(other)):
                    found.setdefault(sync.partition, []).append(sync)
        return found

    def checkpoints(self) -> dict[tuple[str, TopicPartition], Checkpoint]:
        """The last checkpoint of every group and partition of the target; none where there are no checkpoints.

        Raises:
            ApiError, ClientError: their topic cannot be read.
        """
        found: dict[tuple[str, TopicPartition], Checkpoint] = {}

        def take(record: ConsumerRecord) -> None:
            try:
                checkpoint = Checkpoint.of(record.key, record.value)
            except RecordFormatError:
                return
            found[checkpoint.group, checkpoint.partition] = checkpoint

        topic = self.policy.checkpoints_topic(self.names.source)
        if self.names.source and topic in {each.name for each in self.target_admin.list_topics()}:
            with TopicReader(self.target, topic, take) as reader:
                reader.read_to_end()
        return found


def read_syncs(admin: Admin, configs: Mapping[str, object], topic: str) -> list[OffsetSync]:
    """All offset syncs of a topic in their order; none where there is no such topic.

    Args:
        admin, configs: of the cluster that may have it.

    Raises:
        ApiError, ClientError: the topic cannot be read.
    """
    found: list[OffsetSync] = []

    def take(record: ConsumerRecord) -> None:
        with suppress(RecordFormatError):
            found.append(OffsetSync.of(record.key, record.value))

    if topic in {each.name for each in admin.list_topics()}:
        with TopicReader(configs, topic, take) as reader:
            reader.read_to_end()
    return found


def bounds(
    admin: Admin, partitions: Sequence[TopicPartition], *, read_committed: bool = False
) -> dict[TopicPartition, tuple[int, int]]:
    """First offset and end of partitions.

    Args:
        read_committed: whether the end is in front of the first transaction that is open.

    Raises:
        ApiError, ClientError: one of them is not told.
    """
    starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)
    found = {}
    for each in partitions:
        start, end = starts[each], ends[each]
        if isinstance(start, ApiError):
            raise start
        if isinstance(end, ApiError):
            raise end
        found[each] = (start.offset, end.offset)
    return found


def _counts(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    found = {}
    for name, outcome in admin.describe_topics(topics).items():
        if isinstance(outcome, ApiError):
            raise outcome
        found[name] = len(outcome.partitions)
    return found
