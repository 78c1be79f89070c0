"""pk-dump-log --spark: the same dump by tasks of Spark's; and what only Spark can: tables in files, SQL, reports."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pkafka.cli.kit import log_files, output, spark
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import exclude, parse_duration_ms
from pkafka.cli.kit.output import OutputFormat, choose_format

if TYPE_CHECKING:
    from pkafka.tools.logs.dump import Dump
    from pkafka.tools.logs.selection import Selection

F = TypeVar("F", bound=Callable[..., Any])

_REPORTS: Final = ("audit", "size", "producers", "keys", "lag")
_FILES: Final = ("json", "parquet", "csv")
_TABLE_FLAGS: Final = ("to", "sql", "report")
_NOT_WITH_SPARK: Final = ("stats", "verify")
_NOT_WITH_TABLES: Final = (
    *("skip_record_metadata", "verify_index_only", "index_sanity_check", "key_decoder_class"),
    *("value_decoder_class", "offsets_decoder", "transaction_log_decoder", "cluster_metadata_decoder"),
    *("remote_log_metadata_decoder", "print_headers", "skip_damage"),
)
_FORMS: Final = tuple(form.value for form in OutputFormat if form is not OutputFormat.PROMETHEUS)


def spark_options(function: F) -> F:
    """Add the flags of a dump by Spark, and ``--output`` with the formats of files."""
    options = (
        click.option("--spark", is_flag=True, help="Read with Spark, on all cores or on a cluster."),
        spark.master_option,
        click.option("--to", metavar="PATH", help="Write a table of records or batches there, by Spark."),
        click.option(
            "--sql", metavar="QUERY", help="Query the tables records and batches with SQL, by Spark."
        ),
        click.option("--report", type=click.Choice(_REPORTS), help="A report over the logs, by Spark."),
        click.option(
            "--bucket",
            default="1h",
            metavar="TIME",
            help="With --report audit: the length of its stretches of time.",
        ),
        click.option(
            "--id-header",
            metavar="NAME",
            help="Of the audit: the header that tells messages apart, not time, key and value.",
        ),
        click.option(
            "--tier",
            multiple=True,
            metavar="NAME=REGEX",
            help="Of the audit: compare tiers, each the logs in whose directories' paths the expression is found; "
            "the first has what all should have.",
        ),
        click.option(
            "--top",
            type=click.IntRange(1),
            default=20,
            metavar="N",
            help="With --report keys: how many of each topic.",
        ),
        click.option(
            "--output",
            type=click.Choice([*_FORMS, "parquet"]),
            help="Format of the answer; default: Kafka's text. Parquet: only of --to.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def wants_spark(flags: Mapping[str, object]) -> bool:
    """Whether flags ask for Spark, by its name or by what only it can.

    Raises:
        click.UsageError: they do not go together.
    """
    is_asked = bool(flags["spark"]) or any(flags[name] for name in _TABLE_FLAGS)
    if is_asked:
        for name in _NOT_WITH_SPARK:
            exclude(flags, name, "spark", *_TABLE_FLAGS)
    if flags["output"] == "parquet" and not flags["to"]:
        raise click.UsageError("parquet is a format of files: --to says where")
    if flags["to"] and flags["output"] not in (*_FILES, None):
        raise click.UsageError(f"files are written as {', '.join(_FILES)}, not as {flags['output']}")
    exclude(flags, "sql", "report")
    if flags["tier"] and flags["report"] != "audit":
        raise click.UsageError("--tier is for --report audit")
    return is_asked


def dump(
    made: "Dump", files: Sequence[Path], flags: Mapping[str, object], show: "Callable[[Dump], None]"
) -> None:
    """Print files as without Spark, their segments read by Spark.

    Args:
        made: a dump of one process, which says what is wanted.
        files: all files to be dumped.
        show: prints all of them from another dump.
    """
    with spark.session("pk-dump-log", str(flags["master"])) as session:
        from pkafka.pipeline.dump import SparkDump

        theirs = SparkDump(
            records=made.records,
            bytes_max=made.bytes_max,
            verify_only=made.verify_only,
            sanity_only=made.sanity_only,
            selection=made.selection,
            resync=made.resync,
            on_read=made.on_read,
            findings=made.findings,
            session=session,
            files=files,
        )
        with closing(theirs):
            show(theirs)
        for path in theirs.unindexed:
            output.note(f"{path} has no right index: read from its start to find where batches begin")


def wants_table(flags: Mapping[str, object]) -> bool:
    """Whether a table is asked for, not a dump.

    Raises:
        click.UsageError: flags of dumps are there too.
    """
    asked = next((name for name in _TABLE_FLAGS if flags[name]), None)
    if asked is None:
        return False
    for name in _NOT_WITH_TABLES:
        exclude(flags, asked, name.replace("_", "-"))
    return True


def _tiers(flags: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    given = flags["tier"]
    assert isinstance(given, tuple)
    found: dict[str, str] = {}
    for text in given:
        name, equals, pattern = text.partition("=")
        if not (name and equals and pattern):
            raise click.UsageError(f"--tier is NAME=REGEX, not {text}")
        if name in found:
            raise click.UsageError(f"--tier {name} is there twice")
        try:
            re.compile(pattern)
        except re.error as error:
            raise click.UsageError(f"--tier {text}: no regular expression: {error}") from error
        found[name] = pattern
    return tuple(found.items())


def show_or_write(
    paths: Sequence[Path], flags: Mapping[str, object], selection: "Selection", *, records: bool
) -> None:
    """Write a table of records or batches, or show or write the answer of a query or a report.

    Args:
        paths: directories and files; those that are no segments are left out.
        selection: what of the logs.
        records: write a row per record, not per batch.

    Raises:
        CommandError: there is no segment.
        click.UsageError: a flag's value makes no sense.
    """
    logs = [str(path) for path in paths if path.is_dir() or log_files.is_segment(path)]
    if not logs:
        raise CommandError("there is no segment of a log in these files")
    bucket_ms = parse_duration_ms(str(flags["bucket"]), option="bucket")
    if bucket_ms <= 0:
        raise click.UsageError("--bucket is longer than nothing")
    bounds = {
        "startingOffset": selection.offset_from,
        "endingOffset": selection.offset_to,
        "startTimestamp": selection.time_from,
        "endTimestamp": selection.time_to,
    }
    read = {name: str(value) for name, value in bounds.items() if value is not None}
    tiers = _tiers(flags)
    with spark.session("pk-dump-log", str(flags["master"])) as session:
        from pkafka.pipeline.reports import ReportOptions, make_view, report
        from pkafka.pipeline.tables import write

        if flags["report"]:
            header, top = flags["id_header"], flags["top"]
            assert isinstance(top, int)
            options = ReportOptions(bucket_ms, None if header is None else str(header), tiers, top)
            table = report(session, str(flags["report"]), logs, read, options)
        elif flags["sql"]:
            for rows in ("records", "batches"):
                make_view(session, rows, logs, read)
            table = session.sql(str(flags["sql"]))
        else:
            table = make_view(session, "records" if records else "batches", logs, read)
        if flags["to"]:
            form = str(flags["output"] or "parquet")
            with spark.task_bar(session):
                write(table, str(flags["to"]), form, payload=str(flags["payload"] or "text"))
        else:
            asked = OutputFormat(flags["output"]) if flags["output"] else None
            spark.show_table(table, choose_format(asked))
