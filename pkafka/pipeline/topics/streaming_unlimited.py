"""Reads topics as a stream under PySpark 4.1, whose Python API has no limits of micro-batches: each takes all."""

from collections.abc import Mapping

from pyspark.sql.types import StructType

from pkafka.pipeline.topics.options import OptionError, stream_options
from pkafka.pipeline.topics.ranges import OffsetsAsJson, to_json
from pkafka.pipeline.topics.stream_reader import StreamReader


class UnlimitedStreamReader(StreamReader):
    """As :class:`pkafka.pipeline.topics.streaming.TopicsStreamReader`, without limits and ``Trigger.AvailableNow``.

    Raises:
        OptionError: an option or the schema cannot be, or an option asks for what this PySpark cannot do.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        options = stream_options(given)
        if options.offsets_max is not None or options.offsets_min is not None:
            raise OptionError("maxOffsetsPerTrigger and minOffsetsPerTrigger need PySpark 4.2 or newer")
        super().__init__(options, schema)

    def latestOffset(self) -> OffsetsAsJson:  # type: ignore[override]
        """Where the next micro-batch ends."""
        return to_json(self._batches.end({}, is_limited=False))
