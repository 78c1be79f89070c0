"""Reads topics as a stream: what Spark asks of a source, answered by :mod:`pkafka.pipeline.topics_microbatches`.

Offsets have the form of Spark's own Kafka source, so a query's checkpoint is good for both. The names of methods are
Spark's.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pkafka.pipeline.topics_microbatches import MicroBatches
from pkafka.pipeline.topics_options import stream_options
from pkafka.pipeline.topics_ranges import OffsetsAsJson, from_json, to_json
from pkafka.pipeline.topics_reading import RangePartition, check_schema, read_range


class TopicsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read.

    Spark makes one in the process that plans the micro-batches of a query, and sends another to its tasks.

    Args:
        given: the options, by name.
        schema: which columns are wanted.

    Raises:
        OptionError: an option or the schema cannot be.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = stream_options(given)
        self._columns = check_schema(schema, self._options)
        self._batches = MicroBatches(self._options)

    def initialOffset(self) -> OffsetsAsJson:
        """Where a new query starts."""
        return to_json(self._batches.start())

    def latestOffset(self, start: OffsetsAsJson, limit: ReadLimit) -> OffsetsAsJson:
        """Where the next micro-batch ends; ``start`` where none is to be now."""
        is_limited = not isinstance(limit, ReadAllAvailable)
        return to_json(self._batches.end(from_json(start), is_limited=is_limited))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Whether the options limit micro-batches. Spark can be told one bound; :meth:`latestOffset` knows both."""
        if self._options.offsets_max is not None:
            return ReadMaxRows(self._options.offsets_max)
        if self._options.offsets_min is not None:
            return ReadMinRows(self._options.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to what is there now, and no further."""
        self._batches.stop_at_what_is_there()

    def reportLatestOffset(self) -> OffsetsAsJson | None:
        """The ends of the logs as they were last seen, for the progress of the query."""
        latest = self._batches.latest
        return to_json(latest) if latest else None

    def partitions(self, start: OffsetsAsJson, end: OffsetsAsJson) -> Sequence[InputPartition]:
        """The ranges of offsets that tasks read."""
        return [RangePartition(each) for each in self._batches.ranges(from_json(start), from_json(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        assert isinstance(partition, RangePartition), partition
        return read_range(partition.range, self._options, self._columns)

    def commit(self, end: OffsetsAsJson) -> None:
        """Nothing is to be done: the checkpoint has it."""

    def stop(self) -> None:
        """Close the connections."""
        self._batches.close()
