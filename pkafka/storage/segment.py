"""One segment of a log: a ``.log`` file with its offset, time and transaction index.

Not aware of its neighbours, of leader epochs or of producers: the log is. One thread owns it.
"""

import os
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pkafka.errors import StorageError
from pkafka.model import NO_TIMESTAMP
from pkafka.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD
from pkafka.records.reading import Record, read_batches
from pkafka.storage.batch_scan import DamagedBatchError, StoredBatch, find_batch, max_timestamp_of, scan
from pkafka.storage.config import LogConfig
from pkafka.storage.files import Files, write_all
from pkafka.storage.offset_index import OffsetIndex
from pkafka.storage.open_files import OpenFiles
from pkafka.storage.time_index import TimeIndex
from pkafka.storage.transaction_index import TransactionIndex

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_CLOSED: Final = -1

_generations = count(1)


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """The file of a segment: its base offset in 20 digits."""
    return directory / f"{base_offset:020d}{suffix}"


AppendedBatch: TypeAlias = tuple[int, int, int, int]
"""What the indexes need of an appended batch: position, size, last offset, largest timestamp."""


class FoundTimestamp(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int


class Segment:
    """The files of one segment.

    Args:
        directory: of the partition.
        base_offset: in the names of the files.
        config: of the log.
        files: the file port.
        open_files: the register of open inactive segments.
        suffix: ``.cleaned`` or ``.swap`` for one that is not in place yet.

    Use :meth:`create` or :meth:`open`. ``size`` counts the bytes of whole batches that were written; bytes behind
    it, left by a failed write, are never read.
    """

    __slots__ = (
        "_config",
        "_created_ms",
        "_descriptor",
        "_files",
        "_first_timestamp",
        "_index_loaded",
        "_is_preallocated",
        "_is_retired",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_open_files",
        "_pins",
        "_unindexed_bytes",
        "base_offset",
        "directory",
        "generation",
        "is_active",
        "offset_index",
        "path",
        "size",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        *,
        config: LogConfig,
        files: Files,
        open_files: OpenFiles,
        suffix: str = "",
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.path = segment_path(directory, base_offset, LOG_SUFFIX + suffix)
        self.generation = next(_generations)
        self.is_active = False
        self.size = 0
        self.offset_index = OffsetIndex(
            segment_path(directory, base_offset, INDEX_SUFFIX + suffix), base_offset, files
        )
        self.time_index = TimeIndex(
            segment_path(directory, base_offset, TIME_INDEX_SUFFIX + suffix), base_offset, files
        )
        self.transaction_index = TransactionIndex(
            segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX + suffix), base_offset, files
        )
        self._config = config
        self._files = files
        self._open_files = open_files
        self._descriptor = _CLOSED
        self._pins = 0
        self._is_retired = False
        self._is_preallocated = False
        self._created_ms = time.time_ns() // 1_000_000
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = None
        self._max_timestamp_offset = base_offset
        self._unindexed_bytes = 0
        self._index_loaded = False

    @classmethod
    def create(
        cls,
        directory: Path,
        base_offset: int,
        *,
        config: LogConfig,
        files: Files,
        open_files: OpenFiles,
        now_ms: int,
        suffix: str = "",
    ) -> "Segment":
        """A new, empty segment with its files; leftovers of the same name are overwritten.

        With ``preallocate`` its data file has ``segment.bytes`` at once, as a hole, like Kafka's; what was not written
        is cut off when it becomes inactive or is closed, and by recovery after a kill.
        """
        segment = cls(
            directory, base_offset, config=config, files=files, open_files=open_files, suffix=suffix
        )
        segment._created_ms = now_ms
        files.unlink(segment.transaction_index.path)
        segment._descriptor = files.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            if config.preallocate:
                segment._is_preallocated = True
                files.truncate(segment._descriptor, config.segment_bytes)
            segment.offset_index.create(config.segment_index_bytes)
            segment.time_index.create(config.segment_index_bytes)
        except OSError:
            segment.release_files()
            raise
        segment._index_loaded = True
        segment._max_timestamp = NO_TIMESTAMP
        return segment

    @classmethod
    def open(
        cls,
        directory: Path,
        base_offset: int,
        *,
        config: LogConfig,
        files: Files,
        open_files: OpenFiles,
        suffix: str = "",
    ) -> "Segment":
        """A segment that is there; its indexes are looked at on first use and rebuilt when damaged."""
        segment = cls(
            directory, base_offset, config=config, files=files, open_files=open_files, suffix=suffix
        )
        status = os.stat(segment.path)
        segment.size = status.st_size
        segment._created_ms = status.st_mtime_ns // 1_000_000
        return segment

    # -- descriptors ---------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """The descriptor of the ``.log`` file, opened when needed.

        Valid until the owner touches the segment again, or, between :meth:`pin` and :meth:`unpin`, until the
        unpin: an inactive segment's file may be closed when others are opened.
        """
        descriptor = self._descriptor
        if descriptor == _CLOSED:
            descriptor = self._descriptor = self._files.open(self.path, os.O_RDWR)
        if not self.is_active:
            self._open_files.touch(self)
        return descriptor

    @property
    def is_pinned(self) -> bool:
        """Whether an answer is being sent from the descriptor."""
        return self._pins > 0

    def pin(self) -> int:
        """The descriptor, which stays open until as many :meth:`unpin` follow."""
        descriptor = self.fileno()
        self._pins += 1
        return descriptor

    def unpin(self) -> None:
        """Take back one :meth:`pin`."""
        self._pins -= 1
        if self._is_retired and not self._pins:
            self.release_files()

    def retire(self) -> None:
        """The segment has left its log: its files are closed now, or with the last :meth:`unpin`."""
        self._is_retired = True
        if not self._pins:
            self.release_files()

    def release_files(self) -> None:
        """Close descriptors and maps; the next use opens them again."""
        self._open_files.forget(self)
        self.offset_index.close()
        self.time_index.close()
        if self._descriptor != _CLOSED:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            self._files.close(descriptor)

    # -- writing -------------------------------------------------------------------------------------------------

    def append(
        self, data: bytes | bytearray | memoryview, batches: Sequence[AppendedBatch], *, first_timestamp: int
    ) -> None:
        """Write whole batches behind the last one, in one call, and index them.

        Args:
            data: the batches, offsets in place.
            batches: what the indexes need of each, positions relative to ``data``.
            first_timestamp: the largest timestamp of the first batch, for rolling by age.

        Raises:
            OSError: the disk refused; the segment's own state is as before, the bytes behind it are undefined.
        """
        if not self._index_loaded:
            self.load_indexes()
        start = self.size
        descriptor = self.fileno() if self._descriptor == _CLOSED else self._descriptor
        length = len(data)
        if self._files.pwrite(descriptor, data, start) != length:
            write_all(self._files, descriptor, data, start)
        self.size = start + length
        if self._first_timestamp is None and start == 0:
            self._first_timestamp = first_timestamp
        if len(batches) == 1:
            position, size, last_offset, max_timestamp = batches[0]
            self.index_batch(start + position, size, last_offset, max_timestamp)
            return
        # What followers fetch under load are several batches, most of which get an entry.
        if self._max_timestamp is None:
            self._read_max_timestamp()  # reads the indexes
        self.offset_index.hold_entries()
        self.time_index.hold_entries()
        for position, size, last_offset, max_timestamp in batches:
            self.index_batch(start + position, size, last_offset, max_timestamp)
        self.offset_index.write_held()
        self.time_index.write_held()

    def index_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Note a batch that lies at ``position``; every ``index.interval.bytes`` it becomes an entry."""
        if max_timestamp > (NO_TIMESTAMP if self._max_timestamp is None else self._max_timestamp):
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._unindexed_bytes > self._config.index_interval_bytes and self._is_in_reach(last_offset):
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
            self._unindexed_bytes = 0
        self._unindexed_bytes += size

    def takes(self, size: int, last_offset: int, newest: int, now_ms: int, age_max_ms: int) -> bool:
        """Whether records may be written here, or a new segment has to begin with them.

        Args:
            size: in bytes; there has to be room for them, and for their index entries.
            last_offset, newest: of the records: what the indexes have to reach, and the largest timestamp.
            now_ms, age_max_ms: nothing is written here that comes later than this, except as the first.
        """
        if not self._index_loaded:
            self.load_indexes()
        held = self.size
        if (
            held > self._config.segment_bytes - size
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            or self.offset_index.entries >= self.offset_index.entries_max
            or self.time_index.entries >= self.time_index.entries_max - 1
        ):
            return False
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        # By the records' own time where they have any, else by the clock.
        return not held or (newest - first if first >= 0 else now_ms - self._created_ms) <= age_max_ms

    def _is_in_reach(self, offset: int) -> bool:
        """Whether an index entry can hold it; old segments with others go on without, until recovery splits them."""
        return offset - self.base_offset <= RELATIVE_OFFSET_MAX

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 without one."""
        first = self._first_timestamp
        if first is None:
            if not self.size:
                return NO_TIMESTAMP
            # Asked of every dirty segment of a compacted log: so a few bytes, not the chunk of a walk.
            header = self.read_bytes(0, min(BATCH_OVERHEAD, self.size))
            first = self._first_timestamp = max_timestamp_of(header)
        return first

    def truncate_to(self, offset: int) -> int:
        """Cut the batch that holds ``offset`` and all behind it.

        Returns:
            The end offset that is left: ``offset``, or the base offset of the batch that it was inside of, whose
            earlier records went with it.
        """
        self.load_indexes()
        found = self.find(offset)
        end = offset
        if found is not None:
            end = min(offset, next(self.scan(found[0], check=False)).base_offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if found is not None:
            self.cut_at(found[0])
        if self.size == 0:
            self._first_timestamp = None
            self._created_ms = time.time_ns() // 1_000_000
        self._unindexed_bytes = 0
        self._read_max_timestamp()
        return end

    def cut_at(self, position: int) -> None:
        """Cut the ``.log`` file at ``position``; references to its bytes are void (a new generation)."""
        self._files.truncate(self.fileno(), position)
        self._is_preallocated = False
        self.size = position
        self.generation = next(_generations)

    def activate(self) -> None:
        """Become the segment that takes appends: indexes get room, the file stays open."""
        self.load_indexes()
        self.is_active = True
        self._open_files.forget(self)
        self.offset_index.make_room(self._config.segment_index_bytes)
        self.time_index.make_room(self._config.segment_index_bytes)

    def deactivate(self) -> None:
        """No more appends: the time index gets its last entry, the indexes are trimmed."""
        self.finish()
        self.is_active = False
        if self._descriptor != _CLOSED:
            self._open_files.touch(self)

    def finish(self) -> None:
        """Write the time index's last entry and trim the indexes and a preallocated data file."""
        self.load_indexes()
        if self._is_preallocated:
            self._files.truncate(self.fileno(), self.size)
            self._is_preallocated = False
        if self._is_in_reach(self._max_timestamp_offset):
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
        self.offset_index.trim()
        self.time_index.trim()

    def flush(self) -> None:
        """Wait until everything is on the disk."""
        self._files.fsync(self.fileno())
        self.offset_index.flush()
        self.time_index.flush()
        self.transaction_index.flush()

    def duplicate_descriptors(self) -> list[int]:
        """Descriptors of the files that hold data, for a flush in another thread, which closes them."""
        descriptors = [os.dup(self.fileno())]
        for path in self.paths[1:]:
            try:
                descriptors.append(self._files.open(path, os.O_RDWR))
            except FileNotFoundError:
                continue
        return descriptors

    def update_config(self, config: LogConfig) -> None:
        """New sizes and intervals hold for the next append."""
        self._config = config

    # -- reading -------------------------------------------------------------------------------------------------

    def find(self, offset: int, start_position: int = 0) -> tuple[int, int, int] | None:
        """The batch that holds ``offset``, or the next one when compaction took it.

        Returns:
            (position, size in bytes, last offset), or None when all offsets here are lower.
        """
        if not self._index_loaded:
            self.load_indexes()
        position = max(self.offset_index.lookup(offset)[1], start_position)
        return find_batch(self._files, self.fileno(), offset, position, self.size)

    def scan(self, position: int, *, check: bool) -> Iterator[StoredBatch]:
        """All batches from ``position`` on, in big reads; see batch_scan.scan."""
        return scan(self._files, self.fileno(), position, self.size, check=check)

    def position_of(self, offset: int) -> int:
        """Where the batch that holds ``offset`` begins, or the one behind it; the end when all are lower."""
        found = self.find(offset)
        return self.size if found is None else found[0]

    def scan_before(self, end: int, length: int) -> Iterator[StoredBatch]:
        """The batches in the ``length`` bytes before the position ``end``, and perhaps some before them."""
        self.load_indexes()
        start = self.offset_index.position_at_or_below(end - length)
        return scan(self._files, self.fileno(), start, end, check=False)

    def read_bytes(self, position: int, length: int) -> bytes:
        """Bytes of the ``.log`` file."""
        return self._files.pread(self.fileno(), length, position)

    def batch_size_at(self, position: int) -> int:
        """The size of the batch that begins at ``position``."""
        return LOG_OVERHEAD + int.from_bytes(self.read_bytes(position + 8, 4), "big", signed=True)

    def next_offset(self) -> int:
        """The offset behind the last batch; the base offset when empty."""
        self.load_indexes()
        following = self.base_offset
        for batch in self.scan(self.offset_index.last_position, check=False):
            following = batch.last_offset + 1
        return following

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of a record, -1 without one."""
        if self._max_timestamp is None:
            self._read_max_timestamp()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def retention_timestamp(self) -> int:
        """What retention by time compares: the largest timestamp, or the file's own time when there is none."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self.modified_ms

    @property
    def modified_ms(self) -> int:
        """When the ``.log`` file was last written."""
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def max_timestamp_record(self) -> FoundTimestamp | None:
        """The first record with the largest timestamp; None in a segment without timestamps."""
        if self.max_timestamp < 0:
            return None
        found = self.find(self._max_timestamp_offset)
        return (
            None if found is None else self._first_record_at(self.max_timestamp, found[0], self.base_offset)
        )

    def find_timestamp(self, timestamp: int, from_offset: int) -> FoundTimestamp | None:
        """The first record at or behind ``from_offset`` whose timestamp is not below ``timestamp``."""
        self.load_indexes()
        start = max(self.time_index.lookup(timestamp)[1], from_offset)
        position = self.offset_index.lookup(start)[1]
        return self._first_record_at(timestamp, position, from_offset)

    def _first_record_at(self, timestamp: int, position: int, from_offset: int) -> FoundTimestamp | None:
        for batch in self.scan(position, check=False):
            if batch.max_timestamp >= timestamp and batch.last_offset >= from_offset:
                for record in _records_in(batch):
                    if record.timestamp >= timestamp and record.offset >= from_offset:
                        return FoundTimestamp(record.timestamp, record.offset)
        return None

    # -- indexes -------------------------------------------------------------------------------------------------

    def load_indexes(self) -> None:
        """Look at the index files once; missing or damaged ones are rebuilt from the data."""
        if self._index_loaded:
            return
        try:
            self.offset_index.load()
            self.time_index.load()
            if self.offset_index.last_position >= self.size > 0:
                raise StorageError(f"{self.offset_index.path}: an entry points behind the end of the log")
        except (StorageError, FileNotFoundError):
            self._rebuild_indexes()
        self._index_loaded = True

    def start_rebuild(self) -> None:
        """Empty all indexes; :meth:`index_batch` for every batch and :meth:`end_rebuild` follow."""
        self.offset_index.create(max(self._config.segment_index_bytes, 12))
        self.time_index.create(max(self._config.segment_index_bytes, 12))
        self.offset_index.hold_entries()
        self.time_index.hold_entries()
        self.transaction_index.reset()
        self._index_loaded = True
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._unindexed_bytes = 0

    def end_rebuild(self) -> None:
        """Trim the rebuilt indexes."""
        self._first_timestamp = None
        self.finish()

    def _rebuild_indexes(self) -> None:
        """Offset and time index from the data; the transaction index is left, it has its own check."""
        index_bytes = self._config.segment_index_bytes
        self.offset_index.create(index_bytes)
        self.time_index.create(index_bytes)
        self._index_loaded = True
        self._max_timestamp = NO_TIMESTAMP
        self._unindexed_bytes = 0
        try:
            for batch in self.scan(0, check=False):
                self.index_batch(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
        except DamagedBatchError:
            # Only recovery may decide to cut; what can be reached stays reachable until then.
            pass
        self.finish()

    def _read_max_timestamp(self) -> None:
        self.load_indexes()
        largest, offset = self.time_index.last_timestamp, self.time_index.last_offset
        position = self.offset_index.lookup(offset)[1]
        if self.size:
            for batch in self.scan(position, check=False):
                if batch.max_timestamp > largest:
                    largest, offset = batch.max_timestamp, batch.last_offset
        self._max_timestamp, self._max_timestamp_offset = largest, offset

    # -- life of the files ---------------------------------------------------------------------------------------

    @property
    def paths(self) -> list[Path]:
        """All files that a segment may have, the data first."""
        return [self.path, self.offset_index.path, self.time_index.path, self.transaction_index.path]

    def rename_suffix(self, old: str, new: str) -> list[Path]:
        """Replace the last suffix of all files, indexes last.

        A file that is not there is passed over: transaction indexes often are not, and a crash may have taken one.

        Returns:
            The new names.
        """
        renamed = []
        for path in self.paths:
            target = path.with_name(path.name.removesuffix(old) + new)
            try:
                self._files.rename(path, target)
            except FileNotFoundError:
                continue
            renamed.append(target)
        self.move_paths(self.directory, old, new)
        return renamed

    def move_paths(self, directory: Path, old: str = "", new: str = "") -> None:
        """Follow a rename of the directory or of the suffix, without touching the disk."""
        self.directory = directory
        for holder in (self, self.offset_index, self.time_index, self.transaction_index):
            name = holder.path.name
            holder.path = directory / ((name.removesuffix(old) if old else name) + new)

    def close(self) -> None:
        """Finish the indexes and give everything back."""
        self.finish()
        self.release_files()
        self.is_active = False


def _records_in(batch: StoredBatch) -> Iterator[Record]:
    # Markers too: they have timestamps and offsets like any record.
    for _, records in read_batches(batch.data, check_crc=False):
        yield from records


def base_offset_of(name: str) -> int | None:
    """The base offset in the name of a segment's file, None when it is none of ours."""
    digits = name.split(".", 1)[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None
