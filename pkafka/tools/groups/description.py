"""What an operator asks of consumer groups: their place, their lag, which member reads what. Does not print."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    Outcome,
    raise_first,
)
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError
from pkafka.model import LATEST, TopicPartition


class PartitionLag(NamedTuple):
    """How far a group has come in one partition.

    Args:
        member: reads it now.
        offset: where the group stored that it goes on; None where it stored none.
        end: of the log as the group's consumers see it; why there is none instead, where it cannot be had.
    """

    partition: TopicPartition
    member: MemberDescription | None
    offset: int | None
    end: Outcome[int]

    @property
    def lag(self) -> int | None:
        """How many offsets lie between the two, where both are known."""
        return None if self.offset is None or isinstance(self.end, ApiError) else self.end - self.offset


class GroupLag(NamedTuple):
    """A group and all of its partitions: those of members first, the busiest member before the others."""

    description: GroupDescription
    partitions: tuple[PartitionLag, ...]

    def lagging(self) -> Self:
        """Without the partitions in which it has read everything."""
        return self._replace(partitions=tuple(each for each in self.partitions if each.lag != 0))


def list_consumer_groups(
    admin: Admin,
    *,
    states: Collection[GroupState] = (),
    types: Collection[GroupType] = (),
    timeout_ms: int | None = None,
) -> list[GroupListing]:
    """The consumer groups of a cluster by name, without groups of other protocols.

    Raises:
        ApiError: a broker did not say which groups it has.
    """
    found = admin.list_groups(states=states, types=types, timeout_ms=timeout_ms)
    raise_first(found.errors)
    return sorted((each for each in found.groups if each.is_consumer_group), key=lambda each: each.group_id)


def describe(
    admin: Admin, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, GroupDescription]:
    """Groups with their members, by name.

    Raises:
        ApiError: a group cannot be described; one that does not exist can.
    """
    found = admin.describe_groups(group_ids, timeout_ms=timeout_ms)
    described: dict[str, GroupDescription] = {}
    for group_id, outcome in sorted(found.items()):
        if isinstance(outcome, ApiError):
            raise outcome
        described[group_id] = outcome
    return described


def measure_lag(
    admin: Admin,
    group_ids: Iterable[str],
    *,
    read_committed: bool = False,
    timeout_ms: int | None = None,
) -> dict[str, GroupLag]:
    """How far groups have come in everything that they read or have read.

    Args:
        read_committed: the end is the last stable offset, behind which such consumers cannot see.

    Raises:
        ApiError: a group cannot be described, or its offsets cannot be read.
    """
    groups = describe(admin, group_ids, timeout_ms=timeout_ms)
    committed = committed_offsets(admin, groups, timeout_ms=timeout_ms)
    partitions = {
        each
        for group_id, group in groups.items()
        for each in (*committed[group_id], *(held for member in group.members for held in member.assignment))
    }
    ends = end_offsets(admin, partitions, read_committed=read_committed, timeout_ms=timeout_ms)
    return {
        group_id: GroupLag(group, tuple(_partitions(group, committed[group_id], ends)))
        for group_id, group in groups.items()
    }


def committed_offsets(
    admin: Admin, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
    """Every partition at which groups have stored something; None where that is no offset but a negative number.

    Raises:
        ApiError: one of them cannot be read.
    """
    stored: dict[str, dict[TopicPartition, OffsetAndMetadata | None]] = {}
    for group_id, outcome in admin.list_group_offsets(
        dict.fromkeys(group_ids), timeout_ms=timeout_ms
    ).items():
        if isinstance(outcome, ApiError):
            raise outcome
        raise_first(outcome)
        stored[group_id] = {
            partition: at for partition, at in outcome.items() if not isinstance(at, ApiError)
        }
    return stored


def end_offsets(
    admin: Admin,
    partitions: Iterable[TopicPartition],
    *,
    read_committed: bool = False,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, Outcome[int]]:
    """The end of every partition: its high watermark, or its last stable offset."""
    wanted = dict.fromkeys(partitions, LATEST)
    if not wanted:
        return {}
    found = admin.list_offsets(wanted, read_committed=read_committed, timeout_ms=timeout_ms)
    return {
        partition: outcome if isinstance(outcome, ApiError) else outcome.offset
        for partition, outcome in found.items()
    }


def partitions_of(
    admin: Admin, topics: Sequence[str], *, timeout_ms: int | None = None
) -> dict[str, Outcome[list[TopicPartition]]]:
    """All partitions of topics."""
    if not topics:
        return {}
    view = admin.cluster.refresh(topics, timeout_ms=timeout_ms)
    return {
        name: ApiError(topic.error)
        if topic.error
        else [TopicPartition(name, each.partition) for each in topic.partitions]
        for name, topic in view.topics.items()
    }


def _partitions(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
    ends: Mapping[TopicPartition, Outcome[int]],
) -> Iterable[PartitionLag]:
    def row(partition: TopicPartition, member: MemberDescription | None) -> PartitionLag:
        at = committed.get(partition)
        return PartitionLag(partition, member, None if at is None else at.offset, ends[partition])

    held: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda each: -len(each.assignment)):
        held.update(member.assignment)
        yield from (row(partition, member) for partition in sorted(member.assignment))
    yield from (row(partition, None) for partition in sorted(set(committed) - held))
