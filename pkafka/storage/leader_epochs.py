"""Where each leader epoch began: the file ``leader-epoch-checkpoint`` of a partition (KIP-101, KIP-279).

Format, each line ended by a newline: ``0`` (version), the number of entries, then ``epoch start_offset`` per entry,
both increasing from line to line.
"""

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pkafka.errors import StorageError
from pkafka.java.numbers import parse_int, parse_long
from pkafka.java.text import lines as lines_of
from pkafka.java.text import split_blanks
from pkafka.model import LeaderEpoch, Offset
from pkafka.storage.batch_scan import StoredBatch
from pkafka.storage.files import Files, read_file, replace_file

LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1

_VERSION: Final = "0"


class LeaderEpochs:
    """The epochs of one partition, kept in the file at every change.

    Args:
        path: the checkpoint file.
        files: the file port.
        entries: (epoch, start offset), increasing in both; see :func:`load`.
    """

    __slots__ = ("_epochs", "_files", "_path", "_saved", "_starts")

    def __init__(self, path: Path, files: Files, entries: list[tuple[LeaderEpoch, Offset]]) -> None:
        self._path = path
        self._files = files
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self._saved = entries
        """What the file holds."""

    @classmethod
    def load(cls, path: Path, files: Files) -> "LeaderEpochs":
        """Read the file; a missing or damaged one gives no epochs (recovery and replication fill them again)."""
        data = read_file(files, path)
        try:
            entries = [] if data is None else decode_epochs(data)
        except StorageError:
            entries = []
        return cls(path, files, entries)

    @property
    def latest(self) -> LeaderEpoch:
        """The newest epoch, -1 without one."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    @property
    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        """All (epoch, start offset), the oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: LeaderEpoch, start: Offset, *, save: bool = True) -> bool:
        """Note that ``epoch`` begins at ``start``; whatever contradicts it at the end of the list goes.

        With ``save=False`` the caller saves later (recovery does).

        Returns:
            Whether anything changed.

        Raises:
            OSError: the file could not be written.
        """
        if self._epochs and epoch == self._epochs[-1] and start >= self._starts[-1]:
            return False
        # The first epoch of a log is in its batches too: should a power cut take the file, recovery reads it from them.
        durable = bool(self._epochs)
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        if save:
            self.save(durable=durable)
        return True

    def follow(self, batches: Iterable[StoredBatch]) -> None:
        """Note the epochs of batches that a leader sent. After one of an old format, which has none, none is known.

        Raises:
            OSError: the file could not be written.
        """
        for batch in batches:
            if batch.leader_epoch >= 0:
                self.assign(batch.leader_epoch, batch.base_offset)
            elif self.latest >= 0:
                self.clear()

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """The largest known epoch not above ``epoch`` and where it ended; (-1, -1) when that is unknown."""
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        found = self._epochs[following - 1] if following else epoch
        return found, self._starts[following]

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch under which the record at ``offset`` was written, -1 when unknown."""
        place = bisect_right(self._starts, offset)
        return self._epochs[place - 1] if place else UNDEFINED_EPOCH

    def move(self, directory: Path) -> None:
        """Follow a rename of the partition's directory."""
        self._path = directory / self._path.name

    def truncate_from_end(self, end: Offset, *, save: bool = True) -> None:
        """Forget epochs that begin at or behind ``end``. With ``save=False`` the file may keep them until the next
        change: loading does that, as the leader of an empty log most often begins its epoch there again."""
        if self._starts and self._starts[-1] >= end >= 0:
            while self._starts and self._starts[-1] >= end:
                self._epochs.pop()
                self._starts.pop()
            if save:
                self.save(durable=False)

    def truncate_from_start(self, start: Offset) -> None:
        """Forget epochs that ended before ``start``; the one at ``start`` now begins there."""
        passed = bisect_right(self._starts, start)
        if (passed and self._starts[passed - 1] != start) or passed > 1:
            del self._epochs[: passed - 1]
            del self._starts[: passed - 1]
            self._starts[0] = start
            self.save(durable=False)

    def clear(self) -> None:
        """Forget all epochs."""
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.save()

    def save(self, *, durable: bool = True) -> None:
        """Write the file, unless that is what it holds; cuts need not be durable, because loading cuts again."""
        entries = self.entries
        if entries != self._saved:
            replace_file(self._files, self._path, encode_epochs(entries), durable=durable)
            self._saved = entries


def encode_epochs(entries: list[tuple[LeaderEpoch, Offset]]) -> bytes:
    """The text of the checkpoint file."""
    lines = [_VERSION, str(len(entries))]
    lines += [f"{epoch} {start}" for epoch, start in entries]
    return ("\n".join(lines) + "\n").encode()


def decode_epochs(data: bytes) -> list[tuple[LeaderEpoch, Offset]]:
    """Read the text of the checkpoint file.

    Raises:
        StorageError: it is not one, or its epochs or offsets do not increase.
    """
    lines = lines_of(data.decode("utf-8", errors="replace"))
    try:
        if lines[0] != _VERSION:
            raise ValueError("version")
        entries: list[tuple[LeaderEpoch, Offset]] = []
        for line in lines[2 : 2 + parse_int(lines[1])]:
            first, second = split_blanks(line)
            epoch, start = parse_int(first), parse_long(second)
            if epoch < 0 or start < 0 or (entries and (epoch <= entries[-1][0] or start <= entries[-1][1])):
                raise ValueError(line)
            entries.append((epoch, start))
        if len(entries) != parse_int(lines[1]):
            raise ValueError("count")
    except (ValueError, IndexError) as error:
        raise StorageError(f"damaged leader epoch checkpoint: {error}") from None
    return entries
