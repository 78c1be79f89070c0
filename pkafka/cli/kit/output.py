"""The one place that prints: a view becomes Kafka's own text, a table on a terminal, JSON, JSON lines, CSV or gauges.

Text is what Kafka 3.9 prints and may gain columns with it; JSON and CSV are pkafka's own and frozen: exactly one
JSON document per run, errors and dry runs included.
"""

import codecs
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pkafka.cli.kit.exit_status import compat_39

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn
    from rich.table import Table as Drawn


class OutputFormat(Enum):
    """How a view is shown."""

    TEXT = "text"
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    PROMETHEUS = "prometheus"
    """Where there is something to measure: see :class:`View`."""


class Gauge(NamedTuple):
    """A measurement for Prometheus: samples are labels and a number."""

    name: str
    description: str
    samples: Sequence[tuple[Mapping[str, str], int]]


class Failure(dict[str, object]):
    """What is wrong, in JSON: of a whole run, or of one row, whose key ``error`` it is.

    Args:
        name: the name of Kafka's error, or what kind of failure else.
        message: one sentence.
        code: Kafka's code, if it is one of its errors.
    """

    def __init__(self, name: str, message: str, code: int | None = None) -> None:
        super().__init__(code=code, name=name, message=message)

    def __str__(self) -> str:
        """A text that fits into a cell of a table."""
        return f"{self['name']}: {self['message']}"


class Table(NamedTuple):
    """Rows of equal keys; a terminal shows ``columns`` of them (all when left out)."""

    rows: Sequence[Mapping[str, object]]
    columns: Sequence[str] = ()


class View(NamedTuple):
    """The answer of a command.

    Args:
        name: the key of ``rows`` in the JSON document.
        lines: Kafka's text, line by line.
        rows: one mapping per thing, all with the same keys; JSON values.
        extra: more keys of the JSON document.
        columns: for a table or CSV: which keys, in which order; all of the first row when left out.
        tables: where rows hold rows of their own: what a terminal shows in place of ``rows``, from coarse to fine;
            CSV has the finest, with all its keys.
        gauges: for Prometheus.
    """

    name: str
    lines: Iterable[str]
    rows: Sequence[Mapping[str, object]] = ()
    extra: Mapping[str, object] = {}
    columns: Sequence[str] = ()
    tables: Sequence[Table] = ()
    gauges: Sequence[Gauge] = ()


def choose_format(asked: OutputFormat | None) -> OutputFormat:
    """The format asked for; otherwise a table on a terminal and Kafka's text in a pipe."""
    if asked is not None:
        return asked
    return OutputFormat.TABLE if sys.stdout.isatty() and not compat_39() else OutputFormat.TEXT


class _Document(Enum):
    """How far this run's one JSON document has come."""

    NONE = "none"
    OPEN = "open"
    WHOLE = "whole"


_document = _Document.NONE


def begin_run() -> None:
    """Begin a command: nothing of its JSON document is printed yet, and any text can be printed."""
    global _document
    _document = _Document.NONE
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller, as >&- does
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process lasts
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ANYWAY)


def _anyway(error: UnicodeError) -> tuple[bytes, int]:
    """Bytes for characters that standard output has none for.

    What came as a byte that is no text, in a command line or the name of a file, leaves as that byte; for anything
    else there is a question mark, as Java prints.
    """
    assert isinstance(error, UnicodeEncodeError)
    characters = error.object[error.start : error.end]
    return bytes(
        ord(each) - 0xDC00 if "\udc80" <= each <= "\udcff" else 0x3F for each in characters
    ), error.end


_ANYWAY: Final = "pkafka.anyway"
codecs.register_error(_ANYWAY, _anyway)


