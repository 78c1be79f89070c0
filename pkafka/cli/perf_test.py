"""pk-perf-test: producers and consumers together under a load that can be planned, kept and compared.

Kafka has no such tool; its two, each for one client, are ``pk-producer-perf-test`` and ``pk-consumer-perf-test``.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pkafka.cli.kit.client_options import settle_consumer, settle_producer
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandError, CommandGroup
from pkafka.cli.kit.options import (
    Common,
    client_properties,
    connection_options,
    debug_option,
    output_option,
    parse_assignments,
    require_brokers,
    version_option,
)
from pkafka.cli.kit.output import OutputFormat, View, choose_format, live_notes, note, show, to_json
from pkafka.cli.kit.signals import Signals
from pkafka.cli.kit.spark import master_option

if TYPE_CHECKING:
    from pkafka.cli.kit.client_settings import Settings
    from pkafka.pipeline.load.spark_load import SparkLoad
    from pkafka.tools.load.perf_test.plan import Plan
    from pkafka.tools.load.perf_test.report import Document
    from pkafka.tools.load.perf_test.run import Clients, Progress

_DEFAULT_DURATION: Final = "10s"
_MIB: Final = 1024 * 1024
_PROCESSES_MAX: Final = 1_000
"""Of each kind on one machine; more begin with ``--master``."""
_PRODUCER_FLAGS: Final = {
    "codec": "compression.type",
    "acks": "acks",
    "batch_size": "batch.size",
    "linger_ms": "linger.ms",
}
_UNITS_S: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_RESULT_COLUMNS: Final = (
    "side",
    "records",
    "failed",
    "seconds",
    "records_per_s",
    "mib_per_s",
    "latency_mean_ms",
    "percentiles_ms",
    "latency_max_ms",
)

_GENERATOR_COLUMNS: Final = (
    "side",
    "number",
    "host",
    "records",
    "records_per_s",
    "mib_per_s",
    "latency_mean_ms",
    "percentiles_ms",
    "latency_max_ms",
    "late_ms",
)


class _Verbs(CommandGroup):
    """A group of verbs that runs ``run`` where the command line names no verb."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's, with ``run`` in front of a flag that is not the group's own."""
        own = {flag for each in self.get_params(ctx) for flag in each.opts}
        if args and args[0].startswith("-") and args[0].partition("=")[0] not in own:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group("pk-perf-test", cls=_Verbs, context_settings={"help_option_names": HELP_FLAGS})
@version_option
def main() -> None:
    """Load tests: producers and consumers together, with percentiles of what their records go through.

    Without a verb, pk-perf-test runs run. compare compares the reports of two runs, and plot draws one.
    """


