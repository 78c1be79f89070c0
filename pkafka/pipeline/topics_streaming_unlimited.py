"""Reads topics as a stream under PySpark 4.1, whose Python API has no limits of micro-batches: each takes all."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pkafka.pipeline.topics_microbatches import MicroBatches
from pkafka.pipeline.topics_options import OptionError, stream_options
from pkafka.pipeline.topics_ranges import OffsetsAsJson, from_json, to_json
from pkafka.pipeline.topics_reading import RangePartition, check_schema, read_range


class UnlimitedStreamReader(DataSourceStreamReader):
    """As :class:`pkafka.pipeline.topics_streaming.TopicsStreamReader`, without limits and ``Trigger.AvailableNow``.

    Raises:
        OptionError: an option or the schema cannot be, or an option asks for what this PySpark cannot do.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = stream_options(given)
        if self._options.offsets_max is not None or self._options.offsets_min is not None:
            raise OptionError("maxOffsetsPerTrigger and minOffsetsPerTrigger need PySpark 4.2 or newer")
        self._columns = check_schema(schema, self._options)
        self._batches = MicroBatches(self._options)

    def initialOffset(self) -> OffsetsAsJson:
        """Where a new query starts."""
        return to_json(self._batches.start())

    def latestOffset(self) -> OffsetsAsJson:  # type: ignore[override]
        """Where the next micro-batch ends."""
        return to_json(self._batches.end({}, is_limited=False))

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
