"""What pk-consumer-groups shows: --list and --describe."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from pkafka.cli.consumer_groups import text
from pkafka.cli.consumer_groups.flags import Flags
from pkafka.cli.consumer_groups.gauges import group_gauges, lag_gauges
from pkafka.cli.consumer_groups.report import Report, chosen_groups
from pkafka.cli.kit.kafka_command import failure
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import Table
from pkafka.cli.kit.spelling import meant_by_reader
from pkafka.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import GroupDescription, GroupState, GroupType
    from pkafka.tools.groups.description import GroupLag

_OFFSET_COLUMNS: Final = (
    *("group", "topic", "partition", "current_offset", "log_end_offset", "lag"),
    *("consumer_id", "host", "client_id"),
)


def list_groups(admin: "Admin", common: Common, flags: Flags) -> Report:
    """The groups, with their types and states where these are asked for."""
    from pkafka.tools.groups.description import list_consumer_groups

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


def describe_groups(admin: "Admin", common: Common, flags: Flags) -> Report:
    """The offsets and lag, the members or the states of groups."""
    from pkafka.tools.groups.description import describe, measure_lag

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
    """Report a group that does not exist, is empty or is rebalancing.

    Returns:
        Whether the group exists.
    """
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


def meant(admin: "Admin", common: Common, missing: Iterable[str]) -> Iterator[str]:
    """Hints for groups that do not exist: the groups that were probably meant."""
    from pkafka.tools.groups.description import list_consumer_groups

    def known() -> list[str]:
        return [each.group_id for each in list_consumer_groups(admin, timeout_ms=common.timeout_ms)]

    for group_id in missing:
        hint = meant_by_reader(group_id, known)
        if hint is not None:
            yield f"{group_id}: {hint}"


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
