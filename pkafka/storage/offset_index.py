"""The sparse offset index of a segment (``.index``): from an offset to a place near it in the ``.log``.

One entry, big-endian: offset minus base offset (i32) | byte position in the .log (i32). The offset is the last one of
the batch that begins at the position. Not a place for every batch: one per ``index.interval.bytes``.
"""

from pathlib import Path
from struct import Struct
from typing import Final

from pkafka.errors import StorageError
from pkafka.storage.files import Files
from pkafka.storage.index_file import IndexFile

_ENTRY: Final = Struct(">ii")
_OFFSET: Final = Struct(">i")
_POSITION: Final = Struct(">4xi")


class OffsetIndex(IndexFile):
    """Entries of (last offset of a batch, its position), both increasing."""

    __slots__ = ("last_offset", "last_position")

    def __init__(self, path: Path, base_offset: int, files: Files) -> None:
        super().__init__(path, base_offset, _ENTRY, files)
        self.last_offset = base_offset
        self.last_position = 0

    def append(self, offset: int, position: int) -> None:
        """Add an entry; read back by ``_check_last`` when the file is next opened."""
        if self.entries and offset <= self.last_offset:
            raise AssertionError(f"{self.path}: offset {offset} is not above {self.last_offset}")
        self._append(_ENTRY.pack(offset - self.base_offset, position))
        self.last_offset = offset
        self.last_position = position

    def lookup(self, target: int) -> tuple[int, int]:
        """(offset, position) of the last entry not above ``target``; (base offset, 0) without one."""
        if not self.entries:
            return self.base_offset, 0
        if target >= self.last_offset:
            return self.last_offset, self.last_position
        slot = self._slot_at_or_below(target - self.base_offset, _OFFSET)
        return self._entry_at(slot) if slot >= 0 else (self.base_offset, 0)

    def position_at_or_below(self, position: int) -> int:
        """The last indexed position not above ``position``; 0 without one."""
        if not self.entries:
            return 0
        slot = self._slot_at_or_below(position, _POSITION)
        return self._entry_at(slot)[1] if slot >= 0 else 0

    def offset_from(self, position: int) -> int | None:
        """The first indexed offset whose position is not below ``position``; None without one."""
        if not self.entries or position > self.last_position:
            return None
        return self._entry_at(self._slot_at_or_below(position - 1, _POSITION) + 1)[0]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or behind ``offset``."""
        if self.entries:
            self._keep(self._slot_at_or_below(offset - 1 - self.base_offset, _OFFSET) + 1)

    def _entry_at(self, slot: int) -> tuple[int, int]:
        relative, position = _ENTRY.unpack_from(self._view(), slot * 8)
        return self.base_offset + relative, position

    def _reset_last(self) -> None:
        self.last_offset, self.last_position = (
            self._entry_at(self.entries - 1) if self.entries else (self.base_offset, 0)
        )

    def _check_last(self) -> None:
        # An entry at the base offset itself is legal only for a first batch of one record, which never gets one:
        # the first entry comes after index.interval.bytes. Kafka refuses it in the same way.
        if self.entries and (self.last_offset <= self.base_offset or self.last_position < 0):
            raise StorageError(f"{self.path}: the last entry has offset {self.last_offset}")
