"""The sparse time index of a segment (``.timeindex``): from a timestamp to an offset.

One entry, big-endian: timestamp (i64) | offset minus base offset (i32). It says: the largest timestamp up to and with
this offset is this one; the offset is the last one of the batch that holds it. The last slot of the preallocated file
is kept for the entry that a segment gets when it becomes inactive.
"""

from pathlib import Path
from struct import Struct
from typing import Final

from pkafka.errors import StorageError
from pkafka.model import NO_TIMESTAMP
from pkafka.storage.files import Files
from pkafka.storage.index_file import IndexFile

_ENTRY: Final = Struct(">qi")
_TIMESTAMP: Final = Struct(">q")


class TimeIndex(IndexFile):
    """Entries of (largest timestamp so far, offset), both increasing."""

    __slots__ = ("last_offset", "last_timestamp")

    def __init__(self, path: Path, base_offset: int, files: Files) -> None:
        super().__init__(path, base_offset, _ENTRY, files)
        self.last_timestamp = NO_TIMESTAMP
        self.last_offset = base_offset

    @property
    def is_full(self) -> bool:
        return self.entries >= self.entries_max - 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry when ``timestamp`` is above the last one; otherwise it would say nothing new."""
        if timestamp <= self.last_timestamp or self.entries >= max(self.entries_max, 1):
            return
        self._append(_ENTRY.pack(timestamp, offset - self.base_offset))
        self.last_timestamp = timestamp
        self.last_offset = offset

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """(timestamp, offset) of the last entry not above ``timestamp``; (-1, base offset) without one."""
        if not self.entries:
            return NO_TIMESTAMP, self.base_offset
        slot = self._slot_at_or_below(timestamp, _TIMESTAMP)
        return self._entry_at(slot) if slot >= 0 else (NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or behind ``offset``."""
        keep = self.entries
        while keep and self._entry_at(keep - 1)[1] >= offset:
            keep -= 1
        if keep < self.entries:
            self._keep(keep)

    def _entry_at(self, slot: int) -> tuple[int, int]:
        timestamp, relative = _ENTRY.unpack_from(self._view(), slot * 12)
        return timestamp, self.base_offset + relative

    def _reset_last(self) -> None:
        self.last_timestamp, self.last_offset = (
            self._entry_at(self.entries - 1) if self.entries else (NO_TIMESTAMP, self.base_offset)
        )

    def _check_last(self) -> None:
        if not self.entries:
            return
        not_above_first = self.entries > 1 and self.last_timestamp <= self._entry_at(0)[0]
        if not_above_first or self.last_offset < self.base_offset:
            raise StorageError(f"{self.path}: the last entry is {self.last_timestamp} at {self.last_offset}")
