"""What a sink task has yet to take, as the parts in which it gets it: pure; ``sink_run`` calls ``put``.

There is one part, until ``put`` refuses one for the sake of a record in it. Then that part is halved, and so on until a
part that is refused is a single record. Parts are given in the order in which their records were read, so the order
within a partition stays. One bad record in a batch of n takes at most 2 log2(n) + 1 calls, and n of n take 2n - 1.
"""

from collections import deque
from collections.abc import Collection, Sequence

from pkafka.connect.data.records import SinkRecord
from pkafka.model import TopicPartition


def place_of(record: SinkRecord) -> tuple[str, int, int]:
    """Where a record was read: topic, partition and offset, whatever transforms have made of these."""
    return record.original_topic or "", record.original_partition or 0, record.original_offset


class PendingRecords:
    """The records that were read and converted, and that ``put`` did not take yet."""

    def __init__(self) -> None:
        self._parts: deque[list[SinkRecord]] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def first(self) -> Sequence[SinkRecord]:
        """What ``put`` gets next; empty: nothing is pending."""
        return self._parts[0] if self._parts else ()

    def add(self, record: SinkRecord) -> None:
        """Append a record, to the last part."""
        if not self._parts:
            self._parts.append([])
        self._parts[-1].append(record)

    def settle(self) -> None:
        """The first part is done: taken, or its record is a dead letter."""
        if self._parts:
            self._parts.popleft()

    def halve(self) -> None:
        """Make two parts of the first one, which has more than one record."""
        part = self._parts.popleft()
        middle = len(part) // 2
        self._parts.extendleft((part[middle:], part[:middle]))

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Leave out the records that were read from some partitions."""
        kept = (
            [each for each in part if TopicPartition(*place_of(each)[:2]) not in partitions]
            for part in self._parts
        )
        self._parts = deque(part for part in kept if part)

    def clear(self) -> None:
        """Leave out all."""
        self._parts.clear()
