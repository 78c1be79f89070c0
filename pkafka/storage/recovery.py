"""Opening a log: what to trust on the disk after a stop, and what to cut.

The order is Kafka's LogLoader's:
 1. ``.deleted`` files go. ``.cleaned`` files go, and with them every ``.swap`` file at or above the lowest of them.
 2. What is left of ``.swap`` takes its place: the segments that it covers are deleted, then it is renamed.
 3. Index files without a ``.log`` go; segments are opened; one without an offset index is scanned.
 4. After an unclean stop every segment from the recovery point on is scanned with checksums; a torn or damaged tail is
    cut and the segments behind it are deleted. One with offsets too far from its base is split.
 5. A log that ends below its log start offset is emptied. Leader epochs outside the log go.
 6. Producer state: the newest snapshot, then the batches behind it.
"""

import contextlib
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pkafka.clock import Clock, SystemClock
from pkafka.errors import StorageError
from pkafka.model import Offset, TopicId, TopicPartition
from pkafka.storage.batch_scan import DamagedBatchError, StoredBatch
from pkafka.storage.config import LogConfig
from pkafka.storage.files import Files, OsFiles, disk_failure
from pkafka.storage.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from pkafka.storage.log import Log
from pkafka.storage.log_files import DELETED_DIRECTORY_SUFFIX
from pkafka.storage.log_values import LogHooks, LogParts
from pkafka.storage.open_files import OpenFiles
from pkafka.storage.partition_metadata import read_topic_id, write_topic_id
from pkafka.storage.producer_rebuild import PRODUCER_EXPIRATION_MS, ProducerSnapshots, rebuild, replay
from pkafka.storage.producer_state import Producers
from pkafka.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    base_offset_of,
    segment_path,
)
from pkafka.storage.segments import Segments
from pkafka.storage.split import split_segment
from pkafka.storage.transaction_index import AbortedTransaction

_LOGGER = logging.getLogger(__name__)
OFFSET_MAX: Final = 2**63 - 1
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


@dataclass(slots=True, kw_only=True)
class LogEnvironment:
    """What all logs of a process share.

    Attributes:
        files: the file port.
        clock: the wall clock.
        open_files: the register of open inactive segments.
        hooks: what the owner does for its logs.
        producer_expiration_ms: ``producer.id.expiration.ms``.
    """

    files: Files = field(default_factory=OsFiles)
    clock: Clock = field(default_factory=SystemClock)
    open_files: OpenFiles = field(default_factory=OpenFiles)
    hooks: LogHooks = field(default_factory=LogHooks)
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS


def create_log(
    directory: Path,
    topic_partition: TopicPartition,
    config: LogConfig,
    environment: LogEnvironment,
    *,
    topic_id: TopicId | None,
) -> Log:
    """Make the directory of a new partition and open its empty log.

    Nothing here waits for the disk: a power cut can only take what holds no record yet, and the controller's next
    word makes it again. A thousand partitions would cost thousands of fsyncs.

    Raises:
        StorageError: the disk refused.
    """
    files = environment.files
    try:
        files.make_directory(directory)
    except OSError as error:
        raise disk_failure(directory, "create", error) from error
    if topic_id is not None:
        write_topic_id(files, directory, topic_id, durable=False)
    return open_log(directory, topic_partition, config, environment, had_clean_shutdown=True)


def open_log(
    directory: Path,
    topic_partition: TopicPartition,
    config: LogConfig,
    environment: LogEnvironment,
    *,
    log_start_offset: Offset = 0,
    recovery_point: Offset = 0,
    had_clean_shutdown: bool = False,
) -> Log:
    """Open the log in ``directory``, recovering it when it was not closed properly.

    Args:
        directory: of the partition.
        topic_partition: its name.
        config: of the topic.
        environment: shared parts.
        log_start_offset: from the checkpoint.
        recovery_point: from the checkpoint; everything below is known to be on the disk.
        had_clean_shutdown: the directory had its clean-shutdown mark.

    Raises:
        StorageError: the directory cannot be read or written.
    """
    try:
        topic_id = read_topic_id(environment.files, directory)
        loader = _Loader(directory, config, environment, log_start_offset, recovery_point, had_clean_shutdown)
        parts = loader.load(topic_partition, topic_id)
        return Log(
            parts,
            files=environment.files,
            clock=environment.clock,
            open_files=environment.open_files,
            hooks=environment.hooks,
        )
    except OSError as error:
        raise disk_failure(directory, "open the log in", error) from error


