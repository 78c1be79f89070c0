"""pk-mirror drill: what would happen if the source were lost now."""

from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.options import parse_duration_ms
from pkafka.cli.kit.output import OutputFormat, View, show
from pkafka.cli.kit.topic_filter import topic_pattern
from pkafka.cli.mirror.flags import flow_options, opened

if TYPE_CHECKING:
    from pkafka.tools.mirroring.drill import CopyState, Drill, Position


@click.command("drill")
@flow_options
@click.option("--groups", metavar="REGEX", default=".*", help="Groups of consumers; default: all.")
@click.option(
    "--groups-exclude",
    metavar="REGEX",
    help="Groups to leave out, as that of pk-mirror-maker; default: those that MirrorMaker 2 leaves out.",
)
@click.option(
    "--max-lag",
    type=click.IntRange(0),
    metavar="N",
    help="How many offsets of a partition may be lost; default: any number.",
)
@click.option(
    "--max-re-read",
    type=click.IntRange(0),
    metavar="N",
    help="How many records of a partition a group may read again; default: any number.",
)
def drill(**flags: object) -> int:
    """Say what would happen if the source were lost now. It changes nothing.

    For each group: where it would go on, and how many records it would read again. For each partition: how much of it
    is not copied. The status is 1 where the target is not ready to take over.
    """
    lag_max, re_read_max = flags["max_lag"], flags["max_re_read"]
    assert isinstance(lag_max, int | None)
    assert isinstance(re_read_max, int | None)
    form = OutputFormat(flags["output"]) if flags["output"] else None
    groups = topic_pattern(str(flags["groups"]))
    excluded = None if flags["groups_exclude"] is None else topic_pattern(str(flags["groups_exclude"]))
    with opened(flags, parse_duration_ms(str(flags["timeout"]))) as flow:
        from pkafka.tools.mirroring.drill import drill as decide
        from pkafka.tools.mirroring.drill import facts_of, problems_of

        found = decide(facts_of(flow, groups, excluded))
    problems = problems_of(found, lag_max=lag_max, re_read_max=re_read_max)
    show(_view(found, problems), form)
    return ExitStatus.FAILURE if problems else ExitStatus.OK


def _view(found: "Drill", problems: list[str]) -> View:
    positions = [_position(each) for each in found.positions]
    copies = [_copy(each) for each in found.copies]
    verdict = "not ready" if problems else "ready"
    lines = [
        *(_copy_line(each) for each in found.copies),
        *(_position_line(each) for each in found.positions),
        *problems,
        f"the target is {verdict} to take over",
    ]
    extra = {"copies": copies, "problems": problems, "ready": not problems}
    return View("positions", lines, positions, extra)


def _copy(found: "CopyState") -> dict[str, object]:
    return {
        "topic": found.pair.source.topic,
        "partition": found.pair.source.partition,
        "copy": found.pair.target.topic,
        "lag": found.lag,
        "by_offset_sync": found.has_syncs,
    }


def _position(found: "Position") -> dict[str, object]:
    return {
        "group": found.group,
        "topic": found.pair.source.topic,
        "partition": found.pair.source.partition,
        "copy": found.pair.target.topic,
        "source_offset": found.source_offset,
        "target_offset": found.target_offset,
        "origin": found.origin,
        "re_read": found.re_read,
        "skipped": found.skipped,
    }


def _copy_line(found: "CopyState") -> str:
    if found.lag is None:
        return f"{found.pair.source}: no copy"
    about = "" if found.has_syncs else "about "
    return f"{found.pair.source} -> {found.pair.target}: {about}{found.lag} offset(s) would be lost"


def _position_line(found: "Position") -> str:
    if found.target_offset is None:
        return f"group {found.group} in {found.pair.source}: auto.offset.reset decides where it goes on"
    how = "" if found.origin == "group" else " once its checkpoint is committed"
    again = "an unknown number of" if found.re_read is None else f"at most {found.re_read}"
    return (
        f"group {found.group} in {found.pair.source} at {found.source_offset}: goes on in {found.pair.target} at"
        f" {found.target_offset}{how}, reads {again} record(s) again"
    )
