"""A program that streams a topic into Parquet files and into another topic, to be killed and begun again.

Arguments: bootstrap, source topic, sink topic, directory, and how long: ``for-ever`` or ``to-the-end``.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pkafka.pipeline.session import spark_session
from tests.spark import run_to_end


def main(bootstrap: str, source: str, sink: str, directory: Path, how_long: str) -> None:
    """Run both queries."""
    servers = {"kafka.bootstrap.servers": bootstrap}
    is_last = how_long == "to-the-end"
    limit = (
        {} if is_last else {"maxOffsetsPerTrigger": "2000"}
    )  # so that a kill meets one micro-batch of many
    with spark_session("streams", master="local[2]") as spark:
        source_options = {**servers, **limit, "subscribe": source, "startingOffsets": "earliest"}

        def rows() -> DataFrame:
            # A plan for each query: Spark changes what hangs on a plan while the other one's tasks are made of it.
            return spark.readStream.format("pkafka").options(**source_options).load()

        files = writer(
            rows().selectExpr("partition", "offset", "string(value) value"), directory / "files-checkpoint"
        )
        topic = writer(rows().select("value"), directory / "topic-checkpoint")
        writers = (
            files.format("parquet").option("path", str(directory / "files")),
            topic.format("pkafka").options(**servers, topic=sink),
        )
        if is_last:
            for each in writers:
                run_to_end(each)
            frame = spark.read.parquet(str(directory / "files"))
            frame.selectExpr("value").coalesce(1).write.mode("overwrite").text(str(directory / "result"))
        else:
            queries = [each.start() for each in writers]
            for query in queries:
                query.awaitTermination()


def writer(rows: DataFrame, checkpoint: Path) -> DataStreamWriter:
    return rows.writeStream.option("checkpointLocation", str(checkpoint))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5])
