"""ZooKeeper's data model over SQLite tables: nodes, versions, sequence numbers, sessions, transactions.

No locks, no watches, no files: :mod:`pkafka.coordination.embedded` owns those and calls this from one
thread at a time.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Final, TypeAlias

from pkafka.clock import Clock
from pkafka.coordination.store import (
    ANY_VERSION,
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    OpResult,
    SetOp,
    Stat,
    WatchKind,
    parent_of,
)

FORMAT_VERSION: Final = 1
"""``user_version`` of the SQLite file."""

# creates counts the children ever created here: it numbers sequential nodes, as ZooKeeper's inner cversion
# does.
SCHEMA: Final = (
    """CREATE TABLE node (
        path TEXT PRIMARY KEY, parent TEXT NOT NULL, data BLOB NOT NULL,
        czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, pzxid INTEGER NOT NULL,
        ctime_ms INTEGER NOT NULL, mtime_ms INTEGER NOT NULL, version INTEGER NOT NULL,
        creates INTEGER NOT NULL, children INTEGER NOT NULL, owner INTEGER NOT NULL)""",
    "CREATE INDEX node_parent ON node (parent)",
    "CREATE INDEX node_owner ON node (owner) WHERE owner != 0",
    "CREATE TABLE session (id INTEGER PRIMARY KEY, password BLOB NOT NULL)",
    "CREATE TABLE counter (zxid INTEGER NOT NULL)",
    "INSERT INTO counter VALUES (0)",
    "INSERT INTO node VALUES ('/', '', x'', 0, 0, 0, 0, 0, 0, 0, 0, 0)",
)

_SELECT: Final = """SELECT data, czxid, mzxid, ctime_ms, mtime_ms, version, 2 * creates - children, owner,
    length(data), children, pzxid FROM node WHERE path = ?"""

Change: TypeAlias = tuple[WatchKind, str]


class Tree:
    """The nodes of one database.

    Args:
        db: a connection in autocommit mode (``isolation_level=None``) on a file with :data:`SCHEMA`.
        clock: gives ctime and mtime.
    """

    def __init__(self, db: sqlite3.Connection, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._zxid = 0
        self._now_ms = 0
        self._changes: dict[Change, None] = {}

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside happens at once or, when an exception leaves, not at all."""
        self._changes.clear()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._zxid = int(self._db.execute("SELECT zxid FROM counter").fetchone()[0])
            self._advance()
            yield
            self._db.execute("UPDATE counter SET zxid = ?", (self._zxid,))
            self._db.execute("COMMIT")
        except BaseException:
            self._changes.clear()
            if self._db.in_transaction:  # SQLite itself rolls back when the disk is full
                self._db.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """A part of a transaction with its own zxid, which is undone alone when an exception leaves."""
        mark = len(self._changes)
        self._db.execute("SAVEPOINT part")
        self._advance()
        try:
            yield
        except BaseException:
            while len(self._changes) > mark:
                self._changes.popitem()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK TO part")
                self._db.execute("RELEASE part")
            raise
        self._db.execute("RELEASE part")

    def take_changes(self) -> list[Change]:
        """What watches must be told of, each once; empty afterwards."""
        changes = list(self._changes)
        self._changes.clear()
        return changes

    def get(self, path: str) -> tuple[bytes, Stat]:
        row = self._db.execute(_SELECT, (path,)).fetchone()
        if row is None:
            raise NoNodeError(path)
        return row[0], Stat(*row[1:])

    def stat(self, path: str) -> Stat | None:
        row = self._db.execute(_SELECT, (path,)).fetchone()
        return None if row is None else Stat(*row[1:])

    def children(self, path: str) -> list[str]:
        rows = self._db.execute("SELECT path FROM node WHERE parent = ?", (path,)).fetchall()
        if not rows and self.stat(path) is None:
            raise NoNodeError(path)
        prefix = len(path) if path == "/" else len(path) + 1
        return sorted(row[0][prefix:] for row in rows)

    def subtree(self, path: str) -> list[str]:
        """The node and all below it, parents before children; empty when it does not exist."""
        # '0' is the character after '/': the range holds exactly the paths that begin with path + '/'.
        rows = self._db.execute(
            "SELECT path FROM node WHERE path = ? OR (path > ? AND path < ?)", (path, path + "/", path + "0")
        )
        return sorted((row[0] for row in rows), key=lambda each: each.count("/"))

    def apply(self, op: Op, session_id: int) -> OpResult:
        """Do one operation inside a transaction; see the classes of the operations for the results."""
        match op:
            case CreateOp():
                return self._create(op, session_id)
            case SetOp():
                return self._set(op)
            case DeleteOp():
                self._delete(op)
            case CheckOp():
                self._demand(op.path, op.version)
        return None

    def session_password(self, session_id: int) -> bytes | None:
        row = self._db.execute("SELECT password FROM session WHERE id = ?", (session_id,)).fetchone()
        return None if row is None else row[0]

    def add_session(self, session_id: int, password: bytes) -> None:
        self._db.execute("INSERT INTO session VALUES (?, ?)", (session_id, password))

    def end_sessions(self, *, keep: int) -> None:
        """Remove all sessions but ``keep`` (0: all) with their ephemeral nodes."""
        orphans = self._db.execute(
            "SELECT path FROM node WHERE owner != 0 AND owner != ?", (keep,)
        ).fetchall()
        for (path,) in orphans:
            self._delete(DeleteOp(path))
        self._db.execute("DELETE FROM session WHERE id != ?", (keep,))

    def _advance(self) -> None:
        self._zxid += 1
        self._now_ms = self._clock.now_ms()

    def _create(self, op: CreateOp, session_id: int) -> str:
        parent = parent_of(op.path)
        row = self._db.execute("SELECT creates, owner FROM node WHERE path = ?", (parent,)).fetchone()
        if row is None:
            raise NoNodeError(op.path)
        creates, owner = row
        path = f"{op.path}{creates:010d}" if op.sequential else op.path
        if self.stat(path) is not None:
            raise NodeExistsError(path)
        if owner:
            raise NoChildrenForEphemeralsError(path)
        self._db.execute(
            "INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?)",
            (
                path,
                parent,
                bytes(op.data),
                self._zxid,
                self._zxid,
                self._zxid,
                self._now_ms,
                self._now_ms,
                session_id if op.ephemeral else 0,
            ),
        )
        self._db.execute(
            "UPDATE node SET creates = creates + 1, children = children + 1, pzxid = ? WHERE path = ?",
            (self._zxid, parent),
        )
        self._changed(path, parent)
        return path

    def _set(self, op: SetOp) -> Stat:
        self._demand(op.path, op.version)
        self._db.execute(
            "UPDATE node SET data = ?, version = version + 1, mzxid = ?, mtime_ms = ? WHERE path = ?",
            (bytes(op.data), self._zxid, self._now_ms, op.path),
        )
        self._changes[WatchKind.DATA, op.path] = None
        stat = self.stat(op.path)
        assert stat is not None
        return stat

    def _delete(self, op: DeleteOp) -> None:
        stat = self._demand(op.path, op.version)
        if stat.num_children:
            raise NotEmptyError(op.path)
        if op.path == "/":
            raise ValueError("the root cannot be deleted")
        parent = parent_of(op.path)
        self._db.execute("DELETE FROM node WHERE path = ?", (op.path,))
        self._db.execute(
            "UPDATE node SET children = children - 1, pzxid = ? WHERE path = ?", (self._zxid, parent)
        )
        self._changed(op.path, parent)

    def _demand(self, path: str, version: int) -> Stat:
        stat = self.stat(path)
        if stat is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, stat.version):
            raise BadVersionError(path)
        return stat

    def _changed(self, path: str, parent: str) -> None:
        """A node came or went: that touches its data watch, its own and its parent's children watch."""
        self._changes[WatchKind.DATA, path] = None
        self._changes[WatchKind.CHILDREN, path] = None
        self._changes[WatchKind.CHILDREN, parent] = None
