"""The start of a worker: it opens the logs that it finds in the log directories, and recovers those that need it."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from pkafka.errors import StorageError
from pkafka.model import TopicPartition
from pkafka.server.replicas.cleaner_line import CleanerLine
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.future_replica import is_further, is_same
from pkafka.storage.config import LogConfig
from pkafka.storage.log import Log
from pkafka.storage.log_directory import DirectoryKind, LogDirectory
from pkafka.storage.recovery import LogEnvironment

log = logging.getLogger(__name__)


class OpenedLogs(NamedTuple):
    """Holds the logs that a start finds on the disk."""

    current: dict[TopicPartition, Log]
    future: dict[TopicPartition, Log]
    """The future replicas, whose moves to another log directory have not ended."""


class Logs(Protocol):
    """What a start needs of the logs (:class:`pkafka.server.replicas.logs.WorkerLogs`)."""

    def config_of(self, topic: str) -> LogConfig:
        """The effective configuration of a topic's logs."""
        ...

    def delete(self, partition_log: Log) -> None:
        """Rename a log's directory away, and have its files unlinked later."""
        ...

    def set_aside_stray(self, partition_log: Log) -> None:
        """Close a log, and rename its directory so that it is not opened again."""
        ...


def must_recover(directories: Mapping[Path, LogDirectory], clean: Mapping[Path, bool]) -> bool:
    """Whether a directory holds logs and was not closed cleanly; a new one holds none."""
    for path, directory in directories.items():
        with contextlib.suppress(StorageError):  # a directory that cannot be listed fails when it is opened
            if not clean.get(path, False) and directory.count_partitions():
                return True
    return False


class Opening:
    """Opens the logs of one worker.

    Args:
        disks: the log directories.
        environment: what all logs of the process share.
        logs: knows the configuration of logs, and removes those that must not stay.
        cleaner: unlinks what earlier deletions left.
        clean: tells which log directories were closed cleanly.
        owns: whether this worker owns a partition.
        beat: tells the supervisor that the start makes progress.
    """

    def __init__(
        self,
        disks: Disks,
        environment: LogEnvironment,
        logs: Logs,
        cleaner: CleanerLine,
        *,
        clean: Mapping[Path, bool],
        owns: Callable[[TopicPartition], bool],
        beat: Callable[[], None],
    ) -> None:
        self._disks = disks
        self._environment = environment
        self._logs = logs
        self._cleaner = cleaner
        self._clean = clean
        self._owns = owns
        self._beat = beat

    async def open_all(self) -> OpenedLogs:
        """Open every log on disk that this worker owns, and recover those that need it.

        A directory that fails goes offline with its logs. When there is no other, the worker gives up.
        """
        found = OpenedLogs({}, {})
        changed_ns = self._changed_ns()
        for path, directory in self._disks.directories.items():
            try:
                for opened in directory.open_logs(
                    self._owns,
                    lambda key: self._logs.config_of(key.topic),
                    self._environment,
                    had_clean_shutdown=self._clean.get(path, False),
                ):
                    logs = found.future if opened.is_future else found.current
                    other = logs.get(opened.topic_partition)
                    logs[opened.topic_partition] = (
                        opened if other is None else self._kept(other, opened, changed_ns)
                    )
                    # Recovery may take minutes in all: each log is a sign of life, and the supervisor can be heard.
                    self._beat()
                    await asyncio.sleep(0)
                self._delete_leftovers(directory)
            except (StorageError, OSError) as error:
                log.error("%s", error)
                self._disks.directory_failed(path)
        return OpenedLogs(
            *({key: one for key, one in logs.items() if not self._is_offline(one)} for logs in found)
        )

    def _is_offline(self, one: Log) -> bool:
        return one.directory.parent in self._disks.offline

    def _changed_ns(self) -> dict[Path, int]:
        """The times of the last rename of, or in, the directories of partitions that have two of them.

        They are read before any log is opened.
        """
        homes: dict[str, list[Path]] = {}
        for path in self._disks.directories:
            with contextlib.suppress(OSError):  # opening the log meets the same error
                for name in os.listdir(path):
                    homes.setdefault(name, []).append(path)
        found = [home / name for name, several in homes.items() if len(several) > 1 for home in several]
        return {path: path.stat().st_ctime_ns for path in found if path.is_dir()}

    def _kept(self, one: Log, other: Log, changed_ns: Mapping[Path, int]) -> Log:
        """Choose one of two logs of a partition, with which Apache Kafka would not start.

        A broker that dies while a replica changes places leaves two logs that are the same; the one that was renamed
        last stays. Of two that differ the one that is further stays, and the other is set aside with all its records.
        """
        if self._is_offline(one):
            return other
        same = is_same(one, other)
        if same:
            kept = max(one, other, key=lambda each: changed_ns.get(each.directory, 0))
        else:
            kept = one if is_further(one, other) else other
        gone = one if kept is other else other
        try:
            if same:
                log.warning("%s is the same as %s, and is deleted", gone.directory, kept.directory)
                self._logs.delete(gone)
            else:
                log.error(
                    "There are two logs of %s: %s is used, for it was written longer; %s is set aside as stray",
                    one.topic_partition,
                    kept.directory,
                    gone.directory,
                )
                self._logs.set_aside_stray(gone)
        except (StorageError, OSError) as error:
            log.error("%s", error)
            self._disks.directory_failed(gone.directory.parent)
        return kept

    def _delete_leftovers(self, directory: LogDirectory) -> None:
        """Finish the deletions that the last run left."""
        for found in directory.partitions():
            if found.kind is DirectoryKind.DELETED and self._owns(found.topic_partition):
                self._cleaner.unlink([found.path], 0)
