"""The log directories of a broker, as one of its workers sees them: which have failed, and what follows from that."""

import errno
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.server.replicas.moving import Moving
from pkafka.server.replicas.partitions import Partitions
from pkafka.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)
"""The name under which operators set the level of what a worker logs."""

LOG_ERRORS: Final = (ApiError, StorageError, OSError)
"""All that a read or write of a log may raise; :meth:`Disks.refused` tells what it means."""


class Disks:
    """Knows the log directories, and takes them offline when their disks refuse to read or write.

    Args:
        directories: the log directories of this broker, which all its workers share.
        unusable: those that could not be taken at start.
        partitions: the replicas of this worker.
        moving: those that move to another directory.
        tell: tells the other processes of this broker that a directory failed.
        give_up: ends this worker, for a reason; called when every directory has failed.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        unusable: Sequence[Path],
        partitions: Partitions,
        moving: Moving,
        *,
        tell: Callable[[Path], None],
        give_up: Callable[[str], None],
    ) -> None:
        self.directories = {directory.path: directory for directory in directories}
        """Those that could be taken, by path; some may have failed since."""
        self.log_dirs = [*self.directories, *unusable]
        self.offline = set(unusable)
        """Those that are out of reach until the broker is started again."""
        self._partitions = partitions
        self._moving = moving
        self._tell = tell
        self._give_up = give_up

    def is_offline(self, path: str) -> bool:
        """Whether a log directory failed."""
        return Path(path) in self.offline

    def online(self) -> list[LogDirectory]:
        """The directories that can be used."""
        return [directory for path, directory in self.directories.items() if path not in self.offline]

    def refused(self, topic: str, partition: int, error: ApiError | StorageError | OSError) -> ErrorCode:
        """Take the directory of a log offline when that is why the log could not be read or written.

        Returns:
            The error for the client.
        """
        if isinstance(error, ApiError):
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                # An earlier error has fenced the log, and is in the broker's log.
                self.log_failed(topic, partition)
            return error.code
        log.error("%s-%d: %s", topic, partition, error)
        if not (isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)):
            # Too many open files pass; anything else is the disk.
            self.log_failed(topic, partition)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def log_failed(self, topic: str, partition: int) -> None:
        """Take the directory of a partition's log offline."""
        found = self._partitions.hosted.get((topic, partition))
        if found is not None:
            self.directory_failed(found.log.directory.parent)

    def directory_failed(self, path: Path) -> None:
        """Take the replicas of a failed directory offline and tell the others; the other directories go on serving.

        With the last directory the broker ends.
        """
        if path in self.offline:
            return
        self.offline.add(path)
        log.critical(
            "Log directory %s failed; its replicas are offline until the broker is started again", path
        )
        self._partitions.set_aside(path)
        self._moving.directory_failed(path)
        self._tell(path)
        if self.offline.issuperset(self.log_dirs):
            self._give_up("Every log directory has failed; the broker stops")
