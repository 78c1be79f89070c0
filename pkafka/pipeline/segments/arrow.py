"""The rows of splits as Arrow record batches, built column by column; only the columns asked for are made.

Where none of them needs the records themselves, a batch is neither decompressed nor decoded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pkafka.pipeline.segments.plan import Segment, SourceError, Split, Wanted, gone
from pkafka.pipeline.segments.reading import WRONG_CHECKSUM, Damage, batches_of
from pkafka.records.batch import BatchHeader
from pkafka.records.columns import Headers, RecordColumns
from pkafka.records.errors import RecordError
from pkafka.records.reading import decode_columns_at
from pkafka.tools.logs.records.plain_text import sequences_of
from pkafka.tools.logs.rows import codec_name
from pkafka.tools.logs.segment_walk import Batch
from pkafka.tools.logs.selection import Selection

_ROWS_AT_ONCE: Final = 1 << 14
_BYTES_AT_ONCE: Final = 8 << 20
_NO_TIMESTAMP_TYPE: Final = -1
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TYPES: Final[Mapping[str, Any]] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": _TIMESTAMP,
    "array<struct<key:string,value:binary>>": pa.list_(pa.field("element", _HEADER)),
}
_OF_RECORDS: Final = frozenset({"key", "value", "offset", "timestamp", "headers", "sequence"})
"""Columns whose values are those of single records; the others are the same for all records of a batch."""
_CONTENT: Final = frozenset({"key", "value", "headers"})


def arrow_schema(columns: Sequence[str], types: Mapping[str, str]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """The schema of record batches with these columns, whose types are given in Spark's SQL."""
    return pa.schema([pa.field(name, _TYPES[types[name]]) for name in columns])


def record_rows(splits: Iterable[Split], schema: Any, wanted: Wanted) -> Iterator[Any]:  # noqa: ANN401 - as above
    """A row per record; damage is a row with a position and an error.

    Args:
        splits: one after the other.
        schema: of columns of ``RECORD_COLUMNS``.
        wanted: which records; the segments are right already.

    Raises:
        SourceError: a segment is gone.
        OSError: a file cannot be read.
    """
    selection = wanted.records
    # A header does not know the earliest time of its records: they say it themselves.
    by_header = selection._replace(time_to=None)
    reader = _RecordReader(frozenset(schema.names), selection)
    for split in splits:
        rows = _RecordRows(split.segment, schema)
        for found in _found(split, by_header):
            reader.add(rows, found)
            if rows.is_full:
                yield rows.taken()
        if rows.count:
            yield rows.taken()


def batch_rows(splits: Iterable[Split], schema: Any, wanted: Wanted) -> Iterator[Any]:  # noqa: ANN401 - as above
    """A row per batch, of ``BATCH_COLUMNS``; the rest as :func:`record_rows`."""
    for split in splits:
        rows = _Rows(split.segment, schema)
        for found in _found(split, wanted.records):
            rows.add_batch(found)
            if rows.count >= _ROWS_AT_ONCE:
                yield rows.taken()
        if rows.count:
            yield rows.taken()


def _found(split: Split, selection: Selection) -> Iterator[Batch | Damage]:
    try:
        yield from batches_of(split, None if selection.is_everything else selection.may_have)
    except FileNotFoundError as error:
        raise SourceError(gone(split.segment)) from error


class _Facts(NamedTuple):
    """What all records of a batch have in common, by the names of columns; None where damage leaves nothing known."""

    position: int
    error: str | None = None
    batchBaseOffset: int | None = None
    producerId: int | None = None
    producerEpoch: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    codec: str | None = None
    leaderEpoch: int | None = None
    magic: int | None = None
    timestampType: int | None = None


def _facts(position: int, header: BatchHeader) -> _Facts:
    return _Facts(
        position=position,
        batchBaseOffset=header.base_offset,
        producerId=header.producer_id,
        producerEpoch=header.producer_epoch,
        transactional=header.magic >= 2 and header.is_transactional,
        control=header.magic >= 2 and header.is_control,
        codec=codec_name(header.codec),
        leaderEpoch=header.partition_leader_epoch,
        magic=header.magic,
        timestampType=_timestamp_type(header),
    )


