"""The coordination port: a tree of small nodes with versions, watches and atomic writes.

Two stores implement it, :class:`~pkafka.coordination.zookeeper.ZooKeeperStore` (a real ZooKeeper) and
:class:`~pkafka.coordination.embedded.EmbeddedStore` (one SQLite file, for a single broker). One suite of
contract tests runs against both. What the nodes mean is not known here: see
:mod:`pkafka.coordination.znodes`.

Every method may be called from any thread and blocks until the store answered. Writes are durable when they
return.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self, TypeAlias

from pkafka.errors import PkafkaError

ANY_VERSION: Final = -1

REQUEST_BYTES_MAX: Final = 0xFFFFF
"""ZooKeeper's default ``jute.maxbuffer``: no request, a whole ``multi`` included, may be larger."""

_SMALLEST_PATH: Final = "/"


class StoreError(PkafkaError):
    """An operation on the coordination store failed.

    Attributes:
        path: the node that it was about; empty when it was about none.
        failed_index: position in a ``multi`` of the operation that failed, None elsewhere. No operation of
            that ``multi`` had an effect.
    """

    failed_index: int | None = None

    def __init__(self, path: str = "", message: str | None = None) -> None:
        super().__init__(message or (f"{type(self).__name__} for {path}" if path else type(self).__name__))
        self.path = path


class NoNodeError(StoreError):
    """The node, or the parent of a node to be created, does not exist."""


class NodeExistsError(StoreError):
    """The node exists already."""


class BadVersionError(StoreError):
    """The node exists at another version than the caller expected."""


class NotEmptyError(StoreError):
    """The node still has children."""


class NoChildrenForEphemeralsError(StoreError):
    """An ephemeral node cannot have children."""


class DataTooLargeError(StoreError):
    """The request exceeds :data:`REQUEST_BYTES_MAX`; nothing was sent."""


class SessionExpiredError(StoreError):
    """The session is over and its ephemeral nodes are gone; this store object is of no more use: open
    another."""


class ConnectionLossError(StoreError):
    """No answer came. A write may have happened or may still happen: read back before repeating it."""


class StoreFullError(StoreError):
    """The disk of the embedded store is full. The write had no effect; the next one works when there is room."""


class StoreClosedError(StoreError):
    """:meth:`Store.close` was called."""


class StoreAccessError(StoreError):
    """The store refuses this client (authentication, ACL), or another process has the embedded store."""


class Stat(NamedTuple):
    """What ZooKeeper keeps about a node besides its data. Times are milliseconds since the epoch."""

    czxid: int
    """Number of the transaction that created the node; grows over the whole store's life. Of /brokers/ids/N
    it is the broker epoch (KIP-380)."""
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    ephemeral_owner: int
    """Session id of the owner, 0 for a persistent node."""
    data_length: int
    num_children: int
    pzxid: int
    aversion: int = 0
    """How often the node's ACL was changed; the embedded store has none."""


