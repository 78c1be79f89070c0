"""The text of Kafka 3.9's ConsumerGroupCommand: fixed columns, blank lines and all."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.java_text import java_error
from pkafka.errors import ApiError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin.results import GroupDescription, GroupListing, MemberDescription
    from pkafka.tools.groups.description import GroupLag, PartitionLag
    from pkafka.tools.groups.offset_reset import Plan

_MISSING: Final = "-"
_COLUMN_MIN: Final = 15
_RESET_WIDTHS: Final = (30, 30, 10, 15)
_DELETE_WIDTHS: Final = (30, 15, 15)
_OFFSET_HEADINGS: Final = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)


def group_lines(groups: "Sequence[GroupListing]", *, with_type: bool, with_state: bool) -> list[str]:
    """The rows of ``--list``: names alone, or a table with types and states."""
    if not (with_type or with_state):
        return [each.group_id for each in groups]
    width = max([_COLUMN_MIN, *(len(each.group_id) for each in groups)]) + 10
    widths = [width, *([20] if with_type else []), *([20] if with_state else [])]
    heading = ["GROUP", *(["TYPE"] if with_type else []), *(["STATE"] if with_state else [])]
    rows = [
        [
            each.group_id,
            *([each.type.value] if with_type else []),
            *([each.state.value] if with_state else []),
        ]
        for each in groups
    ]
    return [_padded(row, widths) for row in [heading, *rows]]


def offset_lines(group: "GroupLag") -> list[str]:
    """A group's partitions under a heading; the line above the heading is the caller's."""
    name = group.description.group_id
    rows = [_offset_cells(name, each) for each in group.partitions]
    widths = [_widest(rows, 0), _widest(rows, 1), 10, 15, 15, 15, _widest(rows, 6), _widest(rows, 7), 0]
    return [_padded(row, widths) for row in [_OFFSET_HEADINGS, *rows]]


def member_lines(group: "GroupDescription", *, verbose: bool) -> list[str]:
    """A group's members under a heading."""
    is_static = any(each.group_instance_id for each in group.members)
    heading = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if is_static else []), "HOST", "CLIENT-ID"]
    rows = [
        [
            group.group_id,
            each.member_id,
            *([each.group_instance_id or ""] if is_static else []),
            each.client_host,
            each.client_id,
        ]
        for each in group.members
    ]
    widths = [_widest(rows, column) for column in range(len(heading))]
    if is_static:
        widths[2] = max(17, widths[2])
    widths += [15, 0]
    # Kafka leaves a blank after the last padded column also where nothing follows.
    lines = [_padded([*heading, "#PARTITIONS", "ASSIGNMENT" if verbose else ""], widths)]
    for row, member in zip(rows, group.members, strict=True):
        assigned = _assignment(member) if verbose else ""
        lines.append(_padded([*row, str(len(member.assignment)), assigned], widths))
    return lines


def state_lines(group: "GroupDescription") -> list[str]:
    """A group's state under a heading."""
    at = group.coordinator
    coordinator = f"{at.host}:{at.port}  ({at.id})"
    # In 3.9 the group's column is as wide as the coordinator needs it, and the coordinator's is not.
    widths = [max(25, len(coordinator)), 25, 20, 15, 0]
    heading = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    row = [group.group_id, coordinator, group.assignor, group.state.value, str(len(group.members))]
    return [_padded(each, widths) for each in (heading, row)]


def reset_lines(plans: "Mapping[str, Plan]") -> list[str]:
    """New offsets under a heading, one a line as before Kafka 3.5 and after 3.9, which join them all."""
    heading = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    rows = [
        (group_id, topic, str(partition), str(offset))
        for group_id, plan in plans.items()
        for (topic, partition), offset in plan.items()
    ]
    return [_padded(row, _RESET_WIDTHS) for row in [heading, *rows]]


def deleted_offset_lines(
    outcomes: Mapping[TopicPartition, ApiError | None], *, done: str = "Successful"
) -> list[str]:
    """The outcome for each partition under a heading, one a line."""
    rows = [
        (
            each.topic,
            str(each.partition) if each.partition >= 0 else "Not Provided",
            done if outcome is None else f"Error: :{java_error(outcome)}",
        )
        for each, outcome in sorted(outcomes.items(), key=lambda item: f"{item[0].topic}{item[0].partition}")
    ]
    return [_padded(row, _DELETE_WIDTHS) for row in [("TOPIC", "PARTITION", "STATUS"), *rows]]


def _offset_cells(group_id: str, row: "PartitionLag") -> list[str]:
    member = row.member
    return [
        group_id,
        row.partition.topic,
        str(row.partition.partition),
        _or_missing(row.offset),
        _or_missing(None if isinstance(row.end, ApiError) else row.end),
        _or_missing(row.lag),
        *([_MISSING] * 3 if member is None else [member.member_id, member.client_host, member.client_id]),
    ]


def _assignment(member: "MemberDescription") -> str:
    """As 3.9 has it: the partitions of each topic, without the topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in member.assignment:
        topics.setdefault(topic, []).append(partition)
    shown = [f"({','.join(map(str, sorted(numbers)))})" for _, numbers in sorted(topics.items())]
    return ", ".join(shown) or _MISSING


def _or_missing(value: int | None) -> str:
    return _MISSING if value is None else str(value)


def _widest(rows: Iterable[Sequence[str]], column: int) -> int:
    return max([_COLUMN_MIN, *(len(row[column]) for row in rows)])


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