def _timestamp_type(header: BatchHeader) -> int:
    return header.timestamp_type if header.magic > 0 else _NO_TIMESTAMP_TYPE


class _RecordReader:
    """Decodes of batches what the columns need."""

    def __init__(self, columns: frozenset[str], selection: Selection) -> None:
        self._columns = columns
        self._selection = selection

    def add(self, rows: "_RecordRows", found: Batch | Damage) -> None:
        """Add the records of a batch, or a row that says why there are none."""
        if isinstance(found, Damage):
            rows.add_error(_Facts(found.position, f"{found.size} bytes are no batch: {found.reason}"))
            return
        view, at, position, _, header, is_valid = found
        if not is_valid:
            rows.add_error(_Facts(position, WRONG_CHECKSUM))
            return
        if self._is_known(header):
            rows.add_counted(header, _facts(position, header))
            return
        try:
            # Of old formats the checksums of wrapped messages have not been looked at yet.
            is_old = header.magic < 2
            header, columns = decode_columns_at(view, at, None if is_old else header, check_crc=is_old)
        except RecordError as error:
            rows.add_error(_Facts(position, error.message))
            return
        if columns is not None:
            rows.add(_selected(columns, self._selection), header, _facts(position, header))

    def _is_known(self, header: BatchHeader) -> bool:
        """Whether the header says all that the columns need, and nothing of the batch is left out."""
        return (
            header.magic >= 2
            and header.records_count == header.last_offset_delta + 1
            and self._selection.is_everything
            and not self._columns & _CONTENT
            and ("timestamp" not in self._columns or header.timestamp_type == 1)
        )


class _Rows:
    """Rows of one segment that wait to become a record batch: batches' facts so far, each with the rows before it."""

    def __init__(self, segment: Segment, schema: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        self.count = 0
        self._segment = segment
        self._schema = schema
        self._values: dict[str, list[Any]] = {}
        self._clear()

    def add_batch(self, found: Batch | Damage) -> None:
        """Add a row for a batch."""
        self.count += 1
        if isinstance(found, Damage):
            row = {"position": found.position, "size": found.size, "error": f"no batch: {found.reason}"}
        else:
            row = _batch_row(found)
        for name, values in self._values.items():
            values.append(row.get(name))

    def taken(self) -> Any:  # noqa: ANN401 - as above
        """What has been added, as a record batch; nothing is left."""
        arrays = [self._array(field) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._clear()
        return batch

    def _clear(self) -> None:
        self.count = 0
        self._values = {name: [] for name in self._schema.names}

    def _array(self, field: Any) -> Any:  # noqa: ANN401 - as above
        if field.name in ("topic", "partition", "segment"):
            place = {
                "topic": self._segment.topic,
                "partition": self._segment.partition,
                "segment": self._segment.path,
            }
            return pa.repeat(pa.scalar(place[field.name], field.type), self.count)
        values = self._values[field.name]
        return _timestamps(values) if field.type == _TIMESTAMP else pa.array(values, field.type)


class _RecordRows(_Rows):
    """Rows that are records: of columns that are the same for a batch one value is kept for all its rows."""

    @property
    def is_full(self) -> bool:
        """Whether it is time to take them."""
        return self.count >= _ROWS_AT_ONCE or self._bytes > _BYTES_AT_ONCE

    def add(self, records: RecordColumns, header: BatchHeader, facts: _Facts) -> None:
        """Add the records of a batch."""
        count, values = len(records), self._values
        if not count:
            return
        if "offset" in values:
            values["offset"] += records.offsets
        if "timestamp" in values:
            values["timestamp"] += records.timestamps
        if "key" in values:
            values["key"] += records.keys
        if "value" in values:
            values["value"] += records.values
        if "headers" in values:
            values["headers"] += records.headers if records.has_headers else [()] * count
        if "sequence" in values:
            values["sequence"] += islice(sequences_of(records.offsets, header), count)
        self._bytes += header.batch_length
        self._end_run(count, facts)

    def add_counted(self, header: BatchHeader, facts: _Facts) -> None:
        """Add a batch of which all that is needed stands in its header."""
        count, values = header.records_count, self._values
        if count <= 0:
            return
        offsets = range(header.base_offset, header.base_offset + count)
        if "offset" in values:
            values["offset"] += offsets
        if "timestamp" in values:
            values["timestamp"] += [header.max_timestamp] * count
        if "sequence" in values:
            values["sequence"] += islice(sequences_of(offsets, header), count)
        self._end_run(count, facts)

    def add_error(self, facts: _Facts) -> None:
        """Add a row for what is no record."""
        for name in self._values.keys() & _OF_RECORDS:
            self._values[name].append(None)
        self._end_run(1, facts)

    def _end_run(self, count: int, facts: _Facts) -> None:
        self.count += count
        self._ends.append(self.count)
        self._facts.append(facts)

    def _clear(self) -> None:
        super()._clear()
        self._bytes = 0
        self._ends: list[int] = []
        self._facts: list[_Facts] = []

    def _array(self, field: Any) -> Any:  # noqa: ANN401 - as above
        name = field.name
        if name == "headers":
            return _headers(self._values[name], field.type)
        if name not in _Facts._fields:
            return super()._array(field)
        values = pa.array([getattr(facts, name) for facts in self._facts], field.type)
        ends = pa.array(self._ends, pa.int32())
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))


