"""The next step of a replica that moves to another log directory of its broker (KIP-113).

The copy, Kafka's future replica, follows the current replica as a follower follows its leader: it takes the same
batches at the same offsets, and is cut where the two part. When both have the same end, the copy takes the place of the
current one. This module decides; :mod:`pkafka.server.replication.directory_moves` acts.
"""

from typing import Final, NamedTuple, TypeAlias

from pkafka.model import Offset
from pkafka.server.replicas.truncation import truncation_offset
from pkafka.storage.log import DIRECTORY_NAME_CHARS_MAX, FUTURE_DIRECTORY_SUFFIX, Log

_ID_CHARS: Final = 32


class Truncate(NamedTuple):
    """Cut the future replica: from ``offset`` on the current one has other records, or none."""

    offset: Offset


class BeginAnew(NamedTuple):
    """Empty the future replica: the current one begins behind its end."""

    offset: Offset


class Copy(NamedTuple):
    """Append the current replica's records from ``offset`` on."""

    offset: Offset


class Flush(NamedTuple):
    """Flush the future replica: records that were on the disk must stay there when the current one is deleted."""


class Replace(NamedTuple):
    """Put the future replica into the place of the current one, in the turn in which this was decided."""


Step: TypeAlias = Truncate | BeginAnew | Copy | Flush | Replace


def next_step(current: Log, future: Log, *, truncations_seen: int | None, is_flushed: bool) -> Step:
    """Decide the next step of a move.

    Args:
        current: the replica that is served.
        future: its copy.
        truncations_seen: how often ``current`` had been cut when ``future`` was last compared with it; None before the
            first comparison since the start.
        is_flushed: whether ``future`` was flushed since it first reached the end.
    """
    if future.log_end_offset < current.log_start_offset:
        return BeginAnew(current.log_start_offset)
    kept = _common_end(current, future, was_cut=truncations_seen != current.truncations)
    if kept < future.log_end_offset:
        return Truncate(kept)
    if future.log_end_offset < current.log_end_offset:
        return Copy(future.log_end_offset)
    if not is_flushed and future.recovery_point < current.recovery_point:
        return Flush()
    return Replace()


def _common_end(current: Log, future: Log, *, was_cut: bool) -> Offset:
    """The offset up to which both replicas have the same records."""
    end = min(future.log_end_offset, current.log_end_offset)
    latest = min(future.leader_epochs.latest, current.leader_epochs.latest)
    if latest >= 0:
        epoch, epoch_end = current.end_offset_for_epoch(latest)
        return min(end, truncation_offset(future, epoch, epoch_end))
    # Without leader epochs to compare, only the committed records are sure to be the same.
    return min(end, current.high_watermark) if was_cut else end


def has_name_for_move(topic: str, partition: int) -> bool:
    """Whether a future replica's directory can have its name; a topic's name may be too long for the suffix."""
    name = f"{topic}-{partition}."
    return len(name) + _ID_CHARS + len(FUTURE_DIRECTORY_SUFFIX) <= DIRECTORY_NAME_CHARS_MAX


def is_same(one: Log, other: Log) -> bool:
    """Whether two logs of one partition have the same end.

    That is so after a swap that was interrupted between its two renames.
    """
    return (
        one.topic_id == other.topic_id
        and one.log_end_offset == other.log_end_offset
        and one.leader_epochs.latest == other.leader_epochs.latest
    )


def is_further(one: Log, other: Log) -> bool:
    """Whether ``one`` is further than ``other``: by its latest leader epoch, then by its end."""
    return (one.leader_epochs.latest, one.log_end_offset) > (other.leader_epochs.latest, other.log_end_offset)