def show(
    view: View, asked: OutputFormat | None = None, promised: Callable[[], Sequence[str]] = tuple
) -> None:
    """Print a view to standard output.

    Args:
        asked: the format asked for.
        promised: says the columns of CSV without any row, where the view does not.
    """
    form = choose_format(asked)
    if form is OutputFormat.TABLE and view.rows:
        for table in view.tables or (Table(view.rows, view.columns),):
            if table.rows:
                _print_table(table)
    elif form is OutputFormat.JSON:
        _print_document({view.name: list(view.rows), **view.extra})
    elif form is OutputFormat.JSONL:
        for row in view.rows:
            print(to_json(row))
        _set(_Document.WHOLE)
    elif form is OutputFormat.CSV:
        _print_csv(Table(view.tables[-1].rows) if view.tables else Table(view.rows, view.columns), promised)
    elif form is OutputFormat.PROMETHEUS:
        _print_gauges(view.gauges)
    else:
        for line in view.lines:
            print(line)


class JsonList:
    """A JSON document with one list that is printed while it grows.

    Nothing is printed before the first row, and a failing command's error ends the document (:func:`show_error`).

    Args:
        name: the key of the list.
    """

    def __init__(self, name: str) -> None:
        self._beginning = f'{{"{name}":['

    def add(self, rows: Sequence[str]) -> None:
        """Print rows, each one line of JSON."""
        if rows:
            _write((self._before(",") + ",".join(rows)).encode(), _Document.OPEN)

    def close(self, extra: Mapping[str, object]) -> None:
        """End the list and the document, with more keys of it."""
        _write(f"{self._before('')}]{_more(extra)}}}\n".encode(), _Document.WHOLE)

    def _before(self, next_row: str) -> str:
        return next_row if _document is _Document.OPEN else self._beginning


def line(text: str) -> None:
    """Print one line of text to standard output at once, for what happens as time passes."""
    print(text, flush=True)


def raw(data: bytes) -> None:
    """Write bytes to standard output as they are: the content of records is not text of this program."""
    sys.stdout.buffer.write(data)


def note(text: str) -> None:
    """Print one line to standard error, for a person and not for a script."""
    print(text, file=sys.stderr, flush=True)


def hint(text: str) -> None:
    """Print what to do next, at a terminal only: a script does not need it."""
    if sys.stderr.isatty() and not compat_39():
        note(text)


def show_error(name: str, message: str, *, code: int | None, asked: OutputFormat | None) -> None:
    """Print an error where JSON was asked for: as the run's one document, or as the end of the one that is open.

    After a whole document, or all its rows, nothing is added: they say what failed.
    """
    error = {"error": Failure(name, message, code)}
    if asked is OutputFormat.JSONL and _document is _Document.NONE:
        print(to_json(error))
    elif asked is OutputFormat.JSON and _document is _Document.NONE:
        _print_document(error)
    elif asked is OutputFormat.JSON and _document is _Document.OPEN:
        _write(f"]{_more(error)}}}\n".encode(), _Document.WHOLE)


def prompt(text: str) -> None:
    """Print text without a line end, at a terminal only."""
    if sys.stdin.isatty():
        print(text, end="", flush=True)


def to_json(value: object) -> str:
    """One line of JSON; what JSON does not know becomes text, and half of a surrogate pair its escape."""
    import json

    text = json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _set(document: _Document) -> None:
    global _document
    _document = document


def _print_document(document: Mapping[str, object]) -> None:
    _write(f"{to_json(document)}\n".encode(), _Document.WHOLE)


def _write(data: bytes, document: _Document) -> None:
    """Print a part of the document and note how far it is; Ctrl-C comes before both or after both."""
    sys.stdout.flush()
    with _interrupts_held_back():
        raw(data)
        _set(document)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C wait until the block ends.

    A signal that only this thread blocks would come by way of another one: Python runs the handler here all the same.
    """
    import signal
    from types import FrameType

    held: list[FrameType | None] = []
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda _number, frame: held.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            handler(signal.SIGINT, held[0])


def _more(extra: Mapping[str, object]) -> str:
    """More keys of an object that is open."""
    return f",{to_json(extra)[1:-1]}" if extra else ""


def _columns(table: Table) -> Sequence[str]:
    return table.columns or (list(table.rows[0]) if table.rows else [])


def _cell(value: object, *, pairs_apart: str = ",") -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping) and not isinstance(value, Failure):
        return pairs_apart.join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_cell(item) for item in value)
    return str(value)


def csv_rows(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print a table as CSV while its rows come; a row need not have every column."""
    import csv

    writer: Any = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])


