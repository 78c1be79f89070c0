"""What an operator asks of a coordination store: more than brokers need (:mod:`pkafka.coordination.store`).

Two things have it: a session with ZooKeeper (:mod:`pkafka.coordination.zookeeper_session`), which knows all requests,
and the file of an embedded store (:mod:`pkafka.coordination.embedded_nodes`), which refuses what only a server can do.
"""

from collections.abc import Sequence
from enum import Enum, IntEnum, IntFlag
from typing import Final, NamedTuple, Protocol

from pkafka.coordination.store import ANY_VERSION, Stat, StoreError


class KeeperCode(IntEnum):
    """ZooKeeper's error codes (org.apache.zookeeper.KeeperException.Code)."""

    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NEW_CONFIG_NO_QUORUM = -13
    RECONFIG_IN_PROGRESS = -14
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    EPHEMERAL_ON_LOCAL_SESSION = -120
    NO_WATCHER = -121
    REQUEST_TIMEOUT = -122
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124
    QUOTA_EXCEEDED = -125
    THROTTLED_OP = -127


_CODE_TEXT: Final = {
    KeeperCode.SYSTEM_ERROR: "SystemError",
    KeeperCode.RECONFIG_DISABLED: "Reconfig is disabled",
    KeeperCode.NOT_EMPTY: "Directory not empty",
    KeeperCode.SESSION_EXPIRED: "Session expired",
    KeeperCode.INVALID_ACL: "InvalidACL",
    KeeperCode.SESSION_MOVED: "Session moved",
    KeeperCode.NOT_READ_ONLY: "Not a read-only call",
    KeeperCode.EPHEMERAL_ON_LOCAL_SESSION: "Ephemeral node on local session",
    KeeperCode.NO_WATCHER: "No such watcher",
    KeeperCode.QUOTA_EXCEEDED: "Quota has exceeded",
}


def code_text(code: int) -> str:
    """What ZooKeeper calls an error in the messages of its exceptions."""
    try:
        known = KeeperCode(code)
    except ValueError:
        return f"Unknown error {code}"
    return _CODE_TEXT.get(known) or "".join(word.capitalize() for word in known.name.split("_"))


class KeeperError(StoreError):
    """ZooKeeper, or what stands for it, refused a request.

    Args:
        code: why.
        path: the node, as the caller wrote it; empty when it was about none.
    """

    def __init__(self, code: int, path: str = "") -> None:
        super().__init__(path, f"KeeperErrorCode = {code_text(code)}" + (f" for {path}" if path else ""))
        self.code = code


class NotServedError(StoreError):
    """The store has no such thing; the text says so in one line."""


class Permission(IntFlag):
    """Bits of an ACL (org.apache.zookeeper.ZooDefs.Perms)."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16


class Acl(NamedTuple):
    """What an identity may do with a node."""

    perms: Permission
    scheme: str
    id: str


OPEN_TO_ALL: Final = (Acl(Permission(31), "world", "anyone"),)


class CreateMode(IntEnum):
    """How long a node stays and whether its name gets a number (org.apache.zookeeper.CreateMode)."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6


class AddWatchMode(IntEnum):
    """Watches that stay (ZOOKEEPER-1416)."""

    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


class WatcherType(IntEnum):
    """Which watches of a node are to be removed."""

    CHILDREN = 1
    DATA = 2
    ANY = 3


class SessionEvent(Enum):
    """What becomes of the session, in the words of ZooKeeper's events."""

    CONNECTED = "SyncConnected"
    CONNECTED_READ_ONLY = "ConnectedReadOnly"
    LOGGED_IN = "SaslAuthenticated"
    DISCONNECTED = "Disconnected"
    EXPIRED = "Expired"
    AUTH_FAILED = "AuthFailed"
    CLOSED = "Closed"


class Event(NamedTuple):
    """A watch fired, or the state of the session changed (then without type and path)."""

    state: SessionEvent
    type: str | None = None
    path: str | None = None


class ClientInfo(NamedTuple):
    """The identities by which the server knows this session."""

    scheme: str
    user: str


class Nodes(Protocol):
    """The requests. Every method may raise :class:`KeeperError` or :class:`NotServedError`; paths are absolute."""

    def create(
        self,
        path: str,
        data: bytes | None,
        acls: Sequence[Acl] = OPEN_TO_ALL,
        mode: CreateMode = CreateMode.PERSISTENT,
        ttl_ms: int = -1,
    ) -> str:
        """Create a node.

        Returns:
            Its path, which has a number more for a sequential one.
        """
        ...

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node without children."""
        ...

    def delete_all(self, paths: Sequence[str], batch: int) -> bool:
        """Delete nodes in this order, each ``batch`` of them in one step.

        Returns:
            Whether all of them are gone.
        """
        ...

    def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """The stat of a node; None when there is none."""
        ...

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        """Data, which may be none at all, and stat of a node."""
        ...

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a node."""
        ...

    def children(self, path: str, *, watch: bool = False) -> tuple[list[str], Stat]:
        """Names of the children in no order, and the stat of a node."""
        ...

    def get_acl(self, path: str) -> tuple[list[Acl], Stat]:
        """The ACL and the stat of a node."""
        ...

    def set_acl(self, path: str, acls: Sequence[Acl], version: int = ANY_VERSION) -> Stat:
        """Replace the ACL of a node that has this version of it."""
        ...

    def sync(self, path: str) -> None:
        """Wait until the server knows what the leader knew at this time."""
        ...

    def ephemerals(self, prefix: str) -> list[str]:
        """Ephemeral nodes of this session below a path."""
        ...

    def all_children_number(self, path: str) -> int:
        """How many nodes are below a path."""
        ...

    def add_watch(self, path: str, mode: AddWatchMode) -> None:
        """Watch a node, or with all below it, for as long as the session lasts."""
        ...

    def remove_watches(self, path: str, kind: WatcherType, *, local: bool) -> None:
        """Watch a node no more; with ``local``, also where the server does not answer."""
        ...

    def add_auth(self, scheme: str, credential: str) -> None:
        """Prove another identity too."""
        ...

    def whoami(self) -> list[ClientInfo]:
        """The identities by which the server knows this session."""
        ...

    def config(self, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        """The members of the ensemble (``/zookeeper/config``)."""
        ...

    def reconfigure(
        self, joining: str | None, leaving: str | None, members: str | None, version: int
    ) -> tuple[bytes | None, Stat]:
        """Change the members of the ensemble.

        Returns:
            The new configuration.
        """
        ...

    def close(self) -> None:
        """Leave. Idempotent."""
        ...
