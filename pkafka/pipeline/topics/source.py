"""The data source ``pkafka``: topics as a table of Spark's, for batches and streams, to read and to write.

Options and rows are those of Spark's own Kafka source (``format("kafka")``), so the two are one word apart. Spark finds
it by the package ``pyspark_pkafka``, without being told. docs/topics-in-spark.md says how it is used, and where Spark's
Python API leaves it no choice but to differ.
"""

import inspect

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pkafka.pipeline.topics.options import includes_headers
from pkafka.pipeline.topics.reading import TopicsReader, row_schema
from pkafka.pipeline.topics.writing import TopicsStreamWriter, TopicsWriter


class TopicsSource(DataSource):
    """Topics as a table, to read and to write. The names of methods are Spark's."""

    @classmethod
    def name(cls) -> str:
        """What ``format()`` is given."""
        return "pkafka"

    def schema(self) -> StructType:
        """Of what is read."""
        return row_schema(include_headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``.

        Raises:
            OptionError: an option or the schema cannot be; so also the others.
        """
        return TopicsReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For ``spark.readStream``."""
        if "limit" in inspect.signature(DataSourceStreamReader.latestOffset).parameters:
            from pkafka.pipeline.topics.streaming import TopicsStreamReader

            return TopicsStreamReader(self.options, schema)
        # PySpark 4.1: it looks for sources whenever a session uses any, so what it lacks is not imported before.
        from pkafka.pipeline.topics.streaming_unlimited import UnlimitedStreamReader

        return UnlimitedStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For ``write``."""
        return TopicsWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For ``writeStream``."""
        return TopicsStreamWriter(self.options, schema)