def _print_csv(table: Table, promised: Callable[[], Sequence[str]]) -> None:
    """A header, and the rows below it; an empty line would be a row of one empty cell."""
    columns = _columns(table) or promised()
    if columns:
        csv_rows(columns, table.rows)


def _print_gauges(gauges: Iterable[Gauge]) -> None:
    """Prometheus's text format, version 0.0.4."""
    for gauge in gauges:
        print(f"# HELP {gauge.name} {gauge.description}")
        print(f"# TYPE {gauge.name} gauge")
        for labels, value in gauge.samples:
            pairs = ",".join(f'{name}="{text.translate(_IN_QUOTES)}"' for name, text in labels.items())
            print(f"{gauge.name}{{{pairs}}} {value}")


_IN_QUOTES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@contextmanager
def live_tables() -> Iterator[Callable[[Sequence[Table], Sequence[str]], None]]:
    """A function that shows tables and remarks in place of the last ones, on a terminal, until the block ends."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:

        def update(tables: Sequence[Table], remarks: Sequence[str]) -> None:
            drawn = [_draw(table, live.console.width) for table in tables]
            live.update(Group(*drawn, *(Text(each.strip()) for each in remarks)), refresh=True)

        yield update


@contextmanager
def live_notes() -> Iterator[Callable[[Mapping[str, object], str], None]]:
    """A function that shows progress on standard error: the latest rows in place on a terminal, else line by line."""
    if not sys.stderr.isatty():
        yield lambda _row, text: note(text)
        return
    from rich.console import Console
    from rich.live import Live

    rows: list[Mapping[str, object]] = []
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def update(row: Mapping[str, object], _text: str) -> None:
            rows.append(row)
            del rows[:-_LIVE_ROWS]
            live.update(_draw(Table(rows), live.console.width), refresh=True)

        yield update


_LIVE_ROWS: Final = 10


def transient_bar(*columns: "ProgressColumn") -> "Progress":
    """Make a bar on standard error that is gone when it has ended."""
    from rich.console import Console
    from rich.progress import Progress

    # What is printed meanwhile goes where it belongs, which rich would change.
    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


@contextmanager
def progress(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A bar of bytes on standard error until the block ends; the caller reports each part.

    There is no bar where standard error is no terminal, or where standard output is one too and would mix with it.
    """
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield _no_progress
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with transient_bar(*columns) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def _no_progress(count: int) -> None:
    pass


def _print_table(table: Table) -> None:
    from rich.console import Console

    console = Console()
    console.print(_draw(table, console.width))


def _draw(table: Table, width: int) -> "Drawn":
    """A table for a terminal of that many columns; where that is too few, columns without any value are left out."""
    from rich import box
    from rich.table import Table as Drawn

    cells = {
        column: [_cell(row.get(column), pairs_apart="\n") for row in table.rows] for column in _columns(table)
    }
    # A word a line: numbers below a long name leave the width to ids, which stay whole, and to values.
    headings = {column: column.replace("_", "\n") for column in cells}
    wide = {column: _longest([headings[column], *cells[column]]) for column in cells}
    if sum(wide.values()) + _APART * (len(wide) + 1) > width:
        cells = {column: values for column, values in cells.items() if any(values)} or cells
    drawn = Drawn(box=box.SIMPLE_HEAD, collapse_padding=True)
    for column, values in cells.items():
        numeric = all(isinstance(row.get(column), int | float | None) for row in table.rows)
        drawn.add_column(
            headings[column],
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=column == "id",
            min_width=_longest([headings[column], *(values if numeric else [])]),
        )
    for row in zip(*cells.values(), strict=True):
        drawn.add_row(*row)
    return drawn


_APART: Final = 2
"""Between two columns."""


def _longest(texts: Iterable[str]) -> int:
    return max(len(line) for text in texts for line in text.split("\n"))
