"""The records of one batch as columns: for readers that look at all values of many records."""

from collections.abc import Iterable, Iterator, Sequence

from pkafka.records.loops import decode_headers

Headers = tuple[tuple[str, bytes | None], ...]


class RecordColumns:
    """Records in order of their offsets, each property a sequence with one entry per record.

    Args:
        offsets: a range where nothing is missing between them.
        timestamps: in ms since the epoch, -1 where the format has none.
        keys: None stands for a column of nothing but null.
        values: bytes, or None for null.
        headers: decoded headers, or None for a column of empty ones; or
        data, heads: the records they stand in and where, 0 for none: they are decoded when they are asked for.
    """

    __slots__ = ("_data", "_headers", "_heads", "_keys", "offsets", "timestamps", "values")

    def __init__(
        self,
        offsets: Sequence[int],
        timestamps: Sequence[int],
        keys: list[bytes | None] | None,
        values: list[bytes | None],
        headers: Sequence[Headers] | None = None,
        *,
        data: bytes = b"",
        heads: list[int] | None = None,
    ) -> None:
        self.offsets = offsets
        self.timestamps = timestamps
        self.values = values
        self._keys = keys
        self._headers = headers
        self._data = data
        self._heads = heads

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, bytes | None, bytes | None, Headers]]) -> "RecordColumns":
        """Columns of (offset, timestamp, key, value, headers) of every record."""
        found = list(rows)
        return cls(
            [row[0] for row in found],
            [row[1] for row in found],
            [row[2] for row in found],
            [row[3] for row in found],
            [row[4] for row in found],
        )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def has_headers(self) -> bool:
        """Whether any record may have headers."""
        return self._heads is not None or self._headers is not None

    @property
    def has_keys(self) -> bool:
        """Whether any record may have a key."""
        return self._keys is not None

    @property
    def keys(self) -> list[bytes | None]:
        """Bytes, or None for null."""
        if self._keys is None:
            self._keys = [None] * len(self.values)
        return self._keys

    @property
    def headers(self) -> Sequence[Headers]:
        """Name and bytes of every header of every record."""
        if self._headers is None:
            data, heads = self._data, self._heads
            if heads is None:
                self._headers = ((),) * len(self.values)
            else:
                self._headers = [decode_headers(data, head) if head else () for head in heads]
        return self._headers

    def part(self, start: int, stop: int | None = None) -> "RecordColumns":
        """The records from index ``start`` on, up to ``stop``."""
        return RecordColumns(
            self.offsets[start:stop],
            self.timestamps[start:stop],
            None if self._keys is None else self._keys[start:stop],
            self.values[start:stop],
            None if self._headers is None else self._headers[start:stop],
            data=self._data,
            heads=None if self._heads is None else self._heads[start:stop],
        )

    def rows(self) -> Iterator[tuple[int, int, bytes | None, bytes | None, Headers]]:
        """(offset, timestamp, key, value, headers) of every record."""
        return zip(self.offsets, self.timestamps, self.keys, self.values, self.headers, strict=True)
