"""The worker's side of compaction: which of its logs is due, and the swap of what the cleaner process made.

The cleaner asks, and the worker decides about its logs. When it is asked, it also deletes old segments of compacted
logs. In Kafka that is the cleaner's work, too, so without the cleaner they stay.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from pkafka.clock import Clock
from pkafka.errors import ApiError, StorageError
from pkafka.model import Millis
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import NO_BLOB, Handler, Reply
from pkafka.server.ipc.turns import Turns
from pkafka.server.ipc.words import CleaningRound, Due, Offer
from pkafka.server.replicas.cleaner_line import CleanerLine
from pkafka.server.replicas.disks import LOG_ERRORS, Disks
from pkafka.server.replicas.moving import Moving
from pkafka.server.replicas.partition import Partition, PartitionKey
from pkafka.server.replicas.partitions import Partitions
from pkafka.storage.compaction import CleanablePart
from pkafka.storage.log import Log
from pkafka.storage.log_cleaning import LogCleaning, cleanable_part_of

log = logging.getLogger(__name__)


class _Round(NamedTuple):
    """A cleaning that the cleaner has begun; its number tells it from another one of the same partition."""

    number: int
    cleaning: LogCleaning


class Compaction:
    """Answers the cleaner's questions about this worker's logs, and swaps what the cleaner has written.

    Args:
        partitions: the replicas of this worker.
        moving: those that move to another log directory.
        disks: takes directories offline.
        clock: tells the age of records.
        cleaner: the cleaner process.
        cleaned: called when the cleaner's checkpoint of some log moved.
        sync: has the names in a log's directory written to the disk.
    """

    def __init__(
        self,
        partitions: Partitions,
        moving: Moving,
        disks: Disks,
        clock: Clock,
        cleaner: CleanerLine,
        *,
        cleaned: Callable[[], None],
        sync: Callable[[Log], None],
    ) -> None:
        self._partitions = partitions
        self._moving = moving
        self._disks = disks
        self._clock = clock
        self._cleaner = cleaner
        self._cleaned = cleaned
        self._sync = sync
        self._rounds: dict[PartitionKey, _Round] = {}
        self._uncleanable: set[Log] = set()
        """Logs that could not be cleaned for another reason than the disk; the cleaner does not try them again."""
        self._numbers = count(1)
        self._is_closing = False
        self.operations: dict[str, Handler] = {
            words.CLEANABLE: lambda _peer, busy, _blob, _fds: _replied(self._cleanable(busy)),
            words.BEGIN_CLEANING: lambda _peer, key, _blob, _fds: self._begin((key[0], key[1])),
            words.REPLACE_SEGMENTS: lambda _peer, row, _blob, _fds: self._replace(*row),
            words.END_CLEANING: lambda _peer, row, _blob, _fds: self._end(*row),
        }

    # -- what the cleaner asks --

    def _cleanable(self, busy: Sequence[Sequence[Any]]) -> Awaitable[Due]:
        """Tell which log is due.

        Args:
            busy: the partitions that the cleaner is at; it has forgotten all others.
        """
        # At once: a round that begins before a task has its turn is not among those that the cleaner spoke of.
        at_work = {(topic, index) for topic, index in busy}
        for key in self._rounds.keys() - at_work:
            del self._rounds[key]
        return self._dirtiest()

    async def _dirtiest(self) -> Due:
        now_ms = self._clock.now_ms()
        best: Offer | None = None
        dirtiest, due, late, delay_ms = 0.0, 0, 0, 0
        async for key, part, min_ratio in self._parts(now_ms):
            dirtiest = max(dirtiest, part.dirty_ratio)
            delay_ms = max(delay_ms, part.delay_ms)
            late += part.delay_ms > 0
            if part.is_due(min_ratio):
                due += 1
                if best is None or part.dirty_ratio > best.dirty_ratio:
                    best = Offer(*key, part.dirty_ratio)
        return Due(best, dirtiest, due, late, delay_ms)

    async def _parts(self, now_ms: Millis) -> AsyncIterator[tuple[PartitionKey, CleanablePart, float]]:
        turns = Turns()
        is_moved = False
        for key, one in self._idle():
            part = self._part(key, one, now_ms)
            if part is not None:
                is_moved = is_moved or part.has_lost_checkpoint
                yield key, part, one.config.min_cleanable_dirty_ratio
            await turns.step()
        if is_moved:
            self._cleaned()

    def _idle(self) -> Iterator[tuple[PartitionKey, Log]]:
        """The logs to compact that the cleaner does not work on."""
        for partition in list(self._partitions):
            if self._is_idle(partition):
                yield partition.key, partition.log

    def _is_idle(self, partition: Partition) -> bool:
        one = partition.log
        return (
            not self._is_closing
            and one.config.compacts
            and partition.key not in self._rounds
            and partition.key not in self._moving
            and one not in self._uncleanable
            and not one.is_closed
            and one.failure is None
        )

    def _part(self, key: PartitionKey, one: Log, now_ms: Millis) -> CleanablePart | None:
        """What can be cleaned of a log, after what is too old has been deleted; None when the log is of no use."""
        try:
            one.delete_old_segments(now_ms)
            part = cleanable_part_of(one, now_ms)
        except ApiError as error:
            self._give_up(one, str(error))
            return None
        except (StorageError, OSError) as error:
            self._disks.refused(*key, error)
            return None
        if part.has_lost_checkpoint:
            if not one.config.deletes:
                log.warning(
                    "Resetting first dirty offset of %s to log start offset %d since the checkpointed offset %s is"
                    " invalid",
                    one.topic_partition,
                    part.first_dirty,
                    one.cleaner_checkpoint,
                )
            one.cleaner_checkpoint = part.first_dirty
        return part

    def _begin(self, key: PartitionKey) -> list[Any] | None:
        """The number of a round over a partition, and what the cleaner must know of it; None when it is not due."""
        partition = self._partitions.hosted.get(key)
        now_ms = self._clock.now_ms()
        if partition is None or not self._is_idle(partition):
            return None
        part = self._part(key, partition.log, now_ms)
        if part is None or not part.is_due(partition.log.config.min_cleanable_dirty_ratio):
            return None
        begun = _Round(next(self._numbers), LogCleaning(partition.log, part))
        self._rounds[key] = begun
        return [begun.number, list(begun.cleaning.plan)]

    def _replace(self, topic: str, index: int, number: int, old: list[int], new: list[int]) -> bool:
        """Swap segments; False when the round is not wanted any more, and nothing was changed."""
        begun = self._rounds.get((topic, index))
        partition = self._partitions.hosted.get((topic, index))
        if begun is None or begun.number != number or partition is None:
            return False
        one = begun.cleaning.log
        if partition.log is not one:
            return False
        try:
            return begun.cleaning.take(old, new)
        except StorageError as error:
            log.error("%s", error)
            self._disks.directory_failed(one.directory.parent)
            return False

    def _end(
        self,
        topic: str,
        index: int,
        number: int,
        end_offset: int | None,
        problem: str | None,
        disk_refused: bool,
    ) -> None:
        """The round is over.

        Args:
            topic: of the partition.
            index: of the partition.
            number: of the round.
            end_offset: up to where the log is clean now; None when the round was not finished.
            problem: why the log cannot be cleaned.
            disk_refused: whether that lies with the disk and not with the log.
        """
        begun = self._rounds.get((topic, index))
        if begun is None or begun.number != number:
            return
        del self._rounds[topic, index]
        one = begun.cleaning.log
        # Once for all swaps: until the names are on the disk, a start after a power cut finds the old ones.
        self._sync(one)
        if not begun.cleaning.is_wanted:
            return  # whatever went wrong: files that the cleaner was reading have been cut or renamed
        if disk_refused:
            log.error("Failed to clean up log for %s: %s", one.topic_partition, problem)
            self._disks.directory_failed(one.directory.parent)
        elif problem is not None:
            self._give_up(one, problem)
        elif end_offset is not None:
            begun.cleaning.end(end_offset)
            self._cleaned()

    def _give_up(self, one: Log, problem: str) -> None:
        log.warning(
            "Unexpected failure when cleaning log %s. Marking its partition (%s) as uncleanable: %s",
            one.directory,
            one.topic_partition,
            problem,
        )
        self._uncleanable.add(one)

    # -- what happens to logs meanwhile --

    def leave(self, one: Log) -> None:
        """Stop the cleaning of a log that is about to be deleted or closed, or whose policy has changed."""
        self._uncleanable.discard(one)
        for key, begun in list(self._rounds.items()):
            if begun.cleaning.log is one:
                del self._rounds[key]
                self._cleaner.tell(words.ABORT_CLEANING, CleaningRound(*key, begun.number))

    def close(self) -> None:
        """All logs are about to be closed."""
        self._is_closing = True
        for begun in list(self._rounds.values()):
            self.leave(begun.cleaning.log)

    def cleaner_gone(self) -> None:
        """The cleaner died; what it was at is begun anew by its successor."""
        self._rounds.clear()

    def uncleanable(self) -> list[list[Any]]:
        """[log directory, partitions that cannot be cleaned, their dirty bytes], for the metrics."""
        rows: dict[str, list[int]] = {}
        now_ms = self._clock.now_ms()
        for one in self._uncleanable:
            row = rows.setdefault(str(one.directory.parent), [0, 0])
            row[0] += 1
            try:
                row[1] += cleanable_part_of(one, now_ms).dirty_bytes
            except LOG_ERRORS:
                continue  # a log that cannot be read has no known size
        return [[path, *row] for path, row in rows.items()]


async def _replied(due: Awaitable[Due]) -> Reply:
    return await due, NO_BLOB, ()
