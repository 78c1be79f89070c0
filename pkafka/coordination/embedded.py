"""The coordination store of a single broker: the same tree as ZooKeeper's, kept in one SQLite file.

The file lies beside the checkpoints of the first log directory, where Apache Kafka ignores plain files. It
is in WAL mode with ``synchronous=FULL``: every write is on the disk when it returns, at the price of one
flush. A clean close leaves exactly one file; after a crash ``-wal`` and ``-shm`` lie beside it (plain files
too) and belong to it.

One process at a time owns the file (an flock on it); any number of others may read it (``read_only=True``).
A session never expires while its process lives, and ends with :meth:`EmbeddedStore.close`. After a crash its
ephemeral nodes stay until the next opening, which either resumes that session or removes them: the
process that opens the store owns the log directory, so the previous owner is dead.
"""

import contextlib
import fcntl
import logging
import os
import queue
import secrets
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pkafka.clock import Clock, SystemClock
from pkafka.coordination.embedded_tree import FORMAT_VERSION, SCHEMA, Tree
from pkafka.coordination.store import (
    ANY_VERSION,
    CreateOp,
    DeleteOp,
    MultiOutcome,
    NodeExistsError,
    NoNodeError,
    Op,
    OpResult,
    SessionCallback,
    SessionState,
    SetOp,
    Stat,
    StoreAccessError,
    StoreClosedError,
    StoreError,
    StoreFullError,
    WatchCallback,
    WatchEvent,
    WatchKind,
    check_path,
    check_size,
    parent_of,
)
from pkafka.errors import StorageError

STORE_FILE: Final = "pkafka-store.sqlite"
"""Name of the file in the first log directory."""

_APPLICATION_ID: Final = 0x706B6166  # "pkaf", shown by file(1)
_BUSY_TIMEOUT_S: Final = 5.0
_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
"""A full disk, to a write and to the growing of the ``-shm`` file."""

logger = logging.getLogger(__name__)


