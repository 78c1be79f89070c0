"""Makes batches for the partitions of the target of records that cannot stay in their batches. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pkafka.model import TopicPartition
from pkafka.records.builder import RecordFields, build_batch
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import Codec
from pkafka.records.loops import partitions_of_keys

_OVERHEAD_BYTES: Final = 16
_NO_TIME: Final = -1


class Made(NamedTuple):
    """A batch for a partition of the target.

    Args:
        partition: where it goes.
        data: the whole batch.
        record_count: how many records it has.
    """

    partition: TopicPartition
    data: bytearray
    record_count: int


@dataclass(slots=True)
class _Group:
    """Records that wait for others of their partition; ``size_bytes`` is about what they take."""

    codec: Codec
    level: int | None
    rows: list[RecordFields] = field(default_factory=list)
    size_bytes: float = 0.0


class Regrouping:
    """Collects records by the partition that their keys lead to, in their order.

    Args:
        batch_bytes: how large a batch may become before the next begins, uncompressed.
    """

    def __init__(self, batch_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._groups: dict[TopicPartition, _Group] = {}

    def add(
        self,
        source: TopicPartition,
        columns: RecordColumns,
        partition_count: int,
        codec: Codec,
        *,
        level: int | None = None,
        keeps_partition: bool = False,
        now_ms: int = 0,
    ) -> Iterator[Made]:
        """Take the records of a batch.

        Args:
            source: where they were read.
            partition_count: of the topic on the target.
            codec, level: the compression of their batches.
            keeps_partition: whether they stay in the partition of their number, whatever their keys.
            now_ms: the time of records that have none, as Kafka's producer sets it.

        Returns:
            The batches that are full, to be sent at once.
        """
        topic, number = source
        own = number % partition_count
        targets = None if keeps_partition or not columns.has_keys else _targets(columns, own, partition_count)
        size_bytes = _size_bytes(columns) / len(columns)
        times: Sequence[int] = columns.timestamps
        if _NO_TIME in times:
            times = [now_ms if each == _NO_TIME else each for each in times]
        rows = zip(times, columns.keys, columns.values, columns.headers, strict=True)
        if targets is None:
            yield from self._join(TopicPartition(topic, own), list(rows), size_bytes, codec, level)
            return
        parts: list[list[RecordFields]] = [[] for _ in range(partition_count)]
        for target, row in zip(targets, rows, strict=True):
            parts[target].append(row)
        for target, part in enumerate(parts):
            if part:
                yield from self._join(TopicPartition(topic, target), part, size_bytes, codec, level)

    def take(self, partition: TopicPartition) -> Iterator[Made]:
        """The records that wait for a partition, which something else is about to be sent to."""
        group = self._groups.pop(partition, None)
        if group is not None:
            yield _made(partition, group)

    def take_all(self) -> Iterator[Made]:
        """All records that wait."""
        for partition in list(self._groups):
            yield from self.take(partition)

    def _join(
        self,
        partition: TopicPartition,
        rows: list[RecordFields],
        row_bytes: float,
        codec: Codec,
        level: int | None,
    ) -> Iterator[Made]:
        at_once = max(1, int(self._batch_bytes / row_bytes))
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            group = self._groups.get(partition)
            if group is not None and group.codec is not codec:
                yield from self.take(partition)
                group = None
            if group is None:
                group = self._groups[partition] = _Group(codec, level)
            group.rows += part
            group.size_bytes += row_bytes * len(part)
            if group.size_bytes >= self._batch_bytes:
                yield from self.take(partition)


def _targets(columns: RecordColumns, own: int, partition_count: int) -> list[int]:
    keys = [key for key in columns.keys if key is not None]
    chosen = iter(partitions_of_keys(keys, partition_count))
    return [own if key is None else next(chosen) for key in columns.keys]


def _size_bytes(columns: RecordColumns) -> int:
    keys = sum(map(len, filter(None, columns.keys))) if columns.has_keys else 0
    return keys + sum(map(len, filter(None, columns.values))) + _OVERHEAD_BYTES * len(columns)


def _made(partition: TopicPartition, group: _Group) -> Made:
    return Made(partition, build_batch(group.rows, codec=group.codec, level=group.level), len(group.rows))
