"""The reading half of a log: from an offset, a timestamp or an epoch to a place in a file.

Nothing here changes the disk. log.py has the other half and keeps the offsets.
"""

from typing import Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_TIMESTAMP, LeaderEpoch, Millis, Offset
from pkafka.storage.log_values import LogParts, LogRead, TimestampOffset
from pkafka.storage.segment import Segment
from pkafka.storage.transaction_index import AbortedTransaction

_KNOWN_POSITIONS_MAX: Final = 64
_new: Final = tuple.__new__
"""A named tuple made by this costs half of one made by its class."""


class LogReader:
    """What a fetch, ListOffsets and OffsetForLeaderEpoch ask of a log.

    Args:
        parts: its state, as recovered.
    """

    def __init__(self, parts: LogParts) -> None:
        self.topic_partition = parts.topic_partition
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.leader_epochs = parts.leader_epochs
        self._segments = parts.segments
        self._active = parts.segments.last
        # Positions in the active segment of offsets that were appended or read last, and the size of the batch there, 0
        # where it was not looked at: a consumer at the tail asks for exactly these. Emptied whenever positions change
        # meaning.
        self._positions: dict[Offset, tuple[int, int]] = {}

    @property
    def size_bytes(self) -> int:
        """The bytes of all ``.log`` files."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> list[Segment]:
        """The segments, the oldest first; for compaction, metrics and DescribeLogDirs."""
        return list(self._segments)

    def read(self, offset: Offset, *, bytes_max: int, min_one_batch: bool, upper_bound: Offset) -> LogRead:
        """The place of the batches from ``offset`` on.

        Args:
            offset: where to begin; the first batch may begin before it.
            bytes_max: how much to give.
            min_one_batch: give the first batch whole even when it is larger (KIP-74).
            upper_bound: the high watermark, last stable offset or log end offset: nothing at or behind it.

        Raises:
            ApiError: OFFSET_OUT_OF_RANGE below the log start or above the log end.
        """
        end = self.log_end_offset
        if offset > end or offset < self.log_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.topic_partition}, but we only have "
                f"log segments from offset {self.log_start_offset} to {end}.",
            )
        bound = min(upper_bound, end)
        active = self._active
        if offset >= bound or (bytes_max <= 0 and not min_one_batch):
            return LogRead(active, active.size, 0, offset)
        bound_segment, bound_position = self._place_of_bound(bound)
        segment = active if offset >= active.base_offset else self._segments.floor(offset)
        while segment is not None:
            limit = bound_position if segment is bound_segment else segment.size
            found = self._find(segment, offset)
            if found is not None and found[0] < limit:
                return self._range(segment, offset, found, limit, bytes_max, min_one_batch)
            if segment is bound_segment:
                break
            segment = self._segments.higher(segment.base_offset)
        return LogRead(active, active.size, 0, offset)

    def _range(
        self,
        segment: Segment,
        offset: Offset,
        found: tuple[int, int],
        limit: int,
        bytes_max: int,
        min_one_batch: bool,
    ) -> LogRead:
        position, size = found
        length = limit - position
        if length <= bytes_max:
            return _new(LogRead, (segment, position, length, offset, False))
        if size == 0:
            size = segment.batch_size_at(position)
            self._remember(offset, position, size)
        wanted = max(bytes_max, size) if min_one_batch else max(bytes_max, 0)
        return _new(LogRead, (segment, position, min(length, wanted), offset, wanted < size))

    def _find(self, segment: Segment, offset: Offset) -> tuple[int, int] | None:
        """(position, size or 0 for not looked at) of the batch with ``offset`` or the next one."""
        if segment is not self._active:
            found = segment.find(offset)
            return None if found is None else found[:2]
        known = self._positions.get(offset)
        if known is not None:
            return known
        found = segment.find(offset)
        if found is None:
            return None
        self._remember(offset, found[0], found[1])
        return found[:2]

    def _place_of_bound(self, bound: Offset) -> tuple[Segment, int]:
        if bound >= self.log_end_offset:
            return self._active, self._active.size
        segment = self._segments.floor(bound) or self._segments.first
        found = self._find(segment, bound)
        return segment, segment.size if found is None else found[0]

    def aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """The aborted transactions that overlap [start, end), for a consumer that reads committed."""
        found: list[AbortedTransaction] = []
        segment: Segment | None = self._segments.floor(start) or self._segments.first
        while segment is not None:
            here, is_complete = segment.transaction_index.collect(start, end)
            found += here
            if is_complete:
                break
            segment = self._segments.higher(segment.base_offset)
        return found

    def aborted_within(self, found: LogRead, bound: Offset) -> list[AbortedTransaction]:
        """The aborted transactions that overlap what was read; a few behind its end may be among them.

        As in Kafka the end is what the offset index says, so the records are not looked at. The list would otherwise
        name all aborted transactions up to the end of the log with each small read.

        Args:
            found: what was read.
            bound: the last stable offset: nothing behind it was read.
        """
        segment = found.segment
        end = segment.offset_index.offset_from(found.position + found.length)
        if end is None:
            following = self._segments.higher(segment.base_offset)
            end = self.log_end_offset if following is None else following.base_offset
        return self.aborted_transactions(found.first_offset, min(end, bound))

    def offset_for_timestamp(self, timestamp: Millis) -> TimestampOffset | None:
        """The first record whose timestamp is not below ``timestamp``; None when all are older."""
        for segment in self._segments:
            if segment.max_timestamp >= timestamp:
                found = segment.find_timestamp(timestamp, self.log_start_offset)
                if found is not None:
                    return TimestampOffset(*found, self.leader_epochs.epoch_at(found.offset))
        return None

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp (KIP-734); None without timestamps."""
        newest = max(self._segments, key=lambda segment: segment.max_timestamp)
        found = newest.max_timestamp_record()
        if found is None:
            return None
        return TimestampOffset(*found, self.leader_epochs.epoch_at(found.offset))

    def earliest_offset(self) -> TimestampOffset:
        """The log start offset, with the epoch of the record there."""
        epoch = self.leader_epochs.epoch_at(self.log_start_offset)
        return TimestampOffset(NO_TIMESTAMP, self.log_start_offset, epoch)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The largest epoch not above ``epoch`` that this log has, and where it ended; (-1, -1) when unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def _remember(self, offset: Offset, position: int, size: int = 0) -> None:
        positions = self._positions
        if len(positions) >= _KNOWN_POSITIONS_MAX:
            positions.clear()
        positions[offset] = (position, size)
