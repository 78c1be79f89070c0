"""The logs of one worker: creating and deleting them, their settings, and the periodic work that they need.

The worker's event loop does the work in small steps. What waits for the disk (fsync of rolled segments) goes to a small
thread pool; unlinking and the shared checkpoint files go to the cleaner process.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pkafka.clock import Clock
from pkafka.errors import ApiError, ConfigError, ErrorCode, StorageError
from pkafka.model import TopicId, TopicPartition
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Peer
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.ipc.turns import Turns
from pkafka.server.replicas.checkpoints import Checkpoints
from pkafka.server.replicas.cleaner_line import CleanerLine
from pkafka.server.replicas.compaction_rounds import Compaction
from pkafka.server.replicas.delayed import Timer
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.flushing import Flushing
from pkafka.server.replicas.moving import Moving
from pkafka.server.replicas.opening import OpenedLogs, Opening, must_recover
from pkafka.server.replicas.partition import Partition
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.replicas.progress import Progress
from pkafka.storage.config import LogConfig
from pkafka.storage.log import DeletedFiles, Log, LogHooks
from pkafka.storage.log_directory import LogDirectory, directory_with_fewest_partitions
from pkafka.storage.partition_metadata import write_topic_id
from pkafka.storage.recovery import LogEnvironment, create_log

log = logging.getLogger(__name__)

_PLAUSIBLE_PRODUCER_IDS: Final = 2**62


class WorkerLogs:
    """Opens, creates, flushes and deletes the logs of one worker.

    Args:
        config: gives the broker's configuration of the moment.
        clock: tells the age of records and flushes.
        tasks: runs the periodic work.
        timer: runs what comes after a delay.
        flushers: threads that wait for the disk.
        partitions: the replicas of this worker.
        moving: those that move to another log directory.
        disks: the log directories.
        progress: hears of records that are on the disk.
        take_back: takes descriptors back that other workers have of files, by the generations of these.
        beat: tells the supervisor that the start makes progress.
        closing: tells the supervisor that the stop makes progress.
    """

    def __init__(
        self,
        *,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        tasks: Tasks,
        timer: Timer,
        flushers: Executor,
        partitions: Partitions,
        moving: Moving,
        disks: Disks,
        progress: Progress,
        take_back: Callable[[Iterable[int]], None],
        beat: Callable[[], None],
        closing: Callable[[], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._tasks = tasks
        self._partitions = partitions
        self._moving = moving
        self._disks = disks
        self._progress = progress
        self._take_back = take_back
        self._beat = beat
        self._closing = closing
        self._overrides: dict[str, dict[str, str]] = {}
        self._defaults = config().log_config()
        self._environment = LogEnvironment(
            clock=clock,
            # A segment is scanned in seconds; a log whose recovery point is lost may have thousands of them.
            hooks=LogHooks(on_deleted=self._on_deleted, on_rolled=self._on_rolled, on_recovered=beat),
            producer_expiration_ms=config().producer_id_expiration_ms,
        )
        self.flushing = Flushing(tasks, flushers, disks, self._environment)
        self.cleaner = CleanerLine(timer)
        self.checkpoints = Checkpoints(self.cleaner, disks, self._all)
        self.compaction = Compaction(
            partitions,
            moving,
            disks,
            clock,
            self.cleaner,
            cleaned=self.checkpoints.write_cleaned,
            sync=lambda one: tasks.spawn(self.flushing.sync_directory(one)),
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
        self._defaults = self._config().log_config()
        self._configure({partition.topic for partition in self._partitions})
        self._environment.producer_expiration_ms = self._config().producer_id_expiration_ms
        for one in self._all():
            one.producer_expiration_ms = self._environment.producer_expiration_ms

    def _configure(self, topics: Collection[str]) -> None:
        configs: dict[str, LogConfig] = {}
        for partition in self._partitions:
            topic = partition.topic
            if topic in topics:
                if topic not in configs:
                    configs[topic] = self.config_of(topic)
                partition.update_config(configs[topic])
                future = self._moving.future_of(partition.key)
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
        yield from self._partitions.logs()
        yield from self._moving.logs()

    # -- opening and creating --

    def must_recover(self, clean: Mapping[Path, bool]) -> bool:
        """Whether a directory holds logs and was not closed cleanly; a new one holds none."""
        return must_recover(self._disks.directories, clean)

    async def open_all(self, clean: Mapping[Path, bool]) -> OpenedLogs:
        """Open every log on disk that this worker owns (:meth:`.Opening.open_all`)."""
        opening = Opening(
            self._disks,
            self._environment,
            self,
            self.cleaner,
            clean=clean,
            owns=lambda key: self._partitions.owner(key.topic, key.partition) == self._partitions.index,
            beat=self._beat,
        )
        return await opening.open_all()

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
        online = self._disks.online()
        if not online or (self._disks.offline and not is_new):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        wished = self._moving.wishes.get(key)
        if wished is not None:
            online = [directory for directory in online if directory.path == wished]
            if not online:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        directory = online[0] if len(online) == 1 else directory_with_fewest_partitions(online)
        created = self._create(directory, directory.path_of(key), key, topic_id)
        self._moving.wishes.pop(key, None)
        return created

    def create_future(self, current: Log, target: Path) -> Log:
        """Create the log that is to take the place of another one, in another log directory.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR; the directory refuses, or some directory is offline: it might hold such a log
                already.
        """
        if self._disks.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        directory, key = self._disks.directories[target], current.topic_partition
        return self._create(directory, directory.new_future_path_of(key), key, current.topic_id)

    def _create(
        self, directory: LogDirectory, path: Path, key: TopicPartition, topic_id: TopicId | None
    ) -> Log:
        try:
            return create_log(path, key, self.config_of(key.topic), self._environment, topic_id=topic_id)
        except (StorageError, OSError) as error:
            log.error("%s", error)
            self._disks.directory_failed(directory.path)
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
        self._take_back([segment.generation for segment in partition_log.segments])
        path = partition_log.rename_for_deletion()
        self.cleaner.unlink([path], delay_ms)
        if partition_log.cleaner_checkpoint is not None:
            # A new topic of that name must not get the cleaner's checkpoint of this one.
            asyncio.get_running_loop().call_soon(self.checkpoints.write_cleaned)

    def _on_deleted(self, deleted: DeletedFiles, delay_ms: int) -> None:
        self._take_back([deleted.segment.generation])
        deleted.segment.release_files()
        self.cleaner.unlink(deleted.paths, delay_ms)

    def _on_rolled(self, rolled: Log) -> None:
        self._tasks.spawn(self.flushing.flush_up_to(rolled, rolled.segments[-1].base_offset))

    async def flush_appended(self, appended: Sequence[tuple[Partition, int]]) -> list[Partition]:
        """Flush what a request appended, then let it be read.

        Args:
            appended: the partitions, and where their logs ended after it.

        Returns:
            Those whose disk refused.
        """
        await asyncio.gather(
            *(self.flushing.flush_replica(partition, up_to=end) for partition, end in appended)
        )
        failed = []
        for partition, end in appended:
            if partition.log.recovery_point < end:
                failed.append(partition)
            else:
                self._progress.appended(partition)
        return failed

    # -- the cleaner process --

    def cleaner_came(self, peer: Peer) -> None:
        """Tell a new cleaner process which files are still to be unlinked, and how far the logs are compacted."""
        self.cleaner.came(peer)
        self.checkpoints.write_cleaned()

    def cleaner_gone(self) -> None:
        """The cleaner died; a successor will introduce itself."""
        self.cleaner.lost()
        self.compaction.cleaner_gone()

    # -- periodic work --

    def start(self) -> None:
        """Begin the periodic work."""
        config = self._config()
        self.checkpoints.are_logs_open = True
        self.checkpoints.write_cleaned()
        # As in Kafka the first turn comes late, so that it does not slow down the start (log.initial.task.delay.ms).
        for interval_ms, work in (
            (config.log_flush_offset_checkpoint_interval_ms, self.checkpoints.write_recovery_points),
            (config.log_flush_start_offset_checkpoint_interval_ms, self.checkpoints.write_log_starts),
            (config.log_retention_check_interval_ms, self._delete_old),
            (config.log_flush_scheduler_interval_ms, self._flush_by_time),
        ):
            self._tasks.spawn(self._every(interval_ms, work, first_ms=config.log_initial_task_delay_ms))
        for interval_ms, work in (
            (config.replica_high_watermark_checkpoint_interval_ms, self.checkpoints.write_high_watermarks),
            (config.producer_id_expiration_check_interval_ms, self._expire_producers),
        ):
            self._tasks.spawn(self._every(interval_ms, work, first_ms=interval_ms))

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
                self._disks.directory_failed(one.directory.parent)
            await turns.step()

    async def _delete_old(self) -> None:
        now_ms = self._clock.now_ms()
        # Logs that no controller has named yet are left out: the settings of their topics may be unknown here, and the
        # broker's own might delete records that a topic keeps for ever.
        named: list[Log] = []
        for partition in self._partitions:
            if not partition.log.config.compacts:
                future = self._moving.future_of(partition.key)
                named += [partition.log] if future is None else [partition.log, future]
        await self._each(lambda one: one.delete_old_segments(now_ms), named)

    async def _expire_producers(self) -> None:
        now_ms = self._clock.now_ms()
        await self._each(lambda one: one.expire_producers(now_ms))

    async def _flush_by_time(self) -> None:
        now_ms = self._clock.now_ms()
        for one in list(self._all()):
            if now_ms - one.last_flush_ms >= one.config.flush_ms and one.recovery_point < one.log_end_offset:
                await self.flushing.flush(one)

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
                    await self.flushing.close(one)
            except StorageError as error:
                failed = error
            # A slow disk needs long for thousands of logs, and the worker must not be killed for that.
            self._closing()
            await turns.step()
        if cleaner is not None and not cleaner.gone:
            await cleaner.call(words.CHECKPOINT, self.checkpoints.at_the_end())
        if failed is not None:
            raise failed