class EmbeddedStore:
    """A :class:`~pkafka.coordination.store.Store` in a SQLite file.

    Args:
        path: the file, made (readable by its owner alone: it will hold SCRAM keys) when missing.
        resume: id and password of the session of the previous owner process, to keep its ephemeral nodes.
            When they are not those of the last session a new one begins, as with ZooKeeper.
        read_only: only look, beside a process that owns the file or without one.
        clock: gives ctime and mtime.

    Raises:
        StoreAccessError: another process has the store open, or the file cannot be opened.
        StorageError: the file is damaged or of another program. Later, from any method: the disk refused; a
            write that raises it had no effect.
        StoreFullError: instead of it, here and later, when the disk is full.
    """

    def __init__(
        self,
        path: Path,
        *,
        resume: tuple[int, bytes] | None = None,
        read_only: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._path = path
        self._read_only = read_only
        self._lock = threading.RLock()
        self._closed = False
        self._watches: defaultdict[tuple[WatchKind, str], set[_EmbeddedWatch]] = defaultdict(set)
        self._session_callbacks: list[SessionCallback] = []
        self._deliveries = _Deliveries()
        self._session_id = 0
        self._session_password = b""
        # Closing any descriptor of a file drops this process's POSIX locks on it, SQLite's among them, so
        # the flock must use one that outlives the connection.
        self._lock_fd = -1 if read_only else _lock_file(path)
        try:
            with self._disk():
                self._db = self._connect()
                self._tree = Tree(self._db, clock or SystemClock())
                if not read_only:
                    self._begin_session(resume)
        except BaseException:
            if hasattr(self, "_db"):
                self._db.close()
            if self._lock_fd >= 0:
                os.close(self._lock_fd)
            raise

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_password(self) -> bytes:
        return self._session_password

    # Reads

    def get(self, path: str) -> tuple[bytes, Stat]:
        check_path(path)
        with self._reading():
            return self._tree.get(path)

    def exists(self, path: str) -> Stat | None:
        check_path(path)
        with self._reading():
            return self._tree.stat(path)

    def children(self, path: str) -> list[str]:
        check_path(path)
        with self._reading():
            return self._tree.children(path)

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        for path in paths:
            check_path(path)
        found: list[tuple[bytes, Stat] | None] = []
        with self._reading():
            for path in paths:
                try:
                    found.append(self._tree.get(path))
                except NoNodeError:
                    found.append(None)
        return found

    # Writes

    def create(
        self,
        path: str,
        data: bytes,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        op = CreateOp(path, data, ephemeral, sequential)
        check_path(path)
        check_size([op])
        with self._writing():
            if make_parents:
                self._make_parents(path)
            created = self._tree.apply(op, self._session_id)
        assert isinstance(created, str)
        return created

    def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> Stat:
        op = SetOp(path, data, version)
        check_path(path)
        check_size([op])
        with self._writing():
            stat = self._tree.apply(op, self._session_id)
        assert isinstance(stat, Stat)
        return stat

    def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        check_path(path)
        with self._writing():
            self._tree.apply(DeleteOp(path, version), self._session_id)

    def delete_recursive(self, path: str) -> bool:
        check_path(path)
        if path == "/":
            raise ValueError("the root cannot be deleted")
        with self._writing():
            below = self._tree.subtree(path)
            for each in reversed(below):
                self._tree.apply(DeleteOp(each), self._session_id)
        return bool(below)

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        for op in ops:
            check_path(op.path)
        check_size(ops)
        with self._writing():
            return self._apply_all(ops)

    def multi_many(self, transactions: Iterable[Sequence[Op]]) -> list[MultiOutcome]:
        planned = list(transactions)
        for ops in planned:
            for op in ops:
                check_path(op.path)
            check_size(ops)
        outcomes: list[MultiOutcome] = []
        with self._writing():
            for ops in planned:
                try:
                    with self._tree.nested():
                        outcomes.append(self._apply_all(ops))
                except StoreError as error:
                    outcomes.append(error)
        return outcomes

    # Watches and session

    def watch_data(self, path: str, callback: WatchCallback) -> "_EmbeddedWatch":
        return self._watch(WatchKind.DATA, path, callback)

    def watch_children(self, path: str, callback: WatchCallback) -> "_EmbeddedWatch":
        return self._watch(WatchKind.CHILDREN, path, callback)

    def on_session(self, callback: SessionCallback) -> None:
        self._deliveries.put(lambda: callback(SessionState.CONNECTED))

    def close(self, keep_session: bool = False) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                if not keep_session and not self._read_only:
                    with self._writing():
                        self._tree.end_sessions(keep=0)
            finally:
                self._closed = True
                self._watches.clear()
                self._db.close()
                if self._lock_fd >= 0:
                    os.close(self._lock_fd)
        self._deliveries.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> sqlite3.Connection:
        if self._read_only:
            address = f"{self._path.absolute().as_uri()}?mode=ro"
            db = sqlite3.connect(address, uri=True, timeout=_BUSY_TIMEOUT_S, check_same_thread=False)
            db.isolation_level = None
            return db
        db = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, check_same_thread=False)
        try:
            db.isolation_level = None
            _prepare(db, self._path)
        except BaseException:
            db.close()
            raise
        return db

    def _begin_session(self, resume: tuple[int, bytes] | None) -> None:
        with self._writing():
            if resume is not None and self._tree.session_password(resume[0]) == resume[1]:
                self._session_id, self._session_password = resume
            self._tree.end_sessions(keep=self._session_id)
            if not self._session_id:
                self._session_id = secrets.randbits(62) + 1
                self._session_password = secrets.token_bytes(16)
                self._tree.add_session(self._session_id, self._session_password)

    def _make_parents(self, path: str) -> None:
        missing = []
        parent = parent_of(path)
        while self._tree.stat(parent) is None:
            missing.append(parent)
            parent = parent_of(parent)
        for each in reversed(missing):
            with contextlib.suppress(NodeExistsError):
                self._tree.apply(CreateOp(each), self._session_id)

    def _apply_all(self, ops: Sequence[Op]) -> list[OpResult]:
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            try:
                results.append(self._tree.apply(op, self._session_id))
            except StoreError as error:
                error.failed_index = index
                raise
        return results

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, self._disk():
            self._check_open()
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction: all or nothing, on the disk at the end, watches told afterwards."""
        with self._lock, self._disk():
            self._check_open()
            if self._read_only:
                raise StoreAccessError("", f"{self._path} is open for reading only")
            with self._tree.transaction():
                yield
            for kind, path in self._tree.take_changes():
                for watch in self._watches.get((kind, path), ()):
                    self._deliveries.put(watch.fire)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("", f"{self._path} was closed")

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            text = f"{self._path}: {error}"
            if getattr(error, "sqlite_errorcode", None) in _NO_ROOM:
                raise StoreFullError("", text) from error
            raise StorageError(text) from error

    def _watch(self, kind: WatchKind, path: str, callback: WatchCallback) -> "_EmbeddedWatch":
        check_path(path)
        watch = _EmbeddedWatch(self, WatchEvent(kind, path), callback)
        with self._lock:
            self._check_open()
            self._watches[kind, path].add(watch)
        return watch

    def _forget(self, watch: "_EmbeddedWatch") -> None:
        with self._lock:
            key = (watch.event.kind, watch.event.path)
            standing = self._watches.get(key, set())
            standing.discard(watch)
            if not standing:
                self._watches.pop(key, None)


class _EmbeddedWatch:
    """A watch; fires on the delivery thread."""

    def __init__(self, store: EmbeddedStore, event: WatchEvent, callback: WatchCallback) -> None:
        self.event = event
        self._store = store
        self._callback: WatchCallback | None = callback

    def unwatch(self) -> None:
        self._callback = None
        self._store._forget(self)

    def fire(self) -> None:
        callback = self._callback
        if callback is not None:
            callback(self.event)


class _Deliveries:
    """The one thread on which callbacks run, started with the first of them, so that no writer runs foreign
    code."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def put(self, call: Callable[[], None]) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store-events", daemon=True)
                self._thread.start()
        self._queue.put(call)

    def close(self) -> None:
        """End the thread after the deliveries under way. A callback that calls this does not wait for them."""
        self._queue.put(None)
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5.0)

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            try:
                call()
            except Exception:  # a faulty callback must not end the events of all others
                logger.exception("a callback of the coordination store failed")


def _lock_file(path: Path) -> int:
    """Create the file when missing and lock it.

    Returns:
        The descriptor that holds the lock.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreAccessError("", f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise StoreAccessError("", f"{path} is in use by another process") from error
    return fd


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Set the connection up and make the tables in a new file."""
    application_id = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT_VERSION:
        raise StorageError(f"{path}: format {version} is newer than this program's {FORMAT_VERSION}")
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if tables and application_id != _APPLICATION_ID:
        raise StorageError(f"{path} is a SQLite database of another program")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    if version == FORMAT_VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA:
        db.execute(statement)
    db.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={FORMAT_VERSION}")
    db.execute("COMMIT")
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)  # the file's name, too, must survive a power cut
    finally:
        os.close(directory)
