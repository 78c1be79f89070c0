"""The data source ``pkafka-log``: segments of logs, pkafka's and Apache Kafka's, as a table. It asks no broker.

``spark.read.format("pkafka-log").load("/data")``, in any session of PySpark 4.1 or newer: Spark finds it by the package
``pyspark_pkafka_log``. ``options`` says what can be asked of it. This is where Spark and files meet: ``plan`` cuts the
files into splits, ``reading`` reads them, ``arrow`` makes columns.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from pkafka.pipeline.segments.options import NARROWING, ROWS, ReadOptions, read_options
from pkafka.pipeline.segments.plan import SourceError, Split, Wanted, find_segments, groups, plan

NOTE: Final = "pkafka-log: "
"""What lines on standard error begin with that are meant for the user of a query."""

_NARROWING: Final = (("topic",), ("partition",), ("offset",), ("timestamp",))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class SegmentsSource(DataSource):
    """Segments as a table, read only."""

    @classmethod
    def name(cls) -> str:
        """The name by which Spark knows it."""
        return "pkafka-log"

    def schema(self) -> str:
        """The columns that the options ask for."""
        return read_options(self.options).ddl

    def reader(self, schema: StructType) -> "SegmentsReader":
        """A reader of these columns.

        Raises:
            SourceError: there is no such column, or it is of another type.
        """
        options = read_options(self.options)
        types = ROWS[options.rows]
        for field in schema.fields:
            kind = field.dataType.simpleString()
            if types.get(field.name) != kind:
                known = ", ".join(f"{name} {each}" for name, each in types.items())
                raise SourceError(
                    f"there is no column {field.name} of type {kind} of {options.rows}; there are {known}"
                )
        return SegmentsReader(options._replace(columns=tuple(schema.fieldNames())))


class SegmentsReader(DataSourceReader):
    """Plans a read and does parts of it.

    Args:
        options: what to read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._wanted = options.wanted
        self.pushFilters = _FilterTaker(self)  # type: ignore[method-assign] # see there why it is no method

    def narrow(self, filters: Iterable[Filter]) -> None:
        """Leave out files, parts of them and batches in which no row can pass the filters; Spark still applies them."""
        for each in filters:
            self._wanted = _narrowed(self._wanted, each)

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task: parts of segments, begun at the boundaries of batches.

        Raises:
            SourceError: a path is no log, or there is no topic of a name that was asked for.
        """
        options, wanted = self._options, self._wanted
        segments = find_segments(options.paths)
        for topic in sorted(options.wanted.topics or ()):
            if all(segment.topic != topic for segment in segments):
                raise SourceError(f"there is no segment of the topic {topic} in {', '.join(options.paths)}")
        made = plan(segments, wanted, split_bytes=options.split_bytes)
        if made.unindexed:
            _note(
                f"{len(made.unindexed)} segment(s) without a right index, as {made.unindexed[0]}: read from "
                "their start to find where batches begin"
            )
        if wanted == Wanted() and len(segments) > 1:
            _note(
                f"all {len(segments)} segments are read; the options {', '.join(NARROWING)} leave segments out, as "
                "conditions do where spark.sql.python.filterPushdown.enabled is true"
            )
        # Spark asks for something to read even where there is nothing.
        return [InputPartition(group) for group in groups(made.splits, options.split_bytes) or [()]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition, as Arrow record batches.

        Raises:
            SourceError: a segment is gone.
        """
        from pkafka.pipeline.segments.arrow import arrow_schema, batch_rows, record_rows

        splits: tuple[Split, ...] = partition.value
        rows = self._options.rows
        schema = arrow_schema(self._options.columns, ROWS[rows])
        return (batch_rows if rows == "batches" else record_rows)(splits, schema, self._wanted)


class _FilterTaker:
    """What Spark calls as ``pushFilters``.

    Spark refuses a reader whose class has a method of that name where its setting for filters is off, which it is by
    default. This is called where it is on, and does not look like such a method where it is off.
    """

    def __init__(self, reader: SegmentsReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take filters; all of them are given back, so that Spark looks at each row all the same."""
        self._reader.narrow(filters)
        return filters


def _narrowed(wanted: Wanted, condition: Filter) -> Wanted:
    """What is wanted when a condition has to hold as well, as far as the condition is about what files can tell."""
    if getattr(condition, "attribute", None) not in _NARROWING:
        return wanted
    match condition:
        case EqualTo((column,), value) | EqualNullSafe((column,), value) if value is not None:
            values = {value}
        case In((column,), found):
            values = {value for value in found if value is not None}
        case GreaterThan((column,), value) | GreaterThanOrEqual((column,), value):
            first = _number(column, value)
            return wanted if first is None else _within(wanted, column, first, None)
        case LessThan((column,), value) | LessThanOrEqual((column,), value):
            last = _number(column, value)
            return wanted if last is None else _within(wanted, column, None, last + 1)
        case _:
            return wanted
    if column == "topic":
        return wanted._replace(topics=_both(wanted.topics, values))
    if column == "partition":
        return wanted._replace(partitions=_both(wanted.partitions, values))
    numbers = [number for value in values if (number := _number(column, value)) is not None]
    return (
        _within(wanted, column, min(numbers), max(numbers) + 1) if len(numbers) == len(values) > 0 else wanted
    )


def _both(known: frozenset[Any] | None, values: set[Any]) -> frozenset[Any]:
    return frozenset(values) if known is None else known & values


def _number(column: str, value: object) -> int | None:
    """An offset, or a time in ms; None for what is neither."""
    if column == "timestamp" and isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return value if column == "offset" and isinstance(value, int) else None


def _within(wanted: Wanted, column: str, first: int | None, end: int | None) -> Wanted:
    records = wanted.records
    names = ("offset_from", "offset_to") if column == "offset" else ("time_from", "time_to")
    bounds = dict(zip(names, (first, end), strict=True))
    choose: tuple[Callable[..., int], Callable[..., int]] = (max, min)
    for name, better in zip(names, choose, strict=True):
        known = getattr(records, name)
        bound = bounds[name]
        if known is not None:
            bounds[name] = known if bound is None else better(known, bound)
    return wanted._replace(records=records._replace(**bounds))


def _note(text: str) -> None:
    sys.stderr.write(f"{NOTE}{text}\n")
