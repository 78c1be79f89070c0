"""What the offset index and the time index of a segment share: a file of fixed-size entries.

The file of the active segment is preallocated as a hole up to ``segment.index.bytes``, rounded down to whole entries,
and trimmed to what is in it when the segment becomes inactive. Entries are read through a memory map and written with
pwrite: a full disk is then an error code, where a write through the map would be SIGBUS and the end of the process.
Descriptor and map come into being on first use, so an idle partition holds neither.
"""

import mmap
import os
from pathlib import Path
from struct import Struct
from typing import Final

from pkafka.errors import StorageError
from pkafka.storage.files import Files, write_all

_CLOSED: Final = -1


class IndexFile:
    """One index file; subclasses know what an entry means.

    Args:
        path: the file.
        base_offset: of the segment.
        entry: the layout of one entry.
        files: the file port.
    """

    __slots__ = (
        "_descriptor",
        "_entry",
        "_files",
        "_held",
        "_map",
        "base_offset",
        "entries",
        "entries_max",
        "path",
    )

    def __init__(self, path: Path, base_offset: int, entry: Struct, files: Files) -> None:
        self.path = path
        self.base_offset = base_offset
        self.entries = 0
        self.entries_max = 0
        self._entry = entry
        self._files = files
        self._descriptor = _CLOSED
        self._map: mmap.mmap | None = None
        self._held: bytearray | None = None

    def create(self, bytes_max: int) -> None:
        """Make the file anew, empty, with room for ``bytes_max`` rounded down to whole entries.

        Raises:
            OSError: the disk refused.
        """
        self.close()
        self.entries = 0
        self._descriptor = self._files.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self._allocate(bytes_max)
        finally:
            self.close()
        self._reset_last()

    def load(self) -> None:
        """Take over the file as it is, without room for more entries.

        Raises:
            StorageError: it is damaged: not whole entries, or its last entry lies at or before the base offset (an
                untrimmed file after a crash ends in zeros).
            OSError: the file cannot be read; FileNotFoundError when there is none.
        """
        self.close()
        size = os.stat(self.path).st_size
        self.entries, rest = divmod(size, self._entry.size)
        self.entries_max = self.entries
        if rest:
            raise StorageError(f"{self.path}: {size} bytes are not whole entries of {self._entry.size}")
        self._reset_last()
        self._check_last()

    def make_room(self, bytes_max: int) -> None:
        """Grow the file again for appends; what is in it stays."""
        self.close()
        self._open()
        try:
            self._allocate(bytes_max)
        finally:
            self.close()

    def trim(self) -> None:
        """Cut the file to its entries and give descriptor and map back."""
        self._unmap()
        self._open()
        try:
            self.write_held()
            self._files.truncate(self._descriptor, self.entries * self._entry.size)
        finally:
            self.close()
        self.entries_max = self.entries

    def flush(self) -> None:
        """Wait until the entries are on the disk."""
        self._open()
        self._files.fsync(self._descriptor)

    def close(self) -> None:
        """Give descriptor and map back; the next use opens them again."""
        self._unmap()
        if self._descriptor != _CLOSED:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            self._files.close(descriptor)

    @property
    def is_full(self) -> bool:
        """Whether the next entry has no place, which rolls the segment."""
        return self.entries >= self.entries_max

    @property
    def size_bytes(self) -> int:
        """The bytes of the entries."""
        return self.entries * self._entry.size

    def hold_entries(self) -> None:
        """Keep what is appended in memory until :meth:`write_held` or :meth:`trim` writes it at once; nothing reads
        meanwhile."""
        self._held = bytearray()

    def write_held(self) -> None:
        """Write what was appended since :meth:`hold_entries`, if that was called, and hold nothing any more.

        Raises:
            OSError: the disk refused; the index is without these entries.
        """
        held, self._held = self._held, None
        if not held:
            return
        if self._descriptor == _CLOSED:
            self._open()
        before = self.entries - len(held) // self._entry.size
        try:
            write_all(self._files, self._descriptor, held, before * self._entry.size)
        except OSError:
            self.entries = before
            raise

    def _append(self, packed: bytes) -> None:
        if self._held is not None:
            self._held += packed
            self.entries += 1
            return
        if self._descriptor == _CLOSED:
            self._open()
        write_all(self._files, self._descriptor, packed, self.entries * self._entry.size)
        self.entries += 1

    def _keep(self, entries: int) -> None:
        """Forget the entries behind the first ``entries``; zeros replace them, as in a fresh file."""
        if entries < self.entries:
            length = max(self.entries_max, self.entries) * self._entry.size
            self._unmap()
            self._open()
            self._files.truncate(self._descriptor, entries * self._entry.size)
            self._files.truncate(self._descriptor, length)
            self.entries = entries
        self._reset_last()

    def _view(self) -> mmap.mmap:
        """The mapped file; only for an index with entries."""
        view = self._map
        if view is None:
            self._open()
            view = self._map = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)
        return view

    def _slot_at_or_below(self, target: int, column: Struct) -> int:
        """The last slot whose first field, read by ``column``, is not above ``target``; -1 without one."""
        view, width, low, high = self._view(), self._entry.size, 0, self.entries
        read = column.unpack_from
        while low < high:
            middle = (low + high) >> 1
            if read(view, middle * width)[0] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _reset_last(self) -> None:
        """Cache the last entry; for subclasses."""
        raise NotImplementedError

    def _check_last(self) -> None:
        """Refuse an impossible last entry; for subclasses."""
        raise NotImplementedError

    def _allocate(self, bytes_max: int) -> None:
        self.entries_max = max(bytes_max // self._entry.size, self.entries)
        self._files.truncate(self._descriptor, self.entries_max * self._entry.size)

    def _open(self) -> None:
        if self._descriptor == _CLOSED:
            self._descriptor = self._files.open(self.path, os.O_RDWR)

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
