"""Runs what a pipeline was built to: a batch once, a stream until it ends or is to stop."""

import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, DataFrameWriter, Observation, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from pkafka.pipeline.definition import JDBC, Pipeline, Sink
from pkafka.pipeline.progress import Batch, batch, of_stream
from pkafka.pipeline.stream_files import make_ready, only_run

_ROWS: Final = "rows"
_OBSERVATION: Final = "written"
_LOOK_INTERVAL_S: Final = 0.2
_STARTS_MAX: Final = 6

STARTED_LATE: Final = "Python worker failed to connect back"
"""Spark waits ten seconds for the process that reads a stream's source in Python, whatever its settings say; where the
machine is busy that one takes longer, and this is a part of what Spark says then."""

_log = logging.getLogger(__name__)


def run_batch(frame: DataFrame, pipeline: Pipeline, *, is_stopped: Callable[[], bool]) -> Batch | None:
    """Write the rows to the sink.

    Args:
        is_stopped: whether it is to be given up; looked at a few times a second.

    Returns:
        What was done; None where it was given up.

    Raises:
        PySparkException: Spark failed.
    """
    sink = pipeline.sink
    observation = Observation()
    counted = frame.observe(observation, sql.count(sql.lit(1)).alias(_ROWS))
    writer = counted.write.format(sink.format).mode(sink.mode).options(**sink.options)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    began = time.time()
    # In a thread of its own: a signal in the middle of a call into the JVM would leave its answer to the next call.
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(_save, writer, sink, frame.sparkSession)
        was_stopped = False
        while not wait([writing], _LOOK_INTERVAL_S).done:
            if is_stopped():
                was_stopped = True
                frame.sparkSession.sparkContext.cancelAllJobs()
    if was_stopped and writing.exception() is not None:
        return None
    writing.result()
    return batch(0, began, time.time(), read=None, written=_observed(observation))


def _save(writer: DataFrameWriter, sink: Sink, session: SparkSession) -> None:
    """Write, in any thread. Spark looks for data sources in the active session of the thread, so this sets it."""
    assert session._jvm is not None
    session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
    writer.save(sink.path)


def run_stream(
    frame: DataFrame,
    pipeline: Pipeline,
    *,
    on_batch: Callable[[Batch], None],
    is_stopped: Callable[[], bool],
    is_ending: Callable[[], bool] = lambda: False,
) -> None:
    """Write the rows to the sink as they come.

    Args:
        on_batch: told of each batch that is done.
        is_stopped: whether the stream is to end; looked at a few times a second.
        is_ending: whether the stream is to end when the batch in hand is done; looked at as often.

    Raises:
        PySparkException: Spark failed.
        CheckpointInUseError: another run uses the checkpoint.
        FilesError: the sink's directory has other files.
    """
    assert pipeline.checkpoint is not None, pipeline
    with only_run(pipeline.checkpoint):
        if pipeline.sink.path is not None:
            make_ready(pipeline.sink.path, pipeline.checkpoint)
        for starts_left in reversed(range(_STARTS_MAX)):
            try:
                _run_until(_writer(frame, pipeline).start(), on_batch, is_stopped, is_ending)
                return
            except StreamingQueryException as error:
                if not starts_left or is_stopped() or STARTED_LATE not in str(error):
                    raise
                if is_ending():
                    return  # no batch is in hand
                _log.warning("What reads the stream took longer to start than Spark waits; starting it again")


def _run_until(
    query: StreamingQuery,
    on_batch: Callable[[Batch], None],
    is_stopped: Callable[[], bool],
    is_ending: Callable[[], bool],
) -> None:
    told, seen = -1, None
    in_hand: int | None = None
    """The latest batch that was done when the stream was asked to end behind the next."""

    def tell() -> None:
        nonlocal told, seen
        latest = query.lastProgress
        if latest is None or latest == seen:
            return
        seen = latest
        for report in query.recentProgress:
            done = of_stream(json.loads(report.json), _OBSERVATION)
            if done is not None and done.batch > told:
                told = done.batch
                on_batch(done)

    def is_over() -> bool:
        """Whether the stream is to end, and is between two batches or was a moment ago."""
        nonlocal in_hand
        if not is_ending():
            return False
        tell()
        if in_hand is None:
            in_hand = told
        return told > in_hand or not query.status["isTriggerActive"]

    try:
        # Parts of a second are fine, whatever the annotation says.
        while not (query.awaitTermination(_LOOK_INTERVAL_S) or is_stopped() or is_over()):  # type: ignore[arg-type]
            tell()
    finally:
        query.stop()
    tell()


def _writer(frame: DataFrame, pipeline: Pipeline) -> Any:  # noqa: ANN401 - pyspark's
    """The stream, not started."""
    sink = pipeline.sink
    counted = frame.observe(_OBSERVATION, sql.count(sql.lit(1)).alias(_ROWS))
    writer: Any = counted.writeStream.outputMode(sink.mode).option("checkpointLocation", pipeline.checkpoint)
    if pipeline.is_ending:
        writer = writer.trigger(availableNow=True)
    elif pipeline.interval_ms is not None:
        writer = writer.trigger(processingTime=f"{pipeline.interval_ms} milliseconds")
    if sink.format == JDBC:  # Spark has no streaming sink for it
        return writer.foreachBatch(lambda rows, _number: _append(rows, sink))
    writer = writer.format(sink.format).options(**sink.options)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    return writer if sink.path is None else writer.option("path", sink.path)


def _append(rows: DataFrame, sink: Sink) -> None:
    rows.write.format(sink.format).mode("append").options(**sink.options).save()


def _observed(observation: Observation) -> int | None:
    """How many rows were written; None where the sink goes a way on which Spark does not count."""
    assert observation._jo is not None
    if not observation._jo.future().isCompleted():
        return None
    rows: int = observation.get[_ROWS]
    return rows
