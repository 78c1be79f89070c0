"""pk-consumer-groups: list, describe and delete groups and change their offsets, as kafka-consumer-groups.sh."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from pkafka.cli.consumer_groups import changes, text
from pkafka.cli.consumer_groups.gauges import group_gauges, lag_gauges
from pkafka.cli.consumer_groups.report import Flags, Report, chosen_groups, named_topics
from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.kafka_command import failure
from pkafka.cli.kit.numbers import LONG
from pkafka.cli.kit.options import Common, command, exclude, metered_connection_options, parse_duration_ms
from pkafka.cli.kit.output import OutputFormat, Table, choose_format, note
from pkafka.cli.kit.spelling import meant_by_reader
from pkafka.cli.kit.watching import WATCHED_DOCUMENT, look_again, watch_seconds
from pkafka.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import GroupDescription, GroupState, GroupType
    from pkafka.tools.consumer_groups import GroupLag

_EXAMPLES: Final = {
    "list": "--list --state Empty,Dead",
    "describe": "--describe --group billing --max-lag 1000 --wait 1m",
    "delete": "--delete --group billing",
    "reset-offsets": "--reset-offsets --group billing --topic orders --to-datetime 2026-01-31T09:00:00.000 --execute",
    "delete-offsets": "--delete-offsets --group billing --topic orders",
}
_SCENARIOS: Final = (
    *("to-offset", "shift-by", "to-datetime", "by-duration"),
    *("to-earliest", "to-latest", "to-current", "from-file"),
)
_REFUSED_ELSEWHERE: Final[Mapping[str, Collection[str]]] = {
    "members": ("describe",),
    "offsets": ("describe",),
    "verbose": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "watch": ("describe",),
    "only-lagging": ("describe",),
    "max-lag": ("describe",),
    "wait": ("describe", "delete", "reset-offsets"),
    "isolation-level": ("describe",),
    "yes": ("delete", "reset-offsets"),
}
"""Flags and the actions without which they are refused."""

_IGNORED_ELSEWHERE: Final[Mapping[str, Collection[str]]] = {
    "group": ("describe", "delete", "reset-offsets", "delete-offsets"),
    "all-groups": ("describe", "delete", "reset-offsets"),
    "topic": ("reset-offsets", "delete-offsets"),
    "all-topics": ("reset-offsets",),
    **dict.fromkeys(_SCENARIOS, ("reset-offsets",)),
    "dry-run": ("delete", "reset-offsets", "delete-offsets"),
    "execute": ("reset-offsets",),
    "export": ("reset-offsets",),
}
"""As Kafka's tool does; but for --group and --topic, about which it has rules of its own."""

_WAIT_S: Final = 0.2
_FAILED: Final = "Executing consumer group command failed due to "
_WITHOUT_EXECUTE: Final = (
    "WARN: No action will be performed as the --execute option is missing."
    "In a future major release, the default behavior of this command will be to prompt the user before "
    "executing the reset rather than doing a dry run. You should add the --dry-run option explicitly "
    "if you are scripting this command and want to keep the current default behavior without prompting."
)
_OFFSET_COLUMNS: Final = (
    *("group", "topic", "partition", "current_offset", "log_end_offset", "lag"),
    *("consumer_id", "host", "client_id"),
)


