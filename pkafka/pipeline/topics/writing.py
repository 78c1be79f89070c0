"""Writes rows to topics, in batches and streams: columns ``key``, ``value``, ``topic``, ``partition`` and ``headers``.

Each task has an idempotent producer of its own and is done when every record is acknowledged. A task that fails is
tried again from its beginning, and what it had written stays: every row is written at least once. With
``delivery=exactly-once`` a task has a transaction: see :mod:`pkafka.pipeline.topics.transactional_writing`.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
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

from pkafka.clients.producer import Producer
from pkafka.pipeline.topics.exactly_once import names_of
from pkafka.pipeline.topics.options import OptionError, WriteOptions, write_options
from pkafka.pipeline.topics.reading import HEADERS
from pkafka.pipeline.topics.sending import UnderWay, rows_of, send_rows
from pkafka.pipeline.topics.transactional_writing import check_batch, write_once

_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (HEADERS,),
    "partition": (IntegerType(),),
}
# What Spark tells the tasks of a micro-batch: the id that a query has for as long as its checkpoint, and a number.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
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
        self._job = str(uuid.uuid4())  # Spark sends this object to the tasks, so all attempts have the same
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; see :func:`write_rows` and :func:`write_once`."""
        options = self._options
        if options.transactions is None:
            return write_rows(iterator, options)
        batch = options.transactions.batch_id or 0
        names = names_of(options.transactions, options.topic, self._job, batch)
        return write_once(iterator, options, names, _task().partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Look at what the tasks say, on the driver; see :func:`check_batch`."""
        check_batch(messages, self._options)


class TopicsStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write; every output mode appends, as in Spark's own sink.

    Args:
        given: the options, by name.
        schema: of the rows.

    Raises:
        OptionError: an option or the schema cannot be.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = write_options(given, is_stream=True)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task of a micro-batch; see :func:`write_rows` and :func:`write_once`."""
        options = self._options
        if options.transactions is None:
            return write_rows(iterator, options)
        task = _task()
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        assert query is not None, "Spark tells the tasks of a stream its id"
        assert batch is not None, "Spark tells the tasks of a micro-batch its number"
        names = names_of(options.transactions, options.topic, query, int(batch))
        return write_once(iterator, options, names, task.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Look at what the tasks say, on the driver; see :func:`check_batch`."""
        check_batch(messages, self._options)


def write_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> Written:
    """Write rows as records and wait until all of them are acknowledged.

    Raises:
        ValueError: a row has no topic, or a partition that cannot be.
        ApiError, ClientError: the first record that was not written, and why.
    """
    count = 0
    with Producer(options.producer) as producer:
        under_way = UnderWay()
        try:
            for batch in batches:
                send_rows(producer, rows_of(batch, options.topic), under_way)
                count += batch.num_rows
        except BaseException:
            producer.close(timeout_s=0)  # the task is to be done anew, so the rest of it does not count
            raise
        producer.flush()
        under_way.check()
    return Written(count)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks"
    return task
