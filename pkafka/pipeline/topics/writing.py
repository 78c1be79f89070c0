"""Writes rows to topics, in batches and streams: columns ``key``, ``value``, ``topic``, ``partition`` and ``headers``.

Each task has an idempotent producer of its own and is done when every record is acknowledged. A task that fails is
tried again from its beginning, and what it had written stays: every row is written at least once.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from pkafka.clients.producer import BatchFuture, Producer, RecordMetadata
from pkafka.pipeline.topics.options import OptionError, WriteOptions, write_options
from pkafka.pipeline.topics.reading import HEADERS

_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (HEADERS,),
    "partition": (IntegerType(),),
}
_NO_TOPIC: Final = (
    "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task wrote."""

    records: int


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Refuse rows that cannot become records, in the words of Spark's own sink.

    Raises:
        OptionError: a column lacks or has another type.
    """
    types = {field.name: field.dataType for field in schema}
    if options.topic is None and "topic" not in types:
        raise OptionError(_NO_TOPIC)
    if "value" not in types:
        raise OptionError("Required attribute 'value' not found")
    for name, allowed in _TYPES.items():
        if name not in types or (name == "topic" and options.topic is not None):
            continue
        if _without_nullability(types[name]) not in allowed:
            raise OptionError(
                f"{name} attribute unsupported type {types[name].simpleString()}. {name} must be a(n) "
                f"{' or '.join(each.simpleString() for each in allowed)}"
            )


def _without_nullability(kind: DataType) -> DataType:
    if isinstance(kind, ArrayType):
        return ArrayType(_without_nullability(kind.elementType))
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _without_nullability(each.dataType)) for each in kind])
    return kind


class TopicsWriter(DataSourceArrowWriter):
    """A batch write.

    Args:
        given: the options, by name.
        schema: of the rows.
        overwrite: whether Spark was asked to replace what is there.

    Raises:
        OptionError: an option or the schema cannot be, or something is to be replaced.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError(
                "Save mode Overwrite not allowed for Kafka. Allowed save modes are Append and ErrorIfExists (default)."
            )
        self._options = write_options(given)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; see :func:`write_rows`."""
        return write_rows(iterator, self._options)


class TopicsStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write; every output mode appends, as in Spark's own sink.

    Args:
        given: the options, by name.
        schema: of the rows.

    Raises:
        OptionError: an option or the schema cannot be.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = write_options(given)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task of a micro-batch; see :func:`write_rows`."""
        return write_rows(iterator, self._options)


def write_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> Written:
    """Write rows as records and wait until all of them are acknowledged.

    Raises:
        ValueError: a row has no topic, or a partition that cannot be.
        ApiError, ClientError: the first record that was not written, and why.
    """
    count = 0
    with Producer(options.producer) as producer:
        under_way = _UnderWay()
        try:
            for batch in batches:
                _send(producer, batch, options, under_way)
                count += batch.num_rows
                under_way.check()
        except BaseException:
            producer.close(timeout_s=0)  # the task is to be done anew, so the rest of it does not count
            raise
        producer.flush()
        under_way.check()
    return Written(count)


class _UnderWay:
    """What was handed to the producer and may still fail."""

    def __init__(self) -> None:
        self._futures: deque[BatchFuture] = deque()
        self._error: Exception | None = None

    def add(self, future: BatchFuture) -> None:
        """Records that were sent together."""
        self._futures.append(future)

    def took(self, _: RecordMetadata, error: Exception | None) -> None:
        """The outcome of a record that was sent alone; called by the producer's thread."""
        self._error = self._error or error

    def check(self) -> None:
        """Look at the outcomes that are known.

        Raises:
            ApiError, ClientError: the first failure.
        """
        while self._futures and self._futures[0].done():
            self._error = self._error or self._futures.popleft().exception()
        if self._error is not None:
            raise self._error


def _send(producer: Producer, batch: pa.RecordBatch, options: WriteOptions, under_way: _UnderWay) -> None:
    values = _bytes(batch, "value")
    keys = _bytes(batch, "key")
    headers = _column(batch, "headers")
    topics = _topics(batch, options)
    partitions = _column(batch, "partition")
    if headers is not None:
        for index, value in enumerate(values or ()):
            producer.send(
                topics if isinstance(topics, str) else topics[index],
                value,
                None if keys is None else keys[index],
                partition=None if partitions is None else partitions[index],
                headers=[(each["key"], each["value"]) for each in headers[index] or ()],
                callback=under_way.took,
            )
        return
    assert values is not None, batch.schema
    for (topic, partition), rows in _places(topics, partitions, len(values)).items():
        is_all = len(rows) == len(values)
        under_way.add(
            producer.send_batch(
                topic,
                values if is_all else [values[row] for row in rows],
                keys if is_all or keys is None else [keys[row] for row in rows],
                partition=partition,
            )
        )


def _places(
    topics: str | Sequence[str], partitions: Sequence[int | None] | None, count: int
) -> dict[tuple[str, int | None], Sequence[int]]:
    """Which rows go where; in their order."""
    if isinstance(topics, str) and partitions is None:
        return {(topics, None): range(count)}
    found: dict[tuple[str, int | None], list[int]] = {}
    for row in range(count):
        topic = topics if isinstance(topics, str) else topics[row]
        found.setdefault((topic, None if partitions is None else partitions[row]), []).append(row)
    return dict(found)


def _topics(batch: pa.RecordBatch, options: WriteOptions) -> str | list[str]:
    """The topic of all rows, or that of each."""
    if options.topic is not None:
        return options.topic
    column = batch.column(batch.schema.get_field_index("topic"))
    if column.null_count:
        raise ValueError("null topic present in the data. Use the topic option for setting a default topic.")
    names: list[str] = column.to_pylist()
    return names


def _column(batch: pa.RecordBatch, name: str) -> list[Any] | None:
    """The values of a column; None where there is none, or nothing but null in it."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    column = batch.column(index)
    values: list[Any] | None = None if column.null_count == len(column) else column.to_pylist()
    return values


def _bytes(batch: pa.RecordBatch, name: str) -> list[bytes | None] | None:
    """A column of text or bytes as bytes; None where the batch has no such column."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    column = batch.column(index)
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values: list[bytes | None] = column.to_pylist()
    return values
