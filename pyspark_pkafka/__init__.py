"""What makes ``format("pkafka")`` known: Spark imports what is called ``pyspark_*``, and takes this class of it."""

from pkafka.pipeline.topics.source import TopicsSource as DefaultSource

__all__ = ["DefaultSource"]
