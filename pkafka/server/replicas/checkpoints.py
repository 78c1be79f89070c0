"""What the checkpoint files of the log directories say of one worker's logs. The cleaner process writes these files."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from pkafka.server.ipc import words
from pkafka.server.replicas.cleaner_line import CleanerLine
from pkafka.server.replicas.disks import Disks
from pkafka.storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
)
from pkafka.storage.log import Log
from pkafka.storage.log_directory import log_start_offset_to_keep

Kinds: TypeAlias = Mapping[str, Callable[[Log], int | None]]
"""Names of checkpoint files, and the offset of a log that each has."""
Offsets: TypeAlias = dict[str, dict[str, list[list[Any]]]]
"""Topic, partition and offset of each log, by log directory and name of the file."""

_AT_THE_END: Final[Kinds] = {
    RECOVERY_POINT_FILE: lambda one: one.recovery_point,
    LOG_START_OFFSET_FILE: log_start_offset_to_keep,
    HIGH_WATERMARK_FILE: lambda one: one.high_watermark,
}


class Checkpoints:
    """Has the checkpoints of one worker's logs written.

    Args:
        cleaner: writes the files.
        disks: the log directories.
        logs: gives every open log, future replicas included.
    """

    def __init__(self, cleaner: CleanerLine, disks: Disks, logs: Callable[[], Iterator[Log]]) -> None:
        self._cleaner = cleaner
        self._disks = disks
        self._logs = logs
        self.are_logs_open = False
        """Whether every log that this worker owns is open."""

    async def write_recovery_points(self) -> None:
        """Write up to where the logs are on the disk."""
        self._write({RECOVERY_POINT_FILE: lambda one: one.recovery_point})

    async def write_log_starts(self) -> None:
        """Write where the logs start."""
        self._write({LOG_START_OFFSET_FILE: log_start_offset_to_keep})

    async def write_high_watermarks(self) -> None:
        """Write up to where the logs are committed."""
        self._write({HIGH_WATERMARK_FILE: lambda one: one.high_watermark})

    def write_all(self) -> None:
        """Write all checkpoints, as replicas have changed their directories."""
        self._write(_AT_THE_END)
        self.write_cleaned()

    def write_cleaned(self) -> None:
        """Write how far the logs are compacted.

        Not before all logs are open: with a file that knows only half of them, the others would be cleaned from their
        start on.
        """
        if self.are_logs_open:
            self._write({CLEANER_FILE: lambda one: one.cleaner_checkpoint})

    def at_the_end(self) -> Offsets:
        """What the next start needs: the rows of all files but the cleaner's."""
        return self._offsets(_AT_THE_END)

    def _write(self, kinds: Kinds) -> None:
        if self._cleaner.is_there:
            self._cleaner.tell(words.CHECKPOINT, self._offsets(kinds))

    def _offsets(self, kinds: Kinds) -> Offsets:
        rows: defaultdict[str, dict[str, list[list[Any]]]] = defaultdict(dict)
        for directory in self._disks.online():
            rows[str(directory.path)] = {name: [] for name in kinds}
        for one in self._logs():
            files = rows.get(str(one.directory.parent))
            if files is not None:
                topic, index = one.topic_partition
                for name, offset_of in kinds.items():
                    offset = offset_of(one)
                    if offset is not None:
                        files[name].append([topic, index, offset])
        return dict(rows)