@command(
    "pk-consumer-groups",
    error_text=f"\nError: {_FAILED}",
    kafka_failure=0,
    actions=Actions(_EXAMPLES, {**_REFUSED_ELSEWHERE, **_IGNORED_ELSEWHERE}),
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
@click.option("--all-topics", is_flag=True, help="Everything that the group has an offset of.")
@click.option("--offsets", is_flag=True, help="Of --describe: partitions with their lag (the default).")
@click.option("--members", is_flag=True, help="Of --describe: members.")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    metavar="[S,S]",
    help="Of --describe: the state. Of --list: with states, or only groups in these states.",
)
@click.option(
    "--type",
    is_flag=False,
    flag_value="",
    metavar="[T,T]",
    help="Of --list: with types, or only groups of these types.",
)
@click.option("--verbose", is_flag=True, help="Of --describe: more, as the assignments of --members.")
@click.option("--to-earliest", is_flag=True, help="Reset to the first offset.")
@click.option("--to-latest", is_flag=True, help="Reset to the end.")
@click.option("--to-current", is_flag=True, help="Reset to the stored offset; the end where there is none.")
@click.option("--to-offset", type=LONG, metavar="N", help="Reset to an offset.")
@click.option("--shift-by", type=LONG, metavar="N", help="Move by so many offsets, back with a minus.")
@click.option("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="Reset to a time; UTC without a zone.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="Reset to so long ago.")
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
    help="Of --describe: again and again (every 2 s), until interrupted.",
)
@click.option("--only-lagging", is_flag=True, help="Of --describe: only partitions with a lag.")
@click.option("--max-lag", type=LONG, metavar="N", help="Of --describe: fail when a partition lags by more.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="Of --describe: what the group's consumers see; without open transactions for read_committed.",
)
@click.option(
    "--wait",
    metavar="DURATION",
    help="Of --describe: look again until groups exist and lag by no more than --max-lag, at most so long. "
    "Of --delete and --reset-offsets: wait until the groups have no members, at most so long.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Ask nothing: on a terminal --delete and --reset-offsets --execute do before they change --all-groups.",
)
def main(common: Common, **flags: object) -> int:
    """List, describe and delete consumer groups, and change their offsets."""
    given = Flags(**flags)  # type: ignore[arg-type]
    _check(given)
    if common.output is OutputFormat.PROMETHEUS and (not given.describe or given.watch is not None):
        raise click.UsageError("--output prometheus is for --describe, without --watch")
    if common.output is OutputFormat.JSON and given.watch is not None:
        raise click.UsageError(WATCHED_DOCUMENT)
    if given.reset_offsets and not given.dry_run and not given.execute:
        note(_WITHOUT_EXECUTE)
    wait_s = parse_duration_ms(given.wait, option="wait") / 1_000 if given.wait else 0.0
    with common.admin() as admin:
        if given.watch is not None:
            return _watch(common, lambda: _describe(admin, common, given), watch_seconds(given.watch))
        deadline = time.monotonic() + wait_s
        if not given.describe:
            while time.monotonic() < deadline and changes.have_members(admin, common, given):
                time.sleep(_WAIT_S)
        report = _ACT[_action(given)](admin, common, given)
        while given.describe and report.failures and time.monotonic() < deadline:
            time.sleep(_WAIT_S)
            report = _ACT[_action(given)](admin, common, given)
        report.hints += _meant(admin, common, report.missing())
    report.show(common)
    return report.status()


# -- flags ------------------------------------------------------------------------------------------------


def _action(flags: Flags) -> str:
    values = flags._asdict()
    return next(name for name in _EXAMPLES if values[_field(name)])


def _check(flags: Flags) -> None:
    values = flags._asdict()
    _check_scope(flags)
    if flags.reset_offsets:
        if flags.dry_run and flags.execute:
            raise click.UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
        given = {name: _is_given(values[name]) for name in map(_field, _SCENARIOS)}
        for name in _SCENARIOS:
            exclude(given, name, *(other for other in _SCENARIOS if other != name))
        if not any(given.values()):
            choices = ", ".join(f"[{name}]" for name in _SCENARIOS)
            raise click.UsageError(
                f"Option '[reset-offsets]' requires one of the following scenarios: [{choices}]"
            )
        if not (flags.all_topics or flags.topic or flags.from_file):
            raise click.UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
        named_topics(flags.topic)
    exclude(values, "group", "all-groups", "list")
    exclude(values, "topic", "list", "describe")
    if sum(1 for name in _EXAMPLES if values[_field(name)]) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets"
        )
    for name, actions in _REFUSED_ELSEWHERE.items():
        if _is_given(values[_field(name)]) and _action(flags) not in actions:
            raise click.UsageError(
                f"Option(s) [{name}] are unavailable given other options on the command line"
            )