class _Loader:
    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        environment: LogEnvironment,
        log_start_offset: Offset,
        recovery_point: Offset,
        had_clean_shutdown: bool,
    ) -> None:
        self._directory = directory
        self._config = config
        self._environment = environment
        self._files = environment.files
        self._log_start_offset = log_start_offset
        self._recovery_point = recovery_point
        self._was_clean = had_clean_shutdown
        self._listing: list[str] | None = None
        self._segments = Segments()
        self._producers = Producers()
        self._epochs = LeaderEpochs.load(directory / LEADER_EPOCH_FILE, environment.files)
        self._snapshots = ProducerSnapshots(directory, environment.files, ())

    def load(self, topic_partition: TopicPartition, topic_id: TopicId | None) -> LogParts:
        self._drop_leftovers()
        self._finish_swaps()
        self._open_segments()
        self._snapshots = ProducerSnapshots(self._directory, self._files, self._names())
        self._snapshots.remove_strays(self._segments.base_offsets)
        try:
            self._check_indexes()
            if not self._was_clean and not self._directory.name.endswith(DELETED_DIRECTORY_SUFFIX):
                self._recover_unflushed()
            start, end = self._settle()
        except DamagedBatchError as error:
            # Even a clean mark, or a recovery point, does not make damage readable: look at every byte.
            _LOGGER.warning("%s: %s; scanning the whole log", self._directory.name, error)
            self._recovery_point = 0
            self._was_clean = False
            self._recover_unflushed()
            start, end = self._settle()
        return LogParts(
            directory=self._directory,
            topic_partition=topic_partition,
            topic_id=topic_id,
            config=self._config,
            segments=self._segments,
            leader_epochs=self._epochs,
            producers=self._producers,
            snapshots=self._snapshots,
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=end if self._was_clean else min(max(self._recovery_point, start), end),
            producer_expiration_ms=self._environment.producer_expiration_ms,
        )

    def _settle(self) -> tuple[Offset, Offset]:
        """Steps 5 and 6.

        Returns:
            The log start and end offsets.
        """
        end = self._end_offset()
        if not self._segments:
            self._segments.add(self._new_segment(self._log_start_offset))
        start = max(self._log_start_offset, self._segments.first.base_offset)
        self._epochs.truncate_from_end(end, save=False)
        self._epochs.truncate_from_start(start)
        rebuild(
            self._producers,
            self._snapshots,
            self._segments,
            log_start_offset=start,
            end_offset=end,
            now_ms=self._environment.clock.now_ms,
            expiration_ms=self._environment.producer_expiration_ms,
            had_clean_shutdown=self._was_clean,
        )
        return start, end

    def _names(self) -> list[str]:
        """The files in the directory; listed anew only after a change, because starts open many directories."""
        if self._listing is None:
            with os.scandir(self._directory) as entries:
                self._listing = sorted(entry.name for entry in entries if entry.is_file())
        return self._listing

    def _unlink(self, name: str, reason: str) -> None:
        _LOGGER.info("%s: removing %s: %s", self._directory.name, name, reason)
        self._files.unlink(self._directory / name)
        self._listing = None

    # Step 1.
    def _drop_leftovers(self) -> None:
        names = self._names()
        cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
        lowest_cleaned = min(
            (base for base in map(base_offset_of, cleaned) if base is not None), default=None
        )
        for name in names:
            if name.endswith(DELETED_SUFFIX):
                self._unlink(name, "it was deleted before the stop")
            elif name.endswith(SWAP_SUFFIX) and lowest_cleaned is not None:
                base = base_offset_of(name)
                if base is None or base >= lowest_cleaned:
                    self._unlink(name, "the split that made it did not end")
        # Last, the ones that tell of it: a start that is killed in here must not take a .swap for a finished one.
        for name in cleaned:
            self._unlink(name, "its compaction or split did not end")

    # Step 2.
    def _finish_swaps(self) -> None:
        swaps = [name for name in self._names() if name.endswith(SWAP_SUFFIX)]
        if not swaps:
            return
        self._delete_covered(self._range_of_swaps(swaps))
        for name in swaps:
            self._files.rename(self._directory / name, self._directory / name.removesuffix(SWAP_SUFFIX))
        self._listing = None
        self._files.fsync_directory(self._directory)

    def _range_of_swaps(self, swaps: list[str]) -> tuple[Offset, Offset]:
        low, high = OFFSET_MAX, -1
        for name in swaps:
            base = base_offset_of(name)
            if base is None or not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                continue
            segment = self._open(base, suffix=SWAP_SUFFIX)
            low = min(low, base)
            high = max(high, base + 1, _scanned_end(segment))
            segment.release_files()
        return (self._source_of_split(low) if high > low else low), high

    def _source_of_split(self, low: Offset) -> Offset:
        """Where the covered segments begin: ``low``, or before it when Kafka split a segment whose first offset is not
        its base (it names the first piece after the offset)."""
        names = [name for name in self._names() if name.endswith(LOG_SUFFIX)]
        before = max(
            (base for base in map(base_offset_of, names) if base is not None and base < low), default=low
        )
        if before == low:
            return low
        segment = self._open(before)
        is_source = False
        with contextlib.suppress(DamagedBatchError):
            is_source = any(batch.base_offset == low for batch in segment.scan(0, check=False))
        segment.release_files()
        return before if is_source else low

    def _delete_covered(self, covered: tuple[Offset, Offset]) -> None:
        low, high = covered
        for name in self._names():
            base = base_offset_of(name)
            if base is not None and low <= base < high and not name.endswith(SWAP_SUFFIX):
                self._unlink(name, "a compacted segment takes its place")

    # Step 3.
    def _open_segments(self) -> None:
        names = self._names()
        known = set(names)
        for name in names:
            base = base_offset_of(name)
            if base is None:
                continue
            if (
                name.endswith(_INDEX_SUFFIXES)
                and segment_path(self._directory, base, LOG_SUFFIX).name not in known
            ):
                self._unlink(name, "it is an index without a log")
            elif name.endswith(LOG_SUFFIX):
                self._segments.add(self._open(base))

    def _check_indexes(self) -> None:
        known = set(self._names())
        for segment in self._segments:
            if segment.offset_index.path.name not in known and segment.size:
                _LOGGER.warning("%s: no offset index, scanning %s", self._directory.name, segment.path.name)
                self._recover(segment)
            else:
                self._check_transaction_index(segment, known)

    def _check_transaction_index(self, segment: Segment, known: set[str]) -> None:
        if segment.transaction_index.path.name not in known:
            return
        try:
            _ = segment.transaction_index.entries
        except StorageError as error:
            _LOGGER.warning("%s: %s; scanning %s", self._directory.name, error, segment.path.name)
            self._recover(segment)

    # Step 4.
    def _recover_unflushed(self) -> None:
        segments = self._segments.within(self._recovery_point, OFFSET_MAX)
        for place, segment in enumerate(segments):
            if self._recover(segment):
                for following in segments[place + 1 :]:
                    _LOGGER.warning(
                        "%s: removing %s behind the damage", self._directory.name, following.path.name
                    )
                    self._discard(following)
                return

    def _recover(self, segment: Segment) -> int:
        """Scan a whole segment: checksums, indexes, epochs, producers. Returns how many bytes were cut.

        Raises:
            DamagedBatchError: in a segment before this one, which was thought to be on the disk.
        """
        producers = Producers()
        has_new_epochs = overflows = False
        position, previous = 0, segment.base_offset - 1
        end_max = self._end_max(segment)
        self._replay_before(segment, producers)
        segment.start_rebuild()
        try:
            for batch in segment.scan(0, check=True):
                start, size, _, base, last, epoch, timestamp, _, producer_id, _, _, _, _ = batch
                if last <= previous or (last >= end_max and last - segment.base_offset > RELATIVE_OFFSET_MAX):
                    raise DamagedBatchError(start, f"offset {last} does not belong here")
                if last - segment.base_offset > RELATIVE_OFFSET_MAX:
                    overflows = True
                    break
                segment.index_batch(start, size, last, timestamp)
                if epoch > self._epochs.latest:
                    has_new_epochs = self._epochs.assign(epoch, base, save=False)
                if producer_id >= 0:
                    _replay_and_index(producers, batch, segment)
                previous = last
                position = start + size
        except DamagedBatchError as error:
            _LOGGER.warning("%s: %s: %s; cutting there", self._directory.name, segment.path.name, error)
        if has_new_epochs:
            self._epochs.save()
        if overflows:
            return self._split_and_recover(segment)
        cut = segment.size - position
        if cut:
            segment.cut_at(position)
        segment.end_rebuild()
        # The following segment and the log itself need not read this one again.
        self._snapshots.take(producers, previous + 1, durable=False)
        self._environment.hooks.on_recovered()
        return cut

    def _end_max(self, segment: Segment) -> Offset:
        following = self._segments.higher(segment.base_offset)
        return OFFSET_MAX if following is None else following.base_offset

    def _split_and_recover(self, segment: Segment) -> int:
        _LOGGER.warning(
            "%s: %s has offsets too far from its base; splitting it", self._directory.name, segment.path.name
        )
        bases = split_segment(segment, self._files, self._new_segment, end_max=self._end_max(segment))
        self._listing = None
        self._segments.remove(segment)
        pieces = [self._open(base) for base in bases]
        for piece in pieces:
            self._segments.add(piece)
        for place, piece in enumerate(pieces):
            cut = self._recover(piece)
            if cut:
                for behind in pieces[place + 1 :]:
                    self._discard(behind)
                return cut
        return 0

    def _replay_before(self, segment: Segment, producers: Producers) -> None:
        """The producers as of the beginning of ``segment``: needed to tell where its transactions began."""
        before = Segments()
        for earlier in self._segments:
            if earlier.base_offset < segment.base_offset:
                before.add(earlier)
        offsets = [offset for offset in self._snapshots.offsets if offset <= segment.base_offset]
        position = self._log_start_offset
        for offset in reversed(offsets):
            restored = self._snapshots.read(offset)
            if restored is not None:
                producers.restore(restored)
                position = offset
                break
        for earlier in before.within(position, segment.base_offset):
            found = earlier.find(max(position, earlier.base_offset))
            if found is None:
                continue
            for batch in earlier.scan(found[0], check=False):
                completed = replay(producers, batch)
                if completed is not None:
                    producers.complete(completed)

    def _discard(self, segment: Segment) -> None:
        self._segments.remove(segment)
        segment.release_files()
        for path in segment.paths:
            self._files.unlink(path)
        self._snapshots.remove([segment.base_offset])

    # Step 5.
    def _end_offset(self) -> Offset:
        if not self._segments:
            return self._log_start_offset
        end = self._segments.last.next_offset()
        if end >= self._log_start_offset:
            return end
        _LOGGER.warning(
            "%s: the log ends at %d, below its start %d; beginning anew there",
            self._directory.name,
            end,
            self._log_start_offset,
        )
        for segment in self._segments:
            self._discard(segment)
        self._epochs.clear()
        self._snapshots.remove(self._snapshots.offsets)
        return self._log_start_offset

    def _open(self, base: Offset, suffix: str = "") -> Segment:
        return Segment.open(
            self._directory,
            base,
            config=self._config,
            files=self._files,
            open_files=self._environment.open_files,
            suffix=suffix,
        )

    def _new_segment(self, base: Offset, suffix: str = "") -> Segment:
        return Segment.create(
            self._directory,
            base,
            config=self._config,
            files=self._files,
            open_files=self._environment.open_files,
            now_ms=self._environment.clock.now_ms(),
            suffix=suffix,
        )


def _replay_and_index(producers: Producers, batch: StoredBatch, segment: Segment) -> None:
    completed = replay(producers, batch)
    if completed is None:
        return
    if completed.is_aborted:
        segment.transaction_index.append(
            AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                producers.stable_offset_after(completed),
            )
        )
    producers.complete(completed)


def _scanned_end(segment: Segment) -> Offset:
    """The end of a segment that is not in place yet, without a look at its indexes."""
    end = segment.base_offset
    try:
        for batch in segment.scan(0, check=False):
            end = batch.last_offset + 1
    except DamagedBatchError:
        pass
    return end
