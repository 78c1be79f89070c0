"""The simulated disks: real files, of which a power cut takes what nobody has waited for."""

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from pkafka.storage.files import OsFiles
from tests.sim.world import World

_LOG_SUFFIX: Final = ".log"


class Disk(OsFiles):
    """The file port of one machine; remembers how much of each ``.log`` file is on the disk for sure.

    Args:
        world: the world.
        root: the log directory.
    """

    def __init__(self, world: World, root: Path) -> None:
        self._world = world
        self.root = root
        self.fsync_s = 0.0
        """What an fsync takes on top."""
        self._durable: dict[int, int] = {}
        """Bytes that an fsync has covered, by inode."""
        self.pwrite = self._pwrite  # type: ignore[assignment]
        self.fsync = self._fsync  # type: ignore[assignment]
        self.truncate = self._truncate
        self.fails = False

    def _pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, position: int) -> int:
        self._check()
        return os.pwrite(descriptor, data, position)

    def _fsync(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        fiber = self._world.fiber
        if fiber is not None:
            fiber.sleep(0.001 + self.fsync_s * self._world.random.random())
        self._check()
        # What was written while the disk was busy may not be covered; what was there before is.
        size = min(found.st_size, os.fstat(descriptor).st_size)
        self._durable[found.st_ino] = max(self._durable.get(found.st_ino, 0), size)

    def _truncate(self, descriptor: int, length: int) -> None:
        self._check()
        os.ftruncate(descriptor, length)
        inode = os.fstat(descriptor).st_ino
        self._durable[inode] = min(self._durable.get(inode, 0), length)

    def _check(self) -> None:
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def fsync_directory(self, path: Path) -> None:
        self._check()

    def lose_power(self) -> list[str]:
        """Keep of each log a part of what was not waited for, torn anywhere. Returns what was lost."""
        lost = []
        for path in sorted(self.root.glob("*/*" + _LOG_SUFFIX)):
            with contextlib.suppress(FileNotFoundError):
                found = path.stat()
                durable = min(self._durable.get(found.st_ino, 0), found.st_size)
                if durable < found.st_size:
                    kept = self._world.random.randint(durable, found.st_size)
                    size = found.st_size
                    os.truncate(path, kept)
                    if self._world.random.random() < 0.3:
                        # The file system had noted the size, but not written what belongs there.
                        os.truncate(path, size)
                    lost.append(f"{path.parent.name}: {size - kept} of {size} bytes")
        return lost
