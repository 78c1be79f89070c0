"""Which segments may go: pure decisions on facts. The log acts on them.

Only a prefix of the log ever goes, nothing at or above the high watermark, and never an empty last segment.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pkafka.model import Millis, Offset


class SegmentFacts(NamedTuple):
    """What the rules look at; ``end_offset`` is the next segment's base offset, or the log end offset."""

    base_offset: Offset
    end_offset: Offset
    size: int
    timestamp: Millis


class RetentionLimits(NamedTuple):
    """``retention.ms``, ``retention.bytes`` (-1: no limit), and whether they apply (cleanup.policy has delete)."""

    retention_ms: int
    retention_bytes: int
    by_time_and_size: bool


class Expired(NamedTuple):
    """How many of the oldest segments go, and why, for the log message."""

    segments: int
    reason: str


def expired_segments(
    segments: Sequence[SegmentFacts],
    limits: RetentionLimits,
    *,
    log_start_offset: Offset,
    high_watermark: Offset,
    now_ms: Millis,
) -> list[Expired]:
    """The decisions in Kafka's order: below the log start offset, beyond the size, beyond the time.

    Each one is about the segments that the earlier ones leave.
    """
    rest = list(segments)
    decisions: list[Expired] = []
    rules: list[tuple[str, Callable[[], int]]] = [
        ("below the log start offset", lambda: below_start(rest, log_start_offset))
    ]
    if limits.by_time_and_size:
        rules.append(("beyond retention.bytes", lambda: beyond_size(rest, limits.retention_bytes)))
        rules.append(("beyond retention.ms", lambda: beyond_time(rest, limits.retention_ms, now_ms)))
    for reason, rule in rules:
        count = min(rule(), _removable(rest, high_watermark))
        if count:
            decisions.append(Expired(count, reason))
            rest = rest[count:]
    return decisions


def below_start(segments: Sequence[SegmentFacts], log_start_offset: Offset) -> int:
    """Segments that end at or below the log start offset; the last one never counts."""
    return _prefix(segments[:-1], lambda segment: segment.end_offset <= log_start_offset)


def beyond_size(segments: Sequence[SegmentFacts], retention_bytes: int) -> int:
    """The oldest segments without which the log still has ``retention_bytes``."""
    if retention_bytes < 0:
        return 0
    surplus = sum(segment.size for segment in segments) - retention_bytes
    count = 0
    for segment in segments:
        surplus -= segment.size
        if surplus < 0:
            break
        count += 1
    return count


def beyond_time(segments: Sequence[SegmentFacts], retention_ms: int, now_ms: Millis) -> int:
    """The oldest segments whose newest record is older than ``retention_ms``."""
    if retention_ms < 0:
        return 0
    return _prefix(segments, lambda segment: now_ms - segment.timestamp > retention_ms)


def _removable(segments: Sequence[SegmentFacts], high_watermark: Offset) -> int:
    count = _prefix(segments, lambda segment: segment.end_offset <= high_watermark)
    if count == len(segments) and segments and segments[-1].size == 0:
        return count - 1
    return count


def _prefix(segments: Sequence[SegmentFacts], holds: Callable[[SegmentFacts], bool]) -> int:
    count = 0
    for segment in segments:
        if not holds(segment):
            break
        count += 1
    return count
