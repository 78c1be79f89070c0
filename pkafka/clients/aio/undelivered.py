"""Records that a poll returned and no coroutine has taken yet. Knows no loop and no thread."""

from collections import deque
from collections.abc import Collection, Iterable

from pkafka.clients.consumer.records import ConsumerRecord
from pkafka.model import TopicPartition


class Undelivered:
    """Records in the order in which they are to be delivered."""

    def __init__(self) -> None:
        self._records: deque[ConsumerRecord] = deque()
        self.take_one = self._records.popleft
        """The next record; IndexError where there is none."""

    def __len__(self) -> int:
        return len(self._records)

    def add(self, records: Iterable[ConsumerRecord]) -> None:
        """Records of a poll, behind those that are here."""
        self._records.extend(records)

    def take(self, count: int | None) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records, at most so many, by partition; None takes all."""
        found: dict[tuple[str, int], list[ConsumerRecord]] = {}
        take_one = self.take_one
        for _ in range(len(self) if count is None else min(count, len(self))):
            record = take_one()
            place = record[:2]
            if (row := found.get(place)) is None:
                row = found[place] = []
            row.append(record)
        return {TopicPartition(*place): row for place, row in found.items()}

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Of every partition that has records here, the offset of the first one."""
        first: dict[TopicPartition, int] = {}
        for record in self._records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first

    def give_back(self, partitions: Collection[TopicPartition] | None) -> dict[TopicPartition, int]:
        """Forget the records of these partitions; None: of all.

        Returns:
            Where to read on, so that they are delivered another time.
        """
        first = self.first_offsets()
        gone = first if partitions is None else {each: first[each] for each in partitions if each in first}
        if gone:
            kept = [each for each in self._records if TopicPartition(each.topic, each.partition) not in gone]
            self._records.clear()
            self._records.extend(kept)
        return gone
