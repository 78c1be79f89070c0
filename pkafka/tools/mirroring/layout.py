"""Which partition is the copy of which, and from where on the two can be compared. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pkafka.connect.mirror.policies import ReplicationPolicy
from pkafka.connect.mirror.records import OffsetSync
from pkafka.model import TopicPartition


class Pair(NamedTuple):
    """A partition of the source, and its copy."""

    source: TopicPartition
    target: TopicPartition


class Layout(NamedTuple):
    """What is copied where.

    Args:
        pairs: in the order of their names.
        missing: topics and partitions of the source that have no copy, as the target would name them.
    """

    pairs: tuple[Pair, ...]
    missing: tuple[Pair, ...]


class Beginning(NamedTuple):
    """Offsets of the same record on both sides.

    Args:
        is_synced: whether an offset sync says so; else these are the beginnings of both logs.
    """

    source: int
    target: int
    is_synced: bool


def topics_to_mirror(names: Iterable[str], policy: ReplicationPolicy, target_alias: str) -> list[str]:
    """The topics of a source that a mirror copies: neither internal ones nor what came from the target itself."""
    return sorted(
        each
        for each in names
        if not policy.is_internal_topic(each)
        and not policy.is_heartbeats_topic(each)
        and (not target_alias or policy.topic_source(each) != target_alias)
    )


def layout_of(
    source: Mapping[str, int], target: Mapping[str, int], policy: ReplicationPolicy, source_alias: str
) -> Layout:
    """Which partitions have copies.

    Args:
        source, target: how many partitions each topic has.
        source_alias: by which the policy names copies.
    """
    pairs: list[Pair] = []
    missing: list[Pair] = []
    for topic in sorted(source):
        copy = policy.format_remote_topic(source_alias, topic)
        for number in range(source[topic]):
            pair = Pair(TopicPartition(topic, number), TopicPartition(copy, number))
            (pairs if number < target.get(copy, 0) else missing).append(pair)
    return Layout(tuple(pairs), tuple(missing))


def beginning_of(syncs: Sequence[OffsetSync], source_start: int, target_start: int) -> Beginning:
    """The first place from which on both logs have everything.

    Args:
        syncs: of the partition.
        source_start, target_start: of the two logs.
    """
    usable = [each for each in syncs if each.upstream >= source_start and each.downstream >= target_start]
    if not usable:
        return Beginning(source_start, target_start, False)
    first = min(usable, key=lambda each: (each.upstream, each.downstream))
    return Beginning(first.upstream, first.downstream, True)
