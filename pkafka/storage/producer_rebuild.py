"""Producer state and its snapshots on the disk: taken at every roll and at close, loaded and replayed at start.

Not the rules (producer_state.py) and not the bytes (producer_snapshot.py).
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from pkafka.errors import StorageError
from pkafka.model import Millis, Offset
from pkafka.records.control import ControlType, EndTransactionMarker, decode_end_marker, end_marker_in
from pkafka.records.errors import RecordError
from pkafka.records.reading import read_batches
from pkafka.storage.batch_scan import CONTROL, TRANSACTIONAL, StoredBatch
from pkafka.storage.files import Files
from pkafka.storage.producer_snapshot import SNAPSHOT_SUFFIX, read_snapshot, write_snapshot
from pkafka.storage.producer_state import (
    CompletedTransaction,
    ProducerBatch,
    ProducerEntry,
    Producers,
    advance_sequence,
)
from pkafka.storage.segment import base_offset_of, segment_path
from pkafka.storage.segments import Segments

PRODUCER_EXPIRATION_MS: Final = 86_400_000


def read_marker(batch: bytes | bytearray | memoryview) -> EndTransactionMarker | None:
    """The marker in a control batch, None for a control record of another kind."""
    marker = end_marker_in(batch)
    if marker is not None:
        return marker
    try:
        _, records = next(iter(read_batches(batch, check_crc=False)))
        return decode_end_marker(records[0].key, records[0].value)
    except (RecordError, StopIteration, IndexError):
        return None


def replay(producers: Producers, batch: StoredBatch) -> CompletedTransaction | None:
    """Take a batch that a leader has accepted (read from the disk or from the leader): noted, never refused.

    Returns:
        The transaction that it completed. The caller indexes it and calls ``producers.complete``.
    """
    _, _, _, base, last, _, timestamp, attributes, producer_id, epoch, sequence, delta, _ = batch
    if producer_id < 0:
        return None
    entry = producers.get(producer_id)
    completed = None
    if attributes & CONTROL:
        marker = read_marker(batch.data)
        if marker is None:
            return None
        completed = entry.end_transaction(
            producer_epoch=epoch,
            coordinator_epoch=marker.coordinator_epoch,
            is_aborted=marker.control_type is ControlType.ABORT,
            offset=base,
            timestamp=timestamp,
            check=False,
        )
    else:
        last_sequence = advance_sequence(sequence, delta)
        is_transactional = bool(attributes & TRANSACTIONAL)
        noted: ProducerBatch = tuple.__new__(
            ProducerBatch,
            (producer_id, epoch, sequence, last_sequence, base, last, timestamp, is_transactional),
        )
        if entry.add(noted):
            producers.begin(producer_id, base)
    producers.put(entry)
    return completed


class ProducerSnapshots:
    """The snapshot files of one log.

    Args:
        directory: of the partition.
        files: the file port.
        names: the file names in the directory.
    """

    __slots__ = ("_directory", "_files", "_offsets", "latest_taken")

    def __init__(self, directory: Path, files: Files, names: Iterable[str]) -> None:
        self._directory = directory
        self._files = files
        self._offsets: set[Offset] = set()
        for name in names:
            offset = base_offset_of(name)
            if offset is not None and name.endswith(SNAPSHOT_SUFFIX):
                self._offsets.add(offset)
        self.latest_taken: Offset = max(self._offsets, default=0)

    @property
    def offsets(self) -> list[Offset]:
        """The offsets of the snapshots that are there, increasing."""
        return sorted(self._offsets)

    def path(self, offset: Offset) -> Path:
        """The file of the snapshot at ``offset``."""
        return segment_path(self._directory, offset, SNAPSHOT_SUFFIX)

    def move(self, directory: Path) -> None:
        """Follow a rename of the directory."""
        self._directory = directory

    def take(self, producers: Producers, offset: Offset, *, durable: bool) -> None:
        """Write the state as of ``offset``, unless a snapshot there or behind is already the latest."""
        if offset > self.latest_taken:
            write_snapshot(self._files, self.path(offset), producers.entries.values(), durable=durable)
            self._offsets.add(offset)
            self.latest_taken = offset

    def open_within(self, start: Offset, end: Offset) -> list[int]:
        """Descriptors of the snapshots in (start, end], for a flush by the caller, which closes them."""
        descriptors = []
        for offset in self._offsets:
            if start < offset <= end:
                with contextlib.suppress(FileNotFoundError):
                    descriptors.append(self._files.open(self.path(offset), os.O_RDWR))
        return descriptors

    def forget(self, offset: Offset) -> Path | None:
        """The file of the snapshot at ``offset`` belongs to the caller from now on; None without one."""
        if offset not in self._offsets:
            return None
        self._offsets.remove(offset)
        return self.path(offset)

    def remove(self, offsets: Iterable[Offset]) -> None:
        """Delete snapshots."""
        for offset in list(offsets):
            self._offsets.discard(offset)
            self._files.unlink(self.path(offset))
        self.latest_taken = max(self._offsets, default=0)

    def remove_strays(self, base_offsets: Iterable[Offset]) -> None:
        """Keep those that belong to a segment, and the newest one when it lies behind the last segment's base."""
        bases = set(base_offsets)
        strays = self._offsets - bases
        if strays:
            newest = max(strays)
            if newest > max(bases, default=-1):
                strays.remove(newest)
            self.remove(strays)

    def read(self, offset: Offset) -> list[ProducerEntry] | None:
        """The entries of the snapshot at ``offset``; None when it is damaged."""
        try:
            return read_snapshot(self._files, self.path(offset))
        except StorageError:
            return None

    def load(self, producers: Producers, start: Offset, end: Offset) -> Offset:
        """Restore the newest intact snapshot within [start, end]; damaged ones are deleted.

        One exactly at ``start`` is all that tells of producers whose records are gone, so it counts (Kafka drops it,
        and then accepts a resend as new).

        Returns:
            The offset of the snapshot, or ``start`` when there is none: from there on the log must be replayed.
        """
        self.remove([offset for offset in self._offsets if offset > end or offset < start])
        producers.clear()
        while self._offsets:
            newest = max(self._offsets)
            entries = self.read(newest)
            if entries is None:
                self.remove([newest])
                continue
            producers.restore(entries)
            self.latest_taken = newest
            return newest
        self.latest_taken = start
        return start


