"""Where the records of a new batch have come from. Pure."""

from collections import deque
from typing import NamedTuple

from pkafka.clients.raw_batch import RawBatch


class Run(NamedTuple):
    """Records that follow each other in the source and in a batch that was made of them.

    Args:
        upstream: the offset of the first in the source.
        position: its place in the batch, counted from 0.
        length: how many.
    """

    upstream: int
    position: int
    length: int


class Runs:
    """Keeps the offsets of records from when they are put into batches until a batch is sent."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int | None, int]] = deque()
        """First offset, None where it is not known, and how many; none at all: so far the source was read with the last
        record before."""

    def add(self, batch: RawBatch, skipped: int = 0) -> None:
        """Take the records of a batch of the source.

        Args:
            skipped: so many of its first records are left out.
        """
        count = batch.record_count - skipped
        if not batch.was_encoded_again:
            self._waiting.append((batch.first_offset + skipped, count))
            return
        # Of its records the first has a known offset in the source, and all are before the next batch: enough for
        # translations that miss nothing.
        if not skipped:
            self._waiting.append((batch.first_offset, 1))
            count -= 1
        if count:
            self._waiting.append((None, count))
        self._waiting.append((batch.next_offset - 1, 0))

    def take(self, count: int) -> list[Run]:
        """What is known of the first records that wait, which go into one batch now."""
        found: list[Run] = []
        position = 0
        while position < count:
            upstream, length = self._waiting.popleft()
            part = min(length, count - position)
            if upstream is not None:
                found.append(Run(upstream, position, part))
            position += part
            if part < length:
                self._waiting.appendleft((None if upstream is None else upstream + part, length - part))
            while self._waiting and not self._waiting[0][1]:
                last, _ = self._waiting.popleft()
                assert last is not None
                found.append(Run(last, position - 1, 1))
        return found
