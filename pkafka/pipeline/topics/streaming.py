"""Reads topics as a stream: what Spark asks of a source, answered by :mod:`pkafka.pipeline.topics.microbatches`.

The names of methods are Spark's.
"""

from collections.abc import Mapping

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pkafka.pipeline.topics.options import stream_options
from pkafka.pipeline.topics.ranges import OffsetsAsJson, from_json, to_json
from pkafka.pipeline.topics.stream_reader import StreamReader


class TopicsStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A streaming read.

    Args:
        given: the options, by name.
        schema: which columns are wanted.

    Raises:
        OptionError: an option or the schema cannot be.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        super().__init__(stream_options(given), schema)

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
