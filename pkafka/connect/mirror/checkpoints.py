"""Which checkpoints of groups are news, and which offsets of groups may be committed on the target. Pure."""

from collections.abc import Callable, Mapping

from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.connect.mirror.policies import ReplicationPolicy
from pkafka.connect.mirror.records import Checkpoint
from pkafka.model import TopicPartition

Translate = Callable[[TopicPartition, int], int | None]


class Checkpoints:
    """The last checkpoint of every group and partition.

    Args:
        source, target: aliases.
        policy: names topics on the target.
        translate: offsets of partitions of the source; None or a negative number where it cannot.
        takes_topic: whether positions in a topic of the source are copied.
    """

    def __init__(
        self,
        source: str,
        target: str,
        policy: ReplicationPolicy,
        translate: Translate,
        takes_topic: Callable[[str], bool],
    ) -> None:
        self._source = source
        self._target = target
        self._policy = policy
        self._translate = translate
        self._takes_topic = takes_topic
        self._last: dict[str, dict[TopicPartition, Checkpoint]] = {}

    def note(self, checkpoint: Checkpoint) -> None:
        """Take one that is on the target."""
        self._last.setdefault(checkpoint.group, {})[checkpoint.partition] = checkpoint

    def groups(self) -> list[str]:
        """The groups that have some."""
        return list(self._last)

    def positions(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where a group would go on, by the partitions of the target."""
        return {each.partition: each.position for each in self._last.get(group, {}).values()}

    def news(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    ) -> list[Checkpoint]:
        """The checkpoints to write now; they are noted.

        Args:
            offsets: that the group has stored on the source.
        """
        found = []
        for partition, position in offsets.items():
            if position is None or not self._takes_topic(partition.topic):
                continue
            downstream = self._translate(partition, position.offset)
            if downstream is None or downstream < 0:
                continue
            made = Checkpoint(group, self.copy_of(partition), position.offset, downstream, position.metadata)
            if self._is_news(made):
                found.append(made)
        for each in found:
            self.note(each)
        return found

    def _is_news(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint says more than the last: the group went back, or the translation went on.

        A translation that went back while the group did not is older knowledge (KAFKA-13659).
        """
        last = self._last.get(checkpoint.group, {}).get(checkpoint.partition)
        return last is None or checkpoint.upstream < last.upstream or checkpoint.downstream > last.downstream

    def copy_of(self, partition: TopicPartition) -> TopicPartition:
        """The partition of the target that belongs to one of the source: its copy, or what it is a copy of."""
        topic, number = partition
        if self._policy.topic_source(topic) == self._target:
            return TopicPartition(self._policy.original_topic(topic), number)
        return TopicPartition(self._policy.format_remote_topic(self._source, topic), number)


def offsets_to_commit(
    positions: Mapping[TopicPartition, OffsetAndMetadata],
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets to commit for a group that has no members on the target: never further back than it is there.

    Args:
        positions: of its checkpoints.
        committed: what it has on the target.
    """
    found = {}
    for partition, position in positions.items():
        there = committed.get(partition)
        if there is None or there.offset < position.offset:
            found[partition] = position
    return found
