"""What commands with Spark share: their flags, a session with a bar of its tasks, how a table of Spark's is printed."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pkafka.cli.kit import output
from pkafka.cli.kit.output import OutputFormat, View, show

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

F = TypeVar("F", bound=Callable[..., Any])

_ROWS_AT_ONCE: Final = 1_000


def master_option(function: F) -> F:
    """Add ``--master``."""
    return click.option(
        "--master",
        default="local[*]",
        metavar="URL",
        help="Where Spark runs the tasks: all cores of this machine by default, local[N], or a cluster.",
    )(function)


@contextmanager
def session(name: str, master: str) -> "Iterator[SparkSession]":
    """A quiet session of Spark's as long as the block lasts.

    Raises:
        SparkUnavailableError: Spark cannot be started here.
        SparkJobError: a job failed.
    """
    from pkafka.pipeline.session import spark_session

    with spark_session(name, master=master, on_note=output.note) as made:
        yield made


@contextmanager
def task_bar(of: "SparkSession") -> Iterator[None]:
    """A bar of tasks on standard error until the block ends, where that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from pkafka.pipeline.session import task_progress

    columns = (TextColumn("tasks"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with output.transient_bar(*columns) as bar:
        task = bar.add_task("tasks", total=None)

        def update(done: int, known: int) -> None:
            bar.update(task, completed=done, total=known or None)

        with task_progress(of, update):
            yield


def show_table(table: "DataFrame", form: OutputFormat) -> None:
    """Print the rows of a table of Spark's as they come."""
    from pkafka.pipeline.tables import json_rows

    rows = _under_bar(table.sparkSession, json_rows(table))
    if form is OutputFormat.JSON:
        document = output.JsonList("rows")
        while block := list(islice(rows, _ROWS_AT_ONCE)):
            document.add([output.to_json(row) for row in block])
        document.close({})
    elif form is OutputFormat.CSV:
        output.csv_rows(table.columns, rows)
    elif form is OutputFormat.TABLE:
        while block := list(islice(rows, _ROWS_AT_ONCE)):
            show(View("rows", (), block, columns=table.columns), form)
    else:
        make = output.to_json if form is OutputFormat.JSONL else _line
        for row in rows:
            output.raw(f"{make(row)}\n".encode(errors="replace"))


def _under_bar(of: "SparkSession", rows: Iterator[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Rows, with a bar until the first of them is there: that is most of the work."""
    with task_bar(of):
        first = next(rows, None)
    if first is not None:
        yield first
        yield from rows


def _line(row: Mapping[str, object]) -> str:
    """A row as Kafka's tools write one: names and values."""
    return " ".join(
        f"{name}: {'' if value is None else value if isinstance(value, str) else output.to_json(value)}"
        for name, value in row.items()
    )