@main.command("run")
@connection_options
@click.option(
    "--topic",
    metavar="NAME",
    help="The topic. The test makes it where it is missing, and deletes it at the end; without the flag it "
    "makes a new one.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="Partitions of a topic that the test makes; default: the broker's.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    metavar="N",
    help="Replicas of a topic that the test makes.",
)
@click.option(
    "--topic-config",
    "topic_configs",
    multiple=True,
    metavar="K=V",
    help="Replicas of a topic that the test makes.",
)
@click.option("--keep-topic", is_flag=True, help="Do not delete the topic that the test made.")
@click.option(
    "--producers",
    type=click.IntRange(0, _PROCESSES_MAX),
    default=1,
    metavar="N",
    help="Processes that send (1).",
)
@click.option(
    "--consumers",
    type=click.IntRange(0, _PROCESSES_MAX),
    default=1,
    metavar="N",
    help="Processes that read (1). Without producers they read what is there.",
)
@click.option(
    "--group",
    metavar="ID",
    help="The group that the consumers join; without one each consumer gets partitions of its own.",
)
@click.option("--duration", metavar="TIME", help=f"How long to measure, as 30s or 2m ({_DEFAULT_DURATION}).")
@click.option("--num-records", type=click.IntRange(1), metavar="N", help="How many records to send in all.")
@click.option(
    "--rate", type=float, metavar="R", help="Records per second of all producers; no limit if left out."
)
@click.option("--throughput", type=float, metavar="MB", help="As --rate, in MB per second.")
@click.option("--warmup", default="0", metavar="TIME", help="How long to run before measuring begins.")
@click.option(
    "--record-size",
    default="100",
    metavar="SIZE",
    help="BYTES, uniform:FROM:TO, normal:MEAN:DEVIATION or file:PATH (100).",
)
@click.option("--payload-file", metavar="FILE", help="Send random lines of this file.")
@click.option(
    "--payload-template",
    metavar="TEXT",
    help="Send this, with {number}, {now_ms}, {uuid}, {random:N}, {int:A:B} and {choice:A|B} filled in.",
)
@click.option(
    "--key",
    default="none",
    metavar="KEYS",
    help="none, sequential, uniform:N or zipf:N[:EXPONENT] (none).",
)
@click.option("--header", "headers", multiple=True, metavar="K=V", help="A header of every record.")
@click.option(
    "--codec", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), help="What compresses batches."
)
@click.option(
    "--acks", type=click.Choice(["0", "1", "all", "-1"]), help="How many replicas acknowledge (all)."
)
@click.option(
    "--batch-size", type=click.IntRange(0), metavar="BYTES", help="The size of the producers' batches."
)
@click.option(
    "--linger-ms", type=click.IntRange(0), metavar="MS", help="How long a batch waits for more (0)."
)
@click.option(
    "--producer-property", "producer_pairs", multiple=True, metavar="K=V", help="A key of the producers."
)
@click.option(
    "--consumer-property", "consumer_pairs", multiple=True, metavar="K=V", help="A key of the consumers."
)
@click.option(
    "--transaction-records",
    type=click.IntRange(1),
    metavar="N",
    help="Send in transactions of so many records; each producer has a transactional id of its own.",
)
@click.option(
    "--abort-share",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="SHARE",
    help="The share of transactions that are aborted (0).",
)
@click.option(
    "--max-error-rate",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="SHARE",
    help="The share of records that may fail (0).",
)
@click.option(
    "--interval",
    default="1s",
    metavar="TIME",
    help="Time between two lines, and between two points of the time series (1s).",
)
@click.option("--report", "report_file", metavar="FILE", help="Keep the report, for compare and plot.")
@click.option("--spark", is_flag=True, help="Producers and consumers are tasks on Spark's executors.")
@master_option
@click.option(
    "--parquet", "tables", metavar="PATH", help="Add the report to Parquet tables there; with --spark."
)
@debug_option
def run(common: Common, **flags: object) -> int:
    """Run a load test."""
    from pkafka.clients.admin import Admin
    from pkafka.clients.config import ConsumerConfig, ProducerConfig
    from pkafka.tools.load.perf_test import run as load_test
    from pkafka.tools.load.perf_test.fleet import Processes
    from pkafka.tools.load.perf_test.plan import PlanError
    from pkafka.tools.load.perf_test.report import build

    _check_spark(flags)
    admin_properties = common.admin_properties()
    clients = _clients(common, flags)
    _settle(clients, flags)
    ProducerConfig.from_properties(clients.producer)
    ConsumerConfig.from_properties(clients.consumer)
    try:
        plan = _plan(common, flags)
    except PlanError as error:
        raise click.UsageError(str(error)) from None
    report_file = None if flags["report_file"] is None else Path(str(flags["report_file"]))
    if report_file is not None:
        # Fail now, and not after an hour of measuring, where the file cannot be written.
        is_new = not report_file.exists()
        report_file.touch()
        if is_new:
            report_file.unlink()
    partitions, replication_factor = flags["partitions"], flags["replication_factor"]
    assert isinstance(partitions, int | None)
    assert isinstance(replication_factor, int | None)
    with (
        Admin(admin_properties, fail_fast=True) as admin,
        _spark(flags, plan) as spark,
        Signals() as signals,
    ):
        making = load_test.topic_for(
            admin,
            plan,
            partitions=partitions or -1,
            replication_factor=replication_factor or -1,
            configs=_pairs(flags["topic_configs"], "--topic-config"),
            is_kept=bool(flags["keep_topic"]),
            on_left=lambda why: note(f"pk-perf-test: the topic {plan.topic} could not be deleted: {why}"),
        )
        with making, live_notes() as tell:
            outcome = load_test.run(
                plan,
                clients,
                admin,
                on_progress=lambda progress: _tell(progress, tell),
                is_interrupted=signals.came,
                fleet_for=Processes if spark is None else spark.fleet,
            )
        report = build(outcome, clients, master=None if spark is None else spark.master)
        if report_file is not None:
            report_file.write_text(to_json(report) + "\n", encoding="utf-8")
        if spark is not None and flags["tables"] is not None:
            spark.write_tables(report, str(flags["tables"]))
    _show_report(report, common.output)
    return _status(report, plan, signals)


