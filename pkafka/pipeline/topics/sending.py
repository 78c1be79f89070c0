"""Hands rows to a producer: Arrow columns ``key``, ``value``, ``topic``, ``partition`` and ``headers`` as records."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from pkafka.clients.producer import BatchFuture, Producer, RecordMetadata


class Rows(NamedTuple):
    """The rows of an Arrow batch as columns of Python's.

    Args:
        topics: of each row, or of all.
        keys, partitions, headers: None where no row has one.
    """

    topics: str | Sequence[str]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    partitions: Sequence[int | None] | None
    headers: Sequence[Sequence[Mapping[str, Any]] | None] | None


def rows_of(batch: pa.RecordBatch, topic: str | None) -> Rows:
    """The rows of a batch.

    Args:
        topic: of all rows; None where a column names them.

    Raises:
        ValueError: a row has no topic.
    """
    values = _bytes(batch, "value")
    assert values is not None, batch.schema
    topics = _topics(batch) if topic is None else topic
    return Rows(topics, values, _bytes(batch, "key"), _column(batch, "partition"), _column(batch, "headers"))


class UnderWay:
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


def send_rows(producer: Producer, rows: Rows, under_way: UnderWay) -> None:
    """Hand rows to a producer, in their order.

    Raises:
        ValueError: a row has a partition that cannot be.
        ApiError, ClientError: an earlier record was not written, and why.
    """
    if rows.headers is not None:
        _send_each(producer, rows, rows.headers, under_way)
    else:
        _send_together(producer, rows, under_way)
    under_way.check()


def _send_each(
    producer: Producer,
    rows: Rows,
    headers: Sequence[Sequence[Mapping[str, Any]] | None],
    under_way: UnderWay,
) -> None:
    topics, values, keys, partitions, _ = rows
    for index, value in enumerate(values):
        producer.send(
            topics if isinstance(topics, str) else topics[index],
            value,
            None if keys is None else keys[index],
            partition=None if partitions is None else partitions[index],
            headers=[(each["key"], each["value"]) for each in headers[index] or ()],
            callback=under_way.took,
        )


def _send_together(producer: Producer, rows: Rows, under_way: UnderWay) -> None:
    topics, values, keys, partitions, _ = rows
    for (topic, partition), places in _places(topics, partitions, len(values)).items():
        is_all = len(places) == len(values)
        under_way.add(
            producer.send_batch(
                topic,
                values if is_all else [values[row] for row in places],
                keys if is_all or keys is None else [keys[row] for row in places],
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


def _topics(batch: pa.RecordBatch) -> list[str]:
    """The topic of each row."""
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
