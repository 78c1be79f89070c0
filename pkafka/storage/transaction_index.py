"""The aborted transactions of a segment (``.txnindex``), for consumers that read committed.

One entry, big-endian: version 0 (i16) | producer id (i64) | first offset (i64) | last offset: that of the abort marker
(i64) | last stable offset when the marker was written (i64). In the order of the markers. The file exists only when
there is something in it.
"""

import os
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from pkafka.errors import StorageError
from pkafka.storage.files import Files, read_file, write_all

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction and the offsets that it spans."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries in memory (there are few) and in the file.

    Args:
        path: the file, which need not exist.
        start_offset: the base offset of the segment.
        files: the file port.
    """

    __slots__ = ("_entries", "_files", "_start_offset", "path")

    def __init__(self, path: Path, start_offset: int, files: Files) -> None:
        self.path = path
        self._start_offset = start_offset
        self._files = files
        self._entries: list[AbortedTransaction] | None = None

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All entries; read from the file on first use.

        Raises:
            StorageError: the file is damaged; the segment has to be scanned again.
        """
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry, behind all others."""
        entries = self.entries
        if entries and entries[-1].last_offset >= aborted.last_offset:
            raise AssertionError(f"{self.path}: {aborted} is not behind {entries[-1]}")
        descriptor = self._files.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            write_all(self._files, descriptor, _ENTRY.pack(_VERSION, *aborted), len(entries) * _ENTRY.size)
        finally:
            self._files.close(descriptor)
        entries.append(aborted)

    def collect(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions that overlap [start, end), and whether later segments cannot hold more."""
        found: list[AbortedTransaction] = []
        for aborted in self.entries:
            if aborted.last_offset >= start and aborted.first_offset < end:
                found.append(aborted)
            if aborted.last_stable_offset >= end:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker lies at or behind ``offset``."""
        entries = self.entries
        keep = [entry for entry in entries if entry.last_offset < offset]
        if len(keep) == len(entries):
            return
        descriptor = self._files.open(self.path, os.O_RDWR)
        try:
            self._files.truncate(descriptor, len(keep) * _ENTRY.size)
        finally:
            self._files.close(descriptor)
        self._entries = keep

    def reset(self) -> None:
        """Drop everything, before the segment is scanned again; a damaged file goes too."""
        self._files.unlink(self.path)
        self._entries = []

    def flush(self) -> None:
        """Wait until the entries are on the disk."""
        if self._entries is None or not self._entries:
            return
        descriptor = self._files.open(self.path, os.O_RDWR)
        try:
            self._files.fsync(descriptor)
        finally:
            self._files.close(descriptor)

    def _load(self) -> list[AbortedTransaction]:
        data = read_file(self._files, self.path)
        if not data:
            return []
        if len(data) % _ENTRY.size:
            raise StorageError(f"{self.path}: {len(data)} bytes are not whole entries of {_ENTRY.size}")
        entries: list[AbortedTransaction] = []
        for version, *values in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*values)
            if version != _VERSION or entry.last_offset < self._start_offset or entry.first_offset < 0:
                raise StorageError(f"{self.path}: an entry says {entry} in version {version}")
            entries.append(entry)
        return entries
