"""Checks whole logs on disk: every batch, what the files beside the segments say of them, and each against the others.

One pass over the segments in order, memory as large as the producers that are alive. Nothing is changed. What only
looks odd (a gap in a compacted log, an index that was never trimmed) is a remark; damage is what a broker would cut
off, build anew or serve wrongly.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pkafka.errors import StorageError
from pkafka.records.errors import RecordError
from pkafka.storage.broker_metadata import decode_broker_metadata
from pkafka.storage.checkpoints import CLEANER_FILE, decode_offsets
from pkafka.storage.files import OsFiles
from pkafka.storage.leader_epochs import LEADER_EPOCH_FILE
from pkafka.storage.partition_metadata import PARTITION_METADATA_FILE, read_topic_id
from pkafka.tools.logs.dump import records_of
from pkafka.tools.logs.segment_walk import Batch
from pkafka.tools.logs.side_files import CHECKPOINT_FILES, META_PROPERTIES_FILE, base_offset_of, epochs_in
from pkafka.tools.logs.verification.producers import AbortedTransaction, Producers
from pkafka.tools.logs.verification.report import NOTHING, LogReport
from pkafka.tools.logs.verification.segment import SegmentCheck

_GAPS_KEPT: Final = 1_000


def verify_log(
    segments: Sequence[Path],
    *,
    is_whole: bool,
    is_compacted: bool = False,
    deep: bool = False,
    on_read: Callable[[int], None] | None = None,
) -> LogReport:
    """Check the segments of one log, in order of their offsets, and the files beside them.

    Args:
        segments: the ``.log`` files.
        is_whole: whether these are all segments of the log, so that what belongs to none of them is too much.
        is_compacted: whether compaction may have left gaps; it is also taken for true where the batches show it.
        deep: decode the records too.
        on_read: called with numbers of bytes read.

    Raises:
        DumpError: the name of a file has no base offset.
        OSError: a file cannot be read.
    """
    check = _LogCheck(segments, is_whole=is_whole, deep=deep, on_read=on_read)
    check.report.is_compacted = is_compacted
    check.run()
    return check.report


def verify_data_directory(directory: Path, ends: Mapping[str, tuple[int, int]]) -> LogReport:
    """Check the files of a data directory that belong to no log of it.

    Args:
        ends: by the name of each partition's directory, the first offset and the one behind the last.
    """
    report = LogReport(directory)
    meta = directory / META_PROPERTIES_FILE
    if meta.exists():
        try:
            decode_broker_metadata(meta.read_bytes(), meta.name)
        except StorageError as error:
            report.add(meta, "meta.properties", str(error))
    for path in (directory / name for name in CHECKPOINT_FILES):
        if not path.exists():
            continue
        try:
            offsets = decode_offsets(path.read_bytes(), path.name)
        except StorageError as error:
            report.add(path, "checkpoint", str(error))
            continue
        for at, offset in offsets.items():
            name = f"{at.topic}-{at.partition}"
            if name not in ends:
                report.add(path, "checkpoint", f"{name} is at {offset}, but not here", damage=False)
            elif ends[name][1] != NOTHING and offset > ends[name][1]:
                text = f"{name} is at {offset}, but its log ends at {ends[name][1]}"
                report.add(path, "checkpoint", text)
    return report


def compacted_partitions(directory: Path) -> set[str]:
    """The names of the partitions in a data directory that were compacted; none where its checkpoint does not say."""
    try:
        offsets = decode_offsets((directory / CLEANER_FILE).read_bytes(), CLEANER_FILE)
    except (OSError, StorageError):
        return set()
    return {f"{at.topic}-{at.partition}" for at in offsets}


class _LogCheck:
    """The pass over one log."""

    def __init__(
        self,
        segments: Sequence[Path],
        *,
        is_whole: bool,
        deep: bool,
        on_read: Callable[[int], None] | None,
    ) -> None:
        self._segments = segments
        self._directory = segments[0].parent
        self.report = LogReport(self._directory if is_whole else segments[0], segments=len(segments))
        self._is_whole = is_whole
        self._deep = deep
        self._on_read = on_read
        self._next_offset = NOTHING
        self._gaps: list[tuple[Path, int, int, int]] = []
        self._gap_count = 0
        self._damage_before: tuple[Path, int, int, str] | None = None
        self._epoch = NOTHING
        self._epochs: list[tuple[int, int]] = []
        self._epoch_complaints: set[int] = set()
        snapshots = sorted(self._directory.glob("*.snapshot"), key=base_offset_of)
        if not is_whole:
            snapshots = [each for each in snapshots if each.stem == segments[0].stem]
        starts_at_0 = base_offset_of(segments[0]) == 0
        self._producers = Producers(self.report, snapshots, knows_all=starts_at_0)

    def run(self) -> None:
        self._read_epochs()
        self._read_topic_id()
        for number, segment in enumerate(self._segments):
            following = self._segments[number + 1] if number + 1 < len(self._segments) else None
            SegmentCheck(self, segment, following).run()
        report = self.report
        report.next_offset = self._next_offset
        self._producers.compare(None, self._log_end)
        self._judge_gaps()
        if self._is_whole:
            self._look_for_orphans()
            for epoch, start in self._epochs:
                if start > self._log_end:
                    text = f"epoch {epoch} begins at {start}, behind the end of the log at {self._log_end}"
                    report.add(self._directory / LEADER_EPOCH_FILE, "leader epochs", text)

    # -- what a segment's pass tells ----------------------------------------------------------------------

    def damaged(self, path: Path, position: int, size: int, reason: str) -> None:
        """Note bytes of a segment that are lost. The next batch shows which offsets they had."""
        self._tell_damage("")
        self._damage_before = (path, position, size, reason)

    def batch(self, path: Path, batch: Batch) -> None:
        header = batch.header
        self._continuity(path, batch)
        self.report.batches += 1
        self.report.records += max(header.records_count, 0)
        if header.magic < 2:
            return
        self._leader_epoch(path, batch)
        self._producers.compare(header.base_offset, self._log_end)
        if header.producer_id >= 0:
            self._producers.batch(path, batch)

    def end_of_segment(self) -> None:
        self._tell_damage("")

    def read(self, count: int) -> None:
        self.report.size_bytes += count
        if self._on_read is not None:
            self._on_read(count)

    @property
    def deep(self) -> bool:
        return self._deep

    def taken_aborted(self) -> list[AbortedTransaction]:
        return self._producers.taken_aborted()

    @property
    def knows_all_transactions(self) -> bool:
        return self._producers.knows_all and not self.report.is_compacted

    @property
    def next_offset(self) -> int:
        return self._next_offset

    @property
    def _log_end(self) -> int:
        return max(self._next_offset, base_offset_of(self._segments[-1]))

    # -- offsets ------------------------------------------------------------------------------------------

    def _continuity(self, path: Path, batch: Batch) -> None:
        header, report = batch.header, self.report
        first = header.base_offset
        if header.magic < 2 and header.codec:
            # The offset of a wrapper is that of its last message.
            first = _first_offset(batch)
        if report.first_offset == NOTHING:
            report.first_offset = first
        expected = self._next_offset
        if expected == NOTHING and self._damage_before is not None:
            expected = base_offset_of(self._segments[0])
        lost = ""
        if expected != NOTHING and first > expected:
            if self._damage_before is not None:
                lost = f", offsets {expected} to {first - 1} are lost"
            else:
                self._gap_count += 1
                if len(self._gaps) < _GAPS_KEPT:
                    self._gaps.append((path, batch.position, expected, first))
        self._tell_damage(lost)
        if expected != NOTHING and first < expected:
            text = f"the batch begins at offset {first}, but {expected} comes next"
            report.add(path, "offsets", text, position=batch.position, size=batch.size)
        if header.magic >= 2 and header.records_count < header.last_offset_delta + 1:
            report.is_compacted = True
        # Not the largest so far: one offset that is wrong, which no checksum covers, would make all behind it wrong.
        self._next_offset = header.last_offset + 1

    def _tell_damage(self, lost: str) -> None:
        if self._damage_before is None:
            return
        path, position, size, reason = self._damage_before
        self._damage_before = None
        text = f"bytes {position} to {position + size - 1} ({size} bytes): {reason}{lost}"
        self.report.add(path, "batches", text, position=position, size=size)

    def _judge_gaps(self) -> None:
        report = self.report
        for path, position, expected, found in self._gaps:
            text = (
                f"offsets {expected} to {found - 1} are missing in front of the batch at position {position}"
            )
            report.add(path, "offsets", text, position=position, damage=not report.is_compacted)
        unlisted = self._gap_count - len(self._gaps)
        if unlisted:
            text = f"and {unlisted} more gaps"
            report.add(self._segments[-1], "offsets", text, damage=not report.is_compacted)

    # -- leader epochs ------------------------------------------------------------------------------------

    def _read_epochs(self) -> None:
        path = self._directory / LEADER_EPOCH_FILE
        if not path.exists():
            return
        try:
            self._epochs = epochs_in(path)
        except StorageError as error:
            self.report.add(path, "leader epochs", str(error))

    def _leader_epoch(self, path: Path, batch: Batch) -> None:
        epoch, report = batch.header.partition_leader_epoch, self.report
        if epoch < 0:
            return
        if epoch < self._epoch:
            text = f"leader epoch {epoch} behind epoch {self._epoch}"
            report.add(path, "leader epochs", text, position=batch.position, size=batch.size)
        self._epoch = max(epoch, self._epoch)
        if not self._epochs or epoch in self._epoch_complaints:
            return
        place = bisect_right(self._epochs, batch.header.base_offset, key=lambda entry: entry[1])
        found = self._epochs[place - 1][0] if place else NOTHING
        if found != epoch:
            self._epoch_complaints.add(epoch)
            known = f"epoch {found}" if place else "no epoch"
            text = f"{known} at offset {batch.header.base_offset}, where the log has epoch {epoch}"
            report.add(self._directory / LEADER_EPOCH_FILE, "leader epochs", text)

    def _read_topic_id(self) -> None:
        try:
            read_topic_id(OsFiles(), self._directory)
        except StorageError as error:
            self.report.add(self._directory / PARTITION_METADATA_FILE, "topic id", str(error))

    # -- files -------------------------------------------------------------------------------------------

    def _look_for_orphans(self) -> None:
        stems = {segment.stem for segment in self._segments}
        for path in sorted(self._directory.iterdir()):
            if path.suffix in (".index", ".timeindex", ".txnindex") and path.stem not in stems:
                self.report.add(path, "files", "there is no segment that it belongs to", damage=False)
            elif path.suffix in (".cleaned", ".swap", ".deleted"):
                self.report.add(path, "files", "left by compaction or deletion", damage=False)


def _first_offset(batch: Batch) -> int:
    """The first offset inside a wrapper of magic 0 or 1."""
    try:
        records = records_of(batch)
    except RecordError:
        return batch.header.base_offset
    assert isinstance(records, list)
    return records[0].record.offset if records else batch.header.base_offset
