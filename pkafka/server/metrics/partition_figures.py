"""What a worker tells of its partitions and their logs: the rows that travel to the control process for the metrics."""

from typing import NamedTuple

from pkafka.model import NO_PRODUCER_ID


class LedPartition(NamedTuple):
    """Holds a worker's figures of a partition that it leads."""

    topic: str
    partition: int
    replicas: int
    in_sync: int
    min_insync_replicas: int
    unstable: int
    """Records between the last stable offset and the high watermark."""
    adding: int
    """Replicas that a reassignment is still adding; they do not count as missing yet."""
    holder: int = NO_PRODUCER_ID
    """The producer of the open transaction that began first."""
    silent_ms: int = 0
    """How long ago that producer wrote last, by the time that it wrote."""

    @property
    def replication_factor(self) -> int:
        """How many replicas there are to be in sync (OngoingReassignmentState.replicationFactor)."""
        return self.replicas - self.adding

    @property
    def _least(self) -> int:
        # When a topic has fewer replicas than min.insync.replicas, all of them are enough. Kafka counts the replicas
        # that are being added here, too.
        return min(self.min_insync_replicas, self.replicas)

    @property
    def is_under_replicated(self) -> bool:
        return self.in_sync < self.replication_factor

    @property
    def is_under_min_isr(self) -> bool:
        return self.in_sync < self._least

    @property
    def is_at_min_isr(self) -> bool:
        return self.in_sync == self._least


class FollowedPartition(NamedTuple):
    """Holds a worker's figures of a partition that another broker leads."""

    topic: str
    partition: int
    unstable: int
    """Records between the last stable offset and the high watermark."""


class LogFigures(NamedTuple):
    """Holds a worker's figures of a log."""

    topic: str
    partition: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    high_watermark: int
    is_future: bool
    """Whether it is on its way to another log directory."""
