"""Offsets as clients ask for them and store them."""

from collections.abc import Mapping
from typing import NamedTuple

from pkafka.clients.errors import IllegalArgumentError
from pkafka.model import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """Where a group goes on reading.

    Args:
        offset: of the next record to read.
        metadata: a note of the committer's own; brokers bound its length (``offset.metadata.max.bytes``).
        leader_epoch: of the record before, so that a truncated log can be told (KIP-320); None when not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


def offsets_to_store(
    given: Mapping[TopicPartition, int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as a caller may write them, a plain number among them, as those that are stored.

    Raises:
        IllegalArgumentError: an offset is negative.
    """
    wanted = {
        TopicPartition(*partition): at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
        for partition, at in given.items()
    }
    for at in wanted.values():
        if at.offset < 0:
            raise IllegalArgumentError("Invalid negative offset")
    return wanted


class ListedOffset(NamedTuple):
    """An offset that was looked up; all are -1 when there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


class ConsumerGroupMetadata(NamedTuple):
    """By what the group knows a consumer: what a transactional producer sends along with its offsets (KIP-447).

    Args:
        generation_id, member_id: -1 and empty for a consumer whose partitions the group does not assign.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
