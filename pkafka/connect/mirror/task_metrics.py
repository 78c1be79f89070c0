"""What the tasks of MirrorMaker count, under the names of Java's JMX attributes (``kafka.connect.mirror``).

Rates are left to the program that reads the counts.
"""

import struct
from collections.abc import Iterator
from typing import Final

from pkafka.clients.consumer import Chunk
from pkafka.clients.raw_batch import RawBatch
from pkafka.connect.connector import TaskMetric
from pkafka.model import TopicPartition

_TIMES: Final = struct.Struct(">qq")
_TIMES_AT: Final = 27
"""Where a batch has the time of its first record, and the latest time."""
_SOURCE: Final = "mirror_mirrorsourceconnector"
_CHECKPOINT: Final = "mirror_mirrorcheckpointconnector"


class Times:
    """The last of some times in milliseconds, the longest, the shortest and the mean."""

    __slots__ = ("_count", "_last", "_max", "_min", "_sum")

    def __init__(self) -> None:
        self._count = 0
        self._last = self._sum = 0.0
        self._min, self._max = float("inf"), float("-inf")

    def note(self, time_ms: float) -> None:
        """One more."""
        self._count += 1
        self._last = time_ms
        self._sum += time_ms
        self._min, self._max = min(self._min, time_ms), max(self._max, time_ms)

    def rows(self, name: str, about: str) -> Iterator[tuple[str, str, float]]:
        """Names, descriptions and values; none before the first time."""
        if self._count:
            yield name, about, self._last
            yield f"{name}_max", f"{about} The longest.", self._max
            yield f"{name}_min", f"{about} The shortest.", self._min
            yield f"{name}_avg", f"{about} The mean.", self._sum / self._count


class _PartitionFigures:
    __slots__ = ("age", "bytes", "latency", "records")

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.age = Times()
        self.latency = Times()


class SourceMetrics:
    """Counts what one task copies.

    Args:
        tags: of all metrics: ``target``, and ``source`` where that is wanted.
    """

    def __init__(self, tags: dict[str, str]) -> None:
        self._tags = tags
        self._partitions: dict[TopicPartition, _PartitionFigures] = {}

    def _of(self, copy: TopicPartition) -> _PartitionFigures:
        found = self._partitions.get(copy)
        return self._partitions.setdefault(copy, _PartitionFigures()) if found is None else found

    def polled(self, copy: TopicPartition, chunk: Chunk, now_ms: float) -> None:
        """Records were read that go to this partition."""
        figures = self._of(copy)
        figures.bytes += sum(len(each) for each in chunk.values if each is not None)
        figures.age.note(now_ms - min(chunk.timestamps))
        figures.age.note(now_ms - chunk.timestamps[-1])

    def polled_batch(self, copy: TopicPartition, batch: RawBatch, now_ms: float) -> None:
        """A batch was read that goes to this partition."""
        figures = self._of(copy)
        figures.bytes += len(batch.data)
        first_ms, last_ms = _TIMES.unpack_from(batch.data, _TIMES_AT)
        figures.age.note(now_ms - first_ms)
        figures.age.note(now_ms - last_ms)

    def copied_batch(self, copy: TopicPartition, batch: RawBatch, now_ms: float) -> None:
        """A batch is in this partition."""
        figures = self._of(copy)
        figures.records += batch.record_count
        for timestamp_ms in _TIMES.unpack_from(batch.data, _TIMES_AT):
            figures.latency.note(now_ms - timestamp_ms)

    def copied(self, copy: TopicPartition, timestamp_ms: int | None, now_ms: float) -> None:
        """A record is in this partition."""
        figures = self._of(copy)
        figures.records += 1
        if timestamp_ms is not None:
            figures.latency.note(now_ms - timestamp_ms)

    def rows(self) -> Iterator[TaskMetric]:
        """All of them."""
        for (topic, number), figures in list(self._partitions.items()):
            tags = {**self._tags, "topic": topic, "partition": str(number)}
            yield TaskMetric(
                f"{_SOURCE}_record_count", "Records copied to the target.", tags, figures.records
            )
            yield TaskMetric(
                f"{_SOURCE}_byte_count", "Bytes of values, or of whole batches, copied.", tags, figures.bytes
            )
            age = "How old records were when they were read, in milliseconds."
            for name, about, value in figures.age.rows(f"{_SOURCE}_record_age_ms", age):
                yield TaskMetric(name, about, tags, value)
            latency = "How old records were when they were in the copy, in milliseconds."
            for name, about, value in figures.latency.rows(f"{_SOURCE}_replication_latency_ms", latency):
                yield TaskMetric(name, about, tags, value)


class CheckpointMetrics:
    """Counts the checkpoints of one task.

    Args:
        source, target: aliases.
    """

    def __init__(self, source: str, target: str) -> None:
        self._tags = {"source": source, "target": target}
        self._groups: dict[tuple[str, TopicPartition], Times] = {}

    def written(self, group: str, copy: TopicPartition, latency_ms: float) -> None:
        """A checkpoint is on the target, so long after the group's offset was read."""
        self._groups.setdefault((group, copy), Times()).note(latency_ms)

    def rows(self) -> Iterator[TaskMetric]:
        """All of them."""
        about = "How long checkpoints took to the target, in milliseconds."
        for (group, (topic, number)), times in list(self._groups.items()):
            tags = {**self._tags, "group": group, "topic": topic, "partition": str(number)}
            for name, text, value in times.rows(f"{_CHECKPOINT}_checkpoint_latency_ms", about):
                yield TaskMetric(name, text, tags, value)
