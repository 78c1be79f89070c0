"""A replica that moves to another log directory of its broker: what is to be done next (KIP-113).

The copy, Kafka's future replica, follows the current one as a follower follows its leader: it takes the same batches at
the same offsets and is cut where the two part. When it ends where the current one ends, it takes its place. Decisions
only; :mod:`pkafka.server.replication.directory_moves` does what they say.
"""

from typing import Final, NamedTuple, TypeAlias

from pkafka.model import Offset
from pkafka.server.replication.truncation import truncation_offset
from pkafka.storage.log import DIRECTORY_NAME_CHARS_MAX, FUTURE_DIRECTORY_SUFFIX, Log

_ID_CHARS: Final = 32


class Truncate(NamedTuple):
    """Cut the future replica: the current one has something else from ``offset`` on, or nothing."""

    offset: Offset


class BeginAnew(NamedTuple):
    """Empty the future replica: the current one begins behind its end."""

    offset: Offset


class Copy(NamedTuple):
    """Append what the current replica has from ``offset`` on."""

    offset: Offset


class Flush(NamedTuple):
    """Wait until the future replica is on the disk: what was, stays so when the current one is deleted."""


class Replace(NamedTuple):
    """The future replica takes the place of the current one, in the same turn in which this was decided."""


Step: TypeAlias = Truncate | BeginAnew | Copy | Flush | Replace


def next_step(current: Log, future: Log, *, truncations_seen: int | None, is_flushed: bool) -> Step:
    """What brings a move forward.

    Args:
        current: the replica that is served.
        future: its copy.
        truncations_seen: how often ``current`` had been cut when ``future`` was last compared with it; None when it was
            not since the start.
        is_flushed: whether ``future`` was flushed since it first came to the end.
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
    """How much of the future replica the current one has as well."""
    end = min(future.log_end_offset, current.log_end_offset)
    latest = min(future.leader_epochs.latest, current.leader_epochs.latest)
    if latest >= 0:
        epoch, epoch_end = current.end_offset_for_epoch(latest)
        return min(end, truncation_offset(future, epoch, epoch_end))
    # Without epochs on both sides there is nothing to compare; what is committed is sure to be the same.
    return min(end, current.high_watermark) if was_cut else end


def has_name_for_move(topic: str, partition: int) -> bool:
    """Whether the directory of a future replica can have its name: a topic's may be too long for what is added."""
    name = f"{topic}-{partition}."
    return len(name) + _ID_CHARS + len(FUTURE_DIRECTORY_SUFFIX) <= DIRECTORY_NAME_CHARS_MAX


def is_same(one: Log, other: Log) -> bool:
    """Whether two logs that were found under the name of one partition end alike, as both sides of a replacement do
    that was interrupted between its two renames."""
    return (
        one.topic_id == other.topic_id
        and one.log_end_offset == other.log_end_offset
        and one.leader_epochs.latest == other.leader_epochs.latest
    )


def is_further(one: Log, other: Log) -> bool:
    """Whether ``one`` has been written longer than ``other``."""
    return (one.leader_epochs.latest, one.log_end_offset) > (other.leader_epochs.latest, other.log_end_offset)
