"""What would happen if the source of a mirror were lost now: where groups go on, what they read again, what is gone.

Decisions only, but for :func:`facts_of`, which asks both clusters.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pkafka.clients.admin import Admin
from pkafka.connect.mirror.filters import GROUPS_EXCLUDE
from pkafka.connect.mirror.records import Checkpoint, OffsetSync
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.flow import Flow, bounds
from pkafka.tools.mirroring.layout import Layout, Pair

Bounds = Mapping[TopicPartition, tuple[int, int]]
Committed = Mapping[str, Mapping[TopicPartition, int]]


class Facts(NamedTuple):
    """What both clusters say.

    Args:
        layout: the partitions and their copies.
        source, target: first offsets and ends.
        syncs: of partitions of the source.
        checkpoints: by group and partition of the target.
        groups: offsets that groups have committed on the source, and
        copies: on the target.
    """

    layout: Layout
    source: Bounds
    target: Bounds
    syncs: Mapping[TopicPartition, Sequence[OffsetSync]]
    checkpoints: Mapping[tuple[str, TopicPartition], Checkpoint]
    groups: Committed
    copies: Committed


class CopyState(NamedTuple):
    """How far the copy of a partition is.

    Args:
        pair: the partition and its copy.
        lag: offsets of the source that are not copied; they would be gone. None: there is no copy.
        has_syncs: whether offset syncs say so; else it is reckoned from the sizes of both logs.
    """

    pair: Pair
    lag: int | None
    has_syncs: bool


class Position(NamedTuple):
    """Where a group would go on in a copy.

    Args:
        group: of consumers.
        pair: the partition and its copy.
        source_offset: that the group has committed on the source.
        target_offset: where it would go on; None: nowhere, ``auto.offset.reset`` of its consumers decides.
        origin: what says so: ``group`` (committed on the target), ``checkpoint`` (to be committed by an operator), or
            nothing.
        re_read: how many records it would read again, at most; None where that cannot be told.
        skipped: how many it would never read.
    """

    group: str
    pair: Pair
    source_offset: int
    target_offset: int | None
    origin: str | None
    re_read: int | None
    skipped: int


class Drill(NamedTuple):
    """The outcome.

    Args:
        copies: of all partitions of the source that are to be mirrored.
        positions: of all groups in these.
    """

    copies: tuple[CopyState, ...]
    positions: tuple[Position, ...]


def drill(facts: Facts) -> Drill:
    """Say what would happen if the source were lost now."""
    copies = [CopyState(each, None, False) for each in facts.layout.missing]
    copies += [_copy(each, facts) for each in facts.layout.pairs]
    positions = []
    by_source = {each.source: each for each in (*facts.layout.pairs, *facts.layout.missing)}
    for group, offsets in sorted(facts.groups.items()):
        for partition, offset in sorted(offsets.items()):
            if partition in by_source:
                positions.append(_position(group, by_source[partition], offset, facts))
    return Drill(tuple(copies), tuple(positions))


def problems_of(found: Drill, *, lag_max: int | None, re_read_max: int | None) -> list[str]:
    """Why the target is not ready to take over; nothing where it is.

    Args:
        lag_max: how many offsets of a partition may be lost; None: any number.
        re_read_max: how many records of a partition a group may read again; None: any number.
    """
    problems = []
    missing = sorted({each.pair.source.topic for each in found.copies if each.lag is None})
    problems += [f"topic {each} is not mirrored, or not all of its partitions" for each in missing]
    for copy in found.copies:
        if copy.lag is not None and lag_max is not None and copy.lag > lag_max:
            problems.append(f"{copy.pair.source}: {copy.lag} offset(s) are not copied")
    for each in found.positions:
        if each.pair.source.topic in missing:
            continue
        place = f"group {each.group} in {each.pair.source}"
        if each.target_offset is None:
            problems.append(f"{place}: it has no position on the target")
        elif each.skipped:
            problems.append(f"{place}: it would never read {each.skipped} record(s)")
        elif re_read_max is not None and (each.re_read or 0) > re_read_max:
            problems.append(f"{place}: it would read {each.re_read} record(s) again")
    return problems


def _copy(pair: Pair, facts: Facts) -> CopyState:
    (start, end), (copy_start, copy_end) = facts.source[pair.source], facts.target[pair.target]
    latest = _sync_before(facts.syncs.get(pair.source, ()), end)
    if latest is None:
        return CopyState(pair, max(end - start - (copy_end - copy_start), 0), False)
    copied = latest.upstream + max(copy_end - latest.downstream, 0)
    return CopyState(pair, max(end - copied, 0), True)


def _position(group: str, pair: Pair, offset: int, facts: Facts) -> Position:
    committed = facts.copies.get(group, {}).get(pair.target)
    checkpoint = facts.checkpoints.get((group, pair.target))
    at, origin = committed, None if committed is None else "group"
    if at is None and checkpoint is not None:
        at, origin = checkpoint.downstream, "checkpoint"
    exact = _translated(pair, offset, facts)
    if at is None or exact is None:
        return Position(group, pair, offset, at, origin, None, 0)
    return Position(group, pair, offset, at, origin, max(exact - at, 0), max(at - exact, 0))


def _translated(pair: Pair, offset: int, facts: Facts) -> int | None:
    """Where an offset of the source is in the copy, as far as it is copied; None where that is not known.

    Behind a sync offsets go on one by one, unless the source has holes: then this is too late, and so is never too few
    records read again.
    """
    if pair.target not in facts.target:
        return None
    start, end = facts.target[pair.target]
    sync = _sync_before(facts.syncs.get(pair.source, ()), offset)
    if sync is None:
        return None
    return max(start, min(end, sync.downstream + offset - sync.upstream))


def _sync_before(syncs: Sequence[OffsetSync], offset: int) -> OffsetSync | None:
    """The nearest sync that is not behind an offset."""
    return max(
        (each for each in syncs if each.upstream <= offset), key=lambda each: each.upstream, default=None
    )


def facts_of(flow: Flow, groups: re.Pattern[str], excluded: re.Pattern[str] | None = None) -> Facts:
    """Ask both clusters.

    Args:
        groups: whole ids.
        excluded: of them; None: those that MirrorMaker leaves out by default.

    Raises:
        ApiError, ClientError: one does not say.
    """
    layout = flow.layout()
    targets = bounds(flow.target_admin, [each.target for each in layout.pairs])
    excluded = excluded or re.compile(GROUPS_EXCLUDE.replace(",", "|"))
    listed = [
        each.group_id
        for each in flow.source_admin.list_groups().groups
        if each.is_consumer_group
        and groups.fullmatch(each.group_id)
        and not excluded.fullmatch(each.group_id)
    ]
    # Positions before the ends of the logs, so that none lies behind its log.
    committed, copies = _offsets(flow.source_admin, listed), _offsets(flow.target_admin, listed)
    sources = bounds(flow.source_admin, [each.source for each in layout.pairs])
    return Facts(layout, sources, targets, flow.syncs(), flow.checkpoints(), committed, copies)


def _offsets(admin: Admin, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    found: dict[str, dict[TopicPartition, int]] = {}
    if not groups:
        return found
    for group, outcome in admin.list_group_offsets(dict.fromkeys(groups)).items():
        if isinstance(outcome, ApiError):
            raise outcome
        found[group] = {}
        for partition, offset in outcome.items():
            if isinstance(offset, ApiError):
                raise offset
            if offset is not None:
                found[group][partition] = offset.offset
    return found
