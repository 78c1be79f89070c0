"""Where Spark finds the data source ``pkafka-log``: it imports what begins with ``pyspark_`` and asks for this name."""

from pkafka.pipeline.segments.source import SegmentsSource as DefaultSource

__all__ = ["DefaultSource"]
