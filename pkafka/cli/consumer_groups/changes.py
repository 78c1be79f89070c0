"""What pk-consumer-groups changes: groups deleted, offsets reset and deleted."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pkafka.cli.consumer_groups import text
from pkafka.cli.consumer_groups.flags import Flags, named_topics
from pkafka.cli.consumer_groups.report import Report, chosen_groups
from pkafka.cli.kit.confirmation import agrees, can_ask
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.java_text import java_error
from pkafka.cli.kit.kafka_command import CommandError, failure
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import note
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.tools.groups.offset_reset import Plan, Reset

_WAITING: Final = "--wait 1m waits until a group has no members."
_TOP_LEVEL: Final = {
    ErrorCode.INVALID_GROUP_ID: "'{}' is not valid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "'{}' does not exist.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Access to '{}' is not authorized.",
    ErrorCode.NON_EMPTY_GROUP: "Deleting offsets of a consumer group '{}' is forbidden if the group is not empty.",
}
_PARTITION_LEVEL: Final = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def have_members(admin: "Admin", common: Common, flags: Flags) -> bool:
    """Whether one of the chosen groups has members."""
    from pkafka.tools.groups.deletion import has_no_members

    groups = admin.describe_groups(chosen_groups(admin, common, flags), timeout_ms=common.timeout_ms)
    return not all(has_no_members(each) for each in groups.values())


def delete_groups(admin: "Admin", common: Common, flags: Flags) -> Report:
    """Delete groups, and say of each whether it is deleted."""
    group_ids = chosen_groups(admin, common, flags)
    if not flags.dry_run:
        _ask(group_ids, flags, "Delete", "nothing was deleted")
    report = Report("groups")
    report.extra = {"dry_run": flags.dry_run}
    if flags.dry_run:
        from pkafka.tools.groups.deletion import of_group

        groups = admin.describe_groups(group_ids, timeout_ms=common.timeout_ms)
        outcomes = {group_id: of_group(group) for group_id, group in groups.items()}
    else:
        outcomes = admin.delete_groups(group_ids, timeout_ms=common.timeout_ms)
    deleted = [group_id for group_id, outcome in outcomes.items() if outcome is None]
    failed = {group_id: outcome for group_id, outcome in outcomes.items() if isinstance(outcome, ApiError)}
    if flags.dry_run:
        report.lines += [f"Would delete group '{group_id}'." for group_id in deleted]
        if failed:
            report.error("Deletion of some consumer groups would fail:", [*failed.values()])
            report.lines += [f"* Group '{name}': {java_error(error)}" for name, error in failed.items()]
    elif not failed:
        report.lines.append(f"Deletion of requested consumer groups ('{', '.join(deleted)}') was successful.")
    else:
        report.error("Deletion of some consumer groups failed:", [*failed.values()])
        for group_id, error in failed.items():
            reason = f"java.util.concurrent.ExecutionException: {java_error(error)}"
            report.lines.append(f"* Group '{group_id}' could not be deleted due to: {reason}")
        if deleted:
            names = "', '".join(deleted)
            report.lines += ["", f"These consumer groups were deleted successfully: '{names}'"]
        if not flags.wait and any(error.code is ErrorCode.NON_EMPTY_GROUP for error in failed.values()):
            report.hints.append(_WAITING)
    report.rows = [{"group": group_id, "error": failure(outcome)} for group_id, outcome in outcomes.items()]
    return report


def reset_offsets(admin: "Admin", common: Common, flags: Flags) -> Report:
    """Show new offsets, and store them with ``--execute``.

    Raises:
        ApiError: offsets cannot be looked up or stored.
        CommandError: they cannot be in the way that was asked for.
    """
    from pkafka.clients.admin.results import GroupState
    from pkafka.tools.groups import offset_reset

    reset = _what_to_reset(flags)
    group_ids = chosen_groups(admin, common, flags)
    if flags.execute:
        _ask(group_ids, flags, "Change the offsets of", "nothing was changed")
    report = Report("offsets")
    plans: dict[str, Plan] = {}

    def warn(message: str) -> None:
        if message.startswith("Partition"):
            report.lines += ["", f"Warn: {message}"]
        else:
            report.notes.append(f"WARN {message}")

    for group_id, group in admin.describe_groups(group_ids, timeout_ms=common.timeout_ms).items():
        plans[group_id] = {}
        if isinstance(group, ApiError):
            raise group
        if group.state not in (GroupState.EMPTY, GroupState.DEAD):
            report.error(
                f"Assignments can only be reset if the group '{group_id}' is inactive, "
                f"but the current state is {group.state.value}."
            )
            if not flags.wait:
                report.hints = [_WAITING]
            continue
        if reset.file is not None and group_id not in reset.file:
            report.error(f"No reset plan for group {group_id} found")
            continue
        try:
            partitions = (
                []
                if reset.file is not None
                else offset_reset.partitions_in_scope(
                    admin,
                    group_id,
                    all_topics=flags.all_topics,
                    topics=flags.topic,
                    timeout_ms=common.timeout_ms,
                )
            )
            plans[group_id] = offset_reset.plan_reset(
                admin, group_id, partitions, reset, warn=warn, timeout_ms=common.timeout_ms
            )
        except offset_reset.ResetError as error:
            raise CommandError(str(error), kafka_status=1) from error
        if flags.execute:
            _store(admin, common, group_id, plans[group_id])
    _report_plans(report, plans, flags)
    return report


def _ask(group_ids: Sequence[str], flags: Flags, doing: str, otherwise: str) -> None:
    """Ask whether all groups are meant, where no flag names one.

    Raises:
        CommandError: the answer is no.
    """
    if not flags.all_groups or not group_ids or flags.yes or not can_ask():
        return
    note(f"--all-groups takes in {', '.join(group_ids)}")
    if not agrees(f"{doing} {len(group_ids)} group(s)?"):
        raise CommandError(otherwise, hint="--group names one, --yes asks nothing")


def _what_to_reset(flags: Flags) -> "Reset":
    from pkafka.tools.groups import offset_reset
    from pkafka.tools.groups.offset_reset import Reset, Target

    try:
        if flags.to_offset is not None:
            return Reset(Target.OFFSET, flags.to_offset)
        if flags.shift_by is not None:
            return Reset(Target.SHIFT, flags.shift_by)
        if flags.to_datetime is not None:
            return Reset(Target.DATETIME, offset_reset.parse_datetime(flags.to_datetime))
        if flags.by_duration is not None:
            past = offset_reset.parse_duration_ms(flags.by_duration)
            return Reset(Target.DURATION, time.time_ns() // 1_000_000 - past)
        if flags.from_file is not None:
            with open(flags.from_file, encoding="utf-8", newline="") as file:
                return Reset(Target.FILE, file=offset_reset.read_plan(file.read(), list(flags.group)))
    except offset_reset.ResetError as error:
        raise CommandError(str(error), status=ExitStatus.USAGE) from error
    if flags.to_earliest:
        return Reset(Target.EARLIEST)
    return Reset(Target.LATEST if flags.to_latest else Target.CURRENT)


def _store(admin: "Admin", common: Common, group_id: str, plan: "Plan") -> None:
    from pkafka.tools.groups.offset_reset import store

    for partition, outcome in store(admin, group_id, plan, timeout_ms=common.timeout_ms).items():
        if outcome is not None:
            raise ApiError(outcome.code, f"group {group_id}, {partition}: {outcome.message}")


def _report_plans(report: Report, plans: "Mapping[str, Plan]", flags: Flags) -> None:
    from pkafka.tools.groups.offset_reset import write_plan

    if flags.export:
        report.lines += [*write_plan(plans, with_group=len(flags.group) != 1), ""]
    else:
        report.table(text.reset_lines(plans))
    report.rows = [
        {"group": group_id, "topic": topic, "partition": partition, "new_offset": offset}
        for group_id, plan in plans.items()
        for (topic, partition), offset in plan.items()
    ]
    report.extra = {"dry_run": not flags.execute}


def delete_offsets(admin: "Admin", common: Common, flags: Flags) -> Report:
    """Delete offsets of one group, and say of each partition whether its offset is deleted."""
    from pkafka.tools.groups.description import partitions_of

    (group_id,) = flags.group
    partitions, topics = named_topics(flags.topic)
    outcomes: dict[TopicPartition, ApiError | None] = {}
    for topic, found in partitions_of(admin, topics, timeout_ms=common.timeout_ms).items():
        if isinstance(found, ApiError):
            outcomes[TopicPartition(topic, -1)] = found
        else:
            partitions += found
    report = Report("offsets")
    report.extra = {"dry_run": flags.dry_run}
    if flags.dry_run:
        answered = _would_delete_offsets(admin, common, group_id, partitions)
    else:
        answered = admin.delete_group_offsets(group_id, partitions, timeout_ms=common.timeout_ms)
    failed = [each for each in answered.values() if each is not None]
    first = next(iter(failed), None)
    if first is None:
        doing = "Would delete offsets" if flags.dry_run else "Request succeed for deleting offsets"
        report.lines.append(f"{doing} with topic {', '.join(flags.topic)} group {group_id}")
    elif first.code in _TOP_LEVEL:
        report.error(_TOP_LEVEL[first.code].format(group_id), failed)
    elif first.code in _PARTITION_LEVEL:
        report.error("Encounter some partition level error, see the follow-up details:", failed)
    else:
        report.error(f"Encounter some unknown error: {first.code.name}", failed)
    report.failures += [f"{at.topic}: {each.message}" for at, each in outcomes.items() if each is not None]
    outcomes |= answered
    report.table(text.deleted_offset_lines(outcomes, done="Deletable" if flags.dry_run else "Successful"))
    report.rows = [
        {
            "topic": at.topic,
            "partition": at.partition if at.partition >= 0 else None,
            "error": failure(each),
        }
        for at, each in outcomes.items()
    ]
    return report


def _would_delete_offsets(
    admin: "Admin", common: Common, group_id: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ApiError | None]:
    from pkafka.tools.groups.deletion import of_offsets
    from pkafka.tools.groups.description import partitions_of

    group = admin.describe_groups([group_id], timeout_ms=common.timeout_ms)[group_id]
    names = list({each.topic for each in partitions})
    return of_offsets(group, partitions, partitions_of(admin, names, timeout_ms=common.timeout_ms))
