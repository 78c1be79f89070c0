"""The logs of one worker: opening, creating, deleting them, and the periodic work that they need.

The worker's event loop does the work in small steps. What waits for the disk (fsync of rolled segments) goes to a small
thread pool; unlinking and the shared checkpoint files go to the cleaner process.
"""

import asyncio
import contextlib
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from pkafka.errors import ApiError, ConfigError, ErrorCode, StorageError
from pkafka.model import TopicId, TopicPartition
from pkafka.server.ipc.peer import Payload, Peer
from pkafka.server.ipc.turns import Turns
from pkafka.server.replicas.compaction_rounds import Compaction
from pkafka.server.replicas.future_replica import is_further, is_same
from pkafka.storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
)
from pkafka.storage.config import LogConfig
from pkafka.storage.log import DeletedFiles, Log, LogHooks, PendingFlush
from pkafka.storage.log_directory import (
    DirectoryKind,
    LogDirectory,
    directory_with_fewest_partitions,
    log_start_offset_to_keep,
)
from pkafka.storage.partition_metadata import write_topic_id
from pkafka.storage.recovery import LogEnvironment, create_log

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker
    from pkafka.server.replicas.partition import Partition

log = logging.getLogger(__name__)

_PLAUSIBLE_PRODUCER_IDS: Final = 2**62


class _Flush:
    """Tracks flushes of a log that run in a thread, one after the other: how far they go, and the end of the present
    one."""

    __slots__ = ("done", "up_to")

    def __init__(self, up_to: int) -> None:
        self.up_to = up_to
        self.done = asyncio.Event()


class OpenedLogs(NamedTuple):
    """Holds the logs that a start finds on the disk."""

    current: dict[TopicPartition, Log]
    future: dict[TopicPartition, Log]
    """The future replicas, whose moves to another log directory have not ended."""


