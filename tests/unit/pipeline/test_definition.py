"""Pipelines as files define them: what is read, and that everything wrong is told at once, with its line."""

from collections.abc import Mapping

import pytest

from pkafka.pipeline.definition import Pipeline, Sink, Source, Step, Watermark, parse
from pkafka.pipeline.definition_yaml import PipelineError, Problem

STREAM = """\
name: large-orders
mode: stream
parameters:
  day: 2026-01-31
  servers: localhost:9092
source:
  format: pkafka
  options:
    kafka.bootstrap.servers: ${servers}
    subscribe: [orders, refunds]
    startingOffsets: {orders: {"0": 5}, refunds: {"0": -2}}
  watermark: {column: timestamp, delay: 10 minutes}
steps:
  - name: large
    sql: |

      select * from source
      where day = '${day}' and value <> '$${x}';
  - sql: select count(*) n from large
sink:
  format: parquet
  path: /out/${day}
  partition-by: day
checkpoint: /state
trigger: 5m
spark:
  spark.sql.shuffle.partitions: 2
"""
BATCH = """\
source: {format: csv, path: /in, schema: "id long", options: {header: true}}
sink: {format: json, path: /out}
"""


def read(text: str, values: Mapping[str, str] | None = None, **environment: str) -> Pipeline:
    return parse(text, name="file", values=values or {}, environment=environment)


def problems(
    text: str, values: Mapping[str, str] | None = None, **environment: str
) -> list[tuple[int | None, str]]:
    return [(each.line, each.message) for each in found(text, values, **environment)]


def found(text: str, values: Mapping[str, str] | None = None, **environment: str) -> tuple[Problem, ...]:
    with pytest.raises(PipelineError) as caught:
        read(text, values, **environment)
    return caught.value.problems


def test_a_stream_with_everything() -> None:
    options = {
        "kafka.bootstrap.servers": "broker:1",
        "subscribe": "orders,refunds",
        "startingOffsets": '{"orders": {"0": 5}, "refunds": {"0": -2}}',
    }
    sql = "\nselect * from source\nwhere day = '2026-01-31' and value <> '${x}'"
    assert read(STREAM, {"servers": "broker:1"}) == Pipeline(
        name="large-orders",
        is_stream=True,
        sources=(
            Source("source", "pkafka", None, None, options, Watermark("timestamp", "10 minutes"), False, 7),
        ),
        steps=(Step("large", sql, None, 16), Step("step2", "select count(*) n from large", None, 19)),
        sink=Sink("parquet", "/out/2026-01-31", "append", ("day",), {}, 21),
        checkpoint="/state",
        interval_ms=300_000,
        is_ending=False,
        settings={"spark.sql.shuffle.partitions": "2"},
    )


def test_a_batch_with_little() -> None:
    assert read(BATCH) == Pipeline(
        name="file",
        is_stream=False,
        sources=(Source("source", "csv", "/in", "id long", {"header": "true"}, None, False, 1),),
        steps=(),
        sink=Sink("json", "/out", "error", (), {}, 2),
        checkpoint=None,
        interval_ms=None,
        is_ending=False,
        settings={},
    )


def test_several_sources_one_of_them_read_once() -> None:
    made = read(
        "mode: stream\ncheckpoint: /state\ntrigger: available-now\n"
        "sources:\n"
        "  orders: {format: pkafka, options: {kafka.bootstrap.servers: 'b:1', subscribe: a}}\n"
        "  customers: {format: jdbc, static: true, options: {url: 'jdbc:x', dbtable: c}}\n"
        "steps:\n  - sql: select * from orders join customers using (id)\n"
        "sink: {format: pkafka, options: {kafka.bootstrap.servers: 'b:1', topic: b}}\n"
    )
    assert [(each.name, each.is_static) for each in made.sources] == [("orders", False), ("customers", True)]
    assert (made.is_ending, made.interval_ms, made.sink.mode) == (True, None, "append")


def test_options_are_shared_by_merging() -> None:
    made = read(
        "sources:\n"
        "  a: {format: csv, path: /a, schema: id long, options: &csv {header: true, sep: ;}}\n"
        "  b: {format: csv, path: /b, schema: id long, options: {<<: *csv, sep: ','}}\n"
        "steps: [{sql: select * from a join b using (id)}]\n"
        "sink: {format: parquet, path: /out}\n"
    )
    assert made.sources[1].options == {"header": "true", "sep": ","}


