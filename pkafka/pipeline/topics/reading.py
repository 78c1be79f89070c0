"""Reads ranges of offsets as Arrow record batches, with the rows of Spark's own Kafka source.

A task reads one range: from its start to its end, whatever is written meanwhile, so a task that is tried again reads
the same. Columns come out of the consumer as columns and become Arrow's; no object is made for a record.
"""

import itertools
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pkafka.clients.consumer import Chunk, Consumer
from pkafka.clients.consumer.errors import OffsetOutOfRangeError
from pkafka.clients.errors import ClientTimeoutError, Stage
from pkafka.errors import ErrorCode
from pkafka.pipeline.topics.offsets import OffsetLookup, lost, plan_batch
from pkafka.pipeline.topics.options import OptionError, ReadOptions, batch_options
from pkafka.pipeline.topics.ranges import OffsetRange, split

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
"""Of the column ``headers``, in what is read and in what is written."""

_FIELDS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
_ARROW_TYPES: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
_ROWS_MAX: Final = 10_000  # of an Arrow batch, as spark.sql.execution.arrow.maxRecordsPerBatch has it
_POLL_MS: Final = (
    100  # behind the last record of a range there may be markers alone: then no poll returns anything
)
_TOPIC_GONE_MS: Final = 5_000  # a broker that has just started does not know its topics yet
_log = logging.getLogger("pkafka.pipeline.topics_reading")  # the name that users configure


def row_schema(*, include_headers: bool) -> StructType:
    """The columns of a row, as Spark's own source has them."""
    fields = list(_FIELDS)
    return StructType([*fields, StructField("headers", HEADERS)] if include_headers else fields)


def check_schema(schema: StructType, options: ReadOptions) -> list[str]:
    """The columns that are wanted: all, or those of a schema that names some of them.

    Raises:
        OptionError: the schema has something else.
    """
    known = {field.name: field.dataType for field in row_schema(include_headers=options.include_headers)}
    if any(known.get(field.name) != field.dataType for field in schema):
        raise OptionError(
            "Kafka source has a fixed schema and cannot be set with a custom one, but for one that leaves columns out; "
            f"its columns are {', '.join(known)}"
        )
    return [field.name for field in schema]


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """What one task reads."""

    range: OffsetRange


