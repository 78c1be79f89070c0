"""The files of one log: its segments made, dropped, put in the place of others and flushed; its directory renamed.

Decides nothing and keeps no offsets: that is the log's, which also fences itself when the disk refuses.
"""

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pkafka.model import Millis, Offset, TopicPartition
from pkafka.storage.config import LogConfig
from pkafka.storage.files import Files
from pkafka.storage.log_values import DeletedFiles, LogHooks, LogParts, PendingFlush
from pkafka.storage.open_files import OpenFiles
from pkafka.storage.segment import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, Segment

DELETED_DIRECTORY_SUFFIX: Final = "-delete"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"
DIRECTORY_NAME_CHARS_MAX: Final = 255


class LogFiles:
    """What a log does to its directory; every call may raise OSError.

    Args:
        parts: the segments and snapshots, as recovered.
        files: the file port.
        open_files: the register of open inactive segments, one per process.
        hooks: of the log's owner, which unlinks what is dropped.
    """

    __slots__ = ("_files", "_hooks", "_open_files", "_segments", "_snapshots", "directory")

    def __init__(self, parts: LogParts, files: Files, open_files: OpenFiles, hooks: LogHooks) -> None:
        self.directory = parts.directory
        self._segments = parts.segments
        self._snapshots = parts.snapshots
        self._files = files
        self._open_files = open_files
        self._hooks = hooks

    def new_segment(self, base: Offset, config: LogConfig, now_ms: Millis) -> Segment:
        """Make the files of a segment, which is not in the log yet."""
        return Segment.create(
            self.directory,
            base,
            config=config,
            files=self._files,
            open_files=self._open_files,
            now_ms=now_ms,
        )

    def drop(
        self, segment: Segment, reason: str, config: LogConfig, *, keep_snapshot: bool = False
    ) -> DeletedFiles:
        """Take a segment out of the log and rename its files, its snapshot's too."""
        self._segments.remove(segment)
        if segment.is_active:
            segment.finish()
            segment.is_active = False
        paths = segment.rename_suffix("", DELETED_SUFFIX)
        snapshot = None if keep_snapshot else self._snapshots.forget(segment.base_offset)
        if snapshot is not None:
            target = snapshot.with_name(snapshot.name + DELETED_SUFFIX)
            self._files.rename(snapshot, target)
            paths.append(target)
        deleted = DeletedFiles(segment.base_offset, segment.size, reason, paths, segment)
        self._hooks.on_deleted(deleted, config.file_delete_delay_ms)
        return deleted

    def drop_behind(self, offset: Offset, config: LogConfig) -> None:
        """Drop the segments that begin behind an offset, for a truncation."""
        # The newest first: a crash or failure on the way leaves a shorter log, never one with a hole.
        for segment in reversed(list(self._segments)):
            if segment.base_offset > offset:
                self.drop(segment, "truncated", config)

    # -- compaction ----------------------------------------------------------------------------------------------

    def open_cleaned(self, bases: Sequence[Offset], config: LogConfig) -> list[Segment]:
        """Open the segments that compaction has made, and remove what else it has left."""
        pieces = [
            Segment.open(
                self.directory,
                base,
                config=config,
                files=self._files,
                open_files=self._open_files,
                suffix=CLEANED_SUFFIX,
            )
            for base in bases
        ]
        self._drop_strays(pieces)
        return pieces

    def replace(self, old: Sequence[Segment], pieces: Sequence[Segment], config: LogConfig) -> None:
        """Put cleaned segments in the place of others, in Kafka's order (replaceSegments)."""
        for piece in reversed(pieces):
            renamed = piece.rename_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
            if piece.path not in renamed:
                raise FileNotFoundError(f"no file to become {piece.path}")
        bases = {piece.base_offset for piece in pieces}
        for segment in old:
            self.drop(segment, "compacted", config, keep_snapshot=segment.base_offset in bases)
        for piece in pieces:
            piece.rename_suffix(SWAP_SUFFIX, "")
            self._segments.add(piece)

    def _drop_strays(self, pieces: Sequence[Segment]) -> None:
        """A start takes a ``.swap`` for unfinished when there is a ``.cleaned`` below it."""
        known = {path.name for piece in pieces for path in piece.paths}
        for name in os.listdir(self.directory):
            if name.endswith(CLEANED_SUFFIX) and name not in known:
                self._files.unlink(self.directory / name)

    # -- flush ---------------------------------------------------------------------------------------------------

    def flush(self, start: Offset, end: Offset) -> None:
        """Wait until what lies in [start, end) is on the disk."""
        is_new = False
        for segment in self._segments.within(start, end):
            is_new = is_new or segment.base_offset >= start
            segment.flush()
        for descriptor in self._snapshots.open_within(start, end):
            try:
                self._files.fsync(descriptor)
            finally:
                self._files.close(descriptor)
        if is_new:
            self._files.fsync_directory(self.directory)

    def prepare_flush(self, start: Offset, end: Offset, truncations: int) -> PendingFlush:
        """The same, for a thread: its descriptors are its own."""
        descriptors: list[int] = []
        is_new = False
        if end > start:
            for segment in self._segments.within(start, end):
                is_new = is_new or segment.base_offset >= start
                descriptors += segment.duplicate_descriptors()
            # A roll does not wait for the disk with its snapshot; like Kafka, its flush does.
            descriptors += self._snapshots.open_within(start, end)
        return PendingFlush(end, descriptors, self.directory if is_new else None, self._files, truncations)

    # -- the directory -------------------------------------------------------------------------------------------

    def unused_name(self, topic_partition: TopicPartition, suffix: str) -> Path:
        """A name beside the directory that no other has: the partition's, a UUID and the suffix."""
        end = f".{uuid.uuid4().hex}{suffix}"
        # After the partition, not after the directory: Apache Kafka stops at a name with two suffixes.
        name = str(topic_partition)
        return self.directory.with_name(name[: DIRECTORY_NAME_CHARS_MAX - len(end)] + end)

    def rename(self, target: Path) -> None:
        """Give the directory another name; :meth:`follow` comes behind it."""
        self._files.rename(self.directory, target)

    def follow(self, target: Path) -> None:
        """The directory has another name now."""
        for segment in self._segments:
            segment.move_paths(target)
        self._snapshots.move(target)
        self.directory = target

    def flush_name(self, target: Path) -> None:
        """Wait until the directory's new name is on the disk."""
        self._files.fsync_directory(target.parent)
