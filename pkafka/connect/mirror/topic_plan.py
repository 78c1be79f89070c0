"""What a source connector makes of the topics of both clusters: partitions to copy, topics to create, settings, ACLs.

Pure: the connector asks the clusters, and carries this out.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigEntry, ConfigSource
from pkafka.connect.mirror.filters import ConfigPropertyFilter, TopicFilter
from pkafka.connect.mirror.policies import ReplicationPolicy
from pkafka.model import TopicPartition
from pkafka.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType


class Flow(NamedTuple):
    """What is copied from where to where.

    Args:
        source, target: aliases.
        policy: names topics on the target.
        topics: chooses topics.
        properties: chooses settings of topics.
    """

    source: str
    target: str
    policy: ReplicationPolicy
    topics: TopicFilter
    properties: ConfigPropertyFilter

    def remote(self, topic: str) -> str:
        """The name of a topic's copy."""
        return self.policy.format_remote_topic(self.source, topic)

    def takes(self, topic: str) -> bool:
        """Whether a topic of the source is copied: a chosen one, or one of heartbeats; none of the target's."""
        wanted = self.topics.takes_topic(topic) or self.policy.is_heartbeats_topic(topic)
        return wanted and not self.policy.is_internal_topic(topic) and not self.is_cycle(topic)

    def is_cycle(self, topic: str) -> bool:
        """Whether a topic of the source was copied from the target, straight or through others."""
        current: str | None = topic
        seen: set[str] = set()
        while current is not None and current not in seen:
            seen.add(current)
            source = self.policy.topic_source(current)
            if source is None:
                return False
            if source == self.target:
                return True
            current = self.policy.upstream_topic(current)
        return False  # the policy keeps names, and cannot tell

    def is_copy(self, topic: str) -> bool:
        """Whether a topic of the target is a copy of one of the source."""
        return self.policy.topic_source(topic) == self.source and topic != self.policy.checkpoints_topic(
            self.source
        )


class Missing(NamedTuple):
    """What the target lacks: topics of the source by their numbers of partitions."""

    topics: dict[str, int]
    """Those that have no copy."""
    partitions: dict[str, int]
    """Those whose copies have fewer."""


def missing(flow: Flow, known: Iterable[TopicPartition], copies: Iterable[TopicPartition]) -> Missing:
    """What has to be created on the target.

    Args:
        known: partitions of the source.
        copies: partitions of copies, on the target.
    """
    there = Counter(each.topic for each in copies)
    found = Missing({}, {})
    for topic, count in Counter(each.topic for each in known).items():
        copied = there[flow.remote(topic)]
        if not copied:
            found.topics[topic] = count
        elif copied < count:
            found.partitions[topic] = count
    return found


def are_missing(flow: Flow, known: Iterable[TopicPartition], copies: Collection[TopicPartition]) -> bool:
    """Whether a partition of the source has no copy."""
    there = {TopicPartition(flow.policy.upstream_topic(topic) or topic, number) for topic, number in copies}
    return any(each not in there for each in known)


# -- tasks --


def shared_out(partitions: Sequence[TopicPartition], tasks_max: int) -> list[list[TopicPartition]]:
    """Partitions by tasks, in turn: so the partitions of each topic are spread."""
    count = min(tasks_max, len(partitions))
    return [list(partitions[task::count]) for task in range(count)]


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as a task's configuration has them: ``orders-0,orders-1``."""
    return ",".join(f"{topic}-{number}" for topic, number in partitions)


def partitions_of(text: str) -> list[TopicPartition]:
    """The partitions of such a text.

    Raises:
        ValueError: it is none.
    """
    found = []
    for each in text.split(","):
        topic, _, number = each.strip().rpartition("-")
        found.append(TopicPartition(topic, int(number)))
    return found


def groups_in_chunks(groups: Sequence[str], tasks_max: int) -> list[list[str]]:
    """Groups by tasks, one behind the other, the first tasks with one more: ``ConnectorUtils.groupPartitions``."""
    count = min(tasks_max, len(groups))
    found, start = [], 0
    for task in range(count):
        size = len(groups) // count + (task < len(groups) % count)
        found.append(list(groups[start : start + size]))
        start += size
    return found


# -- settings --


def new_topic_configs(flow: Flow, entries: Iterable[ConfigEntry]) -> dict[str, str]:
    """The settings that the copy of a topic is created with."""
    return {
        each.name: each.value
        for each in entries
        if each.value is not None
        and _is_copied(flow, each)
        and (not each.is_default or flow.properties.takes_default(each.name))
    }


def config_changes(flow: Flow, entries: Iterable[ConfigEntry]) -> list[ConfigChange]:
    """What makes the settings of a copy those of the topic: one that has its default there is unset here (KIP-888)."""
    found = []
    for each in entries:
        if not _is_copied(flow, each):
            continue
        if each.is_default and not flow.properties.takes_default(each.name):
            found.append(ConfigChange(each.name, AlterOp.DELETE))
        else:
            found.append(ConfigChange(each.name, AlterOp.SET, each.value))
    return found


def _is_copied(flow: Flow, entry: ConfigEntry) -> bool:
    """Whether a setting is copied: none that the source's brokers have from their files, as their own default."""
    return (
        not entry.is_read_only
        and not entry.is_sensitive
        and entry.source is not ConfigSource.STATIC_BROKER_CONFIG
        and flow.properties.takes_property(entry.name)
    )


# -- ACLs --


def target_acls(flow: Flow, acls: Iterable[Acl]) -> list[Acl]:
    """The rules that copies get: those of single topics, so that who may read a topic may read its copy.

    Nobody but MirrorMaker is to write to a copy: who may write to the topic may not, and who may do all may read.
    """
    found = []
    for pattern, entry in acls:
        is_allowed = entry.permission == Permission.ALLOW
        if (
            pattern.type != ResourceType.TOPIC
            or pattern.kind != PatternType.LITERAL
            or (is_allowed and entry.operation == Operation.WRITE)
            or not flow.takes(pattern.name)
        ):
            continue
        if is_allowed and entry.operation == Operation.ALL:
            entry = entry._replace(operation=Operation.READ)
        found.append(Acl(Pattern(ResourceType.TOPIC, flow.remote(pattern.name)), entry))
    return found


ConfigsOf = Mapping[str, Sequence[ConfigEntry]]
"""The settings of topics, by name."""
