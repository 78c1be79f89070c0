"""pk-consumer-groups: list, describe and delete groups and change their offsets, as kafka-consumer-groups.sh."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.consumer_groups import changes
from pkafka.cli.consumer_groups.describe import describe_groups, list_groups, meant
from pkafka.cli.consumer_groups.flags import (
    EXAMPLES,
    IGNORED_ELSEWHERE,
    REFUSED_ELSEWHERE,
    Flags,
    action_of,
    check,
)
from pkafka.cli.consumer_groups.report import Report
from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.numbers import LONG
from pkafka.cli.kit.options import Common, command, metered_connection_options, parse_wait_s
from pkafka.cli.kit.output import OutputFormat, Table, choose_format, note
from pkafka.cli.kit.watching import WATCHED_DOCUMENT, look_again, watch_seconds

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin

_WAIT_S: Final = 0.2
_FAILED: Final = "Executing consumer group command failed due to "
_WITHOUT_EXECUTE: Final = (
    "WARN: No action will be performed as the --execute option is missing."
    "In a future major release, the default behavior of this command will be to prompt the user before "
    "executing the reset rather than doing a dry run. You should add the --dry-run option explicitly "
    "if you are scripting this command and want to keep the current default behavior without prompting."
)


@command(
    "pk-consumer-groups",
    error_text=f"\nError: {_FAILED}",
    kafka_failure=0,
    actions=Actions(EXAMPLES, {**REFUSED_ELSEWHERE, **IGNORED_ELSEWHERE}),
)
@metered_connection_options
@click.option("--list", is_flag=True, help="List all consumer groups.")
@click.option("--describe", is_flag=True, help="Show offsets and lag, members or the state of groups.")
@click.option("--delete", is_flag=True, help="Delete groups without members.")
@click.option("--reset-offsets", is_flag=True, help="Change the offsets of groups without members.")
@click.option("--delete-offsets", is_flag=True, help="Delete the offsets of a group for topics.")
@click.option("--group", multiple=True, metavar="ID", help="The group; can be given several times.")
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option(
    "--topic",
    multiple=True,
    metavar="T[:0,1]",
    help="A topic, or partitions of it; can be given several times.",
)
@click.option("--all-topics", is_flag=True, help="All partitions that the group has an offset for.")
@click.option(
    "--offsets", is_flag=True, help="With --describe: show partitions with their lag (the default)."
)
@click.option("--members", is_flag=True, help="With --describe: show the members.")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    metavar="[S,S]",
    help="With --describe: show the state. With --list: show states, or only groups in these states.",
)
@click.option(
    "--type",
    is_flag=False,
    flag_value="",
    metavar="[T,T]",
    help="With --list: show types, or only groups of these types.",
)
@click.option(
    "--verbose", is_flag=True, help="With --describe: show more; with --members the assignments too."
)
@click.option("--to-earliest", is_flag=True, help="Reset to the first offset.")
@click.option("--to-latest", is_flag=True, help="Reset to the end.")
@click.option("--to-current", is_flag=True, help="Reset to the stored offset; the end where there is none.")
@click.option("--to-offset", type=LONG, metavar="N", help="Reset to an offset.")
@click.option("--shift-by", type=LONG, metavar="N", help="Move by so many offsets, back with a minus.")
@click.option("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="Reset to a time; UTC without a zone.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="Reset to the time that lies so far back.")
@click.option("--from-file", metavar="CSV", help="Reset to what --export wrote.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only show the new offsets (the default), or what --delete and --delete-offsets would do.",
)
@click.option("--execute", is_flag=True, help="Store the new offsets.")
@click.option("--export", is_flag=True, help="Print the new offsets as CSV for --from-file.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value="2",
    metavar="[SECONDS]",
    help="With --describe: show it again every so many seconds (2), until Ctrl-C.",
)
@click.option("--only-lagging", is_flag=True, help="With --describe: show only partitions with a lag.")
@click.option(
    "--max-lag", type=LONG, metavar="N", help="With --describe: fail when a partition lags by more."
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="With --describe: count what the group's consumers see; read_committed leaves open transactions out.",
)
@click.option(
    "--wait",
    metavar="DURATION",
    help="With --describe: look again until groups exist and lag by no more than --max-lag, at most so long. "
    "With --delete and --reset-offsets: wait until the groups have no members, at most so long.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Ask nothing. Without it, on a terminal, --delete and --reset-offsets --execute ask before they "
    "change --all-groups.",
)
def main(common: Common, **flags: object) -> int:
    """List, describe and delete consumer groups, and change their offsets."""
    given = Flags(**flags)  # type: ignore[arg-type]
    check(given)
    if common.output is OutputFormat.PROMETHEUS and (not given.describe or given.watch is not None):
        raise click.UsageError("--output prometheus is for --describe, without --watch")
    if common.output is OutputFormat.JSON and given.watch is not None:
        raise click.UsageError(WATCHED_DOCUMENT)
    if given.reset_offsets and not given.dry_run and not given.execute:
        note(_WITHOUT_EXECUTE)
    wait_s = parse_wait_s(given.wait)
    with common.admin() as admin:
        if given.watch is not None:
            return _watch(common, lambda: describe_groups(admin, common, given), watch_seconds(given.watch))
        deadline = time.monotonic() + wait_s
        if not given.describe:
            while time.monotonic() < deadline and changes.have_members(admin, common, given):
                time.sleep(_WAIT_S)
        report = _ACT[action_of(given)](admin, common, given)
        while given.describe and report.failures and time.monotonic() < deadline:
            time.sleep(_WAIT_S)
            report = _ACT[action_of(given)](admin, common, given)
        report.hints += meant(admin, common, report.missing())
    report.show(common)
    return report.status()


def _watch(common: Common, look: Callable[[], Report], seconds: float) -> int:
    """Show the same again and again: in place on a terminal, one after the other in a pipe.

    An error of the first look ends the command; a cluster that goes away later does not.
    """
    report = look()
    if choose_format(common.output) is not OutputFormat.TABLE:
        while True:
            report.show(common)
            time.sleep(seconds)
            report = _look_again(look, report)
    from pkafka.cli.kit.output import live_tables

    with live_tables() as update:
        while True:
            update(report.tables or [Table(report.rows)], [*report.notes, *report.failures])
            time.sleep(seconds)
            report = _look_again(look, report)


def _look_again(look: Callable[[], Report], before: Report) -> Report:
    news, excuse = look_again(look)
    if news is not None:
        return news
    stale = Report(before.name)
    stale.tables = before.tables or [Table(before.rows)]
    stale.notes = [excuse]
    return stale


_ACT: Final[Mapping[str, "Callable[[Admin, Common, Flags], Report]"]] = {
    "list": list_groups,
    "describe": describe_groups,
    "delete": changes.delete_groups,
    "reset-offsets": changes.reset_offsets,
    "delete-offsets": changes.delete_offsets,
}
