"""Moves of one worker's replicas to other log directories of the broker (KIP-113).

The copy lies in ``<topic>-<partition>.<id>-future`` until it replaces the current replica, so a start finds unfinished
moves and goes on with them. The worker that owns the partition copies one partition at a time, in short turns that
leave time for other work. It copies the last piece and swaps the replicas in one turn, so no write comes in between.
:mod:`pkafka.server.replicas.future_replica` decides what comes next.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode, PkafkaError, StorageError
from pkafka.model import Offset
from pkafka.net.page_cache import PageCache
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.limits.rates import SharedRate
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.future_replica import (
    BeginAnew,
    Copy,
    Flush,
    Replace,
    Truncate,
    has_name_for_move,
    next_step,
)
from pkafka.server.replicas.logs import WorkerLogs
from pkafka.server.replicas.moving import Move, Moving
from pkafka.server.replicas.partition import Partition, PartitionKey
from pkafka.server.replicas.partitions import Partitions
from pkafka.storage.log import Log

log = logging.getLogger(__name__)

RATE_KEY: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
COPY_BYTES: Final = 256 * 1024
"""The bytes that one step reads, checks and writes: half a millisecond of work, or ten for the smallest batches."""
_THROTTLED_S: Final = 0.1
"""A throttled move checks after so long whether it may go on."""
_TOO_MANY_FILES: Final = (errno.EMFILE, errno.ENFILE)


def move_rate(*, samples: int = 11, window_ms: int = 1000) -> SharedRate:
    """Measures what all workers copy, for the quota. Made before they are forked.

    Args:
        samples: alter.log.dirs.replication.quota.window.num.
        window_ms: alter.log.dirs.replication.quota.window.size.seconds, in milliseconds.
    """
    return SharedRate("pkafka-directory-moves", samples=samples, window_ms=window_ms)


class DirectoryMoves:
    """Moves replicas of one worker to other log directories.

    Args:
        index: of this worker.
        config: gives the broker's configuration of the moment.
        clock: tells when pauses are over.
        tasks: runs the copying.
        threads: read old records from the disk.
        metadata: tells which partitions exist.
        partitions: the replicas of this worker.
        moving: those that move.
        logs: creates, flushes and deletes logs.
        disks: the log directories of this broker.
        rate: the bytes that all workers of this broker copy in a second.
    """

    def __init__(
        self,
        *,
        index: int,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        tasks: Tasks,
        threads: Executor,
        metadata: MetadataCache,
        partitions: Partitions,
        moving: Moving,
        logs: WorkerLogs,
        disks: Disks,
        rate: SharedRate,
    ) -> None:
        self._index = index
        self._config = config
        self._clock = clock
        self._tasks = tasks
        self._metadata = metadata
        self._partitions = partitions
        self._moving = moving
        self._logs = logs
        self._disks = disks
        self._rate = rate
        self._page_cache = PageCache(threads)
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._reads = 0
        """How many pieces were read of replicas that move."""

    def gauges(self) -> dict[str, Any]:
        """The gauges of Kafka's ReplicaAlterLogDirsManager. The worker counts as one fetcher while a replica moves.

        Returns:
            ``lags``: topic, partition and the committed records that the copy lacks. ``failed``: moves that failed and
            are tried again. ``dead``: dead fetchers. ``requests``: reads of each fetcher, by its number.
        """
        partitions = self._partitions.hosted
        return {
            "lags": [
                [*key, max(partitions[key].log.high_watermark - move.future.log_end_offset, 0)]
                for key, move in self._moving.moves.items()
                if key in partitions
            ],
            "failed": sum(move.is_failing for move in self._moving.moves.values()),
            "dead": int(self._task is not None and self._task.done()),
            "requests": {str(self._index): self._reads} if self._moving.moves else {},
        }

    # -- what administrators ask --

    def move_to(self, topic: str, index: int, path: str) -> None:
        """Begin to move a replica to another log directory (AlterReplicaLogDirs).

        A replica that is there already stays, and its move to another directory is given up. A replica that this broker
        does not have yet is made there when it comes, unless this process dies before that.

        Args:
            path: of the log directory, as the broker names it.

        Raises:
            ApiError: INVALID_TOPIC_EXCEPTION (its name leaves no room for the directory's), LOG_DIR_NOT_FOUND,
                KAFKA_STORAGE_ERROR (some directory is offline), UNKNOWN_TOPIC_OR_PARTITION, or REPLICA_NOT_AVAILABLE
                (it is not here yet).
        """
        key, target = (topic, index), Path(path)
        if not has_name_for_move(topic, index):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if path not in map(str, self._disks.log_dirs):
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND)
        if self._disks.is_offline(path) or key in self._partitions.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        partition = self._partitions.hosted.get(key)
        move = self._moving.moves.get(key)
        if partition is not None and move is not None and move.future.directory.parent != target:
            self._give_up(key, "it is wanted elsewhere")
            move = None
        if partition is None:
            self._moving.wishes[key] = target
            if self._metadata.partition(topic, index) is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
        if move is None and partition.log.directory.parent != target:
            self._begin(partition, target)

    def _begin(self, partition: Partition, target: Path) -> None:
        current = partition.log
        future = self._logs.create_future(current, target)
        log.info(
            "Moving the replica of %s-%d from %s to %s", *partition.key, current.directory.parent, target
        )
        self._moving.moves[partition.key] = Move(future)
        # Cleaning a log while it is copied would make work twice; Kafka's cleaner leaves it alone as well.
        self._logs.compaction.leave(current)
        self._some.set()

    def _give_up(self, key: PartitionKey, reason: str) -> None:
        future = self._moving.moves.pop(key).future
        log.info("Giving up the move of %s-%d to %s: %s", *key, future.directory.parent, reason)
        self._delete(future)

    def _delete(self, one: Log) -> None:
        try:
            self._logs.delete(one)
        except (StorageError, OSError) as error:
            log.error("%s", error)
            self._disks.directory_failed(one.directory.parent)

    # -- what happens to partitions --

    def update(self, key: PartitionKey) -> None:
        """Check a move after a request of the controller about its partition: it goes on, or ends."""
        move = self._moving.moves.get(key)
        if move is None:
            return
        partition = self._partitions.hosted.get(key)
        if partition is None:
            if key not in self._partitions.offline:
                self._give_up(key, "the replica was deleted")
        elif move.future.topic_id not in (partition.log.topic_id, None):
            self._give_up(key, "it is of another topic of that name")
        else:
            self._some.set()

    # -- copying --

    def start(self) -> None:
        """Begin to copy."""
        self._task = self._tasks.spawn_vital(self._run())

    def close(self) -> None:
        """Stop copying, as the logs are about to be closed."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            self._some.clear()
            found = self._next()
            if found is None:
                await self._wait()
            else:
                await self._advance(*found)
                await asyncio.sleep(0)  # after every step, as copying may go on for hours

    def _next(self) -> tuple[Partition, Move] | None:
        """The first move that can go on; so one move ends before the next one begins."""
        now_ms = self._clock.monotonic_ms()
        for key in sorted(self._moving.moves):
            move = self._moving.moves[key]
            partition = self._partitions.hosted.get(key)
            if partition is None or move.rests_until_ms > now_ms or partition.log.failure is not None:
                continue
            if move.future.topic_id in (partition.log.topic_id, None):
                return partition, move
        return None

    async def _wait(self) -> None:
        """Wait until a moving partition has news, or a move's pause is over."""
        now_ms = self._clock.monotonic_ms()
        rests_ms = [
            move.rests_until_ms - now_ms
            for move in self._moving.moves.values()
            if move.rests_until_ms > now_ms
        ]
        try:
            async with asyncio.timeout(max(min(rests_ms), 1) / 1000 if rests_ms else None):
                await self._some.wait()
        except TimeoutError:
            pass

    async def _advance(self, partition: Partition, move: Move) -> None:
        """Take one step of a move, and log its failure."""
        current, future = partition.log, move.future
        try:
            await self._step(partition, move)
            move.is_failing = False
        except ApiError as error:
            self._rest(partition, move, error.message or error.code.name)
        except (StorageError, OSError) as error:
            if isinstance(error, OSError) and error.errno in _TOO_MANY_FILES:
                self._rest(partition, move, str(error))
            elif not (future.is_closed or current.is_closed):
                log.error("%s", error)
                failed = current if future.failure is None else future
                self._disks.directory_failed(failed.directory.parent)
        except PkafkaError as error:
            self._rest(partition, move, str(error))

    async def _step(self, partition: Partition, move: Move) -> None:
        current, future = partition.log, move.future
        truncations, seen = current.truncations, move.truncations_seen
        match next_step(current, future, truncations_seen=seen, is_flushed=move.is_flushed):
            case BeginAnew(offset):
                future.truncate_fully_and_start_at(offset)
            case Truncate(offset):
                log.info(
                    "Truncating the copy of %s-%d to %d, where it and the log part", *partition.key, offset
                )
                future.truncate_to(offset)
            case Copy(offset):
                if await self._copy(partition, move, offset):
                    # In the same turn: later, records may be appended again.
                    await self._step(partition, move)
                    return
            case Flush():
                await self._logs.flushing.flush(future)
                move.is_flushed = True
            case Replace():
                self._replace(partition, move)
        move.truncations_seen = truncations

    def _rest(self, partition: Partition, move: Move, problem: str) -> None:
        move.is_failing = True
        if problem != move.told:
            move.told = problem
            log.warning("Cannot copy %s-%d: %s; trying again", *partition.key, problem)
        rest_ms = self._config().replica_fetch_backoff_ms
        move.rests_until_ms = self._clock.monotonic_ms() + rest_ms

    async def _copy(self, partition: Partition, move: Move, offset: Offset) -> bool:
        """Copy one piece, or wait for the quota or the disk.

        Returns:
            Whether that was the last piece and this did not wait; after a wait the next step is decided anew.
        """
        current, future = partition.log, move.future
        bytes_max = self._allowance()
        if bytes_max <= 0:
            await asyncio.sleep(_THROTTLED_S)
            return False
        end = current.log_end_offset
        self._reads += 1
        found = current.read(offset, bytes_max=bytes_max, min_one_batch=True, upper_bound=end)
        if not found.length:
            future.pass_over(end)
            return True
        segment, position, length = found.segment, found.position, found.length
        if offset != move.read_ahead:
            move.read_ahead = offset
            if self._page_cache.bytes_in_memory(segment.fileno(), position, length) < length:
                await self._read_ahead(segment.fileno(), position, length)
                return False
        future.append_as_follower(segment.read_bytes(position, length))
        if future.log_end_offset == offset:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"there is no whole batch at offset {offset}")
        self._follow(current, future)
        self._rate.record(self._clock.monotonic_ms(), length)
        return future.log_end_offset == end

    async def _read_ahead(self, descriptor: int, position: int, length: int) -> None:
        """Have a thread read old records from the disk, so that the next step does not wait for the disk."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._page_cache.read_ahead(
            descriptor, position, length, lambda _length: None if ready.done() else ready.set_result(None)
        )
        await ready

    def _allowance(self) -> int:
        """How many bytes may be copied now."""
        limit = self._config().originals.get(RATE_KEY)
        if limit is None:
            return COPY_BYTES
        measured = self._rate.per_second(self._clock.monotonic_ms())
        return max(min(COPY_BYTES, int(limit)), 1) if measured <= int(limit) else 0

    @staticmethod
    def _follow(current: Log, future: Log) -> None:
        """Give the copy the current replica's knowledge of the same records."""
        future.set_high_watermark(min(current.high_watermark, future.log_end_offset))
        if future.log_start_offset < current.log_start_offset <= future.high_watermark:
            future.raise_log_start_offset(current.log_start_offset)

    def _replace(self, partition: Partition, move: Move) -> None:
        """Put the copy into the replica's place, in Kafka's order: between the two renames both have the same name.

        A start that finds both goes on with the one that was renamed last.
        """
        current, future, logs = partition.log, move.future, self._logs
        self._follow(current, future)
        if future.leader_epochs.latest < current.leader_epochs.latest:
            # A replica that is new here and has no record yet.
            future.begin_epoch(current.leader_epochs.latest)
        was = future.directory
        future.become_current()
        del self._moving.moves[partition.key]
        future.cleaner_checkpoint = current.cleaner_checkpoint
        partition.log = future
        logs.cleaner.directory_renamed(was, future.directory)
        self._delete(current)
        logs.checkpoints.write_all()
        log.info(
            "The replica of %s-%d has moved from %s to %s",
            *partition.key,
            current.directory.parent,
            future.directory.parent,
        )
