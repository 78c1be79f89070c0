"""One data directory of a broker: its lock, identity, clean-shutdown mark, checkpoints and partitions.

Not the logs themselves. Several processes of a broker share a directory: the process that starts first takes the lock,
checks the identity and takes the clean-shutdown mark; each worker opens the logs that it owns; one process alone
writes the checkpoint files, from what the workers tell it. So each of these is a function of its own.
"""

import fcntl
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from pkafka.errors import StorageError
from pkafka.model import Offset, TopicPartition, topic_name_problem
from pkafka.storage import checkpoints
from pkafka.storage.broker_metadata import BrokerMetadata, read_broker_metadata, write_broker_metadata
from pkafka.storage.config import LogConfig
from pkafka.storage.files import Files, OsFiles, disk_failure, read_file, replace_file
from pkafka.storage.log import Log
from pkafka.storage.log_files import FUTURE_DIRECTORY_SUFFIX
from pkafka.storage.recovery import LogEnvironment, open_log

_LOGGER = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
ORPHANS_MAX_S: Final = 10.0
"""How long the children of a killed broker may take to end."""
_CLEAN_SHUTDOWN_VERSION: Final = 0
_NO_BROKER_EPOCH: Final = -1
_PARTITION_MAX: Final = 2**31 - 1

_PARTITION_NAME = re.compile(
    r"(?P<topic>.+)-(?P<partition>[0-9]+)(?:\.(?P<id>[^.]+)-(?P<kind>delete|future|stray))?"
)


class DirectoryKind(Enum):
    """What the suffix of a partition's directory says."""

    LIVE = ""
    DELETED = "delete"
    FUTURE = "future"
    STRAY = "stray"


class PartitionDirectory(NamedTuple):
    """A directory that holds, or held, a log."""

    path: Path
    topic_partition: TopicPartition
    kind: DirectoryKind


class CleanShutdown(NamedTuple):
    """The clean-shutdown mark; the broker epoch is -1 when the mark has none."""

    broker_epoch: int


