"""What every stream of topics does: begin, be cut into tasks, be read, end. Its two kinds say where micro-batches end.

Offsets have the form of Spark's own Kafka source, so a query's checkpoint is good for both. The names of methods are
Spark's.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pkafka.pipeline.topics.microbatches import MicroBatches
from pkafka.pipeline.topics.options import ReadOptions
from pkafka.pipeline.topics.ranges import OffsetsAsJson, from_json, to_json
from pkafka.pipeline.topics.reading import RangePartition, check_schema, read_range


class StreamReader(DataSourceStreamReader):
    """A streaming read, but for ``latestOffset``.

    Spark makes one in the process that plans the micro-batches of a query, and sends another to its tasks.

    Args:
        options: of the stream.
        schema: which columns are wanted.

    Raises:
        OptionError: the schema cannot be.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_schema(schema, options)
        self._batches = MicroBatches(options)

    def initialOffset(self) -> OffsetsAsJson:
        """Where a new query starts."""
        return to_json(self._batches.start())

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
