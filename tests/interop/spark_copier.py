"""A driver of Spark's that copies a topic exactly once, and dies where it is told.

Arguments: the keys below as JSON. Ends when everything is copied.

    bootstrap, source, target: from where to where
    state: the checkpoint
    die: options of tests/dying_sink.py
    kill_driver: whether a step kills the driver, which is this process and Spark's JVM, and not the task alone
    attempts: how often Spark tries a task
"""

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from pkafka.pipeline.session import spark_session
from tests.dying_sink import DyingSink
from tests.spark import run_to_end


def main() -> None:
    told = json.loads(sys.argv[1])
    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "512m"}
    with spark_session("copier", master=f"local[2,{told['attempts']}]", settings=settings) as session:
        copy(session, told)


def copy(session: SparkSession, told: dict[str, Any]) -> None:
    session.dataSource.register(DyingSink)
    die = dict(told["die"])
    if told["kill_driver"]:
        assert session._jvm is not None
        die["kill"] = f"{session._jvm.java.lang.ProcessHandle.current().pid()},{os.getpid()}"
    servers = {"kafka.bootstrap.servers": told["bootstrap"]}
    read = {"subscribe": told["source"], "startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
    rows = session.readStream.format("pkafka").options(**servers, **read).load()
    write = {"topic": told["target"], "delivery": "exactly-once", "checkpointLocation": told["state"]}
    run_to_end(
        rows.select("key", "value", "partition")
        .writeStream.format("dying")
        .options(**servers, **write, **die)
    )


main()