class TopicsReader(DataSourceReader):
    """A batch read.

    Args:
        given: the options, by name.
        schema: which columns are wanted.

    Raises:
        OptionError: an option or the schema cannot be.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = batch_options(given)
        self._columns = check_schema(schema, self._options)
        for option in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            if option.lower() in {name.lower() for name in given}:
                _log.warning("%s option ignored in batch queries", option)

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges with both ends as offsets; see :func:`pkafka.pipeline.topics.offsets.plan_batch`."""
        options = self._options
        with OffsetLookup(options, fail_fast=True) as lookup:
            ranges = plan_batch(lookup, options)
        pieces = split(ranges, partitions_min=options.partitions_min, records_max=options.records_max)
        return [RangePartition(each) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range; none where the plan has no range at all."""
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_range(partition.range, self._options, self._columns)


def read_range(wanted: OffsetRange, options: ReadOptions, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records of a range as Arrow record batches.

    Args:
        columns: the ones that are wanted, in this order.

    Raises:
        DataLossError: a part of the range is not there any more, and ``failOnDataLoss`` is true.
        ClientTimeoutError: no record came within ``kafkaConsumer.pollTimeoutMs``.
        ApiError, ClientError: the partition cannot be read.
    """
    schema = pa.schema([(name, _ARROW_TYPES[name]) for name in columns])
    for chunks in _chunks(wanted, options):
        arrays = [_COLUMNS[name](chunks) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chunks(wanted: OffsetRange, options: ReadOptions) -> Iterator[list[Chunk]]:
    """The records of a range as the consumer's columns, those of one poll together."""
    partition = wanted.topic_partition
    with Consumer(options.consumer) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, wanted.start)
        patience = _Patience(consumer, wanted, options)
        while (position := consumer.position(partition)) < wanted.end:
            try:
                chunks = consumer.poll_chunks(_POLL_MS, records_max=_ROWS_MAX)
            except OffsetOutOfRangeError:
                consumer.seek(partition, _skipped(consumer, wanted, position, options))
                continue
            if chunks:
                patience.renew()
                if chunks[-1].offsets[-1] >= wanted.end:
                    chunks = [each for chunk in chunks if (each := _before(chunk, wanted.end))]
                if chunks:
                    yield chunks
            elif consumer.position(partition) == position and patience.is_lost(position):
                return


def _before(chunk: Chunk, end: int) -> Chunk | None:
    """The records of a chunk before an offset; None where there are none."""
    count = bisect_left(chunk.offsets, end)
    return chunk.part(0, count) if count else None


def _skipped(consumer: Consumer, wanted: OffsetRange, position: int, options: ReadOptions) -> int:
    """Where to go on when the log does not hold a position: at its first record, or not at all."""
    partition = wanted.topic_partition
    first = consumer.beginning_offsets([partition])[partition]
    lost(options, f"Cannot fetch offset {position} of {partition}, which begins at {first}")
    # Before a position that is behind the log's end there is nothing of this range: the topic was made anew.
    return min(first, wanted.end) if first > position else wanted.end


class _Patience:
    """How long nothing has come, and what that means."""

    def __init__(self, consumer: Consumer, wanted: OffsetRange, options: ReadOptions) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._options = options
        self._began = time.monotonic()

    def renew(self) -> None:
        """A record came."""
        self._began = time.monotonic()

    def is_lost(self, position: int) -> bool:
        """Whether the rest of the range does not exist, and may be left out.

        Raises:
            DataLossError: it may not.
            ClientTimeoutError: it exists, and did not come in time.
        """
        partition, waited_ms = self._wanted.topic_partition, (time.monotonic() - self._began) * 1_000
        limit_ms = self._options.poll_timeout_ms
        if waited_ms >= min(_TOPIC_GONE_MS, limit_ms):
            view = self._consumer.partitions_for(partition.topic)
            if view.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                lost(
                    self._options,
                    f"Topic {partition.topic} was deleted before offset {position} of {partition} was read",
                )
                return True
        if waited_ms < limit_ms:
            return False
        end = self._consumer.end_offsets([partition])[partition]
        if end <= position:
            lost(self._options, f"Cannot fetch offset {position} of {partition}, which ends at {end}")
            return True
        raise ClientTimeoutError(
            Stage.REQUEST,
            f"Cannot fetch record for offset {position} of {partition} in {limit_ms} milliseconds",
            hint="kafkaConsumer.pollTimeoutMs says how long a task waits",
        )


# -- columns ----------------------------------------------------------------------------------------------


def _of_all(chunks: Sequence[Chunk], get: Callable[[Chunk], Sequence[Any]]) -> Sequence[Any]:
    return get(chunks[0]) if len(chunks) == 1 else list(itertools.chain.from_iterable(map(get, chunks)))


def _rows(chunks: Sequence[Chunk]) -> int:
    return sum(map(len, chunks))


def _timestamps(chunks: Sequence[Chunk]) -> pa.Array:
    """Milliseconds as the microseconds of Spark; records of old formats without a time have -1 ms, as Spark shows."""
    times = pa.array(_of_all(chunks, lambda each: each.timestamps), pa.int64())
    return pc.multiply(times, 1_000).cast(_ARROW_TYPES["timestamp"])


def _timestamp_types(chunks: Sequence[Chunk]) -> pa.Array:
    return pa.concat_arrays(
        [pa.repeat(pa.scalar(each.timestamp_type, pa.int32()), len(each)) for each in chunks]
    )


def _headers(chunks: Sequence[Chunk]) -> pa.Array:
    """Null where a record has none, as Spark has it."""
    rows: list[list[dict[str, object]] | None] = []
    for chunk in chunks:
        if not chunk.has_headers:
            rows += [None] * len(chunk)
            continue
        for headers in chunk.headers:
            rows.append([{"key": key, "value": value} for key, value in headers] if headers else None)
    return pa.array(rows, _ARROW_TYPES["headers"])


_COLUMNS: Final[Mapping[str, Callable[[Sequence[Chunk]], pa.Array]]] = {
    "key": lambda chunks: pa.array(_of_all(chunks, lambda each: each.keys), pa.binary()),
    "value": lambda chunks: pa.array(_of_all(chunks, lambda each: each.values), pa.binary()),
    "topic": lambda chunks: pa.repeat(chunks[0].partition.topic, _rows(chunks)),
    "partition": lambda chunks: pa.repeat(
        pa.scalar(chunks[0].partition.partition, pa.int32()), _rows(chunks)
    ),
    "offset": lambda chunks: pa.array(_of_all(chunks, lambda each: each.offsets), pa.int64()),
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
}
