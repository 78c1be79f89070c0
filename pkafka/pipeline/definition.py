"""A pipeline as one file defines it: sources, steps in SQL, a sink. Pure: no Spark, no cluster, no file is looked at.

::

    name: large-orders            # in messages and metrics; the file's name where it is left out
    mode: stream                  # or batch, which is what is meant without it
    parameters:                   # ${day} stands for it anywhere below; --set day=... gives another value
      day: 2026-01-31             # without a value here one has to be given
    source:                       # one, which steps know as "source"; or sources: {NAME: {...}, ...}
      format: pkafka              # pkafka, pkafka-log, json, csv, parquet or jdbc
      path: /data                 # of files and logs
      schema: id long, name string
      options: {subscribe: orders, kafka.bootstrap.servers: "localhost:9092"}
      watermark: {column: timestamp, delay: 10 minutes}
      static: false               # in a stream: true reads it once, to be joined with
    steps:                        # each is a query over sources and the steps before it
      - name: large
        sql: select * from source where ...
    sink:                         # gets what the last step gives
      format: parquet
      path: /out
      mode: append                # append, overwrite, error; in a stream append, update, complete
      partition-by: [day]
      options: {}
    checkpoint: /state            # of a stream: where it says how far it is
    trigger: 10s                  # of a stream: how often; available-now: what is there, then the end
    spark: {spark.sql.shuffle.partitions: 2}

docs/pipelines.md tells more.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import yaml

from pkafka.clients.config import ConsumerConfig, ProducerConfig
from pkafka.errors import PkafkaError
from pkafka.pipeline.definition_yaml import PipelineError, Reader, line_of, parameters_of
from pkafka.pipeline.segments.options import NARROWING, read_options
from pkafka.pipeline.topics.options import batch_options, stream_options, write_options

TOPIC: Final = "pkafka"
LOG: Final = "pkafka-log"
JDBC: Final = "jdbc"
ONLY_SOURCE: Final = "source"
"""The name by which steps know a source that is alone."""

_FILES: Final = ("json", "csv", "parquet")
_READS: Final = (TOPIC, LOG, *_FILES, JDBC)
_WRITES: Final = (TOPIC, *_FILES, JDBC)
_WITHOUT_STREAM: Final = (LOG, JDBC)
_KEYS: Final = (
    "name", "mode", "parameters", "source", "sources", "steps", "sink", "checkpoint", "trigger", "spark",
)  # fmt: skip
_SOURCE_KEYS: Final = ("format", "path", "schema", "options", "watermark", "static")
_STEP_KEYS: Final = ("name", "sql", "watermark")
_SINK_KEYS: Final = ("format", "path", "mode", "partition-by", "options")
_WATERMARK_KEYS: Final = ("column", "delay")
_SAVE_MODES: Final = ("append", "overwrite", "error")
_OUTPUT_MODES: Final = ("append", "update", "complete")
_AVAILABLE_NOW: Final = "available-now"
_TOPIC_READ_OPTIONS: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "failOnDataLoss", "includeHeaders", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)  # fmt: skip
_TOPIC_WRITE_OPTIONS: Final = (
    "topic", "includeHeaders", "delivery", "transactionalIdPrefix", "transactionScope", "batchId",
)  # fmt: skip
_LOG_OPTIONS: Final = ("rows", "columns", "splitBytes", *NARROWING)
_JDBC_TABLES: Final = ("dbtable", "query")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SPAN: Final = re.compile(r"(\d+)\s*(ms|s|m|h)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_ENVIRONMENT: Final = "env:"


class Watermark(NamedTuple):
    """How late rows may come, by a column of times; older ones are left out of what is summed up."""

    column: str
    delay: str


class Source(NamedTuple):
    """Where rows come from. ``options`` are Spark's; ``is_static``: read once, though the pipeline is a stream."""

    name: str
    format: str
    path: str | None
    schema: str | None
    options: Mapping[str, str]
    watermark: Watermark | None
    is_static: bool
    line: int


class Step(NamedTuple):
    """A query, known to those after it by its name. ``line`` is that of its first line of SQL."""

    name: str
    sql: str
    watermark: Watermark | None
    line: int