class WorkerLogs:
    """Opens, creates, flushes and deletes the logs of one worker.

    Args:
        worker: the owner of the logs.
        directories: the log directories of the broker, shared with the other workers.
        unusable: those that could not be taken at start.
    """

    def __init__(
        self, worker: "Worker", directories: Sequence[LogDirectory], unusable: Iterable[Path] = ()
    ) -> None:
        self._worker = worker
        self._directories = {directory.path: directory for directory in directories}
        self._offline: set[Path] = set(unusable)
        self._overrides: dict[str, dict[str, str]] = {}
        self._defaults = worker.config.log_config()
        self._cleaner: Peer | None = None
        self._flushing: dict[Log, _Flush] = {}
        """The logs that a thread is flushing."""
        self._to_unlink: dict[int, tuple[list[str], int]] = {}
        self._pending_number = 0
        self._is_open = False
        self.compaction = Compaction(worker, self._checkpoint_cleaned)
        self._environment = LogEnvironment(
            clock=worker.clock,
            # A segment is scanned in seconds; a log whose recovery point is lost may have thousands of them.
            hooks=LogHooks(on_deleted=self._on_deleted, on_rolled=self._on_rolled, on_recovered=worker.beat),
            producer_expiration_ms=worker.config.producer_id_expiration_ms,
        )

    # -- configuration --

    def config_of(self, topic: str) -> LogConfig:
        """The effective configuration of a topic's logs."""
        overrides = self._overrides.get(topic)
        if not overrides:
            return self._defaults
        try:
            return LogConfig.from_topic_configs(overrides, self._defaults)
        except ConfigError as error:
            # A tool wrote it to the store past every check; the topic keeps the settings that are valid.
            log.error("Ignoring the configuration of topic %s: %s", topic, error)
            return self._defaults

    def set_topic_configs(self, changed: Mapping[str, Mapping[str, str]]) -> None:
        """Take over the own settings of these topics."""
        for topic, overrides in changed.items():
            if overrides:
                self._overrides[topic] = dict(overrides)
            else:
                self._overrides.pop(topic, None)
        self._configure(changed.keys())

    def set_every_topic_config(self, overrides: Mapping[str, Mapping[str, str]]) -> None:
        """Take over the settings of all topics that have any; other topics have none."""
        touched = {*self._overrides, *overrides}
        self._overrides = {topic: dict(settings) for topic, settings in overrides.items()}
        self._configure(touched)

    def defaults_changed(self) -> None:
        """The broker's settings changed: every topic that does not override them follows."""
        self._defaults = self._worker.config.log_config()
        self._configure({partition.topic for partition in self._worker.partitions})
        self._environment.producer_expiration_ms = self._worker.config.producer_id_expiration_ms
        for one in self._all():
            one.producer_expiration_ms = self._environment.producer_expiration_ms

    def _configure(self, topics: Collection[str]) -> None:
        configs: dict[str, LogConfig] = {}
        for partition in self._worker.partitions:
            topic = partition.topic
            if topic in topics:
                if topic not in configs:
                    configs[topic] = self.config_of(topic)
                partition.update_config(configs[topic])
                future = self._worker.moves.future_of(partition.key)
                if future is not None:
                    future.update_config(configs[topic])
                if not configs[topic].compacts:
                    self.compaction.leave(partition.log)

    def producer_id_max(self) -> int:
        """The highest id of the producers that the logs know; -1 without any."""
        # A client can claim any id; a very high one must not use up all ids below it.
        known = (
            producer_id
            for one in self._all()
            for producer_id in one.producers.entries
            if producer_id < _PLAUSIBLE_PRODUCER_IDS
        )
        return max(known, default=-1)

    def _all(self) -> Iterator[Log]:
        """Every open log, future replicas included."""
        yield from self._worker.partitions.logs()
        yield from self._worker.moves.logs()

    # -- opening --

    def must_recover(self, clean: Mapping[Path, bool]) -> bool:
        """Whether a directory holds logs and was not closed cleanly; a new one holds none."""
        for path, directory in self._directories.items():
            with contextlib.suppress(
                StorageError
            ):  # a directory that cannot be listed fails when it is opened
                if not clean.get(path, False) and directory.count_partitions():
                    return True
        return False

    async def open_all(self, clean: Mapping[Path, bool]) -> OpenedLogs:
        """Open every log on disk that this worker owns, and recover those that need it.

        A directory that fails goes offline with its logs. When there is no other, the worker gives up.
        """
        found = OpenedLogs({}, {})
        changed_ns = self._changed_ns()
        for path, directory in self._directories.items():
            try:
                for opened in directory.open_logs(
                    self._owns,
                    lambda key: self.config_of(key.topic),
                    self._environment,
                    had_clean_shutdown=clean.get(path, False),
                ):
                    logs = found.future if opened.is_future else found.current
                    other = logs.get(opened.topic_partition)
                    logs[opened.topic_partition] = (
                        opened if other is None else self._kept(other, opened, changed_ns)
                    )
                    # Recovery may take minutes in all: each log is a sign of life, and the supervisor can be heard.
                    self._worker.beat()
                    await asyncio.sleep(0)
                self._delete_leftovers(directory)
            except (StorageError, OSError) as error:
                log.error("%s", error)
                self.directory_failed(path)
        return OpenedLogs(
            *({key: one for key, one in logs.items() if not self._is_offline(one)} for logs in found)
        )

    def _is_offline(self, one: Log) -> bool:
        return one.directory.parent in self._offline

    def _changed_ns(self) -> dict[Path, int]:
        """The times of the last rename of, or in, the directories of partitions that have two of them.

        They are read before any log is opened.
        """
        homes: dict[str, list[Path]] = {}
        for path in self._directories:
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
                self.delete(gone)
            else:
                log.error(
                    "There are two logs of %s: %s is used, for it was written longer; %s is set aside as stray",
                    one.topic_partition,
                    kept.directory,
                    gone.directory,
                )
                self.set_aside_stray(gone)
        except (StorageError, OSError) as error:
            log.error("%s", error)
            self.directory_failed(gone.directory.parent)
        return kept

    def _delete_leftovers(self, directory: LogDirectory) -> None:
        """Finish the deletions that the last run left."""
        for found in directory.partitions():
            if found.kind is DirectoryKind.DELETED and self._owns(found.topic_partition):
                self._unlink([found.path], 0)

    def _owns(self, key: TopicPartition) -> bool:
        return self._worker.partitions.owner(key.topic, key.partition) == self._worker.index

    def create(self, key: TopicPartition, topic_id: TopicId, *, is_new: bool) -> Log:
        """Create the log of a partition, in the directory that holds the fewest, or where it is wanted.

        Args:
            key: the partition.
            topic_id: of its topic.
            is_new: the partition has just been created. The log of an older partition may lie in a directory that is
                offline; an empty log in its place would make its records look lost.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR, there is no directory for it.
        """
        online = [directory for path, directory in self._directories.items() if path not in self._offline]
        if not online or (self._offline and not is_new):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        wished = self._worker.moves.wish(key)
        if wished is not None:
            online = [directory for directory in online if directory.path == wished]
            if not online:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        directory = online[0] if len(online) == 1 else directory_with_fewest_partitions(online)
        created = self._create(directory, directory.path_of(key), key, topic_id)
        self._worker.moves.fulfilled(key)
        return created

    def create_future(self, current: Log, target: Path) -> Log:
        """Create the log that is to take the place of another one, in another log directory.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR; the directory refuses, or some directory is offline: it might hold such a log
                already.
        """
        if self._offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        directory, key = self._directories[target], current.topic_partition
        return self._create(directory, directory.new_future_path_of(key), key, current.topic_id)

    def _create(
        self, directory: LogDirectory, path: Path, key: TopicPartition, topic_id: TopicId | None
    ) -> Log:
        try:
            return create_log(path, key, self.config_of(key.topic), self._environment, topic_id=topic_id)
        except (StorageError, OSError) as error:
            log.error("%s", error)
            self.directory_failed(directory.path)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error

    def give_topic_id(self, partition_log: Log, topic_id: TopicId) -> None:
        """Store the topic id of a log that an older broker left without one.

        Raises:
            StorageError: the disk refused.
        """
        write_topic_id(self._environment.files, partition_log.directory, topic_id)
        partition_log.topic_id = topic_id

    def set_aside_stray(self, partition_log: Log) -> None:
        """Close a log that belongs to no topic of this cluster, and rename its directory so that it is not opened
        again.

        Raises:
            StorageError: the disk refused.
        """
        partition_log.close()
        directory = partition_log.directory
        name = f"{partition_log.topic_partition}.{uuid4().hex}-stray"
        self._environment.files.rename(directory, directory.with_name(name))

    # -- deleting --

    def delete(self, partition_log: Log) -> None:
        """Rename a log's directory away; its files go after file.delete.delay.ms.

        Raises:
            StorageError: the disk refused.
        """
        delay_ms = partition_log.config.file_delete_delay_ms
        self.compaction.leave(partition_log)
        self._worker.files.take_back([segment.generation for segment in partition_log.segments])
        path = partition_log.rename_for_deletion()
        self._unlink([path], delay_ms)
        if partition_log.cleaner_checkpoint is not None:
            # A new topic of that name must not get the cleaner's checkpoint of this one.
            self._worker.loop.call_soon(self._checkpoint_cleaned)

    def directory_renamed(self, was: Path, path: Path) -> None:
        """Note that a log has another directory name now, and so have its files that are still to be unlinked."""
        for texts, delay_ms in list(self._to_unlink.values()):
            moved = [path / Path(text).name for text in texts if Path(text).parent == was]
            if moved:
                self._unlink(moved, delay_ms)

    def _on_deleted(self, deleted: DeletedFiles, delay_ms: int) -> None:
        self._worker.files.take_back([deleted.segment.generation])
        deleted.segment.release_files()
        self._unlink(deleted.paths, delay_ms)

    def _unlink(self, paths: Sequence[Path], delay_ms: int) -> None:
        self._pending_number += 1
        number = self._pending_number
        texts = [str(path) for path in paths]
        self._to_unlink[number] = (texts, delay_ms)
        # Kept for longer than the cleaner needs, in case it dies in between.
        self._worker.timer.after(delay_ms + 10_000, lambda: self._to_unlink.pop(number, None) and None)
        if self._cleaner is not None:
            self._cleaner.note("unlink", [texts, delay_ms])

    def cleaner_came(self, peer: Peer) -> None:
        """Tell a new cleaner process which files are still to be unlinked, and all offsets."""
        self._cleaner = peer
        for texts, delay_ms in self._to_unlink.values():
            peer.note("unlink", [texts, delay_ms])
        self._checkpoint_cleaned()

    def cleaner_gone(self) -> None:
        """The cleaner died; a successor will introduce itself."""
        self._cleaner = None
        self.compaction.cleaner_gone()

    def tell_cleaner(self, operation: str, payload: Payload) -> None:
        """Send a note to the cleaner process, when there is one."""
        if self._cleaner is not None:
            self._cleaner.note(operation, payload)

    # -- failing --

    def is_offline(self, path: str) -> bool:
        """Whether a log directory failed."""
        return Path(path) in self._offline

    def directory_failed(self, path: Path) -> None:
        """Take the replicas of a failed directory offline and tell the others; the other directories go on serving."""
        if path in self._offline:
            return
        self._offline.add(path)
        log.critical(
            "Log directory %s failed; its replicas are offline until the broker is started again", path
        )
        self._worker.partitions.set_aside(path)
        self._worker.moves.directory_failed(path)
        self._worker.disks.directory_failed(path)

    # -- periodic work --

    def start(self) -> None:
        """Begin the periodic work."""
        config = self._worker.config
        self._is_open = True
        self._checkpoint_cleaned()
        # As in Kafka the first turn comes late, so that it does not slow down the start (log.initial.task.delay.ms).
        for interval_ms, work in (
            (config.log_flush_offset_checkpoint_interval_ms, self._checkpoint_recovery_points),
            (config.log_flush_start_offset_checkpoint_interval_ms, self._checkpoint_log_starts),
            (config.log_retention_check_interval_ms, self._delete_old),
            (config.log_flush_scheduler_interval_ms, self._flush_by_time),
        ):
            self._worker.tasks.spawn(
                self._every(interval_ms, work, first_ms=config.log_initial_task_delay_ms)
            )
        for interval_ms, work in (
            (config.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks),
            (config.producer_id_expiration_check_interval_ms, self._expire_producers),
        ):
            self._worker.tasks.spawn(self._every(interval_ms, work, first_ms=interval_ms))

    async def _every(
        self, interval_ms: int, work: Callable[[], Coroutine[Any, Any, None]], *, first_ms: int
    ) -> None:
        """Do some work every ``interval_ms``, or once when that is 0 or less, as Kafka's scheduler does.

        As in Kafka a bug in one turn costs only that turn. Otherwise retention, or checkpoints, would end without a
        sign.
        """
        await asyncio.sleep(first_ms / 1000)
        while True:
            try:
                await work()
            except AssertionError:
                raise
            except Exception:
                log.exception("A turn of the logs' periodic work failed")
            if interval_ms <= 0:
                return
            await asyncio.sleep(interval_ms / 1000)

    async def _each(self, work: Callable[[Log], object], logs: Iterable[Log] | None = None) -> None:
        """Do something to every log, or to these, letting clients in between."""
        turns = Turns()
        for one in list(self._all() if logs is None else logs):
            if one.is_closed:
                continue
            try:
                work(one)
            except StorageError as error:
                log.error("%s", error)
                self.directory_failed(one.directory.parent)
            await turns.step()

    async def _delete_old(self) -> None:
        now_ms = self._worker.clock.now_ms()
        # Logs that no controller has named yet are left out: the settings of their topics may be unknown here, and the
        # broker's own might delete records that a topic keeps for ever.
        named: list[Log] = []
        for partition in self._worker.partitions:
            if not partition.log.config.compacts:
                future = self._worker.moves.future_of(partition.key)
                named += [partition.log] if future is None else [partition.log, future]
        await self._each(lambda one: one.delete_old_segments(now_ms), named)

    async def _expire_producers(self) -> None:
        now_ms = self._worker.clock.now_ms()
        await self._each(lambda one: one.expire_producers(now_ms))

    async def _flush_by_time(self) -> None:
        now_ms = self._worker.clock.now_ms()
        for one in list(self._all()):
            if now_ms - one.last_flush_ms >= one.config.flush_ms and one.recovery_point < one.log_end_offset:
                await self._flush(one, up_to=one.log_end_offset)

    def _on_rolled(self, rolled: Log) -> None:
        self._worker.tasks.spawn(self._flush(rolled, up_to=rolled.segments[-1].base_offset))

    async def _flush(self, one: Log, *, up_to: int) -> None:
        """Flush a log in a thread, one flush at a time.

        Requests that come while the disk is busy share the next flush. Otherwise a slow disk would get the same files
        again with every segment.
        """
        busy = self._flushing.get(one)
        if busy is not None:
            busy.up_to = max(busy.up_to, up_to)
        elif one.recovery_point >= up_to:
            return
        else:
            busy = self._flushing[one] = _Flush(up_to)
            self._worker.tasks.spawn(self._flush_in_turns(one, busy))
        # This does not wait until nothing is left to flush, as others may append all the time.
        while self._flushing.get(one) is busy and one.recovery_point < up_to:
            await busy.done.wait()

    async def _flush_in_turns(self, one: Log, busy: _Flush) -> None:
        try:
            while await self._flush_once(one, target := busy.up_to):
                if busy.up_to == target:
                    return
                busy.done.set()
                busy.done = asyncio.Event()
        finally:
            del self._flushing[one]
            busy.done.set()

    async def flush(self, one: Log) -> None:
        """Wait until all that a log holds now is on the disk, or its directory is offline."""
        await self._flush(one, up_to=one.log_end_offset)

    async def flush_appended(self, appended: Sequence[tuple["Partition", int]]) -> list["Partition"]:
        """Flush what a request appended, then let it be read.

        Args:
            appended: the partitions, and where their logs ended after it.

        Returns:
            Those whose disk refused.
        """
        await asyncio.gather(*(self._flush_replica(partition, up_to=end) for partition, end in appended))
        failed = []
        for partition, end in appended:
            if partition.log.recovery_point < end:
                failed.append(partition)
            else:
                self._worker.progress.appended(partition)
        return failed

    async def _flush_replica(self, partition: "Partition", *, up_to: int) -> None:
        """Flush the log of a partition, and when another one took its place meanwhile, that one."""
        flushed = None
        while partition.log is not flushed:
            flushed = partition.log
            await self._flush(flushed, up_to=up_to)

    async def _flush_once(self, one: Log, up_to: int) -> bool:
        directory = one.directory
        try:
            pending: PendingFlush = one.prepare_flush(up_to)
            await self._worker.loop.run_in_executor(self._worker.flushers, pending.run)
        except (StorageError, OSError) as error:
            if one.is_closed:
                # Deleted meanwhile; its directory has another name now.
                return False
            if one.directory != directory:
                return await self._flush_once(one, up_to)  # another log took its place in between
            log.error("%s", one.fence(error) if isinstance(error, OSError) else error)
            self.directory_failed(one.directory.parent)
            return False
        one.finish_flush(pending)
        return not one.is_closed

    async def sync_directory(self, one: Log) -> None:
        """Wait until the names in a log's directory are on the disk."""
        directory = one.directory
        sync = self._environment.files.fsync_directory
        try:
            await self._worker.loop.run_in_executor(self._worker.flushers, sync, directory)
        except OSError as error:
            if not one.is_closed:
                log.error("%s", one.fence(error))
                self.directory_failed(directory.parent)

    # -- checkpoints --

    async def _checkpoint_recovery_points(self) -> None:
        self._checkpoint({RECOVERY_POINT_FILE: lambda one: one.recovery_point})

    async def _checkpoint_log_starts(self) -> None:
        self._checkpoint({LOG_START_OFFSET_FILE: log_start_offset_to_keep})

    async def _checkpoint_high_watermarks(self) -> None:
        self._checkpoint({HIGH_WATERMARK_FILE: lambda one: one.high_watermark})

    def checkpoint_all(self) -> None:
        """Write all checkpoints, as replicas have changed their directories."""
        self._checkpoint(
            {
                RECOVERY_POINT_FILE: lambda one: one.recovery_point,
                LOG_START_OFFSET_FILE: log_start_offset_to_keep,
                HIGH_WATERMARK_FILE: lambda one: one.high_watermark,
            }
        )
        self._checkpoint_cleaned()

    def _checkpoint_cleaned(self) -> None:
        # With a file that knows only half of the logs, the others would be cleaned from their start on.
        if self._is_open:
            self._checkpoint({CLEANER_FILE: lambda one: one.cleaner_checkpoint})

    def _checkpoint(self, kinds: Mapping[str, Callable[[Log], int | None]]) -> None:
        if self._cleaner is not None:
            self._cleaner.note("checkpoint", self._offsets(kinds))

    def _offsets(
        self, kinds: Mapping[str, Callable[[Log], int | None]]
    ) -> dict[str, dict[str, list[list[Any]]]]:
        rows: defaultdict[str, dict[str, list[list[Any]]]] = defaultdict(dict)
        for path in self._directories:
            if path not in self._offline:
                rows[str(path)] = {name: [] for name in kinds}
        for one in self._all():
            files = rows.get(str(one.directory.parent))
            if files is not None:
                topic, index = one.topic_partition
                for name, offset_of in kinds.items():
                    offset = offset_of(one)
                    if offset is not None:
                        files[name].append([topic, index, offset])
        return dict(rows)

    # -- the end --

    async def close(self, cleaner: Peer | None) -> None:
        """Flush and close every log, then have the checkpoints written.

        Raises:
            StorageError: a log could not be closed; the directory must not be marked clean.
        """
        failed: StorageError | None = None
        turns = Turns()
        self.compaction.close()
        for one in list(self._all()):
            try:
                if one.failure is None:
                    await self._flush_and_close(one)
            except StorageError as error:
                failed = error
            # A slow disk needs long for thousands of logs, and the worker must not be killed for that.
            self._worker.closing()
            await turns.step()
        offsets = self._offsets(
            {
                RECOVERY_POINT_FILE: lambda one: one.recovery_point,
                LOG_START_OFFSET_FILE: log_start_offset_to_keep,
                HIGH_WATERMARK_FILE: lambda one: one.high_watermark,
            }
        )
        if cleaner is not None and not cleaner.gone:
            await cleaner.call("checkpoint", offsets)
        if failed is not None:
            raise failed

    async def _flush_and_close(self, one: Log) -> None:
        """Have a thread wait for the disk, which may take long after many writes."""
        if one.recovery_point < one.log_end_offset:
            try:
                pending = one.prepare_flush(one.log_end_offset)
                await self._worker.loop.run_in_executor(self._worker.flushers, pending.run)
            except OSError as error:
                if one.is_closed:
                    return  # deleted meanwhile
                raise one.fence(error) from error
            one.finish_flush(pending)
        one.close()
