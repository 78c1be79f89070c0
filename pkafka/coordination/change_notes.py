"""Change notes: sequential nodes in a folder of the store, by which brokers tell each other what to read anew.

The broker that changes something leaves a note; every broker watches the folder. A note that is older than 15 minutes
is removed by the first broker that reads it. As in Kafka (``ZkNodeChangeNotificationListener``). Everything here runs
on the thread that may use the store.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from pkafka.clock import Clock
from pkafka.coordination.store import NodeExistsError, NoNodeError, Store, StoreError, Watch, WatchEvent

log = logging.getLogger(__name__)

NOTE_EXPIRY_MS: Final = 15 * 60 * 1000
_NOTES_PER_PURGE: Final = 500


class ChangeNotes:
    """Reads the notes of one folder, each once.

    Args:
        folder: their path.
        prefix: of their names.
        clock: for their age.
    """

    def __init__(self, folder: str, prefix: str, clock: Clock) -> None:
        self.folder = folder
        self._prefix = prefix
        self._clock = clock
        self._last = ""
        """The last note that was read."""
        self._names: list[str] = []

    def begin(self, store: Store) -> None:
        """Leave out the notes that are there."""
        self._last = max(self._there(store), default="")

    def fresh(self, store: Store) -> list[bytes]:
        """What the notes say that came since the last call of :meth:`taken`."""
        self._names = self._there(store)
        fresh = self._names[bisect_right(self._names, self._last) :]
        nodes = store.get_many([f"{self.folder}/{name}" for name in fresh])
        return [node[0] for node in nodes if node is not None]

    def taken(self, store: Store) -> None:
        """What was fresh has been read: do not read it again, and remove notes that are old."""
        if self._names:
            self._last = max(self._last, self._names[-1])
        self.purge(store, self._names)

    def purge(self, store: Store, names: Sequence[str] | None = None) -> None:
        """Remove old notes, oldest first, and stop at the first young one."""
        names = self._there(store) if names is None else names
        expired_ms = self._clock.now_ms() - NOTE_EXPIRY_MS
        # Mostly none is old, which the first one tells.
        for some in (names[:1], names[1:_NOTES_PER_PURGE]):
            nodes = store.get_many([f"{self.folder}/{name}" for name in some])
            for name, node in zip(some, nodes, strict=True):
                if node is None:
                    continue
                if node[1].ctime_ms >= expired_ms:
                    return
                with suppress(NoNodeError):  # another broker was faster
                    store.delete(f"{self.folder}/{name}")

    def _there(self, store: Store) -> list[str]:
        """The names of the notes, oldest first."""
        return sorted(name for name in store.children(self.folder) if name.startswith(self._prefix))


class FollowedNotes:
    """Follows the notes of some folders through sessions with the store: those that come together are read together.

    Args:
        what: changes, for the log.
        folders: their paths.
        prefix: of their names.
        clock: for their age.
        read: reads anew what the notes name; may raise StoreError, and then gets them again.
        post: puts a call into the queue of the store's thread; called from the store's internal thread.
    """

    def __init__(
        self,
        what: str,
        folders: Sequence[str],
        prefix: str,
        clock: Clock,
        *,
        read: Callable[[Store, Sequence[bytes]], None],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._what = what
        self._notes = [ChangeNotes(folder, prefix, clock) for folder in folders]
        self._read = read
        self._post = post
        self._store: Store | None = None
        self._watches: list[Watch] = []
        self._is_due = False
        """Notes that came are about to be read."""

    def begin(self, store: Store, paths: Sequence[str]) -> None:
        """Follow what comes from now on. Read what there is afterwards: what changes meanwhile is read again.

        Args:
            store: of the new session.
            paths: of nodes that have to be there, the folders included.

        Raises:
            StoreError: the store failed.
        """
        self.stop()
        self._store, self._is_due = store, False
        for path in paths:
            with suppress(NodeExistsError):
                store.create(path, b"", make_parents=True)
        self._watches = [store.watch_children(notes.folder, self._changed) for notes in self._notes]
        for notes in self._notes:
            notes.begin(store)

    def purge(self) -> None:
        """Remove the notes that are old.

        Raises:
            StoreError: the store failed, or there is no session.
        """
        store = self.store()
        for notes in self._notes:
            notes.purge(store)

    def stop(self) -> None:
        """Stop following."""
        for watch in self._watches:
            watch.unwatch()
        self._watches = []
        self._store = None

    def store(self) -> Store:
        """The store of the session.

        Raises:
            StoreError: there is no session.
        """
        if self._store is None:
            raise StoreError(self._notes[0].folder, "there is no session with the coordination store")
        return self._store

    def process(self) -> None:
        """Have read anew what the notes name that came since the last call, then remove the notes that are old.

        A failure of the store is logged: the end of it, or the next session, brings what was missed.
        """
        self._is_due = False
        store = self._store
        if store is None:
            return
        try:
            fresh = [data for notes in self._notes for data in notes.fresh(store)]
            self._read(store, fresh)
            # Not before: what could not be read is read again when the store is back, which calls all watches.
            for notes in self._notes:
                notes.taken(store)
        except StoreError as error:
            log.warning("cannot follow changes of %s: %s", self._what, error)

    def _changed(self, _: WatchEvent) -> None:
        # Called from the store's own thread. What comes before the notes are read is read with them.
        if not self._is_due:
            self._is_due = True
            self._post(self.process)
