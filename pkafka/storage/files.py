"""The file port: every call with which storage changes or makes durable what is on the disk.

Not an abstraction of a file system: descriptors are the kernel's and reads of memory maps do not pass here. It exists
so that a test can make a write, an fsync or a rename fail, and so that each durable step is written once.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from pkafka.errors import StorageError

TEMPORARY_SUFFIX: Final = ".tmp"
FILE_MODE: Final = 0o644


class Files(Protocol):
    """What storage asks of the operating system; every failure is an OSError."""

    def open(self, path: Path, flags: int) -> int:
        """A descriptor of ``path``; ``flags`` as of os.open."""
        ...

    def close(self, descriptor: int) -> None:
        """Give a descriptor back."""
        ...

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, position: int) -> int:
        """Write at ``position`` and say how many bytes were taken, which may be fewer than given."""
        ...

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        """Read at ``position``; fewer bytes only at the end of the file."""
        ...

    def read_into(self, descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
        """Read at ``position`` into ``buffer`` and say how many bytes; 0 only at the end of the file."""
        ...

    def fsync(self, descriptor: int) -> None:
        """Wait until the file is on the disk."""
        ...

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file, or lengthen it by a hole."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source`` in one step."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove the file; one that is not there is no error."""
        ...

    def make_directory(self, path: Path) -> None:
        """Create a directory; one that is there is no error."""
        ...

    def fsync_directory(self, path: Path) -> None:
        """Wait until the names in the directory are on the disk."""
        ...


class OsFiles:
    """The real thing. The calls on the append path are the system's own functions, with nothing in between."""

    pwrite = staticmethod(os.pwrite)
    pread = staticmethod(os.pread)
    close = staticmethod(os.close)
    fsync = staticmethod(os.fsync)
    truncate = staticmethod(os.ftruncate)

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def read_into(self, descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
        return os.preadv(descriptor, [buffer], position)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def fsync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_all(files: Files, descriptor: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write all of ``data``, going on after short writes.

    Raises:
        OSError: the disk refused; an unknown part of the data may be there.
    """
    written = files.pwrite(descriptor, data, position)
    if written == len(data):
        return
    rest = memoryview(data)
    while written < len(rest):
        step = files.pwrite(descriptor, rest[written:], position + written)
        if step <= 0:
            raise OSError(f"a write of {len(rest) - written} bytes took none")
        written += step


def replace_file(files: Files, path: Path, data: bytes, *, durable: bool = True) -> None:
    """Put ``data`` in place of ``path`` so that a crash leaves the old or the new content, never a part.

    Args:
        files: the file port.
        path: the file; a neighbour with ``.tmp`` behind its name is used and left over only by a crash.
        data: the whole new content.
        durable: wait for the disk (file, then directory), as Kafka does for its checkpoints.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    descriptor = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(files, descriptor, data, 0)
        if durable:
            files.fsync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(temporary, path)
    if durable:
        files.fsync_directory(path.parent)


def read_file(files: Files, path: Path) -> bytes | None:
    """The whole content of a small file, or None when there is none."""
    try:
        descriptor = files.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        return files.pread(descriptor, size, 0) if size else b""
    finally:
        files.close(descriptor)


def unlink_all(files: Files, paths: Iterable[Path]) -> None:
    """Remove files; those that are gone already are no error."""
    for path in paths:
        files.unlink(path)


def disk_failure(path: Path, action: str, error: OSError) -> StorageError:
    """The StorageError that says which file could not be what, and why."""
    return StorageError(f"cannot {action} {path}: {error.strerror or error}")