def _batch_row(batch: Batch) -> dict[str, object]:
    header = batch.header
    is_old = header.magic < 2
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "recordsCount": header.records_count,
        "baseTimestamp": None if header.has_delete_horizon else header.base_timestamp,
        "maxTimestamp": header.max_timestamp,
        "timestampType": _timestamp_type(header),
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "transactional": not is_old and header.is_transactional,
        "control": not is_old and header.is_control,
        "deleteHorizon": header.base_timestamp if header.has_delete_horizon else None,
        "codec": codec_name(header.codec),
        "leaderEpoch": header.partition_leader_epoch,
        "magic": header.magic,
        "crc": header.crc,
        "size": batch.size,
        "position": batch.position,
        "error": None if batch.is_valid else WRONG_CHECKSUM,
    }


def _selected(columns: RecordColumns, selection: Selection) -> RecordColumns:
    """Those of a batch's records that are wanted."""
    if selection.is_everything:
        return columns
    chosen = [
        index
        for index, (offset, time) in enumerate(zip(columns.offsets, columns.timestamps, strict=True))
        if selection.has(offset, time)
    ]
    if len(chosen) == len(columns):
        return columns
    rows = list(columns.rows())
    return RecordColumns.of(rows[index] for index in chosen)


def _timestamps(values: Sequence[int | None]) -> Any:  # noqa: ANN401 - as above
    """Times in ms as Spark has them, in microseconds; null for -1 and for what is too large for them."""
    times = pa.array(values, pa.int64())
    times = pc.if_else(pc.less(times, 0), pa.scalar(None, pa.int64()), times)
    largest = pa.scalar((2**63 - 1) // 1000, pa.int64())
    times = pc.if_else(pc.greater(times, largest), pa.scalar(None, pa.int64()), times)
    return pc.multiply(times, 1000).cast(_TIMESTAMP)


def _headers(values: Sequence[Headers | None], kind: Any) -> Any:  # noqa: ANN401 - as above
    """Headers as lists; null where there are none, as Spark's own source for Kafka has it."""
    if not any(values):
        return pa.nulls(len(values), kind)
    offsets: list[int | None] = []
    names: list[str] = []
    contents: list[bytes | None] = []
    for headers in values:
        offsets.append(len(names) if headers else None)
        for name, content in headers or ():
            names.append(name)
            contents.append(content)
    structs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(contents, pa.binary())], fields=list(_HEADER)
    )
    return pa.ListArray.from_arrays(pa.array([*offsets, len(names)], pa.int32()), structs, type=kind)
