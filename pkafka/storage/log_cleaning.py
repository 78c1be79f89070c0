"""The owner's side of compaction: what a log offers to the cleaner, and whether it takes what comes back."""

import errno
from collections.abc import Sequence
from typing import Final

from pkafka.model import Millis, Offset
from pkafka.storage.cleaning import CleaningPlan
from pkafka.storage.compaction import CleanablePart, cleanable_part
from pkafka.storage.log import Log

_PASSING: Final = frozenset({errno.ENOENT, errno.EMFILE, errno.ENFILE})
"""The new files are gone, or there is no room to look at them just now: no fault of the disk."""


def cleanable_part_of(log: Log, now_ms: Millis) -> CleanablePart:
    """What of a log can be cleaned now.

    Raises:
        ApiError: a segment cannot be read.
        OSError: the disk refused.
    """
    return cleanable_part(
        log.segments,
        log.config,
        checkpoint=log.cleaner_checkpoint,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        now_ms=now_ms,
    )


class LogCleaning:
    """A round over one log, from the plan to its end.

    Args:
        log: which no other process owns meanwhile.
        part: what of it can be cleaned.
    """

    def __init__(self, log: Log, part: CleanablePart) -> None:
        self.log = log
        self._truncations = log.truncations
        segments = [one for one in log.segments if one.base_offset < part.end]
        self._generations = {one.base_offset: one.generation for one in segments}
        config = log.config
        self.plan = CleaningPlan(
            directory=str(log.directory),
            first_dirty=part.first_dirty,
            end=part.end,
            segments=[(one.base_offset, one.size) for one in segments],
            producers=[
                (entry.producer_id, entry.last_data_offset, entry.producer_epoch)
                for entry in log.producers.entries.values()
                if entry.last_data_offset < part.end
            ],
            aborted=list(log.aborted_transactions(0, part.end)),
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            delete_retention_ms=config.delete_retention_ms,
        )

    @property
    def is_wanted(self) -> bool:
        """Whether the log is still the one that the plan is about, and shall be compacted."""
        log = self.log
        return (
            not log.is_closed
            and log.failure is None
            and log.config.compacts
            and log.truncations == self._truncations
        )

    def take(self, old: Sequence[Offset], new: Sequence[Offset]) -> bool:
        """Put cleaned segments in their place.

        Args:
            old: the base offsets of the segments that they were made of.
            new: their own base offsets; the files have the suffix ``.cleaned``.

        Returns:
            False when they do not fit any more: nothing was changed.

        Raises:
            StorageError: the disk refused; the log is fenced.
        """
        if not self.is_wanted:
            return False
        present = {one.base_offset: one for one in self.log.segments}
        segments = [present[base] for base in old if base in present]
        if [one.generation for one in segments] != [self._generations.get(base) for base in old]:
            return False
        try:
            self.log.replace_segments(segments, new)
        except OSError as error:
            if error.errno not in _PASSING:
                raise self.log.fence(error, "replace segments of") from error
            return False
        return True

    def end(self, end_offset: Offset) -> None:
        """All groups have been replaced: the log is clean up to ``end_offset``."""
        if self.is_wanted:
            self.log.cleaner_checkpoint = end_offset
