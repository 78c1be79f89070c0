"""Splitting a segment that holds offsets too far from its base for its indexes (KAFKA-6264).

Old versions of compaction could merge segments until the distance passed 2^31-1. Recovery meets them; nothing else
calls this. The order is Kafka's (splitOverflowedSegment), and each step leaves what a start can sort out:

 1. The batches are copied into pieces named ``.cleaned``, and these flushed. A start drops them.
 2. They become ``.swap``, the last piece first: until all are, a ``.cleaned`` lies at or below every ``.swap``, and a
    start drops both.
 3. The old files become ``.deleted``. A start does this and the next step, from the ``.swap`` files.
 4. The pieces take their own names.

The first piece keeps the base offset of the segment even when no batch fits there: a start that finishes the swap
deletes what the pieces cover, and must find the old segment among it.
"""

import os
from collections.abc import Callable, Iterator

from pkafka.storage.batch_scan import SCAN_CHUNK_BYTES, DamagedBatchError
from pkafka.storage.files import Files, unlink_all
from pkafka.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SWAP_SUFFIX,
    AppendedBatch,
    Segment,
)

CreateSegment = Callable[[int, str], Segment]
"""Makes an empty segment of a base offset and a suffix."""


def split_segment(old: Segment, files: Files, create: CreateSegment, *, end_max: int) -> list[int]:
    """Put several segments in the place of ``old``, byte for byte the same data.

    What comes behind a damaged batch goes into the last piece as it is: recovery decides about it.

    Args:
        old: the segment; its files are gone afterwards.
        files: the file port.
        create: makes a piece.
        end_max: where the next segment begins; a batch that reaches it is damaged.

    Returns:
        The base offsets of the pieces, increasing.

    Raises:
        OSError: the disk refused; the log is as before, apart from leftovers that the next start removes.
    """
    pieces: list[Segment] = []
    try:
        for piece in _copied(old, create, end_max):
            pieces.append(piece)
            _complete(piece, old)
    except OSError:
        for piece in pieces:
            piece.release_files()
            unlink_all(files, piece.paths)
        raise
    assert sum(piece.size for piece in pieces) == old.size, (old.path, old.size)
    for piece in reversed(pieces):
        piece.rename_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
    files.fsync_directory(old.directory)
    old.release_files()
    deleted = old.rename_suffix("", DELETED_SUFFIX)
    for piece in pieces:
        piece.rename_suffix(SWAP_SUFFIX, "")
        piece.release_files()
    files.fsync_directory(old.directory)
    unlink_all(files, deleted)
    return [piece.base_offset for piece in pieces]


def _copied(old: Segment, create: CreateSegment, end_max: int) -> Iterator[Segment]:
    """The pieces, each as soon as its data is written."""
    piece = create(old.base_offset, CLEANED_SUFFIX)
    run = _Run(old)
    end = old.base_offset
    try:
        for batch in old.scan(0, check=False):
            if not end <= batch.last_offset < end_max:
                raise DamagedBatchError(batch.position, f"offset {batch.last_offset} does not belong here")
            if batch.last_offset - piece.base_offset > RELATIVE_OFFSET_MAX:
                run.write_to(piece)
                yield piece
                piece = create(batch.base_offset, CLEANED_SUFFIX)
            run.add((batch.position, batch.size, batch.last_offset, batch.max_timestamp))
            if run.size >= SCAN_CHUNK_BYTES:
                run.write_to(piece)
            end = batch.last_offset + 1
    except DamagedBatchError:
        pass
    run.write_to(piece)
    while run.start < old.size:
        run.size = min(SCAN_CHUNK_BYTES, old.size - run.start)
        run.write_to(piece)
    yield piece


class _Run:
    """Batches of ``old`` that lie side by side and are copied in one go."""

    def __init__(self, old: Segment) -> None:
        self._old = old
        self._batches: list[AppendedBatch] = []
        self.start = 0
        self.size = 0

    def add(self, batch: AppendedBatch) -> None:
        position, size, last_offset, max_timestamp = batch
        self._batches.append((position - self.start, size, last_offset, max_timestamp))
        self.size += size

    def write_to(self, piece: Segment) -> None:
        if self.size:
            first_timestamp = self._batches[0][3] if self._batches else -1
            data = self._old.read_bytes(self.start, self.size)
            piece.append(data, self._batches, first_timestamp=first_timestamp)
            self.start += self.size
            self.size = 0
            self._batches.clear()


def _complete(piece: Segment, old: Segment) -> None:
    """What Kafka does before a swap: trim, flush, and take over the time that retention may look at."""
    piece.finish()
    piece.flush()
    status = os.stat(old.path)
    os.utime(piece.path, ns=(status.st_atime_ns, status.st_mtime_ns))
