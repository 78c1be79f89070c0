"""The files of a directory: which there are, what of them was read before, what becomes of those that are done."""

import os
import shutil
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

from pkafka.connect.data.types import Value

_PREFIX_BYTES: Final = 1024
_AFTER_TRIES: Final = 10_000


class Seen(NamedTuple):
    """A file as a scan has found it.

    Args:
        name: below the directory, with ``/``.
        modified_ns: since the epoch.
    """

    name: str
    size: int
    modified_ns: int


class Place(NamedTuple):
    """How far a file was read; what is stored as an offset.

    Args:
        position: in bytes.
        modified_ns: when the file had last changed then.
        prefix_crc: of the first bytes, at most 1024 and not beyond the position: whether it is still the same file.
    """

    position: int
    modified_ns: int
    prefix_crc: int

    @classmethod
    def read(cls, offset: Mapping[str, Value] | None) -> Self | None:
        """What is stored; None: nothing, or nothing of this connector's."""
        stored = offset or {}
        values = [stored.get(name) for name in cls._fields]
        numbers = [each for each in values if isinstance(each, int) and not isinstance(each, bool)]
        return cls(*numbers) if len(numbers) == len(values) else None

    def offset(self) -> dict[str, Value]:
        """The same as it is stored."""
        return self._asdict()

    def is_end_of(self, seen: Seen) -> bool:
        """Whether all of a file was read, and it has not changed since."""
        return (self.position, self.modified_ns) == (seen.size, seen.modified_ns)


class Prefix:
    """The first bytes of a file, by which it is known again."""

    def __init__(self, file: BinaryIO) -> None:
        file.seek(0)
        self._data = file.read(_PREFIX_BYTES)
        self._crc = zlib.crc32(self._data)

    def crc(self, position: int) -> int:
        """The checksum of them, as far as a position."""
        return self._crc if position >= len(self._data) else zlib.crc32(self._data[:position])


def begin_of(prefix: Prefix, seen: Seen, known: Place | None, *, leaves: bool) -> int:
    """Where to read on.

    Args:
        known: how far a file of this name was read.
        leaves: whether files leave the directory when they are done: then one that was read to its end and has another
            time is a new one, which may have the same beginning.
    """
    if known is None or known.position > seen.size or prefix.crc(known.position) != known.prefix_crc:
        return 0
    if leaves and known.position == seen.size and known.modified_ns != seen.modified_ns:
        return 0
    return known.position


class FileDirectory:
    """The files that one task reads.

    Args:
        path: of the directory.
        pattern: a glob, of names below it.
        order: by ``name`` or ``mtime``.
        share: number of the task, and how many there are: each file belongs to one of them, by its name.
        done: where files go that are done, which is not read.
    """

    def __init__(
        self, path: Path, pattern: str, order: str, share: tuple[int, int], done: Path | None = None
    ) -> None:
        self._path = path
        self._pattern = pattern
        self._order = order
        self._number, self._count = share
        self._done = done

    def scan(self, now_ns: int, age_ns: int) -> list[Seen]:
        """The files, in their order; without those that have changed in the last time."""
        found = (self.look(each) for each in self._path.glob(self._pattern))
        ready = [each for each in found if each is not None and each.modified_ns <= now_ns - age_ns]
        by_name = self._order == "name"
        return sorted(ready, key=lambda each: each.name if by_name else (each.modified_ns, each.name))

    def look(self, path: Path | str) -> Seen | None:
        """A file as it is now; None: it is gone, is none, or belongs to another task."""
        whole = self._path / path
        name = whole.relative_to(self._path).as_posix()
        if zlib.crc32(os.fsencode(name)) % self._count != self._number:
            return None
        if self._done is not None and whole.is_relative_to(self._done):
            return None
        try:
            status = whole.stat()
        except OSError:
            return None
        return Seen(name, status.st_size, status.st_mtime_ns) if whole.is_file() else None

    def open(self, name: str) -> BinaryIO:
        """A file.

        Raises:
            OSError: it cannot be read.
        """
        return (self._path / name).open("rb")

    def remove(self, name: str) -> None:
        """Delete a file, or move it where done ones go; another one of the same name there stays.

        Raises:
            OSError: that fails.
        """
        source = self._path / name
        if self._done is None:
            source.unlink(missing_ok=True)
            return
        target = self._done / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, _free(target))


def _free(path: Path) -> Path:
    names: Iterable[Path] = (path.with_name(f"{path.name}.{number}") for number in range(1, _AFTER_TRIES))
    return next(each for each in (path, *names) if not each.exists())