def _field(flag: str) -> str:
    return flag.replace("-", "_")


def _is_given(value: object) -> bool:
    return value is not None and value is not False  # which 0 is not


def _check_scope(flags: Flags) -> None:
    values = flags._asdict()
    for name in ("describe", "delete", "reset_offsets"):
        if values[name] and not flags.group and not flags.all_groups:
            shown = name.replace("_", "-")
            raise click.UsageError(f"Option [{shown}] takes one of these options: [all-groups], [group]")
    if flags.describe:
        if sum((flags.members, flags.offsets, flags.state is not None)) > 1:
            raise click.UsageError(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if flags.state:
            raise click.UsageError("Option [describe] does not take a value for [state]")
    if flags.delete and flags.topic:
        raise click.UsageError(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )
    if flags.delete_offsets:
        if not flags.group or not flags.topic:
            raise click.UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
        if len(flags.group) > 1:
            raise click.UsageError("Found multiple arguments for option group, but you asked for only one")


def _states(given: str | None) -> "list[GroupState]":
    from pkafka.clients.admin.results import GroupState

    found = [GroupState.parse(each.strip()) for each in given.split(",")] if given else []
    if GroupState.UNKNOWN in found:
        known = ", ".join(each.value for each in GroupState if each is not GroupState.UNKNOWN)
        raise click.UsageError(f"Invalid state list '{given}'. Valid states are: {known}")
    return found


def _types(given: str | None) -> "list[GroupType]":
    from pkafka.clients.admin.results import GroupType

    found = [GroupType.parse(each.strip()) for each in given.split(",")] if given else []
    if GroupType.UNKNOWN in found:
        known = ", ".join(each.value for each in GroupType if each is not GroupType.UNKNOWN)
        raise click.UsageError(f"Invalid types list '{given}'. Valid types are: {known}")
    return found


# -- list and describe ------------------------------------------------------------------------------------


def _list(admin: "Admin", common: Common, flags: Flags) -> Report:
    from pkafka.tools.consumer_groups import list_consumer_groups

    states, types = _states(flags.state), _types(flags.type)
    groups = list_consumer_groups(admin, states=states, types=types, timeout_ms=common.timeout_ms)
    report = Report("groups")
    report.lines = text.group_lines(
        groups, with_type=flags.type is not None, with_state=flags.state is not None
    )
    report.rows = [
        {"group": each.group_id, "type": each.type.value, "state": each.state.value} for each in groups
    ]
    return report


def _describe(admin: "Admin", common: Common, flags: Flags) -> Report:
    from pkafka.tools.consumer_groups import describe, measure_lag

    group_ids = chosen_groups(admin, common, flags)
    report = Report("groups")
    if flags.members or flags.state is not None:
        groups = describe(admin, group_ids, timeout_ms=common.timeout_ms).values()
        for group in groups:
            (_add_members if flags.members else _add_state)(report, group, flags)
        report.gauges = group_gauges(groups)
        return report
    lags = measure_lag(
        admin,
        group_ids,
        read_committed=flags.isolation_level == "read_committed",
        timeout_ms=common.timeout_ms,
    )
    if flags.only_lagging:
        lags = {group_id: lag.lagging() for group_id, lag in lags.items()}
    for lag in lags.values():
        _add_offsets(report, lag, flags)
    report.gauges = [
        *lag_gauges(lags.values()),
        *group_gauges([each.description for each in lags.values()]),
    ]
    flat = [row for group in report.rows for row in _flat(group)]
    report.tables = [Table(flat, _OFFSET_COLUMNS)]
    return report


def _add_offsets(report: Report, group: "GroupLag", flags: Flags) -> None:
    if _exists(report, group.description) and group.partitions:
        report.table(text.offset_lines(group))
    report.rows.append(
        {
            **_row(group.description),
            "partitions": [
                {
                    "topic": each.partition.topic,
                    "partition": each.partition.partition,
                    "current_offset": each.offset,
                    "log_end_offset": None if isinstance(each.end, ApiError) else each.end,
                    "lag": each.lag,
                    "consumer_id": each.member and each.member.member_id,
                    "host": each.member and each.member.client_host,
                    "client_id": each.member and each.member.client_id,
                }
                for each in group.partitions
            ],
        }
    )
    for each in group.partitions:
        if isinstance(each.end, ApiError):
            report.failures.append(f"the end of {each.partition} is not known: {each.end.message}")
            report.notes.append(report.failures[-1])
        elif flags.max_lag is not None and (each.lag or 0) > flags.max_lag:
            behind = f"{group.description.group_id} lags by {each.lag} in {each.partition}"
            report.failures.append(f"{behind}, which is more than {flags.max_lag}")
            report.notes.append(report.failures[-1])


def _add_members(report: Report, group: "GroupDescription", flags: Flags) -> None:
    _exists(report, group)
    report.lines += ["", *text.member_lines(group, verbose=flags.verbose)]
    report.rows.append(
        {
            **_row(group),
            "members": [
                {
                    "consumer_id": each.member_id,
                    "group_instance_id": each.group_instance_id,
                    "host": each.client_host,
                    "client_id": each.client_id,
                    "partitions": [
                        {"topic": topic, "partition": partition} for topic, partition in each.assignment
                    ],
                }
                for each in group.members
            ],
        }
    )
    report.tables = [Table([row for each in report.rows for row in _member_rows(each)])]


def _add_state(report: Report, group: "GroupDescription", _flags: Flags) -> None:
    if _exists(report, group):
        report.lines += ["", *text.state_lines(group)]
    at = group.coordinator
    report.rows.append(
        {
            **_row(group),
            "coordinator": {"id": at.id, "host": at.host, "port": at.port},
            "assignment_strategy": group.assignor,
            "member_count": len(group.members),
        }
    )


def _exists(report: Report, group: "GroupDescription") -> bool:
    """Say what there is to say of a group's state; whether there is a group at all."""
    from pkafka.clients.admin.results import GroupState

    if group.state is GroupState.DEAD:
        report.error(f"Consumer group '{group.group_id}' does not exist.")
        return False
    if group.state is GroupState.EMPTY:
        report.notes.append(f"\nConsumer group '{group.group_id}' has no active members.")
    elif group.state is not GroupState.STABLE:
        report.notes.append(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
    return True


def _row(group: "GroupDescription") -> dict[str, object]:
    from pkafka.clients.admin.results import GroupState

    is_missing = group.state is GroupState.DEAD
    return {
        "group": group.group_id,
        "state": group.state.value,
        "error": failure(ApiError(ErrorCode.GROUP_ID_NOT_FOUND)) if is_missing else None,
    }


def _flat(group: Mapping[str, Any]) -> Iterable[dict[str, object]]:
    return ({"group": group["group"], **each} for each in group["partitions"])


def _member_rows(group: Mapping[str, Any]) -> Iterable[dict[str, object]]:
    for each in group["members"]:
        held = ", ".join(f"{at['topic']}-{at['partition']}" for at in each["partitions"])
        yield {"group": group["group"], **each, "partitions": held}


def _meant(admin: "Admin", common: Common, missing: Iterable[str]) -> Iterator[str]:
    """Hints at groups that were probably meant by those that there are not."""
    from pkafka.tools.consumer_groups import list_consumer_groups

    def known() -> list[str]:
        return [each.group_id for each in list_consumer_groups(admin, timeout_ms=common.timeout_ms)]

    for group_id in missing:
        hint = meant_by_reader(group_id, known)
        if hint is not None:
            yield f"{group_id}: {hint}"


def _watch(common: Common, look: Callable[[], Report], seconds: float) -> int:
    """Show the same again and again: in place on a terminal, one after the other in a pipe.

    What is wrong from the beginning ends it; a cluster that goes away meanwhile does not.
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
    "list": _list,
    "describe": _describe,
    "delete": changes.delete_groups,
    "reset-offsets": changes.reset_offsets,
    "delete-offsets": changes.delete_offsets,
}
