"""Ranges of offsets, the unit of work of a read: from where to where each task reads. Pure.

The rules are those of Spark's own Kafka source, so that a query is cut into the same tasks and micro-batches by both.
Offsets per partition have one form outside of Python, Spark's JSON: ``{"topic": {"0": 23, "1": 42}}``, which is what
checkpoints hold.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from pkafka.errors import PkafkaError
from pkafka.model import Offset, TopicPartition

Offsets: TypeAlias = Mapping[TopicPartition, Offset]
"""The next offset to read, or the first that is not read, per partition."""

OffsetsAsJson: TypeAlias = dict[str, dict[str, int]]

_OFFSET_MAX: Final = 2**63 - 1


class DataLossError(PkafkaError):
    """Records that were to be read are not there any more, and ``failOnDataLoss`` is true."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some data may have been lost because they are not available in Kafka any more; either the data "
            "was aged out by Kafka or the topic may have been deleted before all the data in the topic was processed. "
            'If you don\'t want your query to fail on such cases, set the source option "failOnDataLoss" to "false".'
        )
        self.what = what


class OffsetRange(NamedTuple):
    """Offsets of one partition from ``start`` up to ``end``, which is not one of them.

    There may be fewer records: compaction and markers of transactions leave gaps.
    """

    topic: str
    partition: int
    start: Offset
    end: Offset

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose offsets these are."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets there are; none or less where there is nothing to read."""
        return self.end - self.start


def split(
    ranges: Iterable[OffsetRange], *, partitions_min: int | None = None, records_max: int | None = None
) -> list[OffsetRange]:
    """Cut ranges into the pieces that tasks read; those without an offset go.

    Args:
        partitions_min: about so many pieces at least (``minPartitions``); large ranges are cut, small ones stay whole.
        records_max: at most so many offsets in each (``maxRecordsPerPartition``).

    Returns:
        One piece per range where neither is given or there are enough already; in the order of the ranges.
    """
    pieces = [each for each in ranges if each.size > 0]
    if records_max is not None:
        pieces = [part for each in pieces for part in _divided(each, math.ceil(each.size / records_max))]
    if partitions_min is None or len(pieces) >= partitions_min:
        return pieces
    total = sum(each.size for each in pieces)
    # What is too small to be cut does not count where the shares of the others are worked out.
    small = {each for each in pieces if _share(each.size, total, partitions_min) == 1}
    large_total = total - sum(each.size for each in small)
    large_count = max(partitions_min - len(small), 1)
    found: list[OffsetRange] = []
    for each in pieces:
        parts = 1 if each in small else _share(each.size, large_total, large_count)
        found += [part for part in _divided(each, parts) if part.size > 0]
    return found


def _share(size: int, total: int, count: int) -> int:
    return max(math.floor(size / total * count + 0.5), 1)


def _divided(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    start, left = whole.start, whole.size
    for index in range(parts):
        size = left // (parts - index)
        left -= size
        found.append(whole._replace(start=start, end=start + size))
        start += size
    return found


def limited(start: Offsets, end: Offsets, records_max: int) -> dict[TopicPartition, Offset]:
    """An end before ``end``, so that about ``records_max`` offsets lie between (``maxOffsetsPerTrigger``).

    Each partition gets a share by what it has to read, and one offset at least, so that small ones do not starve.

    Args:
        start: of every partition of ``end``; those that lack here are read to their end.
    """
    sizes = {each: end[each] - start[each] for each in end if each in start and end[each] > start[each]}
    total = sum(sizes.values())
    found = dict(end)
    for partition, size in sizes.items():
        share = records_max * (size / total)
        count = math.ceil(share) if share < 1 else math.floor(share)
        found[partition] = min(end[partition], start[partition] + count, _OFFSET_MAX)
    return found


def to_json(offsets: Offsets) -> OffsetsAsJson:
    """Offsets in the form of Spark's checkpoints; sorted, because Spark compares offsets by their text."""
    found: OffsetsAsJson = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, Offset]:
    """The reverse of :func:`to_json`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as a message names them, sorted."""
    return ", ".join(str(each) for each in sorted(partitions))
