"""What a fetch brings of one partition, piece by piece: columns of records, for programs that look at many of them."""

from collections.abc import Iterator, Sequence

from pkafka.model import TopicPartition
from pkafka.records.columns import Headers, RecordColumns
from pkafka.records.reading import Record


class Chunk:
    """Records of one partition that follow each other, of one batch or of several: a column for each of their parts.

    The fast way to many records: nothing is made for a record but its key and its value, and those are bytes;
    deserializers are not applied. Headers are decoded when they are asked for.

    Args:
        partition: where they were read.
        columns: the records.
        timestamp_type: 0 = CreateTime, 1 = LogAppendTime.
        leader_epoch: of the leader that appended them.
    """

    __slots__ = ("_columns", "_count", "leader_epoch", "partition", "timestamp_type")

    def __init__(
        self, partition: TopicPartition, columns: RecordColumns, timestamp_type: int, leader_epoch: int
    ) -> None:
        self.partition = partition
        self.timestamp_type = timestamp_type
        self.leader_epoch = leader_epoch
        self._columns = columns
        self._count = len(columns.values)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        offsets = self.offsets
        return f"<{len(self)} records of {self.partition} from offset {offsets[0]} to {offsets[-1]}>"

    @property
    def offsets(self) -> Sequence[int]:
        """Offsets, growing; a range where no record is missing."""
        return self._columns.offsets

    @property
    def timestamps(self) -> Sequence[int]:
        """Milliseconds since the epoch; -1 for none."""
        return self._columns.timestamps

    @property
    def keys(self) -> list[bytes | None]:
        """Keys; None for null."""
        return self._columns.keys

    @property
    def values(self) -> list[bytes | None]:
        """Values; None for null."""
        return self._columns.values

    @property
    def headers(self) -> Sequence[Headers]:
        """Name and bytes of the headers of every record."""
        return self._columns.headers

    @property
    def has_headers(self) -> bool:
        """Whether any record may have headers."""
        return self._columns.has_headers

    @property
    def records(self) -> list[Record]:
        """The records one by one."""
        return [Record(*row) for row in self.rows()]

    def rows(self) -> Iterator[tuple[int, int, bytes | None, bytes | None, Headers]]:
        """(offset, timestamp, key, value, headers) of every record."""
        return self._columns.rows()

    def part(self, start: int, stop: int | None = None) -> "Chunk":
        """The records from index ``start`` on, up to ``stop``."""
        return Chunk(self.partition, self._columns.part(start, stop), self.timestamp_type, self.leader_epoch)
