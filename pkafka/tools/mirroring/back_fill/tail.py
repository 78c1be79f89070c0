"""Which records of the source are in the copy already, behind the last offset sync of a run that was killed. Pure."""

from collections import deque
from typing import Final, TypeAlias

from pkafka.clients.raw_batch import RawBatch
from pkafka.records.columns import Headers
from pkafka.tools.mirroring.routes import columns_of

_Row: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]
_NO_TIME: Final = -1


class Tail:
    """Finds the records of the source, in their order, among those of the copy.

    Counting would not do: retention and compaction may have removed records of the source since they were copied.

    Args:
        ignores_timestamps: as where the target's brokers set them.

    Attributes:
        last_found: the offset in the copy of the last record that was found; None: there is none, or it is not known.
    """

    def __init__(self, *, ignores_timestamps: bool = False) -> None:
        self.last_found: int | None = None
        self._ignores_timestamps = ignores_timestamps
        self._rows: deque[tuple[int | None, _Row]] = deque()

    def add(self, batch: RawBatch) -> None:
        """Take the next batch of the copy."""
        columns = columns_of(batch)
        for offset, timestamp, key, value, headers in columns.rows():
            known = None if batch.was_encoded_again else offset
            self._rows.append((known, (timestamp, key, value, headers)))

    def there(self, batch: RawBatch, start: int = 0) -> int:
        """How many of the first records of a batch of the source are copied.

        Args:
            start: so many of them are, as is known.

        Returns:
            All, or the place of the first that is not: then none behind it is, as far as the copy was handed in.
        """
        columns = columns_of(batch).part(start)
        for index, (_, timestamp, key, value, headers) in enumerate(columns.rows()):
            if not self._find((timestamp, key, value, headers)):
                return start + index
        return batch.record_count

    def _find(self, wanted: _Row) -> bool:
        """Whether a record comes; what stands before it is not in the source any more."""
        while self._rows:
            offset, found = self._rows.popleft()
            if self._is_same(wanted, found):
                self.last_found = offset
                return True
        return False

    def _is_same(self, wanted: _Row, found: _Row) -> bool:
        is_any_time = self._ignores_timestamps or wanted[0] == _NO_TIME
        return wanted[1:] == found[1:] and (is_any_time or wanted[0] == found[0])