@dataclass(frozen=True, slots=True)
class CreateOp:
    """Create ``path``; its result in a ``multi`` is the path made (it differs for a sequential node)."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetOp:
    """Replace the data of ``path``; its result in a ``multi`` is the new :class:`Stat`."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class DeleteOp:
    """Delete ``path``, which must have no children; its result in a ``multi`` is None."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class CheckOp:
    """Demand that ``path`` is at ``version``; its result in a ``multi`` is None."""

    path: str
    version: int


Op: TypeAlias = CreateOp | SetOp | DeleteOp | CheckOp
OpResult: TypeAlias = str | Stat | None
MultiOutcome: TypeAlias = list[OpResult] | StoreError


class WatchKind(Enum):
    """What a watch looks at."""

    DATA = "data"
    """The node was created, changed or deleted (children do not count)."""
    CHILDREN = "children"
    """A child was created or deleted, or the node itself was created or deleted."""


class WatchEvent(NamedTuple):
    """Something may have changed: read the node again. Says nothing about how, as events are coalesced."""

    kind: WatchKind
    path: str


class SessionState(Enum):
    """What :meth:`Store.on_session` reports."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """No connection; the session may or may not still live. Nothing that needs it can be assumed to hold."""
    EXPIRED = "expired"
    """The session is over for good."""


class Watch(Protocol):
    """A standing watch."""

    def unwatch(self) -> None:
        """Stop the watch. Idempotent. An event that is being delivered at this moment may still arrive."""
        ...


WatchCallback: TypeAlias = Callable[[WatchEvent], None]
SessionCallback: TypeAlias = Callable[[SessionState], None]


class Store(Protocol):
    """The port.

    Paths are absolute and without a trailing slash, ``/`` is the root; an illegal path is a ValueError. Any
    method may raise :class:`ConnectionLossError`, :class:`SessionExpiredError` or
    :class:`StoreClosedError`. Reads are repeated inside while the connection is away, for at most the
    session time-out; writes never are.
    """

    @property
    def session_id(self) -> int:
        """The id that ephemeral nodes of this store carry as their owner."""
        ...

    @property
    def session_password(self) -> bytes:
        """With the id, what another store object needs to take the session over (``resume=``)."""
        ...

    def get(self, path: str) -> tuple[bytes, Stat]:
        """Data and stat of a node.

        Raises:
            NoNodeError: there is no such node.
        """
        ...

    def exists(self, path: str) -> Stat | None:
        """The stat of a node, None when there is no such node."""
        ...

    def children(self, path: str) -> list[str]:
        """Names (not paths) of the children, sorted.

        Raises:
            NoNodeError: there is no such node.
        """
        ...

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """:meth:`get` for each path, None for a missing node, without a round trip per path. Not one
        snapshot."""
        ...

    def create(
        self,
        path: str,
        data: bytes,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Create a node.

        Args:
            path: of the node; a sequential one gets ten digits appended, higher than any before under this
                parent.
            data: its content.
            ephemeral: the node goes with this store's session.
            sequential: append a sequence number.
            make_parents: create missing parents as empty persistent nodes (not in one step with the node).

        Returns:
            The path of the node created.

        Raises:
            NodeExistsError: it exists already.
            NoNodeError: its parent does not exist and ``make_parents`` is false.
            NoChildrenForEphemeralsError: its parent is ephemeral.
            DataTooLargeError: data and path exceed one request.
        """
        ...

    def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a node if it is at ``version`` (any, when -1).

        Raises:
            NoNodeError: there is no such node.
            BadVersionError: it is at another version.
            DataTooLargeError: data and path exceed one request.
        """
        ...

    def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Delete a node without children if it is at ``version`` (any, when -1).

        Raises:
            NoNodeError: there is no such node.
            BadVersionError: it is at another version.
            NotEmptyError: it has children.
        """
        ...

    def delete_recursive(self, path: str) -> bool:
        """Delete a node and everything below it, children first, in several steps on a real ZooKeeper.

        Returns:
            Whether the node existed. It is gone when this returns, unless another client made it again.
        """
        ...

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Do all operations in order as one atomic step, or none.

        Returns:
            One result per operation, see the classes of the operations.

        Raises:
            StoreError: what the first operation that failed ran into, with ``failed_index`` set.
            DataTooLargeError: the operations together exceed one request; use :meth:`multi_many` for
                independent ones.
        """
        ...

    def multi_many(self, transactions: Iterable[Sequence[Op]]) -> list[MultiOutcome]:
        """Many independent :meth:`multi`, each atomic, in order, without a round trip or disk flush for each.

        One that fails does not stop those after it. This is the way to write the state of thousands of
        partitions, each with its own version check and the check of the controller's epoch.

        Returns:
            For each transaction its results, or the error it failed with (raised by :meth:`multi` in its
            place). After a lost connection the outcome of each unanswered one is a
            :class:`ConnectionLossError`.
        """
        ...

    def watch_data(self, path: str, callback: WatchCallback) -> Watch:
        """Watch a node, which need not exist, for creation, change and deletion.

        Every change made after this returns leads to at least one call of ``callback`` that comes after the
        change can be read; several changes may share one call, and calls without a change happen (after a
        reconnect). The watch stands until :meth:`Watch.unwatch`, through any number of changes and
        reconnects, but not beyond the
        session: a new store object needs every watch anew.

        ``callback`` runs on an internal thread, which must not wait for anything: it may only put the event
        into a queue. Exceptions from it are logged.
        """
        ...

    def watch_children(self, path: str, callback: WatchCallback) -> Watch:
        """As :meth:`watch_data`, for the set of children of a node, which need not exist yet."""
        ...

    def on_session(self, callback: SessionCallback) -> None:
        """Call ``callback`` for each later change of the session's state; same rules as for watch callbacks.

        CONNECTED comes once at once if the store is connected already. EXPIRED is the last call.
        """
        ...

    def close(self, keep_session: bool = False) -> None:
        """Leave. Idempotent.

        Args:
            keep_session: leave the session and its ephemeral nodes behind for a successor that resumes them
                before the session times out; otherwise they end now.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def check_path(path: str) -> None:
    """Refuse what ZooKeeper refuses as a path.

    Raises:
        ValueError: ``path`` is relative, ends in a slash, or has an empty, ``.`` or ``..`` part or a NUL.
    """
    if path == _SMALLEST_PATH:
        return
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ValueError(f"{path!r} is not an absolute path without a trailing slash")
    if any(part in {"", ".", ".."} for part in path.split("/")[1:]):
        raise ValueError(f"the path {path!r} has an empty, '.' or '..' part")


def parent_of(path: str) -> str:
    """The path of the parent; the root is its own."""
    return path[: path.rfind("/")] or _SMALLEST_PATH


def request_bytes(ops: Iterable[Op]) -> int:
    """An upper bound of the size of the ZooKeeper request that carries ``ops``, in bytes."""
    # Per operation: multi header 9, path and data lengths 8, flags or version 4, one world:anyone ACL 31.
    size = 32
    for op in ops:
        size += 64 + len(op.path.encode())
        if isinstance(op, CreateOp | SetOp):
            size += len(op.data)
    return size


def check_size(ops: Sequence[Op]) -> None:
    """Refuse what a ZooKeeper server answers by cutting the connection.

    Raises:
        DataTooLargeError: the request that carries ``ops`` may exceed :data:`REQUEST_BYTES_MAX`.
    """
    size = request_bytes(ops)
    if size > REQUEST_BYTES_MAX:
        path = ops[0].path if len(ops) == 1 else ""
        raise DataTooLargeError(
            path,
            f"a request of {size} bytes for {path or f'{len(ops)} operations'} exceeds ZooKeeper's limit of "
            f"{REQUEST_BYTES_MAX}",
        )
