"""A defined pipeline as tables of Spark's: analysed, not run. A mistake is told with its line of the file.

Spark's analyser knows every column and type from the schemas alone, so mistakes show before any data is touched.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pkafka.pipeline.definition import TOPIC, Pipeline, Sink, Source, Step, Watermark
from pkafka.pipeline.definition_yaml import PipelineError, Problem
from pkafka.pipeline.session import explain
from pkafka.pipeline.topics.exactly_once import Transactions, TransactionScope
from pkafka.pipeline.topics.options import OptionError, WriteOptions, write_options
from pkafka.pipeline.topics.writing import check_columns

# Of Spark's messages: the name of the kind of error before them, its number and the plan behind them, and the place.
_KIND: Final = re.compile(r"^\[[A-Z_.]+\]\s*")
_NUMBER: Final = re.compile(r"\s*SQLSTATE: \w+")
_PLACE: Final = re.compile(r"[;,]?\s*\(?line (\d+),? pos \d+\)?;?\s*")


class Stage(NamedTuple):
    """A table on the way: of a source, of a step, or of the sink."""

    kind: str
    name: str
    format: str | None
    columns: tuple[str, ...]


class Built(NamedTuple):
    """What a pipeline comes to: the rows for its sink, and every table on the way.

    Args:
        is_exactly_once: whether the sink is a topic that gets each row once.
    """

    frame: DataFrame
    stages: tuple[Stage, ...]
    is_exactly_once: bool


def build(session: SparkSession, pipeline: Pipeline) -> Built:
    """Make the tables of a pipeline, and look whether its sink can take the last.

    Raises:
        PipelineError: Spark does not understand a part, or a part does not fit.
    """
    frame: DataFrame | None = None
    stages = []
    for source in pipeline.sources:
        with _told_at(source.line):
            frame = _named(_loaded(session, pipeline, source), source)
            stages.append(Stage("source", source.name, source.format, _columns(frame)))
    for step in pipeline.steps:
        with _told_at(step.line, of_sql=True):
            # Only this part of the parser takes queries alone: anything else that is SQL would be done here and now.
            session._jsparkSession.sessionState().sqlParser().parseQuery(step.sql)
            frame = _named(session.sql(step.sql), step)
            stages.append(Stage("step", step.name, None, _columns(frame)))
    assert frame is not None, pipeline
    _check_sink(frame, pipeline)
    stages.append(Stage("sink", "sink", pipeline.sink.format, _columns(frame)))
    transactions = _transactions(pipeline)
    if transactions is not None and transactions.scope is TransactionScope.BATCH:
        frame = frame.repartition(1)
    return Built(frame, tuple(stages), is_exactly_once=transactions is not None)


def _loaded(session: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    is_streamed = pipeline.is_stream and not source.is_static
    reader: Any = session.readStream if is_streamed else session.read
    reader = reader.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    frame: DataFrame = reader.load() if source.path is None else reader.load(source.path)
    return frame


def _named(frame: DataFrame, part: Source | Step) -> DataFrame:
    """A table that steps behind it know by its name."""
    if part.watermark is not None:
        frame = _marked(frame, part.watermark)
    frame.createOrReplaceTempView(part.name)
    return frame


def _marked(frame: DataFrame, watermark: Watermark) -> DataFrame:
    return frame.withWatermark(watermark.column, watermark.delay)


def _columns(frame: DataFrame) -> tuple[str, ...]:
    return tuple(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)


def _check_sink(frame: DataFrame, pipeline: Pipeline) -> None:
    sink = pipeline.sink
    if sink.format == TOPIC:
        try:
            check_columns(frame.schema, _write_options(pipeline))
        except OptionError as error:
            raise PipelineError(Problem(sink.line, str(error))) from error
    for column in sink.partition_by:
        if column not in frame.columns:
            raise PipelineError(
                Problem(sink.line, f"there is no column {column}", column, tuple(frame.columns))
            )
    if sink.is_files:
        _check_files(frame, sink)
    if pipeline.is_stream:
        with _told_at(sink.line):
            _check_stream(frame, sink)


def _write_options(pipeline: Pipeline) -> WriteOptions:
    return write_options(pipeline.sink.options, is_stream=pipeline.is_stream)


def _transactions(pipeline: Pipeline) -> Transactions | None:
    """How rows get into a topic exactly once; None where they do not."""
    return _write_options(pipeline).transactions if pipeline.sink.format == TOPIC else None


def _check_files(frame: DataFrame, sink: Sink) -> None:
    """Files hold columns with names that differ."""
    names = [name.lower() for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise PipelineError(
                Problem(sink.line, f"the rows have two columns {name}: give one another name (as)")
            )


def _check_stream(frame: DataFrame, sink: Sink) -> None:
    """Have Spark say now what it would say when the stream starts, such as of sums without a watermark."""
    jvm = frame.sparkSession._jvm
    assert jvm is not None
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    mode = jvm.org.apache.spark.sql.catalyst.streaming.InternalOutputModes.apply(sink.mode)
    checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)


@contextmanager
def _told_at(line: int, *, of_sql: bool = False) -> Iterator[None]:
    """Raise what Spark says in the block as a problem on a line, or on a line of the SQL that begins there.

    Raises:
        PipelineError: in the place of what Spark raised.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = explain(error)
        place = _PLACE.search(str(error))  # behind advice of several lines
        if place is not None and of_sql:
            line += int(place[1]) - 1
        said = _PLACE.sub("", _NUMBER.sub("", _KIND.sub("", text)))
        raise PipelineError(Problem(line, said.strip())) from error