class Sink(NamedTuple):
    """Where rows go."""

    format: str
    path: str | None
    mode: str
    partition_by: tuple[str, ...]
    options: Mapping[str, str]
    line: int

    @property
    def is_files(self) -> bool:
        """Whether it is a directory of files."""
        return self.format in _FILES


class Pipeline(NamedTuple):
    """A pipeline as its file defines it.

    Args:
        checkpoint: None of a batch.
        interval_ms: how often a stream looks for more; None: as soon as it is done with what was there.
        is_ending: a stream ends with what is there.
        settings: of the Spark session.
    """

    name: str
    is_stream: bool
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    sink: Sink
    checkpoint: str | None
    interval_ms: int | None
    is_ending: bool
    settings: Mapping[str, str]


def parse(text: str, *, name: str, values: Mapping[str, str], environment: Mapping[str, str]) -> Pipeline:
    """Read a definition.

    Args:
        text: YAML.
        name: of a pipeline that has none.
        values: of parameters.
        environment: what ``${env:NAME}`` stands for.

    Raises:
        PipelineError: it cannot be; tells everything that is wrong.
    """
    reader = Reader()
    document = reader.document(text)
    top = reader.mapping(document, "a pipeline", _KEYS)
    _take_parameters(reader, parameters_of(reader, top.get("parameters")), values, environment)
    mode = reader.choice(top.get("mode"), "mode", ("batch", "stream"))
    if mode is None and "mode" in top:
        raise PipelineError(*reader.problems)  # what else is wrong depends on it
    is_stream = mode == "stream"
    made = _Parts(reader, is_stream)
    sources = made.sources(top)
    steps = made.steps(top.get("steps"), sources)
    sink = made.sink(top.get("sink"))
    checkpoint = reader.text(top.get("checkpoint"), "checkpoint")
    interval_ms, is_ending = _trigger(reader, top.get("trigger"))
    _check_mode(reader, top, is_stream, checkpoint)
    settings = _settings(reader, top.get("spark"))
    own_name = reader.text(top.get("name"), "name")
    if reader.problems or sink is None:
        raise PipelineError(*sorted(reader.problems, key=lambda each: each.line or 0))
    return Pipeline(
        own_name or name, is_stream, sources, steps, sink, checkpoint, interval_ms, is_ending, settings
    )


def _take_parameters(
    reader: Reader,
    declared: Mapping[str, str | None],
    values: Mapping[str, str],
    environment: Mapping[str, str],
) -> None:
    """Have places of parameters filled from now on."""
    for name in sorted(values.keys() - declared.keys()):
        reader.tell(None, f"there is no parameter {name}", name, declared)

    def resolve(name: str, line: int) -> str:
        if name.startswith(_ENVIRONMENT):
            found = environment.get(name.removeprefix(_ENVIRONMENT))
            if found is None:
                reader.tell(line, f"the environment has no {name.removeprefix(_ENVIRONMENT)}")
        elif name not in declared:
            found = None
            reader.tell(line, f"there is no parameter {name}", name, declared)
        else:
            found = values.get(name, declared[name])
            if found is None:
                reader.tell(line, f"the parameter {name} has no value: --set {name}=... gives it one")
        return found or ""

    reader.resolve = resolve


def _trigger(reader: Reader, node: yaml.Node | None) -> tuple[int | None, bool]:
    text = reader.text(node, "trigger")
    if text is None or text == _AVAILABLE_NOW:
        return None, text is not None
    found = _SPAN.fullmatch(text)
    if found is None:
        reader.tell(node, f"trigger is {_AVAILABLE_NOW} or a time such as 500ms, 10s, 5m or 1h, not {text}")
        return None, False
    return int(found[1]) * _UNITS_MS[found[2]], False


def _check_mode(
    reader: Reader, top: Mapping[str, yaml.Node], is_stream: bool, checkpoint: str | None
) -> None:
    if is_stream and checkpoint is None and "checkpoint" not in top:
        reader.tell(None, "a stream needs a checkpoint: the directory where it says how far it is")
    for key in ("checkpoint", "trigger"):
        if not is_stream and key in top:
            reader.tell(top[key], f"{key} is for mode: stream")


def _settings(reader: Reader, node: yaml.Node | None) -> dict[str, str]:
    found = {}
    for key, value in (reader.mapping(node, "spark") if node is not None else {}).items():
        text = reader.text(value, key)
        if not key.startswith("spark."):
            reader.tell(value, f"{key} is no setting of Spark's: they begin with spark.")
        elif text is not None:
            found[key] = text
    return found


