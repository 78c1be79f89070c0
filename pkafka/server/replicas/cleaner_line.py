"""The cleaner process of a broker, as a worker sees it: it may die at any time, and another takes its place."""

from collections.abc import Sequence
from pathlib import Path

from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Payload, Peer
from pkafka.server.ipc.words import Unlink
from pkafka.server.replicas.delayed import Timer


class CleanerLine:
    """The channel to the cleaner process of the moment, and the files that are still to be unlinked.

    Args:
        timer: forgets files that are surely gone.
    """

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._peer: Peer | None = None
        self.to_unlink: dict[int, tuple[list[str], int]] = {}
        """Paths and their delays in milliseconds, by the number of the request."""
        self._pending_number = 0

    @property
    def is_there(self) -> bool:
        """Whether there is a cleaner process now."""
        return self._peer is not None

    def came(self, peer: Peer) -> None:
        """Tell a new cleaner process which files are still to be unlinked."""
        self._peer = peer
        for texts, delay_ms in self.to_unlink.values():
            peer.note(words.UNLINK, Unlink(texts, delay_ms))

    def lost(self) -> None:
        """Note that the cleaner process is gone; a successor will introduce itself."""
        self._peer = None

    def tell(self, operation: str, payload: Payload) -> None:
        """Send a note to the cleaner process, when there is one."""
        if self._peer is not None:
            self._peer.note(operation, payload)

    def unlink(self, paths: Sequence[Path], delay_ms: int) -> None:
        """Have files unlinked after a delay. Until then the successor of a cleaner that dies is told again."""
        self._pending_number += 1
        number = self._pending_number
        texts = [str(path) for path in paths]
        self.to_unlink[number] = (texts, delay_ms)
        # Kept for longer than the cleaner needs, in case it dies in between.
        self._timer.after(delay_ms + 10_000, lambda: self.to_unlink.pop(number, None) and None)
        self.tell(words.UNLINK, Unlink(texts, delay_ms))

    def directory_renamed(self, was: Path, path: Path) -> None:
        """Note that a log has another directory name now, and so have its files that are still to be unlinked."""
        for texts, delay_ms in list(self.to_unlink.values()):
            moved = [path / Path(text).name for text in texts if Path(text).parent == was]
            if moved:
                self.unlink(moved, delay_ms)