@main.command("compare")
@click.argument("before", metavar="REPORT")
@click.argument("after", metavar="REPORT")
@click.option("--threshold", default="5%", metavar="SHARE", help="How much worse a figure may be (5%).")
@output_option
def compare(before: str, after: str, threshold: str, output: str | None) -> int:
    """Compare two reports; end with 1 where a figure became worse.

    The command judges rates, medians, 99th percentiles and failed records.
    """
    from pkafka.tools.load.perf_test import comparison

    limit = _share(threshold)
    found = comparison.compare(_read(before), _read(after), threshold=limit)
    rows = [row._asdict() for row in found.rows]
    width = max(len(row.figure) for row in found.rows)
    lines = [
        f"{row.figure:<{width}}  {row.before:>14.3f}  {row.after:>14.3f}  "
        f"{'' if row.change_percent is None else f'{row.change_percent:+.2f}%':>9}  {row.verdict}"
        for row in found.rows
    ]
    extra = {"threshold": limit, "regression": found.is_regression, "remarks": found.remarks}
    form = OutputFormat(output) if output else None
    show(View("figures", [*lines, *found.remarks], rows, extra), form)
    _remark(found.remarks, form)
    return ExitStatus.FAILURE if found.is_regression else ExitStatus.OK


@main.command("plot")
@click.argument("report", metavar="REPORT")
@click.option("--svg", "svg_file", metavar="FILE", help="Write the picture as SVG.")
@click.option("--png", "png_file", metavar="FILE", help="Write it as PNG, where CairoSVG is installed.")
def plot(report: str, svg_file: str | None, png_file: str | None) -> None:
    """Draw a report: throughput and latency over time, and latency by percentile."""
    from pkafka.tools.load.perf_test import plot as drawing

    if svg_file is None and png_file is None:
        raise click.UsageError("where to? --svg FILE or --png FILE")
    picture = drawing.svg(_read(report))
    if svg_file is not None:
        Path(svg_file).write_text(picture, encoding="utf-8")
    if png_file is not None:
        try:
            import cairosvg
        except ImportError:
            hint = "pip install cairosvg, or write SVG"
            raise CommandError(
                "a PNG needs the package CairoSVG, which is not installed", hint=hint
            ) from None
        cairosvg.svg2png(bytestring=picture.encode(), write_to=png_file)


def _check_spark(flags: Mapping[str, object]) -> None:
    """Refuse flags of Spark where Spark is not to run."""
    from click.core import ParameterSource

    source = click.get_current_context().get_parameter_source("master")
    is_given = {"--master": source is not ParameterSource.DEFAULT, "--parquet": flags["tables"] is not None}
    for option, given in is_given.items():
        if given and not flags["spark"]:
            raise click.UsageError(f"{option} needs --spark")


@contextmanager
def _spark(flags: Mapping[str, object], plan: "Plan") -> "Iterator[SparkLoad | None]":
    """Spark, where it is asked for."""
    if not flags["spark"]:
        yield None
        return
    from pkafka.pipeline.load.spark_load import spark_load
    from pkafka.tools.load.perf_test.plan import PlanError

    try:
        with spark_load(str(flags["master"]), plan, on_note=note) as spark:
            if flags["tables"] is not None:
                spark.prepare_tables(str(flags["tables"]))
            yield spark
    except PlanError as error:
        raise click.UsageError(str(error)) from None


def _plan(common: Common, flags: Mapping[str, Any]) -> "Plan":
    from pkafka.tools.load.perf_test.plan import Plan
    from pkafka.tools.load.perf_test.run import mean_record_bytes

    if flags["rate"] is not None and flags["throughput"] is not None:
        raise click.UsageError('Option "[rate]" can\'t be used with option "[throughput]"')
    duration = flags["duration"]
    if duration is None and flags["num_records"] is None:
        duration = _DEFAULT_DURATION
    plan = Plan(
        topic=flags["topic"] or f"pk-perf-test-{os.urandom(4).hex()}",
        producers=flags["producers"],
        consumers=flags["consumers"],
        duration_s=None if duration is None else _seconds(duration),
        records=flags["num_records"],
        rate=flags["rate"],
        warmup_s=_seconds(flags["warmup"]),
        interval_s=_seconds(flags["interval"]),
        record_size=flags["record_size"],
        payload_file=flags["payload_file"],
        payload_template=flags["payload_template"],
        key=flags["key"],
        headers=tuple(_pairs(flags["headers"], "--header").items()),
        group=flags["group"],
        max_error_rate=flags["max_error_rate"],
        timeout_s=common.timeout_ms / 1000,
        transaction_records=flags["transaction_records"],
        abort_share=flags["abort_share"],
    )
    plan.check()
    mean_bytes = mean_record_bytes(plan)
    if flags["throughput"] is not None:
        plan = plan.at_rate(flags["throughput"] * _MIB / mean_bytes)
        plan.check()
    return plan


