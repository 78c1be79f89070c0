"""The cleaner process: file work for which no request waits.

It writes the checkpoint files of the log directories, which all workers share, unlinks files that their owners have
renamed away, and compacts logs (compaction/log_cleaner.py). When it dies nothing is lost: the workers tell its
successor what is left to do.
"""

import asyncio
import logging
import shutil
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pkafka.clock import Clock, SystemClock
from pkafka.errors import StorageError
from pkafka.model import TopicPartition
from pkafka.server.compaction.log_cleaner import CleanerSettings, LogCleaner
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc import words
from pkafka.server.ipc.child import CONTROL, Birth, ChildMain, Life, main_of
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.ipc.words import Checkpoints, CleaningRound, Settings, Unlink
from pkafka.storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
)
from pkafka.storage.files import OsFiles
from pkafka.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)

WRITERS: Final = {
    RECOVERY_POINT_FILE: LogDirectory.write_recovery_points,
    LOG_START_OFFSET_FILE: LogDirectory.write_log_start_offsets,
    HIGH_WATERMARK_FILE: LogDirectory.write_high_watermarks,
    CLEANER_FILE: LogDirectory.write_cleaner_offsets,
}


@dataclass(frozen=True, slots=True)
class CleanerSetup:
    """Holds what the supervisor gives the cleaner before the fork."""

    config: BrokerConfig
    directories: Sequence[LogDirectory]
    workers: int


class Cleaner:
    """The state of the cleaner process."""

    def __init__(self, setup: CleanerSetup, birth: Birth) -> None:
        self._setup = setup
        self._loop = asyncio.get_running_loop()
        self._offsets: dict[str, dict[str, dict[str, dict[TopicPartition, int]]]] = {}
        """Directory -> checkpoint file -> worker -> offsets: a file is written from what all workers said last."""
        self._peers: dict[str, Peer] = {}
        self._pending: set[str] = set()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="unlink")
        self._clock: Clock = SystemClock()
        self._log_cleaner = LogCleaner(
            self._workers, CleanerSettings.of(setup.config), clock=self._clock, files=OsFiles()
        )
        self._operations: dict[str, Handler] = {
            words.CHECKPOINT: self._checkpoint,
            words.UNLINK: self._unlink_later,
            words.ABORT_CLEANING: lambda peer, row, _blob, _fds: self._log_cleaner.abort(
                peer, CleaningRound(*row)
            ),
            words.BROKER_CONFIG: self._broker_config,
            words.METRICS: lambda _peer, _payload, _blob, _fds: self._log_cleaner.metrics(),
        }
        self._life = Life(birth, meet=self._meet, stop=lambda: self._life.end(ChildExit.CLEAN))

    async def run(self) -> int:
        """Work until told to stop."""
        self._life.booted()
        beat = asyncio.create_task(self._life.beat_for_ever())
        self._log_cleaner.start()
        try:
            code = await self._life.ended
            await self._log_cleaner.stop()
            return code
        finally:
            beat.cancel()

    def _workers(self) -> list[Peer]:
        return [peer for name, peer in self._peers.items() if name != CONTROL and not peer.gone]

    def _broker_config(self, _peer: Peer, payload: Settings, _blob: memoryview, _fds: list[int]) -> None:
        """Take over dynamic broker settings: all that differ from the file, by key."""
        self._log_cleaner.configure(CleanerSettings.of(self._setup.config.replace(payload)))

    def _meet(self, name: str, sock: socket.socket) -> None:
        self._peers[name] = Peer(name, sock, self._operations)

    def _checkpoint(self, peer: Peer, payload: Checkpoints, _blob: memoryview, _fds: list[int]) -> None:
        """Write checkpoint files, of what one worker says and all others have said."""
        for directory in self._setup.directories:
            said = payload.get(str(directory.path))
            if not said:
                continue
            files = self._offsets.setdefault(str(directory.path), {})
            for name, rows in said.items():
                workers = files.setdefault(name, {})
                workers[peer.name] = {TopicPartition(topic, index): offset for topic, index, offset in rows}
                if len(workers) == self._setup.workers:
                    # Written before all workers have sent theirs, the file would lose the offsets of the others.
                    self._write(directory, name, workers)

    def _write(
        self, directory: LogDirectory, name: str, workers: dict[str, dict[TopicPartition, int]]
    ) -> None:
        merged: dict[TopicPartition, int] = {}
        for offsets in workers.values():
            merged.update(offsets)
        try:
            WRITERS[name](directory, merged)
        except (StorageError, OSError) as error:
            log.error("Cannot write %s in %s: %s", name, directory.path, error)
            # As in Kafka, the directory fails: a disk that refuses this would refuse records, too.
            for worker in workers:
                self._peers[worker].note(words.LOG_DIR_FAILED, str(directory.path))

    def _unlink_later(self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """Unlink files and directory trees after a delay."""
        said = Unlink(*payload)
        paths = [path for path in said.paths if path not in self._pending]
        self._pending.update(paths)
        self._loop.call_later(said.delay_ms / 1000, self._begin_unlinking, paths)

    def _begin_unlinking(self, paths: Sequence[str]) -> None:
        """In a thread: a directory of terabytes takes longer than a process may be silent."""
        # From here on a path may be given again: a file of the same name that comes now may have come too late for
        # this time.
        self._pending.difference_update(paths)
        self._loop.run_in_executor(self._thread, _unlink, paths)


def _unlink(paths: Sequence[str]) -> None:
    for text in paths:
        path = Path(text)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            log.error("Cannot delete %s: %s", path, error)


def main(setup: CleanerSetup) -> ChildMain:
    """What the supervisor runs in the forked child."""
    return main_of(lambda birth: Cleaner(setup, birth))