def rebuild(
    producers: Producers,
    snapshots: ProducerSnapshots,
    segments: Segments,
    *,
    log_start_offset: Offset,
    end_offset: Offset,
    now_ms: Callable[[], Millis],
    expiration_ms: int = PRODUCER_EXPIRATION_MS,
    had_clean_shutdown: bool = False,
) -> None:
    """Make the state that of the log up to ``end_offset``: the newest snapshot plus the batches behind it.

    Snapshots are taken at the last two segment bases and at the end, as Kafka does, so that the next start is short.
    A clean log without any snapshot (older than snapshots, or without producers) is trusted to have no producers.
    """
    bases = segments.base_offsets[-2:]
    if had_clean_shutdown and not snapshots.offsets:
        for offset in [*bases, end_offset]:
            snapshots.take(producers, offset, durable=False)
        return
    position = snapshots.load(producers, log_start_offset, end_offset)
    producers.expire(now_ms(), expiration_ms)
    for segment in segments.within(position, end_offset):
        start = max(segment.base_offset, position)
        if segment.base_offset in bases and segment.base_offset >= position:
            snapshots.take(producers, segment.base_offset, durable=False)
        found = segment.find(start)
        if found is None:
            continue
        for batch in segment.scan(found[0], check=False):
            if batch.last_offset >= end_offset:
                break
            completed = replay(producers, batch)
            if completed is not None:
                producers.complete(completed)
    snapshots.take(producers, end_offset, durable=False)
