"""Flushes of one worker's logs: a few threads wait for the disk, and never two of them for one log."""

import asyncio
import logging
from concurrent.futures import Executor

from pkafka.errors import StorageError
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.partition import Partition
from pkafka.storage.log import Log, PendingFlush
from pkafka.storage.recovery import LogEnvironment

log = logging.getLogger(__name__)


class _Flush:
    """Tracks flushes of a log that run in a thread, one after the other: how far they go, and the end of the present
    one."""

    __slots__ = ("done", "up_to")

    def __init__(self, up_to: int) -> None:
        self.up_to = up_to
        self.done = asyncio.Event()


class Flushing:
    """Flushes logs; a log whose disk refuses is fenced, and its directory goes offline.

    Args:
        tasks: runs the flushes that others wait for.
        threads: wait for the disk.
        disks: takes directories offline.
        environment: knows the files.
    """

    def __init__(self, tasks: Tasks, threads: Executor, disks: Disks, environment: LogEnvironment) -> None:
        self._tasks = tasks
        self._threads = threads
        self._disks = disks
        self._environment = environment
        self._loop = asyncio.get_running_loop()
        self._flushing: dict[Log, _Flush] = {}
        """The logs that a thread is flushing."""

    async def flush_up_to(self, one: Log, up_to: int) -> None:
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
            self._tasks.spawn(self._flush_in_turns(one, busy))
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
        await self.flush_up_to(one, one.log_end_offset)

    async def flush_replica(self, partition: Partition, *, up_to: int) -> None:
        """Flush the log of a partition, and when another one took its place meanwhile, that one."""
        flushed = None
        while partition.log is not flushed:
            flushed = partition.log
            await self.flush_up_to(flushed, up_to)

    async def _flush_once(self, one: Log, up_to: int) -> bool:
        directory = one.directory
        try:
            pending: PendingFlush = one.prepare_flush(up_to)
            await self._loop.run_in_executor(self._threads, pending.run)
        except (StorageError, OSError) as error:
            if one.is_closed:
                # Deleted meanwhile; its directory has another name now.
                return False
            if one.directory != directory:
                return await self._flush_once(one, up_to)  # another log took its place in between
            log.error("%s", one.fence(error) if isinstance(error, OSError) else error)
            self._disks.directory_failed(one.directory.parent)
            return False
        one.finish_flush(pending)
        return not one.is_closed

    async def sync_directory(self, one: Log) -> None:
        """Wait until the names in a log's directory are on the disk."""
        directory = one.directory
        sync = self._environment.files.fsync_directory
        try:
            await self._loop.run_in_executor(self._threads, sync, directory)
        except OSError as error:
            if not one.is_closed:
                log.error("%s", one.fence(error))
                self._disks.directory_failed(directory.parent)

    async def close(self, one: Log) -> None:
        """Flush a log and close it. A thread waits for the disk, which may take long after many writes.

        Raises:
            StorageError: the disk refused.
        """
        if one.recovery_point < one.log_end_offset:
            try:
                pending = one.prepare_flush(one.log_end_offset)
                await self._loop.run_in_executor(self._threads, pending.run)
            except OSError as error:
                if one.is_closed:
                    return  # deleted meanwhile
                raise one.fence(error) from error
            one.finish_flush(pending)
        one.close()
