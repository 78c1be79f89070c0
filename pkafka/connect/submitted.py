"""Which source offsets may be stored: those up to the first record of a source partition that is not in Kafka yet.

Pure: the task says what it sends and what was acknowledged; records of one source partition count in their order, those
of different partitions do not wait for each other (``SubmittedRecords``).
"""

from collections import deque
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from pkafka.connect.connector import SourcePlace


class Submitted:
    """One record that was sent."""

    __slots__ = ("acknowledged", "offset")

    def __init__(self, offset: SourcePlace | None) -> None:
        self.offset = offset
        self.acknowledged = False


class Committable(NamedTuple):
    """What may be stored now."""

    offsets: list[tuple[SourcePlace, SourcePlace | None]]
    """The last offset of each source partition that came further."""
    records: int
    """How many records these are."""
    waiting: int
    """How many records were sent and are not acknowledged."""


class SubmittedRecords:
    """Keeps the records of one task that are on their way. Not for several threads at once."""

    def __init__(self) -> None:
        self._partitions: dict[Hashable, tuple[SourcePlace, deque[Submitted]]] = {}
        self._last: tuple[SourcePlace, deque[Submitted]] | None = None
        """Of the last record: as a rule the next one is of the same partition, and of the same mapping."""
        self.waiting = 0
        """How many records are not acknowledged."""

    def submit(self, partition: SourcePlace, offset: SourcePlace | None) -> Submitted:
        """Note a record before it is sent."""
        record = Submitted(offset)
        self.waiting += 1
        if self._last is None or self._last[0] is not partition:
            key = frozenset(partition.items())
            self._last = (partition, self._partitions.setdefault(key, (partition, deque()))[1])
        self._last[1].append(record)
        return record

    def acknowledge(self, records: Iterable[Submitted]) -> None:
        """Note that records are in Kafka, or are skipped."""
        for record in records:
            if not record.acknowledged:
                record.acknowledged = True
                self.waiting -= 1

    def committable(self) -> Committable:
        """Take what may be stored now; it is not given again."""
        offsets: list[tuple[SourcePlace, SourcePlace | None]] = []
        count = 0
        for key, (partition, records) in list(self._partitions.items()):
            last: Submitted | None = None
            while records and records[0].acknowledged:
                last = records.popleft()
                count += 1
            if last is not None:
                offsets.append((partition, last.offset))
            if not records:
                del self._partitions[key]
        self._last = None
        return Committable(offsets, count, self.waiting)
