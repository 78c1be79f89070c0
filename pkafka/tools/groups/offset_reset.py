"""Where a group's offsets are to be: the scenarios of --reset-offsets (KIP-122). Does not print."""

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple

from pkafka.clients.admin import Admin
from pkafka.clients.admin.partitions import EARLIEST, LATEST
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError, PkafkaError
from pkafka.java.numbers import parse_int, parse_long
from pkafka.java.text import lines, trim
from pkafka.model import NO_OFFSET, TopicPartition
from pkafka.tools.groups.description import committed_offsets, partitions_of

Plan = dict[TopicPartition, int]
"""Per partition the offset to store."""

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)


class ResetError(PkafkaError):
    """Offsets cannot be reset in the way that was asked for."""


class Target(Enum):
    """Where offsets go, by the name of its flag."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    OFFSET = "to-offset"
    SHIFT = "shift-by"
    DATETIME = "to-datetime"
    DURATION = "by-duration"
    FILE = "from-file"


class Reset(NamedTuple):
    """What was asked for.

    Args:
        number: the offset of OFFSET, the distance of SHIFT, the time of DATETIME and DURATION in milliseconds since
            the epoch.
        file: group to partitions, for FILE.
    """

    target: Target
    number: int = 0
    file: Mapping[str, Plan] | None = None


def plan_reset(
    admin: Admin,
    group_id: str,
    partitions: Iterable[TopicPartition],
    reset: Reset,
    *,
    warn: Callable[[str], None],
    timeout_ms: int | None = None,
) -> Plan:
    """Where the offsets of a group would be; nothing is stored.

    Args:
        partitions: which of them; FILE names its own.
        warn: told of every offset that is moved into its log, and of times behind the last record.

    Raises:
        ApiError: a partition cannot be asked for its offsets.
        ResetError: SHIFT of a partition without an offset, or a file without this group.
    """
    wanted = list(partitions)
    look = _Lookup(admin, timeout_ms)
    target = reset.target
    if target is Target.EARLIEST:
        return look.at(wanted, EARLIEST)
    if target is Target.LATEST:
        return look.at(wanted, LATEST)
    if target in (Target.DATETIME, Target.DURATION):
        return _by_time(look, wanted, reset.number, warn)
    if target is Target.OFFSET:
        return _within_logs(look, dict.fromkeys(wanted, reset.number), warn)
    if target is Target.FILE:
        assert reset.file is not None
        if group_id not in reset.file:
            raise ResetError(f"No reset plan for group {group_id} found")
        return _within_logs(look, reset.file[group_id], warn)
    stored = committed_offsets(admin, [group_id], timeout_ms=timeout_ms)[group_id]
    committed = {partition: at for partition, at in stored.items() if at is not None}
    if target is Target.CURRENT:
        without = [partition for partition in wanted if partition not in committed]
        kept = {partition: committed[partition].offset for partition in wanted if partition in committed}
        return kept | look.at(without, LATEST)
    for partition in wanted:
        if partition not in committed:
            text = f"Cannot shift offset for partition {partition} since there is no current committed offset"
            raise ResetError(text)
    shifted = {partition: committed[partition].offset + reset.number for partition in wanted}
    return _within_logs(look, shifted, warn)


def store(
    admin: Admin, group_id: str, plan: Plan, *, timeout_ms: int | None = None
) -> dict[TopicPartition, ApiError | None]:
    """Store what was planned."""
    offsets = {partition: OffsetAndMetadata(offset) for partition, offset in plan.items()}
    return admin.alter_group_offsets(group_id, offsets, timeout_ms=timeout_ms) if offsets else {}


def partitions_in_scope(
    admin: Admin,
    group_id: str,
    *,
    all_topics: bool,
    topics: Iterable[str],
    timeout_ms: int | None = None,
) -> list[TopicPartition]:
    """The partitions that flags name.

    Args:
        all_topics: everything that the group has an offset of.
        topics: else ``topic`` or ``topic:0,1``.

    Raises:
        ApiError: a topic does not exist.
        ResetError: a partition is not a number.
    """
    if all_topics:
        return sorted(committed_offsets(admin, [group_id], timeout_ms=timeout_ms)[group_id])
    named, whole = split_topics(topics)
    for outcome in partitions_of(admin, whole, timeout_ms=timeout_ms).values():
        if isinstance(outcome, ApiError):
            raise outcome
        named += outcome
    return named


def split_topics(topics: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """The partitions that ``topic:0,1`` names, and the topics that stand for themselves.

    Raises:
        ResetError: a partition is not a number.
    """
    named: list[TopicPartition] = []
    whole: list[str] = []
    for text in topics:
        topic, colon, numbers = text.partition(":")
        if not colon:
            whole.append(text)
            continue
        if not topic or not numbers or ":" in numbers:
            raise ResetError(f"Invalid topic arg '{text}', expected topic name and partitions")
        for number in numbers.split(","):
            try:
                partition = parse_int(number)
            except ValueError:
                partition = -1
            if partition < 0:
                raise ResetError(f"Invalid partition '{number}' specified in topic arg '{text}''")
            named.append(TopicPartition(topic, partition))
    return named, whole


def read_plan(text: str, group_ids: list[str]) -> dict[str, Plan]:
    """A plan that ``--export`` wrote: ``topic,partition,offset`` of one group, or with ``group,`` in front of several.

    Raises:
        ResetError: a line is neither.
    """
    plan: dict[str, Plan] = {}
    try:
        rows = list(csv.reader(lines(text)))
    except csv.Error as error:
        raise ResetError(f"this is no CSV: {error}") from error
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) == 3 and len(group_ids) == 1:
            row = [group_ids[0], *row]
        try:
            group_id, topic, index, offset = row
            partition = TopicPartition(topic, parse_int(trim(index)))
            plan.setdefault(group_id, {})[partition] = parse_long(trim(offset))
        except ValueError:
            raise ResetError(
                f"line {number} is not [group,]topic,partition,offset: {','.join(row)}"
            ) from None
    return plan


def write_plan(plans: Mapping[str, Plan], *, with_group: bool) -> list[str]:
    """The lines that :func:`read_plan` reads, without line ends."""
    return [
        ",".join([*([group_id] if with_group else []), topic, str(partition), str(offset)])
        for group_id, plan in plans.items()
        for (topic, partition), offset in plan.items()
    ]


def parse_datetime(text: str) -> int:
    """Milliseconds since the epoch of ``YYYY-MM-DDTHH:mm:SS.sss``, in UTC where no zone is named.

    Raises:
        ResetError: it is none.
    """
    if "T" not in text:
        raise ResetError("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ResetError(f'Unparseable date: "{text}"') from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000)


def parse_duration_ms(text: str) -> int:
    """Milliseconds of ``PnDTnHnMnS``, as java.time.Duration reads it.

    Raises:
        ResetError: it is none.
    """
    match = _DURATION.fullmatch(text)
    parts = None if match is None else [match[name] for name in ("days", "hours", "minutes", "seconds")]
    if match is None or parts is None or not any(parts) or (match["time"] or "").upper() == "T":
        raise ResetError("Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = [float((part or "0").replace(",", ".")) for part in parts]
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return round(total * 1_000) * (-1 if match["sign"] == "-" else 1)


class _Lookup:
    """Offsets of logs, all of them or an error."""

    def __init__(self, admin: Admin, timeout_ms: int | None) -> None:
        self._admin = admin
        self._timeout_ms = timeout_ms

    def at(self, partitions: Iterable[TopicPartition], timestamp: int) -> Plan:
        wanted = dict.fromkeys(partitions, timestamp)
        if not wanted:
            return {}
        found: Plan = {}
        for partition, outcome in self._admin.list_offsets(wanted, timeout_ms=self._timeout_ms).items():
            if isinstance(outcome, ApiError):
                raise ApiError(outcome.code, f"{partition}: {outcome.message}")
            found[partition] = outcome.offset
        return found


def _by_time(
    look: _Lookup, partitions: list[TopicPartition], timestamp: int, warn: Callable[[str], None]
) -> Plan:
    found = look.at(partitions, timestamp)
    behind = [partition for partition, offset in found.items() if offset == NO_OFFSET]
    for topic, number in behind:
        warn(f"Partition {number} from topic {topic} is empty. Falling back to latest known offset.")
    return found | look.at(behind, LATEST)


def _within_logs(look: _Lookup, wanted: Plan, warn: Callable[[str], None]) -> Plan:
    starts, ends = look.at(wanted, EARLIEST), look.at(wanted, LATEST)
    plan: Plan = {}
    for partition, offset in wanted.items():
        start, end = starts[partition], ends[partition]
        plan[partition] = min(max(offset, start), end)
        if offset > end:
            warn(
                f"New offset ({offset}) is higher than latest offset for topic partition {partition}. "
                f"Value will be set to {end}"
            )
        elif offset < start:
            warn(
                f"New offset ({offset}) is lower than earliest offset for topic partition {partition}. "
                f"Value will be set to {start}"
            )
    return plan
