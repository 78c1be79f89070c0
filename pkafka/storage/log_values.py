"""What a log takes and gives: results, references to files, deferred work, and what it asks of its owner."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.model import LeaderEpoch, Millis, Offset, TopicId, TopicPartition
from pkafka.storage.config import LogConfig
from pkafka.storage.files import Files, unlink_all
from pkafka.storage.leader_epochs import LeaderEpochs
from pkafka.storage.producer_rebuild import PRODUCER_EXPIRATION_MS, ProducerSnapshots
from pkafka.storage.producer_state import BatchMetadata, Producers
from pkafka.storage.segment import Segment
from pkafka.storage.segments import Segments

if TYPE_CHECKING:
    from pkafka.storage.log import Log


class AppendOrigin(Enum):
    """Says which rules hold for what producers' batches a leader appends (Kafka's AppendOrigin)."""

    CLIENT = "client"
    """A producer numbers its batches: what it sent before is not written again, and nothing may be missing."""
    COORDINATOR = "coordinator"
    """A group coordinator writes offsets for a producer, each batch with sequence 0: only the epoch counts."""


class AppendResult(NamedTuple):
    """Where records went; for a duplicate, where the original is."""

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: Millis
    log_start_offset: Offset
    duplicate: bool

    @classmethod
    def of_resent(cls, original: BatchMetadata, log_start_offset: Offset) -> "AppendResult":
        """The result for a batch that a producer has sent a second time."""
        return cls(
            original.first_offset, original.last_offset, original.timestamp, log_start_offset, duplicate=True
        )


class LogRead(NamedTuple):
    """Bytes of one segment's ``.log`` file that answer a fetch, for sendfile.

    ``length`` may end inside a batch, as Kafka's fetches do. ``first_batch_incomplete``: not even the first batch
    fits (only without ``min_one_batch``); newer fetch versions answer nothing then.
    """

    segment: Segment
    position: int
    length: int
    first_offset: Offset
    first_batch_incomplete: bool = False


class TimestampOffset(NamedTuple):
    """The answer of ListOffsets; -1 for what is unknown."""

    timestamp: Millis
    offset: Offset
    leader_epoch: LeaderEpoch


class DeletedFiles(NamedTuple):
    """Files of one segment, already renamed to ``.deleted``; :meth:`unlink` after ``file.delete.delay.ms``."""

    base_offset: Offset
    size: int
    reason: str
    paths: list[Path]
    segment: Segment

    def unlink(self, files: Files) -> None:
        """Remove them for good.

        Raises:
            OSError: the disk refused.
        """
        self.segment.retire()
        unlink_all(files, self.paths)


class PendingFlush(NamedTuple):
    """An fsync of everything below ``offset``, prepared for another thread.

    ``run`` touches nothing but its own descriptors; then the owner calls :meth:`Log.finish_flush`.
    """

    offset: Offset
    descriptors: list[int]
    directory: Path | None
    files: Files
    truncations: int

    def run(self) -> None:
        """Wait for the disk and close the descriptors.

        Raises:
            OSError: the disk refused: the owner must call :meth:`Log.fence`, and never trust a second try.
        """
        try:
            for descriptor in self.descriptors:
                self.files.fsync(descriptor)
            if self.directory is not None:
                self.files.fsync_directory(self.directory)
        finally:
            for descriptor in self.descriptors:
                self.files.close(descriptor)


class UnexpectedOffsetError(PkafkaError):
    """A leader's batches begin below this log's end. The disk has no part in it.

    Args:
        first_offset, last_offset: of the first batch.
        log_end_offset: of this log.
    """

    def __init__(self, first_offset: Offset, last_offset: Offset, log_end_offset: Offset) -> None:
        super().__init__(
            f"batches from offset {first_offset} cannot follow a log that ends at {log_end_offset}"
        )
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_end_offset = log_end_offset


def _ignore_deleted(deleted: DeletedFiles, delay_ms: int) -> None:
    """Leave the ``.deleted`` files to the next start, which removes them."""


def _ignore_roll(log: "Log") -> None:
    """Leave the flush of rolled segments to the next flush."""


def _ignore_progress() -> None:
    """The opening of a log is not waited for."""


@dataclass(frozen=True, slots=True)
class LogHooks:
    """What a log asks of its owner.

    Attributes:
        on_deleted: unlink these files after that many milliseconds.
        on_rolled: a segment is complete; flush it soon, off the hot path (:meth:`Log.prepare_flush`).
        on_recovered: one more segment of a log that is being opened has been scanned.
    """

    on_deleted: Callable[[DeletedFiles, int], None] = _ignore_deleted
    on_rolled: Callable[["Log"], None] = _ignore_roll
    on_recovered: Callable[[], None] = _ignore_progress


@dataclass(slots=True, kw_only=True)
class LogParts:
    """What recovery found and hands to a log."""

    directory: Path
    topic_partition: TopicPartition
    topic_id: TopicId | None
    config: LogConfig
    segments: Segments
    leader_epochs: LeaderEpochs
    producers: Producers
    snapshots: ProducerSnapshots
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS
