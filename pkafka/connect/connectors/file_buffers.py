"""Records on their way into files: which belong into one file, and when it is whole. Pure.

What belongs together depends on the records alone, not on when they come, so a task that reads them again makes the
same files; but for :attr:`Rotation.wait_ms`, by which a file that does not fill up is written in the end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pkafka.connect.data.records import SinkRecord
from pkafka.connect.data.schema import Schema

Row = Any
"""A record as its format holds it."""


class Rotation(NamedTuple):
    """When a file is whole; None asks for nothing.

    Args:
        records: it has so many.
        size_bytes: its records have so many bytes.
        interval_ms: the next record's time is so much later than the first one's.
        wait_ms: so much time has passed since its first record came.
    """

    records: int
    size_bytes: int
    interval_ms: int | None
    wait_ms: int | None


class Encoded(NamedTuple):
    """A record as it comes into a file.

    Args:
        schema: that all records of a file have in common; None: the format asks for none.
    """

    row: Row
    size_bytes: int
    schema: Schema | None


@dataclass(slots=True)
class FileOfRecords:
    """A file that gets records.

    Args:
        first: the offset of its first record, by which it is named.
        since_ms: when that came.
        timestamp: of its first record.
    """

    first: int
    since_ms: int
    timestamp: int | None
    schema: Schema | None
    last: int = -1
    size_bytes: int = 0
    rows: list[Row] = field(default_factory=list)


class PartitionFiles:
    """The files of one partition.

    Args:
        rotation: when they are whole.
        encode: makes a row of a record; None: the record is left out.
    """

    def __init__(self, rotation: Rotation, encode: Callable[[SinkRecord], Encoded | None]) -> None:
        self._rotation = rotation
        self._encode = encode
        self._open: FileOfRecords | None = None
        self._next = -1
        """Records before this offset were taken; they come again when a file could not be written."""
        self.whole: list[FileOfRecords] = []
        """Files to be written, the oldest first."""

    def add(self, record: SinkRecord, now_ms: int) -> None:
        """Take a record, unless it was taken before."""
        if record.original_offset < self._next:
            return
        encoded = self._encode(record)
        self._next = record.original_offset + 1
        if encoded is None:
            return
        if self._open is not None and self._begins_another(self._open, record, encoded):
            self._close()
        found = self._open
        if found is None:
            found = FileOfRecords(record.original_offset, now_ms, record.timestamp, encoded.schema)
            self._open = found
        found.rows.append(encoded.row)
        found.last = record.original_offset
        found.size_bytes += encoded.size_bytes
        if len(found.rows) >= self._rotation.records or found.size_bytes >= self._rotation.size_bytes:
            self._close()

    def look(self, now_ms: int) -> None:
        """End a file that has waited long enough."""
        wait_ms = self._rotation.wait_ms
        if self._open is not None and wait_ms is not None and now_ms - self._open.since_ms >= wait_ms:
            self._close()

    def may_commit(self, offset: int) -> int:
        """The offset that may be committed: of the first record that is in no written file yet.

        Args:
            offset: behind all that was taken.
        """
        waiting = (*self.whole, *([] if self._open is None else [self._open]))
        return min(offset, waiting[0].first) if waiting else offset

    def _begins_another(self, found: FileOfRecords, record: SinkRecord, encoded: Encoded) -> bool:
        interval_ms = self._rotation.interval_ms
        is_later = (
            interval_ms is not None
            and record.timestamp is not None
            and found.timestamp is not None
            and record.timestamp - found.timestamp >= interval_ms
        )
        return is_later or found.schema != encoded.schema

    def _close(self) -> None:
        assert self._open is not None
        self.whole.append(self._open)
        self._open = None
