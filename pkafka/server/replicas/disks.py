"""The log directories of a broker, as one of its workers sees them: which have failed, and what follows from that."""

import errno
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.server.replicas.logs import WorkerLogs
from pkafka.server.replicas.partitions import Partitions

log = logging.getLogger(__name__)
"""The name under which operators set the level of what a worker logs."""

LOG_ERRORS: Final = (ApiError, StorageError, OSError)
"""All that a read or write of a log may raise; :meth:`Disks.refused` tells what it means."""


class Disks:
    """Takes log directories offline when their disks refuse to read or write.

    Args:
        log_dirs: the log directories of this broker, those included that could not be opened.
        partitions: the replicas of this worker.
        logs: their logs.
        tell: tells the other processes of this broker that a directory failed.
        give_up: ends this worker, for a reason; called when every directory has failed.
    """

    def __init__(
        self,
        log_dirs: Sequence[Path],
        partitions: Partitions,
        logs: WorkerLogs,
        *,
        tell: Callable[[Path], None],
        give_up: Callable[[str], None],
    ) -> None:
        self.log_dirs = log_dirs
        self._partitions = partitions
        self._logs = logs
        self._tell = tell
        self._give_up = give_up

    def is_offline(self, path: str) -> bool:
        """Whether a log directory failed."""
        return self._logs.is_offline(path)

    def refused(self, topic: str, partition: int, error: ApiError | StorageError | OSError) -> ErrorCode:
        """Take the directory of a log offline when that is why the log could not be read or written.

        Returns:
            The error for the client.
        """
        if isinstance(error, ApiError):
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                self.log_failed(
                    topic, partition
                )  # an earlier error, which is in the broker's log, has fenced it
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
            self._logs.directory_failed(found.log.directory.parent)

    def directory_failed(self, path: Path) -> None:
        """Tell the other processes that a log directory failed; with the last one the broker ends."""
        self._tell(path)
        if all(self.is_offline(str(one)) for one in self.log_dirs):
            self._give_up("Every log directory has failed; the broker stops")
