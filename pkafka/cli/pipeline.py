"""pk-pipeline: from topics, logs, files and databases to topics, files and databases, as one file defines it.

Kafka has no such tool; its Connect moves records too, with a cluster of workers of its own.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandError, CommandGroup
from pkafka.cli.kit.options import (
    debug_option,
    output_option,
    parse_assignments,
    parse_duration_ms,
    stream_output_option,
    timeout_option,
    version_option,
)
from pkafka.cli.kit.output import (
    JsonList,
    OutputFormat,
    View,
    choose_format,
    line,
    live_notes,
    note,
    show,
    to_json,
)
from pkafka.cli.kit.signals import Signals
from pkafka.cli.kit.spark import master_option, task_bar
from pkafka.cli.kit.spelling import did_you_mean

if TYPE_CHECKING:
    from pkafka.pipeline.definition import Pipeline
    from pkafka.pipeline.definition_yaml import PipelineError
    from pkafka.pipeline.progress import Batch
    from pkafka.pipeline.steps import Built, Stage

_ALL_INTERFACES: Final = "0.0.0.0"  # noqa: S104 - where the flag says so
_JSON: Final = (OutputFormat.JSON, OutputFormat.JSONL)

_FILE = click.argument("file", metavar="FILE")
_SET = click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="The value of a parameter.")


@click.group("pk-pipeline", cls=CommandGroup, context_settings={"help_option_names": HELP_FLAGS})
@version_option
def main() -> None:
    """Move and change records as a file defines it: a source, steps in SQL, a sink.

    Spark does the work, on this machine or on a cluster of its own: pip install 'pkafka[spark]' brings it.
    """


@main.command("validate")
@_FILE
@_SET
@master_option
@click.option("--offline", is_flag=True, help="Ask no broker whether it answers and has the topics.")
@timeout_option
@output_option
@debug_option
def validate(
    file: str, pairs: tuple[str, ...], master: str, offline: bool, timeout: str, output: str | None
) -> None:
    """Check a pipeline without touching data: keys, brokers and topics, then the SQL by Spark's analyser.

    Shows the columns of every source and step, and whether a topic gets each row exactly once.
    """
    pipeline = _read(file, pairs)
    if not offline:
        _ask_clusters(file, pipeline, parse_duration_ms(timeout))
    with _built(file, pipeline, master) as built:
        _show_stages(pipeline, built, OutputFormat(output) if output else None)


@main.command("run")
@_FILE
@_SET
@master_option
@click.option("--dry-run", is_flag=True, help="Check everything as validate does, and run nothing.")
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus meanwhile; without a host on all addresses.",
)
@timeout_option
@stream_output_option
@debug_option
def run(
    file: str,
    pairs: tuple[str, ...],
    master: str,
    dry_run: bool,
    metrics: str | None,
    timeout: str,
    output: str | None,
) -> int:
    """Run a pipeline: a batch to its end, a stream until Ctrl-C; started again, a stream goes on.

    The command reports every batch on standard error: in a table on a terminal, else as a line of JSON.
    The sink's option delivery=exactly-once has a stream write each row into a topic once, also through kill -9.
    """
    form = OutputFormat(output) if output else None
    address = None if metrics is None else _address(metrics)
    pipeline = _read(file, pairs)
    _ask_clusters(file, pipeline, parse_duration_ms(timeout))
    with _built(file, pipeline, master) as built, Signals() as signals:
        if dry_run:
            _show_dry_run(pipeline, built, form)
            return ExitStatus.OK
        with _Teller(pipeline, form, address) as teller:
            _run(pipeline, built, teller, signals)
        teller.show_end(is_interrupted=signals.came())
    return signals.status() if signals.came() else ExitStatus.OK


def _run(pipeline: "Pipeline", built: "Built", teller: "_Teller", signals: Signals) -> None:
    from pkafka.pipeline.runner import run_batch, run_stream
    from pkafka.pipeline.session import one_line_errors

    with one_line_errors():
        if pipeline.is_stream:
            run_stream(built.frame, pipeline, on_batch=teller.tell, is_stopped=signals.came)
            return
        with task_bar(built.frame.sparkSession):
            done = run_batch(built.frame, pipeline, is_stopped=signals.came)
        if done is not None:
            teller.tell(done)


# -- before it runs ----------------------------------------------------------------------------------------


def _read(file: str, pairs: tuple[str, ...]) -> "Pipeline":
    """The pipeline in a file.

    Raises:
        CommandError: it is none; says what and where.
    """
    from pkafka.pipeline.definition import parse
    from pkafka.pipeline.definition_yaml import PipelineError

    values = parse_assignments(pairs, option="--set")
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        name = "pipeline" if file == "-" else Path(file).stem
        return parse(data.decode(), name=name, values=values, environment=os.environ)
    except UnicodeDecodeError as error:
        raise CommandError(f"{file}: it is no text of UTF-8", status=ExitStatus.USAGE) from error
    except PipelineError as error:
        raise _refusal(file, error) from error


def _ask_clusters(file: str, pipeline: "Pipeline", timeout_ms: int) -> None:
    """Look whether the topics are there.

    Raises:
        CommandError: one is missing.
        ClientError: a cluster cannot be asked.
    """
    from pkafka.pipeline.clusters import missing_topics
    from pkafka.pipeline.definition_yaml import PipelineError

    problems = missing_topics(pipeline, timeout_ms=timeout_ms)
    if problems:
        raise _refusal(file, PipelineError(*problems), status=ExitStatus.FAILURE)


@contextmanager
def _built(file: str, pipeline: "Pipeline", master: str) -> "Iterator[Built]":
    """The pipeline's tables, in a session that lasts as long as the block.

    Raises:
        CommandError: Spark does not understand the pipeline.
        SparkUnavailableError, SparkJobError: see :mod:`pkafka.pipeline.session`.
    """
    from pkafka.pipeline.definition_yaml import PipelineError
    from pkafka.pipeline.session import spark_session

    with spark_session(pipeline.name, master=master, settings=pipeline.settings, on_note=note) as session:
        from pkafka.pipeline.steps import build

        try:
            yield build(session, pipeline)
        except PipelineError as error:
            raise _refusal(file, error) from error


def _refusal(file: str, error: "PipelineError", *, status: ExitStatus = ExitStatus.USAGE) -> CommandError:
    """What is wrong with a file, a line for each."""
    lines = []
    for problem in error.problems:
        where = file if problem.line is None else f"{file}, line {problem.line}"
        meant = None if problem.word is None else did_you_mean(problem.word, problem.known)
        lines.append(f"{where}: {problem.message}" + (f" ({meant})" if meant else ""))
    return CommandError("\n".join(lines), status=status)


# -- while it runs -----------------------------------------------------------------------------------------


class _Teller:
    """Reports each batch while a pipeline runs, and at the end what came of all of them.

    Args:
        address: where metrics are served.

    Raises:
        OSError: it cannot be bound.
    """

    def __init__(
        self, pipeline: "Pipeline", form: OutputFormat | None, address: tuple[str, int] | None
    ) -> None:
        from pkafka.pipeline.progress import Metrics

        self._pipeline = pipeline
        self._form = form
        self._document = JsonList("batches") if form is OutputFormat.JSON else None
        self._metrics: Metrics | None = None
        if address is not None:
            host, port = address
            self._metrics = Metrics(pipeline.name)
            note(f"pk-pipeline: metrics at http://{host}:{self._metrics.serve(host, port)}/metrics")
        self._began = time.monotonic()
        self._batches: list[tuple[int | None, int | None]] = []
        self._notes = ExitStack()
        self._note: Callable[[Mapping[str, object], str], None] = lambda _row, _text: None

    def __enter__(self) -> Self:
        if self._form not in _JSON or sys.stderr.isatty():
            self._note = self._notes.enter_context(live_notes())
        return self

    def __exit__(self, *_: object) -> None:
        self._notes.close()
        if self._metrics is not None:
            self._metrics.close()

    def tell(self, batch: "Batch") -> None:
        """Report a batch that is done."""
        self._batches.append((batch.rows_read, batch.rows_written))
        if self._metrics is not None:
            self._metrics.add(batch)
        row = batch._asdict()
        text = to_json(row)
        if self._document is not None:
            self._document.add([text])
            sys.stdout.flush()
        elif self._form is OutputFormat.JSONL:
            line(text)
        self._note(row, text)

    def show_end(self, *, is_interrupted: bool) -> None:
        """Report the end of the pipeline, which came by itself or by a signal."""
        summary = {
            "pipeline": self._pipeline.name,
            "status": "interrupted" if is_interrupted else "complete",
            "batches": len(self._batches),
            "rows_read": _sum(read for read, _ in self._batches),
            "rows_written": _sum(written for _, written in self._batches),
            "seconds": round(time.monotonic() - self._began, 3),
        }
        if self._document is not None:
            self._document.close({"summary": summary})
        elif self._form not in _JSON:
            counts = [
                f"{summary[key]} {key.replace('_', ' ')}"
                for key in ("rows_read", "rows_written")
                if summary[key] is not None
            ]
            batches = "1 batch" if len(self._batches) == 1 else f"{len(self._batches)} batches"
            line(f"{self._pipeline.name}: {', '.join([batches, *counts])} in {summary['seconds']} s")


def _sum(numbers: Iterator[int | None]) -> int | None:
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or len(port) > 5 or int(port) > 65_535:
        raise click.UsageError(f"--metrics needs a port, or host:port, not {text!r}")
    return host.strip("[]") or _ALL_INTERFACES, int(port)


# -- what it is --------------------------------------------------------------------------------------------


def _show_stages(pipeline: "Pipeline", built: "Built", form: OutputFormat | None) -> None:
    rows = [stage._asdict() for stage in built.stages]
    extra = {"pipeline": pipeline.name, "mode": "stream" if pipeline.is_stream else "batch"}
    show(View("stages", _lines(pipeline, built), rows, extra), form)
    if choose_format(form) is OutputFormat.TABLE:
        line(_verdict(pipeline))


def _show_dry_run(pipeline: "Pipeline", built: "Built", form: OutputFormat | None) -> None:
    """The document of a run that does nothing."""
    if form is OutputFormat.JSON:
        summary = {
            "pipeline": pipeline.name,
            "status": "checked",
            "batches": 0,
            "rows_read": None,
            "rows_written": None,
            "seconds": 0,
        }
        JsonList("batches").close({"summary": summary})
    elif form is not OutputFormat.JSONL:
        for text in _lines(pipeline, built):
            line(text)


def _lines(pipeline: "Pipeline", built: "Built") -> list[str]:
    lines = [f"{_title(stage, built)}: {', '.join(stage.columns)}" for stage in built.stages]
    return [*lines, _verdict(pipeline)]


def _title(stage: "Stage", built: "Built") -> str:
    is_sink = stage.kind == "sink"
    what = stage.kind if is_sink else f"{stage.kind} {stage.name}"
    if stage.format is None:
        return what
    return f"{what} ({stage.format}{', exactly once' if is_sink and built.is_exactly_once else ''})"


def _verdict(pipeline: "Pipeline") -> str:
    return f"{pipeline.name} is sound; nothing was run."


if __name__ == "__main__":
    main()