class LogDirectory:
    """One of ``log.dirs``.

    Args:
        path: the directory; made when it is not there.
        files: the file port.

    Raises:
        StorageError: the directory cannot be made, read or written.
    """

    def __init__(self, path: Path, *, files: Files | None = None) -> None:
        self.path = path.absolute()
        self._files: Files = files or OsFiles()
        self._lock = -1
        self._family_lock = -1
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_failure(self.path, "create", error) from error
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise StorageError(f"{self.path} cannot be read and written by this user")

    # -- lock ----------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Take the directory for this process, as Kafka does (a POSIX lock on ``.lock``); not inherited by a fork.

        A second lock, on the directory itself, is inherited and lasts until the last child of this process has ended.
        So a broker that starts after a crash waits until no process writes to the logs any more.

        Raises:
            StorageError: another process has it.
        """
        path = self.path / LOCK_FILE
        try:
            descriptor = self._files.open(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise disk_failure(path, "open", error) from error
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._files.close(descriptor)
            raise StorageError(
                f"another process (a broker of pkafka or of Apache Kafka) is using the data directory {self.path}"
            ) from None
        self._lock = descriptor
        self._wait_for_orphans()

    def _wait_for_orphans(self) -> None:
        self._family_lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        deadline = time.monotonic() + ORPHANS_MAX_S
        while True:
            try:
                fcntl.flock(self._family_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    self.unlock()
                    raise StorageError(
                        f"processes of a broker that was killed are still using the data directory {self.path}"
                    ) from None
                time.sleep(0.01)
            except OSError:
                return  # some network file systems cannot lock directories

    def unlock(self) -> None:
        """Give the directory back."""
        if self._lock != -1:
            descriptor, self._lock = self._lock, -1
            self._files.close(descriptor)
        if self._family_lock != -1:
            descriptor, self._family_lock = self._family_lock, -1
            os.close(descriptor)

    # -- identity ------------------------------------------------------------------------------------------------

    def broker_metadata(self) -> BrokerMetadata | None:
        """What ``meta.properties`` says; None when the directory is new.

        Raises:
            StorageError: the file is damaged or of an unknown version.
        """
        return read_broker_metadata(self._files, self.path)

    def write_broker_metadata(self, metadata: BrokerMetadata) -> None:
        """Replace ``meta.properties``."""
        write_broker_metadata(self._files, self.path, metadata)

    # -- clean shutdown ------------------------------------------------------------------------------------------

    def take_clean_shutdown_mark(self) -> CleanShutdown | None:
        """Read and at once delete the mark: a crash from now on must not find it. None after an unclean stop."""
        path = self.path / CLEAN_SHUTDOWN_FILE
        try:
            data = read_file(self._files, path)
            if data is None:
                return None
            self._files.unlink(path)
            self._files.fsync_directory(self.path)
        except OSError as error:
            raise disk_failure(path, "take", error) from error
        try:
            content = json.loads(data) if data.strip() else {}
            return CleanShutdown(int(content.get("brokerEpoch", _NO_BROKER_EPOCH)))
        except (ValueError, AttributeError, TypeError):
            # Older brokers left an empty file, and what it says is not needed: that it is there is the message.
            return CleanShutdown(_NO_BROKER_EPOCH)

    def write_clean_shutdown_mark(self, broker_epoch: int = _NO_BROKER_EPOCH) -> None:
        """All logs are closed and all checkpoints written: the next start may trust them."""
        path = self.path / CLEAN_SHUTDOWN_FILE
        content = {"version": _CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
        try:
            replace_file(self._files, path, json.dumps(content, separators=(",", ":")).encode())
        except OSError as error:
            raise disk_failure(path, "write", error) from error

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def recovery_points(self) -> dict[TopicPartition, Offset]:
        """Below these offsets the logs are on the disk."""
        return self._read(checkpoints.RECOVERY_POINT_FILE)

    def log_start_offsets(self) -> dict[TopicPartition, Offset]:
        """Log start offsets that lie above the first segment's base offset."""
        return self._read(checkpoints.LOG_START_OFFSET_FILE)

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """The high watermarks of the last checkpoint."""
        return self._read(checkpoints.HIGH_WATERMARK_FILE)

    def cleaner_offsets(self) -> dict[TopicPartition, Offset]:
        """Up to where compaction has come."""
        return self._read(checkpoints.CLEANER_FILE)

    def write_recovery_points(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the checkpoint."""
        self._write(checkpoints.RECOVERY_POINT_FILE, offsets)

    def write_log_start_offsets(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the checkpoint; give only those of :func:`log_start_offset_to_keep`."""
        self._write(checkpoints.LOG_START_OFFSET_FILE, offsets)

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the checkpoint."""
        self._write(checkpoints.HIGH_WATERMARK_FILE, offsets)

    def write_cleaner_offsets(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the checkpoint."""
        self._write(checkpoints.CLEANER_FILE, offsets)

    def _read(self, name: str) -> dict[TopicPartition, Offset]:
        """A damaged checkpoint costs time (everything is scanned), not the start."""
        try:
            return checkpoints.read_offsets(self._files, self.path / name)
        except StorageError as error:
            _LOGGER.warning("%s; starting without it", error)
            return {}

    def _write(self, name: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        checkpoints.write_offsets(self._files, self.path / name, offsets)

    # -- partitions ----------------------------------------------------------------------------------------------

    def partitions(self) -> list[PartitionDirectory]:
        """The partition directories, of every kind; other folders are left alone, with a warning."""
        found = []
        try:
            entries = sorted(os.scandir(self.path), key=lambda entry: entry.name)
        except OSError as error:
            raise disk_failure(self.path, "list", error) from error
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                parsed = parse_directory_name(entry.name)
                if parsed is None:
                    _LOGGER.warning("%s is no partition's directory; ignored", entry.path)
                else:
                    found.append(PartitionDirectory(Path(entry.path), *parsed))
        return found

    def count_partitions(self) -> int:
        """How many partitions there are, those that are on their way here too, by their names alone: asked for each new
        one, it must not take long.

        Raises:
            StorageError: the directory cannot be listed.
        """
        try:
            names = os.listdir(self.path)
        except OSError as error:
            raise disk_failure(self.path, "list", error) from error
        return sum(
            name.rpartition("-")[2].isdecimal() or name.endswith(FUTURE_DIRECTORY_SUFFIX) for name in names
        )

    def path_of(self, topic_partition: TopicPartition) -> Path:
        """Where the log of a partition lies."""
        return self.path / str(topic_partition)

    def new_future_path_of(self, topic_partition: TopicPartition) -> Path:
        """Where a replica of a partition that is on its way to this directory lies until it is complete (KIP-113)."""
        return self.path / f"{topic_partition}.{uuid4().hex}{FUTURE_DIRECTORY_SUFFIX}"

    def open_logs(
        self,
        owns: Callable[[TopicPartition], bool],
        config_of: Callable[[TopicPartition], LogConfig],
        environment: LogEnvironment,
        *,
        had_clean_shutdown: bool,
    ) -> Iterator[Log]:
        """Open, and after an unclean stop recover, the logs that this process owns, one by one: the live ones and those
        that are on their way here from another directory (``Log.is_future``).

        The high watermark of each is the checkpointed one, within the log.

        Raises:
            StorageError: this directory fails; the logs that came before are open.
        """
        recovery_points = self.recovery_points()
        start_offsets = self.log_start_offsets()
        high_watermarks = self.high_watermarks()
        cleaner_offsets = self.cleaner_offsets()
        for found in self.partitions():
            topic_partition = found.topic_partition
            if found.kind not in (DirectoryKind.LIVE, DirectoryKind.FUTURE) or not owns(topic_partition):
                continue
            log = open_log(
                found.path,
                topic_partition,
                config_of(topic_partition),
                environment,
                log_start_offset=start_offsets.get(topic_partition, 0),
                recovery_point=recovery_points.get(topic_partition, 0),
                had_clean_shutdown=had_clean_shutdown,
            )
            log.set_high_watermark(high_watermarks.get(topic_partition, log.log_start_offset))
            if found.kind is DirectoryKind.LIVE:
                log.cleaner_checkpoint = cleaner_offsets.get(topic_partition)
            yield log

    def remove_directory(self, path: Path) -> None:
        """Remove a partition's directory that was renamed for deletion, with its files.

        Raises:
            StorageError: it is not in this directory, not marked for deletion, or the disk refused.
        """
        parsed = parse_directory_name(path.name)
        if path.parent != self.path or parsed is None or parsed[1] is not DirectoryKind.DELETED:
            raise StorageError(f"{path} is not a partition marked for deletion in {self.path}")
        try:
            for entry in list(os.scandir(path)):
                self._files.unlink(Path(entry.path))
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            raise disk_failure(path, "remove", error) from error

    def free_bytes(self) -> int:
        """What the file system has left for this user."""
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize


def parse_directory_name(name: str) -> tuple[TopicPartition, DirectoryKind] | None:
    """The partition and kind that a directory's name stands for; None when it is none of a log.

    The topic of a directory marked for deletion may have been cut to fit the name.
    """
    match = _PARTITION_NAME.fullmatch(name)
    if match is None:
        return None
    topic, partition = match["topic"], int(match["partition"])
    if topic_name_problem(topic) is not None or partition > _PARTITION_MAX:
        return None
    return TopicPartition(topic, partition), DirectoryKind(match["kind"] or "")


def directory_with_fewest_partitions(directories: Iterable[LogDirectory]) -> LogDirectory:
    """Where a new partition goes: the directory with the fewest, the first of several.

    Raises:
        ValueError: there is no directory.
    """
    return min(directories, key=lambda directory: directory.count_partitions())


def log_start_offset_to_keep(log: Log) -> Offset | None:
    """What the log-start-offset checkpoint must say of a log; None when its first segment says it already."""
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None
