"""Whether a copy of a partition has the records of its source, in their order. Pure: who reads hands in batches.

Batches whose bytes are the same are not decoded: most of a copy that went in whole batches is compared as it is read.
A mirror that is killed copies some records again, so what came before is counted as repeated, not as wrong.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pkafka.clients.raw_batch import RawBatch
from pkafka.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from pkafka.records.columns import RecordColumns
from pkafka.records.reading import decode_columns_at

WINDOW_RECORDS: Final = 100_000
"""How many records back a record that comes again is known."""


class Difference(NamedTuple):
    """The first place where a copy is not what it should be.

    Args:
        source_offset: of the record that is expected; None where the source has no more.
        target_offset: of the record that is there.
        part: what differs of them: ``timestamp``, ``key``, ``value``, ``headers``; ``record``: more than
            one of these, or the record is one too many.
    """

    source_offset: int | None
    target_offset: int
    part: str


@dataclass(slots=True)
class _Piece:
    """A batch, and how much of it is compared."""

    batch: RawBatch
    columns: RecordColumns | None = None
    index: int = 0

    @property
    def rows(self) -> RecordColumns:
        """Its records; decoded once."""
        if self.columns is None:
            data = self.batch.data
            _, found = decode_columns_at(memoryview(data), 0, read_header(data), check_crc=False)
            assert found is not None  # a consumer gives no batch without records
            self.columns = found
        return self.columns

    @property
    def left(self) -> int:
        """How many of its records are not compared."""
        return self.batch.record_count - self.index

    def offset(self) -> int:
        """Of its next record."""
        if self.batch.was_encoded_again:  # its records stand close together now, whatever was between them
            return self.batch.first_offset + self.index
        return self.rows.offsets[self.index] if self.index else self.batch.first_offset


class Comparison:
    """Compares two partitions from a common place on.

    Args:
        ignores_timestamps: as where the target's broker sets them.

    Attributes:
        same: how many records were found on both sides.
        repeated: how many came again on the target.
        difference: where the two part; nothing is compared from there on.
    """

    def __init__(self, *, ignores_timestamps: bool = False) -> None:
        self.same = 0
        self.repeated = 0
        self.difference: Difference | None = None
        self._ignores_timestamps = ignores_timestamps
        self._source: deque[_Piece] = deque()
        self._target: deque[_Piece] = deque()
        self._passed: deque[RawBatch] = deque()
        self._passed_records = 0
        self._known: set[tuple[Any, ...]] | None = None

    @property
    def needs_source(self) -> bool:
        """Whether the source's next batch is needed to go on."""
        return not self._source

    @property
    def needs_target(self) -> bool:
        """Whether the target's next batch is needed to go on."""
        return not self._target

    @property
    def source_offset(self) -> int | None:
        """Of the source's next record, if it is at hand."""
        return self._source[0].offset() if self._source else None

    def add_source(self, batch: RawBatch) -> None:
        """Take the source's next batch."""
        self._source.append(_Piece(batch))

    def add_target(self, batch: RawBatch) -> None:
        """Take the target's next batch."""
        self._target.append(_Piece(batch))

    def compare(self) -> None:
        """Compare what is at hand on both sides."""
        while self._source and self._target and self.difference is None:
            source, target = self._source[0], self._target[0]
            if not source.index and not target.index and self._is_same_batch(source.batch, target.batch):
                self._pass(source.left)
            else:
                self._compare_records(source, target)

    def end(self) -> None:
        """Look at what the target has left, when the source has no more."""
        self.compare()
        while self._target and self.difference is None and not self._source:
            target = self._target[0]
            if not self._is_known(self._row(target.rows, target.index)):
                self.difference = Difference(None, target.offset(), "record")
            else:
                self._repeat(target)

    def _is_same_batch(self, source: RawBatch, target: RawBatch) -> bool:
        if len(source.data) != len(target.data):
            return False
        one, other = read_header(source.data), read_header(target.data)
        return _of_records(one) == _of_records(other) and bytes(source.data[BATCH_OVERHEAD:]) == bytes(
            target.data[BATCH_OVERHEAD:]
        )

    def _compare_records(self, source: _Piece, target: _Piece) -> None:
        count = min(source.left, target.left)
        agree = self._agreeing(source, target, count)
        if agree:
            self._pass(agree)
            return
        wanted, found = self._row(source.rows, source.index), self._row(target.rows, target.index)
        if self._is_known(found):
            self._repeat(target)
            return
        self.difference = Difference(source.offset(), target.offset(), _part(wanted, found))

    def _agreeing(self, source: _Piece, target: _Piece, count: int) -> int:
        """How many of the next ``count`` records are the same, from the first on."""
        one, other = source.rows, target.rows
        start, begin = source.index, target.index
        agree = count
        columns: list[tuple[Sequence[object], Sequence[object]]] = [
            (one.values, other.values),
            (one.keys, other.keys),
            (one.headers, other.headers),
        ]
        if not self._ignores_timestamps:
            columns.append((one.timestamps, other.timestamps))
        for here, there in columns:
            if list(here[start : start + agree]) != list(there[begin : begin + agree]):
                agree = next(index for index in range(agree) if here[start + index] != there[begin + index])
        return agree

    def _row(self, rows: RecordColumns, index: int) -> tuple[Any, ...]:
        timestamp = None if self._ignores_timestamps else rows.timestamps[index]
        return timestamp, rows.keys[index], rows.values[index], rows.headers[index]

    def _pass(self, count: int) -> None:
        """Go on by records that are the same."""
        self.same += count
        self._known = None
        source = self._source[0]
        source.index += count
        if not source.left:
            self._remember(self._source.popleft().batch)
        self._advance_target(count)

    def _repeat(self, target: _Piece) -> None:
        """Go on by a record of the target that was there before."""
        assert target is self._target[0]
        self.repeated += 1
        self._advance_target(1)

    def _advance_target(self, count: int) -> None:
        target = self._target[0]
        target.index += count
        if not target.left:
            self._target.popleft()

    def _remember(self, batch: RawBatch) -> None:
        self._passed.append(batch)
        self._passed_records += batch.record_count
        while self._passed_records - self._passed[0].record_count >= WINDOW_RECORDS:
            self._passed_records -= self._passed.popleft().record_count

    def _is_known(self, row: tuple[Any, ...]) -> bool:
        """Whether a record was passed not long ago."""
        if self._known is None:
            pieces = [(_Piece(each), each.record_count) for each in self._passed]
            pieces += [(each, each.index) for each in list(self._source)[:1]]
            self._known = {self._row(piece.rows, index) for piece, count in pieces for index in range(count)}
        return row in self._known


def _of_records(header: BatchHeader) -> tuple[int, ...]:
    """What a header says about the records, and not about their place or producer."""
    return header.records_count, header.attributes & 0x0F, header.base_timestamp


def _part(wanted: tuple[Any, ...], found: tuple[Any, ...]) -> str:
    differing = [
        name
        for name, one, other in zip(("timestamp", "key", "value", "headers"), wanted, found, strict=True)
        if one != other
    ]
    return differing[0] if len(differing) == 1 else "record"