def test_a_value_of_the_environment_and_one_that_has_to_be_given() -> None:
    text = BATCH + "parameters: {where: }\n"
    text = text.replace("/in", "'${where}/${env:FOLDER}'")
    assert read(text, {"where": "/x"}, FOLDER="in").sources[0].path == "/x/in"
    assert problems(text) == [
        (1, "the parameter where has no value: --set where=... gives it one"),
        (1, "the environment has no FOLDER"),
    ]


def test_unknown_names_come_with_those_that_there_are() -> None:
    told = found(
        "xsource: {}\n"
        "source:\n  xformat: csv\n  format: cvs\n"
        "sink: {format: pkafka, options: {kafka.bootstrap.servers: 'b:1', topics: t}}\n"
        "parameters: {day: 1}\nname: ${dya}\n",
        {"dayy": "2"},
    )
    assert [(each.line, each.word) for each in told] == [
        (None, "dayy"),
        (1, "xsource"),
        (3, "xformat"),
        (4, "cvs"),
        (5, "topics"),
        (7, "dya"),
    ]
    assert all(each.known for each in told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", [(None, "there is nothing in it")]),
        ("a: [", [(1, "expected the node content, but found '<stream end>'")]),
        (
            "- a",
            [
                (None, "there is no source"),
                (None, "there is no sink"),
                (1, "a pipeline needs keys and values"),
            ],
        ),
        ("name: x", [(None, "there is no source"), (None, "there is no sink")]),
        (BATCH + "name: x\nname: y\n", [(4, "a pipeline has the key name more than once")]),
        (BATCH + "name:\n", [(3, "name needs a value")]),
        (BATCH + "mode: streaming\n", [(3, "mode is batch or stream, not streaming")]),
        (BATCH + "trigger: 5s\n", [(3, "trigger is for mode: stream")]),
        (
            BATCH + "spark: {master: local}\n",
            [(3, "master is no setting of Spark's: they begin with spark.")],
        ),
        (BATCH.replace(', schema: "id long"', ""), [(1, "source needs a schema")]),
        (BATCH.replace("path: /out", ""), [(2, "sink needs a path")]),
        (
            BATCH.replace("/out", "/out, mode: ignore"),
            [(2, "mode is append or overwrite or error, not ignore")],
        ),
        (
            BATCH + "steps: [{name: source, sql: select 1}]\n",
            [(3, "there is a source or step source already")],
        ),
        (BATCH + "steps: [{name: a b, sql: select 1}]\n", [(3, "a b is no name for SQL")]),
        (BATCH + "steps: [{name: a}]\n", [(3, "the step a has no sql")]),
        (
            BATCH + "sources: {a: {format: csv, path: /b, schema: id long}}\n",
            [(3, "there is a source as well as sources")],
        ),
        (
            BATCH.replace('csv, path: /in, schema: "id long"', "jdbc").replace(
                "header: true", "url: 'jdbc:x'"
            ),
            [(1, "jdbc needs the options url and dbtable or query")],
        ),
        (
            STREAM.replace("checkpoint: /state\n", ""),
            [(None, "a stream needs a checkpoint: the directory where it says how far it is")],
        ),
        (STREAM.replace("5m", "soon"), [(25, "trigger is available-now or a time")]),
        (STREAM.replace("path: /out", "mode: update\n  path: /out"), [(22, "a stream can only append")]),
        (
            STREAM.replace("subscribe: [orders, refunds]", "subscribePatern: x"),
            [(10, "there is no option subscribePatern of pkafka")],
        ),
        (
            STREAM.replace("subscribe: [orders, refunds]", "includeHeaders: true"),
            [(9, "One of the following options must be specified for Kafka source")],
        ),
        (
            STREAM.replace("subscribe: [", "kafka.max.poll.records: many\n    subscribe: ["),
            [(9, "max.poll.records")],
        ),
        (
            STREAM.replace("format: pkafka\n", "format: pkafka-log\n  path: /data\n"),
            [
                (7, "pkafka-log cannot be read as a stream"),
                (10, "there is no option kafka.bootstrap.servers"),
            ],
        ),
    ],
)
def test_what_cannot_be(text: str, told: list[tuple[int | None, str]]) -> None:
    said = problems(text)
    assert [line for line, _ in said] == [line for line, _ in told], said
    for (_, message), (_, expected) in zip(said, told, strict=True):
        assert expected in message


def test_options_of_logs_are_those_of_the_source() -> None:
    text = BATCH.replace("csv", "pkafka-log").replace(', schema: "id long"', "").replace("header", "rows")
    assert problems(text) == [(1, "rows is records or batches, not 'true'")]
    assert read(text.replace("true", "batches")).sources[0].options == {"rows": "batches"}