def _clients(common: Common, flags: Mapping[str, Any]) -> "Clients":
    from pkafka.tools.load.perf_test.run import Clients

    producer = _settings(common, flags["producer_pairs"], "--producer-property")
    for name, key in _PRODUCER_FLAGS.items():
        if flags[name] is not None:
            producer.lay({key: flags[name]}, f"--{name.replace('_', '-')}")
    producer.setdefault("client.id", "pk-perf-test-producer")
    # What a test waits for is its time-out, where no flag says something else.
    producer.setdefault("max.block.ms", common.timeout_ms)
    if flags["transaction_records"] is not None:
        producer.setdefault("transactional.id", f"pk-perf-test-{os.urandom(4).hex()}")
    consumer = _settings(common, flags["consumer_pairs"], "--consumer-property")
    if flags["group"] is not None:
        consumer.lay({"group.id": flags["group"]}, "--group")
    consumer.setdefault("client.id", "pk-perf-test-consumer")
    # Kafka's own tool has a larger buffer than its consumer, too; -1 leaves it to the system.
    consumer.setdefault("receive.buffer.bytes", -1)
    if flags["transaction_records"] is not None:
        consumer.setdefault("isolation.level", "read_committed")
    if flags["producers"] == 0:
        consumer.setdefault("auto.offset.reset", "earliest")
    return Clients(producer, consumer)


def _settings(common: Common, pairs: object, option: str) -> "Settings":
    values = client_properties(common.command_config, common.bootstrap_server, pairs, option=option)
    require_brokers(values)
    return values


def _settle(clients: "Clients", flags: Mapping[str, object]) -> None:
    """Show the settings where that is all that is asked for, those of the consumers where no producer runs."""
    if flags["producers"]:
        settle_producer(clients.producer)
    settle_consumer(clients.consumer)


def _pairs(pairs: object, option: str) -> dict[str, str]:
    assert isinstance(pairs, tuple)
    return parse_assignments(pairs, option=option)


def _seconds(text: str) -> float:
    """Seconds of ``5``, ``0.5``, or of a time with a unit."""
    number = text.rstrip("hms")
    factor = _UNITS_S.get(text[len(number) :])
    if factor is None or not number.replace(".", "", 1).isdecimal():
        raise click.UsageError(f"{text!r} is no time: seconds, or like 500ms, 30s, 2m, 1h")
    return float(number) * factor


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise click.UsageError(f"{text!r} is no share: like 5% or 0.05")
    return share


def _tell(progress: "Progress", tell: Callable[[Mapping[str, object], str], None]) -> None:
    from pkafka.tools.load.perf_test.report import progress_line, progress_row

    row = progress_row(progress)
    tell(row, progress_line(row))


def _show_report(report: "Document", form: OutputFormat | None) -> None:
    from pkafka.tools.load.perf_test.report import lines

    rows: Sequence[Mapping[str, object]] = report["results"]
    extra = {name: value for name, value in report.items() if name != "results"}
    show(View("results", lines(report), rows, extra, columns=_RESULT_COLUMNS), form)
    if report["configuration"]["master"] is not None and choose_format(form) is OutputFormat.TABLE:
        show(View("generators", (), report["generators"], columns=_GENERATOR_COLUMNS), form)
    _remark(report["remarks"], form)


def _remark(remarks: Sequence[str], form: OutputFormat | None) -> None:
    """Print the remarks that a table has no place for."""
    if choose_format(form) is OutputFormat.TABLE:
        for each in remarks:
            note(each)


def _status(report: "Document", plan: "Plan", signals: Signals) -> ExitStatus:
    """How the command ends, with a line that says why where it failed."""
    from pkafka.tools.load.perf_test.plan import is_too_many

    if signals.came():
        return signals.status()
    failed = sum(row["failed"] for row in report["results"])
    arrived = sum(
        row["records"] + row["warm_up_records"] for row in report["results"] if row["side"] == "produce"
    )
    if is_too_many(plan, failed, failed + arrived):
        note(f"pk-perf-test: {failed} of {failed + arrived} records could not be sent: {report['error']}")
        return ExitStatus.FAILURE
    if report["status"] == "failed":
        note(f"pk-perf-test: {report['error']}")
        return ExitStatus.FAILURE
    if report["missing"]:
        note(f"pk-perf-test: {report['missing']} acknowledged records were not read")
        return ExitStatus.FAILURE
    return ExitStatus.OK


def _read(path: str) -> Mapping[str, Any]:
    import json

    from pkafka.tools.load.perf_test import comparison

    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        document = None
    return comparison.check(document, where=path)


if __name__ == "__main__":
    main()