class _Parts:
    """Reads what a pipeline is made of."""

    def __init__(self, reader: Reader, is_stream: bool) -> None:
        self._reader = reader
        self._is_stream = is_stream

    def sources(self, top: Mapping[str, yaml.Node]) -> tuple[Source, ...]:
        """The source, or all of them."""
        reader = self._reader
        one, many = top.get("source"), top.get("sources")
        if one is not None and many is not None:
            reader.tell(many, "there is a source as well as sources")
        if one is None and many is None:
            reader.tell(None, "there is no source")
        nodes = {ONLY_SOURCE: one} if one is not None else {}
        if many is not None:
            nodes = reader.mapping(many, "sources")
            if not nodes:
                reader.tell(many, "there is no source in sources")
            for name in nodes:
                self._check_name(name, nodes[name])
        found = tuple(self._source(name, node) for name, node in nodes.items())
        if self._is_stream and found and all(each.is_static for each in found):
            reader.tell(found[0].line, "a stream needs a source that is not static")
        return found

    def steps(self, node: yaml.Node | None, sources: Collection[Source]) -> tuple[Step, ...]:
        """The steps, in their order."""
        reader = self._reader
        nodes = reader.sequence(node, "steps") if node is not None else []
        if not nodes and len(sources) > 1:
            reader.tell(node, "several sources need steps that bring them together")
        taken = {each.name for each in sources}
        found = []
        for number, each in enumerate(nodes, 1):
            keys = reader.mapping(each, "a step", _STEP_KEYS)
            name = reader.text(keys.get("name"), "name") or f"step{number}"
            if self._check_name(name, keys.get("name", each)) and name in taken:
                reader.tell(keys.get("name", each), f"there is a source or step {name} already")
            taken.add(name)
            sql = reader.text(keys.get("sql"), "sql")
            if "sql" not in keys:
                reader.tell(each, f"the step {name} has no sql")
            elif sql is not None:
                watermark = self._watermark(keys.get("watermark"))
                found.append(Step(name, sql.rstrip().removesuffix(";"), watermark, line_of(keys["sql"])))
        return tuple(found)

    def sink(self, node: yaml.Node | None) -> Sink | None:
        """The sink; None where it is missing or wrong."""
        reader = self._reader
        if node is None:
            reader.tell(None, "there is no sink")
            return None
        keys = reader.mapping(node, "sink", _SINK_KEYS)
        form = self._format(keys, node, "sink", _WRITES)
        modes = _OUTPUT_MODES if self._is_stream else _SAVE_MODES
        mode = reader.choice(
            keys.get("mode"), "mode of a stream's sink" if self._is_stream else "mode", modes
        )
        options = self._options(keys.get("options"))
        path = self._path(keys, node, "sink", form)
        partition_by = reader.texts(keys.get("partition-by"), "partition-by")
        if form is None:
            return None
        if mode is None:
            mode = "error" if form in _FILES and not self._is_stream else "append"
        if form != TOPIC and self._is_stream and mode != "append":
            reader.tell(keys["mode"], f"a stream can only append to {form}")
        if form == TOPIC and mode != "append" and not self._is_stream:
            reader.tell(keys["mode"], "records can only be appended to a topic")
        if form not in _FILES and partition_by:
            reader.tell(keys["partition-by"], "partition-by is for files")
        sink = Sink(form, path, mode, partition_by, options, line_of(node))
        self._check_options(sink, node, keys.get("options"), is_streamed=self._is_stream)
        return sink

    def _source(self, name: str, node: yaml.Node) -> Source:
        reader = self._reader
        keys = reader.mapping(node, name, _SOURCE_KEYS)
        form = self._format(keys, node, name, _READS)
        is_static = reader.flag(keys.get("static"), "static")
        if is_static and not self._is_stream:
            reader.tell(keys["static"], "static is for mode: stream")
        is_streamed = self._is_stream and not is_static
        if form in _WITHOUT_STREAM and is_streamed:
            reader.tell(keys["format"], f"{form} cannot be read as a stream; static: true reads it once")
        path = self._path(keys, node, name, form)
        schema = reader.text(keys.get("schema"), "schema")
        # Without one Spark reads the data to make one up, before the pipeline is known to be sound.
        if (
            schema is None
            and "schema" not in keys
            and (form in ("json", "csv") or (form == "parquet" and is_streamed))
        ):
            reader.tell(
                node, f"{name} needs a schema: the columns of the {form} files, as in id long, name string"
            )
        if schema is not None and form in (TOPIC, LOG, JDBC):
            reader.tell(keys["schema"], f"{form} knows its columns, it takes no schema")
        options = self._options(keys.get("options"))
        watermark = self._watermark(keys.get("watermark"))
        source = Source(name, form or "", path, schema, options, watermark, is_static, line_of(node))
        self._check_options(source, node, keys.get("options"), is_streamed=is_streamed)
        return source

    def _check_name(self, name: str, node: yaml.Node) -> bool:
        is_good = _NAME.fullmatch(name) is not None
        if not is_good:
            self._reader.tell(node, f"{name} is no name for SQL: letters, digits and _")
        return is_good

    def _format(
        self, keys: Mapping[str, yaml.Node], node: yaml.Node, where: str, known: Collection[str]
    ) -> str | None:
        if "format" not in keys:
            self._reader.tell(node, f"{where} has no format: {', '.join(known)}")
        return self._reader.choice(keys.get("format"), "format", known)

    def _path(
        self, keys: Mapping[str, yaml.Node], node: yaml.Node, where: str, form: str | None
    ) -> str | None:
        path = self._reader.text(keys.get("path"), "path")
        if form in (TOPIC, JDBC) and "path" in keys:
            self._reader.tell(keys["path"], f"{form} has no path, only options")
        if form in (LOG, *_FILES) and "path" not in keys:
            self._reader.tell(node, f"{where} needs a path")
        return path

    def _watermark(self, node: yaml.Node | None) -> Watermark | None:
        if node is None:
            return None
        keys = self._reader.mapping(node, "watermark", _WATERMARK_KEYS)
        for key in _WATERMARK_KEYS:
            if key not in keys:
                self._reader.tell(node, f"watermark needs a {key}")
        column = self._reader.text(keys.get("column"), "column")
        delay = self._reader.text(keys.get("delay"), "delay")
        return None if column is None or delay is None else Watermark(column, delay)

    def _options(self, node: yaml.Node | None) -> dict[str, str]:
        if node is None:
            return {}
        found = {}
        for name, value in self._reader.mapping(node, "options").items():
            text = self._reader.option(value, name)
            if text is not None:
                found[name] = text
        return found

    def _check_options(
        self, end: Source | Sink, node: yaml.Node, options: yaml.Node | None, *, is_streamed: bool
    ) -> None:
        """Look at the options of what pkafka brings; those of Spark's own formats are Spark's to look at."""
        tell, is_sink = self._reader.tell, isinstance(end, Sink)
        if end.format == JDBC:
            tables = [each for each in _JDBC_TABLES if each in end.options]
            if "url" not in end.options or not tables or (is_sink and tables != ["dbtable"]):
                tell(
                    options or node,
                    f"jdbc needs the options url and {'dbtable' if is_sink else 'dbtable or query'}",
                )
        if end.format not in (TOPIC, LOG):
            return
        known = (
            _LOG_OPTIONS if end.format == LOG else _TOPIC_WRITE_OPTIONS if is_sink else _TOPIC_READ_OPTIONS
        )
        lowered = {each.lower() for each in known}
        for key, _ in options.value if isinstance(options, yaml.MappingNode) else ():
            name = key.value
            is_clients = end.format == TOPIC and name.lower().startswith("kafka.")
            if name.lower() not in lowered and not is_clients:
                tell(key, f"there is no option {name} of {end.format}", name, known)
                return
        try:
            if end.format == TOPIC and is_sink:
                written = write_options(end.options, is_stream=self._is_stream)
                each_task = {} if written.transactions is None else {"transactional.id": "of-a-task"}
                ProducerConfig.from_properties({**written.producer, **each_task})
            elif end.format == TOPIC:
                found = (stream_options if is_streamed else batch_options)(end.options)
                ConsumerConfig.from_properties(found.consumer)
            elif end.path is not None:
                read_options({**end.options, "path": end.path})
        except PkafkaError as error:
            tell(options or node, str(error))
