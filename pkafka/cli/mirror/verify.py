"""pk-mirror verify: compare the records of topics with those of their copies."""

from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import parse_duration_ms
from pkafka.cli.kit.output import OutputFormat, Table, View, show
from pkafka.cli.kit.spark import session, task_bar
from pkafka.cli.mirror.flags import flow_options, offsets_bar, opened, spark_options

if TYPE_CHECKING:
    from pkafka.tools.mirroring.flow import Flow
    from pkafka.tools.mirroring.verify import Rules, Verified, Work

_COLUMNS = ("topic", "partition", "copy", "verdict", "same", "repeated", "behind")


@click.command("verify")
@flow_options
@click.option(
    "--ignore-timestamps", is_flag=True, help="As where the brokers of the target set the timestamps."
)
@click.option("--exact", is_flag=True, help="Records that were copied twice are a difference too.")
@spark_options
def verify(**flags: object) -> int:
    """Compare all records of topics with those of their copies, partition by partition.

    Where MirrorMaker 2 has written offset syncs and both aliases are given, partitions are compared from the first sync
    that both logs still have; else from their beginnings. The status is 1 where a copy differs or is missing, and 5
    where what is there is right and the rest is still to come.
    """
    timeout_ms = parse_duration_ms(str(flags["timeout"]))
    form = OutputFormat(flags["output"]) if flags["output"] else None
    with opened(flags, timeout_ms) as flow:
        from pkafka.tools.mirroring.verify import Rules, plan
        from pkafka.tools.mirroring.verify import verify as compare

        work = plan(flow)
        if not work.layout.pairs and not work.layout.missing:
            raise CommandError("no topic of the source is to be mirrored", hint="see --include")
        rules = Rules(bool(flags["ignore_timestamps"]), timeout_ms)
        if flags["spark"]:
            found = _by_spark(flow, work, rules, str(flags["master"]))
        else:
            with offsets_bar(work.total) as told:
                found = list(compare(flow, work, rules, told=told))
    rows = [_row(each) for each in found]
    totals = {key: sum(getattr(each, key) for each in found) for key in ("same", "repeated", "behind")}
    lines = [_line(each) for each in found]
    show(View("partitions", lines, rows, totals, tables=[Table(rows, _COLUMNS)]), form)
    return _judged(found, is_exact=bool(flags["exact"]))


def _by_spark(flow: "Flow", work: "Work", rules: "Rules", master: str) -> "list[Verified]":
    with session("pk-mirror", master) as spark, task_bar(spark):
        from pkafka.pipeline.mirroring.tasks import verified

        return [*work.missing, *verified(spark, flow.source, flow.target, rules, work.pairs)]


def _judged(found: "list[Verified]", *, is_exact: bool) -> ExitStatus:
    from pkafka.tools.mirroring.verify import Verdict

    wrong = [each for each in found if each.verdict in (Verdict.DIFFERS, Verdict.MISSING)]
    if wrong:
        raise CommandError(f"{len(wrong)} partition(s) differ from their copies: {_line(wrong[0])}")
    repeated = sum(each.repeated for each in found)
    if is_exact and repeated:
        raise CommandError(f"{repeated} record(s) were copied more than once")
    is_behind = any(each.verdict is Verdict.BEHIND for each in found)
    return ExitStatus.IN_PROGRESS if is_behind else ExitStatus.OK


def _row(found: "Verified") -> dict[str, object]:
    difference, begin = found.difference, found.beginning
    return {
        "topic": found.pair.source.topic,
        "partition": found.pair.source.partition,
        "copy": found.pair.target.topic,
        "verdict": found.verdict.value,
        "source_start": None if begin is None else begin.source,
        "target_start": None if begin is None else begin.target,
        "by_offset_sync": begin is not None and begin.is_synced,
        "same": found.same,
        "repeated": found.repeated,
        "behind": found.behind,
        "difference": None if difference is None else difference._asdict(),
    }


def _line(found: "Verified") -> str:
    text = f"{found.pair.source} -> {found.pair.target}: {found.verdict.value}, {found.same} record(s) are the same"
    if found.repeated:
        text += f", {found.repeated} came again"
    if found.behind:
        text += f", {found.behind} offset(s) behind"
    if found.difference is not None:
        at, there, part = found.difference
        source = "the end of the source" if at is None else f"source offset {at}"
        text += f"; first difference at {source}, target offset {there}: {part}"
    return text
