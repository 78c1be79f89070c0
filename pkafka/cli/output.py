"""The one place that prints: a view becomes Kafka's own text, a table on a terminal, JSON, JSON lines or CSV.

Text is what Kafka 3.9 prints and may gain columns with it; JSON and CSV are pkafka's own and frozen: exactly one
JSON document per run, errors and dry runs included.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from pkafka.cli.exit_status import compat_39


class OutputFormat(Enum):
    """How a view is shown."""

    TEXT = "text"
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class View(NamedTuple):
    """What a command has to say.

    Args:
        name: the key of ``rows`` in the JSON document.
        lines: Kafka's text, line by line.
        rows: one mapping per thing, all with the same keys; JSON values.
        extra: more keys of the JSON document.
        columns: for a table or CSV: which keys, in which order; all of the first row when left out.
    """

    name: str
    lines: Iterable[str]
    rows: Sequence[Mapping[str, object]] = ()
    extra: Mapping[str, object] = {}
    columns: Sequence[str] = ()


def choose_format(asked: OutputFormat | None) -> OutputFormat:
    """The format asked for; otherwise a table on a terminal and Kafka's text in a pipe."""
    if asked is not None:
        return asked
    return OutputFormat.TABLE if sys.stdout.isatty() and not compat_39() else OutputFormat.TEXT


def show(view: View, asked: OutputFormat | None = None) -> None:
    """Print a view to standard output."""
    form = choose_format(asked)
    if form is OutputFormat.TABLE and view.rows:
        _print_table(view)
    elif form is OutputFormat.JSON:
        print(to_json({view.name: list(view.rows), **view.extra}))
    elif form is OutputFormat.JSONL:
        for row in view.rows:
            print(to_json(row))
    elif form is OutputFormat.CSV:
        _print_csv(view)
    else:
        for line in view.lines:
            print(line)


def line(text: str) -> None:
    """Print one line of text to standard output at once, for what happens as time passes."""
    print(text, flush=True)


def raw(data: bytes) -> None:
    """Write bytes to standard output as they are: the content of records is not text of this program."""
    sys.stdout.buffer.write(data)


def note(text: str) -> None:
    """Print one line to standard error: what is for the person and not for the script."""
    print(text, file=sys.stderr, flush=True)


def show_error(name: str, message: str, *, code: int | None, asked: OutputFormat | None) -> None:
    """Print an error as the one JSON document of the run, where JSON was asked for."""
    if asked in (OutputFormat.JSON, OutputFormat.JSONL):
        print(to_json({"error": {"code": code, "name": name, "message": message}}))


def prompt(text: str) -> None:
    """Print text without a line end, when a person is there to see it."""
    if sys.stdin.isatty():
        print(text, end="", flush=True)


def to_json(value: object) -> str:
    """One line of JSON; what JSON does not know becomes text."""
    return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))


def _columns(view: View) -> Sequence[str]:
    return view.columns or (list(view.rows[0]) if view.rows else [])


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_cell(item) for item in value)
    return str(value)


def _print_csv(view: View) -> None:
    import csv

    writer: Any = csv.writer(sys.stdout, lineterminator="\n")
    columns = _columns(view)
    writer.writerow(columns)
    for row in view.rows:
        writer.writerow([_cell(row.get(column)) for column in columns])


def _print_table(view: View) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    columns = _columns(view)
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float | None) for row in view.rows)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in view.rows:
        table.add_row(*[_cell(row.get(column)) for column in columns])
    Console().print(table)
