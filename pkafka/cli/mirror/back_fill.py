"""pk-mirror back-fill: copy the history of topics, so that MirrorMaker 2 goes on from there."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import exclude, parse_duration_ms
from pkafka.cli.kit.output import OutputFormat, Table, View, note, show
from pkafka.cli.kit.spark import session, task_bar
from pkafka.cli.mirror.flags import flow_options, names_of, offsets_bar, settings_of, spark_options

if TYPE_CHECKING:
    from pkafka.model import TopicPartition
    from pkafka.tools.mirroring.back_fill.copying import Job, Outcome
    from pkafka.tools.mirroring.back_fill.plan import Item, Plan
    from pkafka.tools.mirroring.back_fill.preparing import BackFill, Side
    from pkafka.tools.mirroring.back_fill.source import Source
    from pkafka.tools.mirroring.layout import Pair

_COLUMNS: Final = ("topic", "partition", "copy", "state", "records", "size_bytes", "source_offset")
_CONNECTOR: Final = "MirrorSourceConnector"
_COUNTS: Final = ("records", "raw_records", "size_bytes")
_RESUME_HINT: Final = "--resume goes on where it was"


@click.command("back-fill")
@flow_options
@click.option(
    "--source-dir",
    metavar="DIR,...",
    help="In place of --source: log directories of a dead cluster; of each partition the longest log is taken.",
)
@click.option(
    "--above-high-watermark",
    is_flag=True,
    help="With --source-dir: take also what may never have been acknowledged, as it lies above high watermarks.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(-1),
    default=-1,
    metavar="N",
    help="Replicas of topics that are created; default: as many as the target's brokers give.",
)
@click.option(
    "--offset-lag-max",
    type=click.IntRange(0),
    default=100,
    metavar="N",
    help="offset.lag.max of the connector: by so many records may a translated offset be behind (100).",
)
@click.option(
    "--offset-syncs-location",
    type=click.Choice(["source", "target"]),
    help="offset-syncs.topic.location of the connector; default: source, and target with --source-dir.",
)
@click.option(
    "--connector",
    default=_CONNECTOR,
    metavar="NAME",
    help=f"The source connector that is to go on; default: {_CONNECTOR}.",
)
@click.option(
    "--offsets-topic",
    metavar="TOPIC",
    help="Where its workers keep source offsets; default: mm2-offsets.SOURCE.internal, as MirrorMaker 2.",
)
@click.option("--offsets-file", metavar="FILE", help="The same of a standalone worker, which must not run.")
@click.option("--resume", is_flag=True, help="Go on with a back-fill that was interrupted.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option(
    "--threads",
    type=click.IntRange(1),
    metavar="N",
    help="So many partitions at a time; default: as many as there are processors.",
)
@spark_options
def back_fill(**flags: object) -> int:
    """Copy topics once, with their whole history, before MirrorMaker 2 is started.

    Partitions, keys, values, headers and timestamps stay, and batches go as they are where that can be. What
    MirrorMaker 2 needs to go on without a gap and without a repeat is written as well: offset syncs and, at the end,
    source offsets. No mirror may run meanwhile.
    """
    _check(flags)
    timeout_ms = parse_duration_ms(str(flags["timeout"]))
    form = OutputFormat(flags["output"]) if flags["output"] else None
    with _prepared(flags, timeout_ms) as (prepared, target):
        plan = prepared.plan()
        for each in plan.notes:
            note(each)
        _refuse(plan)
        if flags["dry_run"]:
            outcomes: Sequence[Outcome] = ()
        else:
            prepared.create(plan)
            outcomes = _copied(prepared.jobs(plan), plan.total, flags)
        done = _Done(plan, {each.pair: each for each in outcomes}, is_planned=bool(flags["dry_run"]))
        stored = None if flags["dry_run"] or done.failed else _store(flags, done, target, timeout_ms)
    _show(done, stored, form)
    return _judged(done)


def _check(flags: Mapping[str, object]) -> None:
    for side in ("source", "target"):
        if not flags[f"{side}_alias"]:
            raise click.UsageError(
                f"--{side}-alias is missing: offset syncs and source offsets are named by it"
            )
    exclude(flags, "source-dir", "source", "source-config")
    exclude(flags, "offsets-topic", "offsets-file")
    exclude(flags, "spark", "threads")
    if flags["above_high_watermark"] and not flags["source_dir"]:
        raise click.UsageError("--above-high-watermark needs --source-dir")
    if flags["source_dir"] and flags["offset_syncs_location"] == "source":
        raise click.UsageError("a cluster of which only directories are left takes no offset syncs")


@contextmanager
def _prepared(flags: Mapping[str, object], timeout_ms: int) -> "Iterator[tuple[BackFill, Side]]":
    names = names_of(flags)
    target_settings = settings_of(flags, "target", timeout_ms)
    source_settings = None if flags["source_dir"] else settings_of(flags, "source", timeout_ms)
    from pkafka.clients.admin import Admin
    from pkafka.tools.mirroring.back_fill.preparing import BackFill, Side, Wishes
    from pkafka.tools.mirroring.back_fill.source import ClusterSource

    replicas, lag_max = flags["replication_factor"], flags["offset_lag_max"]
    assert isinstance(replicas, int)
    assert isinstance(lag_max, int)
    wishes = Wishes(names, replicas, lag_max, bool(flags["resume"]), timeout_ms)
    with ExitStack() as opened:
        target = Side(opened.enter_context(Admin(target_settings, fail_fast=True)), target_settings)
        syncs, is_on_source = target, False
        source: Source
        if source_settings is None:
            source = _dead(str(flags["source_dir"]), takes_all=bool(flags["above_high_watermark"]))
        else:
            admin = opened.enter_context(Admin(source_settings, fail_fast=True))
            source = ClusterSource(admin, source_settings, timeout_ms)
            is_on_source = flags["offset_syncs_location"] != "target"
            syncs = Side(admin, source_settings) if is_on_source else target
        yield BackFill(source, target, syncs, wishes, syncs_are_on_source=is_on_source), target


def _dead(directories: str, *, takes_all: bool) -> "Source":
    from pkafka.pipeline.mirroring.disks import DeadCluster

    named = [each for part in directories.split(",") if (each := part.strip())]
    return DeadCluster.of(named, takes_all=takes_all)


def _refuse(plan: "Plan") -> None:
    if not plan.items:
        raise CommandError("no topic of the source is to be copied", hint="see --include")
    refused = plan.refused
    if refused:
        others = f" ({len(refused) - 1} more partition(s) are refused)" if len(refused) > 1 else ""
        raise CommandError(f"{refused[0].reason}{others}", hint="--resume goes on with an earlier back-fill")


def _copied(jobs: "Sequence[Job]", total: int, flags: Mapping[str, object]) -> "Sequence[Outcome]":
    if flags["spark"]:
        with session("pk-mirror", str(flags["master"])) as spark, task_bar(spark):
            from pkafka.pipeline.mirroring.tasks import copied

            return copied(spark, jobs)
    from pkafka.tools.mirroring.back_fill.running import run_here

    asked = flags["threads"]
    threads = asked if isinstance(asked, int) else os.cpu_count() or 1
    with offsets_bar(total) as told:
        return run_here(jobs, min(threads, max(len(jobs), 1)), told)


class _Done(NamedTuple):
    """What was planned, and what became of it."""

    plan: "Plan"
    outcomes: "Mapping[Pair, Outcome]"
    is_planned: bool

    @property
    def failed(self) -> "list[Outcome]":
        """The partitions that are not whole."""
        return [each for each in self.outcomes.values() if each.error is not None]

    def offsets(self) -> "Mapping[TopicPartition, int]":
        """Where the source connector goes on, by the partition of the source."""
        from pkafka.tools.mirroring.back_fill.plan import Step, source_offsets

        whole = {
            each.pair
            for each in self.plan.items
            if each.step is not Step.MISS
            and (each.pair not in self.outcomes or self.outcomes[each.pair].error is None)
        }
        return source_offsets(self.plan.items, whole)


def _store(flags: Mapping[str, object], done: _Done, target: "Side", timeout_ms: int) -> str | None:
    """Store source offsets; where."""
    topic, file = flags["offsets_topic"], flags["offsets_file"]
    if flags["source_dir"] and not (topic or file):
        return None  # no connector goes on with a cluster that is dead
    from pkafka.tools.mirroring.back_fill.offsets import Keeper, store_in_file, store_in_topic

    keeper = Keeper(str(flags["connector"]), str(flags["source_alias"]))
    if file:
        store_in_file(keeper, done.offsets(), Path(str(file)))
        return str(file)
    name = str(topic or f"mm2-offsets.{keeper.source}.internal")
    replicas = flags["replication_factor"]
    assert isinstance(replicas, int)
    store_in_topic(keeper, done.offsets(), name, target.settings, replicas=replicas, timeout_ms=timeout_ms)
    return name


def _show(done: _Done, stored: str | None, form: OutputFormat | None) -> None:
    offsets = done.offsets() if stored else {}
    rows = [_row(done, each, offsets.get(each.pair.source)) for each in done.plan.items]
    totals = {key: sum(getattr(each, key) for each in done.outcomes.values()) for key in _COUNTS}
    created = [each.name for each in done.plan.new_topics]
    would = "would be " if done.is_planned else ""
    lines = [
        *(
            f"{each.name}: {would}created with {each.partitions} partition(s)"
            for each in done.plan.new_topics
        ),
        *(f"{name}: {would}grown to {count} partition(s)" for name, count in done.plan.grown.items()),
        *(_line(row) for row in rows),
        *([f"source offsets are stored in {stored}"] if stored else []),
    ]
    extra = {**totals, "created": created, "grown": dict(done.plan.grown), "stored_in": stored}
    show(View("partitions", lines, rows, extra, tables=[Table(rows, _COLUMNS)]), form)


def _row(done: _Done, item: "Item", source_offset: int | None) -> dict[str, object]:
    outcome = done.outcomes.get(item.pair)
    counts = {key: 0 if outcome is None else getattr(outcome, key) for key in _COUNTS}
    return {
        "topic": item.pair.source.topic,
        "partition": item.pair.source.partition,
        "copy": item.pair.target.topic,
        "state": _state(done, item, outcome),
        "source_start": item.first,
        "source_end": item.end,
        **counts,
        "found": 0 if outcome is None else outcome.found,
        "source_offset": source_offset,
        "error": item.reason if outcome is None else outcome.error,
    }


def _state(done: _Done, item: "Item", outcome: "Outcome | None") -> str:
    if item.reason is not None:
        return "missing"
    if done.is_planned:
        return "planned"
    return "copied" if outcome is None or outcome.error is None else "failed"


def _line(row: Mapping[str, object]) -> str:
    text = f"{row['topic']}-{row['partition']} -> {row['copy']}-{row['partition']}: {row['state']}"
    if row["state"] == "missing":
        return f"{text}: {row['error']}"
    text += f", source offsets {row['source_start']} to {row['source_end']}"
    if row["state"] == "planned":
        return text
    text += f", {row['records']} record(s)"
    if row["found"]:
        text += f" behind {row['found']} that were there already"
    return text if row["error"] is None else f"{text}; {row['error']}"


def _judged(done: _Done) -> ExitStatus:
    failed = done.failed
    if failed:
        first = f"{failed[0].pair.source}: {failed[0].error}"
        raise CommandError(f"{len(failed)} partition(s) are not whole: {first}", hint=_RESUME_HINT)
    missed = [each for each in done.plan.items if each.reason is not None]
    if missed:
        raise CommandError(f"{len(missed)} partition(s) are missing: {missed[0].reason}")
    return ExitStatus.OK
