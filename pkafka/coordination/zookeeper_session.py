"""A session with ZooKeeper for an operator: every request of its protocol, and every event as it comes.

kazoo carries the requests and keeps the session; it knows neither whoami nor watches that stay nor some others, so the
requests are written here, in the form that kazoo's own have. One-shot and standing watches are the server's; this
keeps only a list of them, as a server does not say what it forgot.
"""

import contextlib
import logging
import ssl
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from pkafka.coordination.administration import (
    OPEN_TO_ALL,
    Acl,
    AddWatchMode,
    ClientInfo,
    CreateMode,
    Event,
    KeeperCode,
    KeeperError,
    Permission,
    SessionEvent,
    WatcherType,
)
from pkafka.coordination.connect_string import split_connect
from pkafka.coordination.kazoo_client import TlsConnections, connect_by, connection_class, new_handler
from pkafka.coordination.store import ANY_VERSION, ConnectionLossError, Stat, StoreAccessError, check_path
from pkafka.coordination.zookeeper_access import REFUSED_LOGIN, ZooKeeperLogin

if TYPE_CHECKING:
    from kazoo.client import KazooClient

T = TypeVar("T")
Untyped: TypeAlias = Any
"""What kazoo, which has no annotations, hands over."""

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_MULTI_HEADER: Final = struct.Struct(">i?i")
_CONFIG_NODE: Final = "/zookeeper/config"
_CLOSE_TIMEOUT_S: Final = 10.0
_UNSEEN: Final = logging.NullHandler()

_EVENTS: Final = {
    1: "NodeCreated",
    2: "NodeDeleted",
    3: "NodeDataChanged",
    4: "NodeChildrenChanged",
    5: "DataWatchRemoved",
    6: "ChildWatchRemoved",
    7: "PersistentWatchRemoved",
}


class _Type:
    """Numbers of requests (org.apache.zookeeper.ZooDefs.OpCode)."""

    CREATE = 15
    CREATE_CONTAINER = 19
    CREATE_TTL = 21
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    SYNC = 9
    GET_CHILDREN = 12
    MULTI = 14
    RECONFIG = 16
    REMOVE_WATCHES = 18
    GET_EPHEMERALS = 103
    SET_WATCHES = 105
    GET_ALL_CHILDREN_NUMBER = 104
    ADD_WATCH = 106
    WHO_AM_I = 107
    MULTI_DELETE = 2


class _Request(NamedTuple):
    """One request: kazoo asks it for its bytes and gives it those of the answer."""

    type: int
    body: bytes
    read: "Callable[[_Reader], object]"

    def serialize(self) -> bytes:
        """The body."""
        return self.body

    def deserialize(self, data: bytes, offset: int) -> object:
        """The value of the answer."""
        return self.read(_Reader(data, offset))


class _Reader:
    """Reads jute, ZooKeeper's encoding."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._at = offset

    def _next(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self._data, self._at)
        self._at += form.size
        return values

    def integer(self) -> int:
        value: int = self._next(_INT)[0]
        return value

    def buffer(self) -> bytes | None:
        size = self.integer()
        if size < 0:
            return None
        self._at += size
        return bytes(self._data[self._at - size : self._at])

    def text(self) -> str:
        return (self.buffer() or b"").decode(errors="replace")

    def many(self, read: Callable[[], T]) -> list[T]:
        return [read() for _ in range(self.integer())]

    def acl(self) -> Acl:
        return Acl(Permission(self.integer() & 31), self.text(), self.text())

    def client_info(self) -> ClientInfo:
        return ClientInfo(self.text(), self.text())

    def stat(self) -> Stat:
        czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, length, children, pzxid = self._next(
            _STAT
        )
        return Stat(czxid, mzxid, ctime, mtime, version, cversion, owner, length, children, pzxid, aversion)

    def multi_succeeded(self) -> list[bool]:
        """Whether a transaction of deletes was done: the first header of one that was not says so.

        A list, as kazoo looks into the answers of transactions.
        """
        kind, _done, _error = self._next(_MULTI_HEADER)
        return [kind != -1]


def _number(value: int) -> bytes:
    return _INT.pack(value)


def _buffer(data: bytes | None) -> bytes:
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


def _text(text: str | None) -> bytes:
    return _buffer(None if text is None else text.encode())


def _acls(acls: Sequence[Acl]) -> bytes:
    parts = [_INT.pack(len(acls))]
    for each in acls:
        parts += [_INT.pack(each.perms), _text(each.scheme), _text(each.id)]
    return b"".join(parts)


class _Watched(Enum):
    """What a watch of a node looks at."""

    DATA = "data"
    EXISTS = "exists"
    """As data, of a node that is not there yet."""
    CHILDREN = "children"
    PERSISTENT = "persistent"
    RECURSIVE = "recursive"


_ENDED_BY: Final = {
    1: frozenset({_Watched.DATA, _Watched.EXISTS}),
    2: frozenset({_Watched.DATA, _Watched.EXISTS, _Watched.CHILDREN}),
    3: frozenset({_Watched.DATA, _Watched.EXISTS}),
    4: frozenset({_Watched.CHILDREN}),
}
"""Which one-shot watches end with an event."""
_REMOVED_BY: Final = {
    WatcherType.DATA: frozenset({_Watched.DATA, _Watched.EXISTS}),
    WatcherType.CHILDREN: frozenset({_Watched.CHILDREN}),
    WatcherType.ANY: frozenset(_Watched),
}
_REMOVAL: Final = {
    _Watched.DATA: "DataWatchRemoved",
    _Watched.EXISTS: "DataWatchRemoved",
    _Watched.CHILDREN: "ChildWatchRemoved",
    _Watched.PERSISTENT: "PersistentWatchRemoved",
    _Watched.RECURSIVE: "PersistentWatchRemoved",
}


class ZooKeeperSession:
    """Requests and events of one session.

    Args:
        connect: ``host:port,host:port/chroot``.
        session_timeout_ms: how long the session outlives its connection; the server may bound it.
        on_event: gets every event, on a thread of kazoo; must not wait.
        read_only: be content with a server that has lost the others.
        tls: makes OpenSSL's context of a connection; None: it is plain.
        login: who this is, proven by DIGEST-MD5; None: nobody in particular.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int,
        on_event: Callable[[Event], None],
        read_only: bool = False,
        tls: Callable[[], ssl.SSLContext] | None = None,
        login: ZooKeeperLogin | None = None,
    ) -> None:
        self._login = login
        hosts, self._chroot = split_connect(connect)
        self._hosts = hosts
        self._timeout_s = session_timeout_ms / 1000
        self._on_event = on_event
        self._watched: defaultdict[str, set[_Watched]] = defaultdict(set)
        self._settled = threading.Event()  # connected, or never to be
        self._alive = False
        self._ended = False
        self._ended_by = KeeperCode.CONNECTION_LOSS
        self._closed = False
        connections = None if tls is None else TlsConnections(tls)
        self._client = _client(
            hosts, self._timeout_s, read_only, connections, login, self._on_watch, self._on_refused
        )
        self._client.add_listener(self._on_state)
        self._client.start_async()

    @property
    def is_alive(self) -> bool:
        """Whether there is a session: it was not closed, and no server said that it is over."""
        return not self._ended

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._alive

    def wait_connected(self, timeout_ms: int) -> None:
        """Wait for the first connection, and for the login on it where there is one.

        Raises:
            ConnectionLossError: every server refused, or none answered in time.
            StoreAccessError: the servers do not let this client log in.
        """
        settled = self._settled.wait(timeout_ms / 1000)
        if settled and self._login is not None:
            self._check_login()
        if not settled or not self._alive:
            raise ConnectionLossError("", f"no ZooKeeper server of {self._hosts} answered")

    def _check_login(self) -> None:
        """kazoo is connected before it logs in: a question tells what became of that."""
        try:
            self.exists("/")
        except KeeperError as error:
            if error.code == KeeperCode.AUTH_FAILED:
                raise StoreAccessError("", REFUSED_LOGIN) from None
        else:
            self._on_event(Event(SessionEvent.LOGGED_IN))

    def create(
        self,
        path: str,
        data: bytes | None,
        acls: Sequence[Acl] = OPEN_TO_ALL,
        mode: CreateMode = CreateMode.PERSISTENT,
        ttl_ms: int = -1,
    ) -> str:
        kind = _Type.CREATE
        body = (
            _text(self._full(path, sequential=mode in _SEQUENTIAL))
            + _buffer(data)
            + _acls(acls)
            + _number(mode)
        )
        if mode is CreateMode.CONTAINER:
            kind = _Type.CREATE_CONTAINER
        elif mode in (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL):
            kind = _Type.CREATE_TTL
            body += _LONG.pack(ttl_ms)
        return self._inner(self._ask(path, kind, body, _Reader.text))

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._ask(path, _Type.DELETE, _text(self._full(path)) + _number(version), _nothing)

    def delete_all(self, paths: Sequence[str], batch: int) -> bool:
        done = True
        for start in range(0, len(paths), batch):
            body = b"".join(
                _MULTI_HEADER.pack(_Type.MULTI_DELETE, False, -1)
                + _text(self._full(path))
                + _number(ANY_VERSION)
                for path in paths[start : start + batch]
            )
            ending = _MULTI_HEADER.pack(-1, True, -1)
            done &= all(self._ask("", _Type.MULTI, body + ending, _Reader.multi_succeeded))
        return done

    def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        try:
            found = self._ask(path, _Type.EXISTS, self._watching(path, watch), _Reader.stat)
        except KeeperError as error:
            if error.code != KeeperCode.NO_NODE:
                raise
            found = None
        # kazoo answers None in place of that error.
        if watch:
            self._watched[path].add(_Watched.EXISTS if found is None else _Watched.DATA)
        return found

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        answer = self._ask(path, _Type.GET_DATA, self._watching(path, watch), _data_and_stat)
        if watch:
            self._watched[path].add(_Watched.DATA)
        return answer

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        body = _text(self._full(path)) + _buffer(data) + _number(version)
        return self._ask(path, _Type.SET_DATA, body, _Reader.stat)

    def children(self, path: str, *, watch: bool = False) -> tuple[list[str], Stat]:
        answer = self._ask(
            path,
            _Type.GET_CHILDREN,
            self._watching(path, watch),
            lambda reader: (reader.many(reader.text), reader.stat()),
        )
        if watch:
            self._watched[path].add(_Watched.CHILDREN)
        return answer

    def get_acl(self, path: str) -> tuple[list[Acl], Stat]:
        return self._ask(
            path,
            _Type.GET_ACL,
            _text(self._full(path)),
            lambda reader: (reader.many(reader.acl), reader.stat()),
        )

    def set_acl(self, path: str, acls: Sequence[Acl], version: int = ANY_VERSION) -> Stat:
        body = _text(self._full(path)) + _acls(acls) + _number(version)
        return self._ask(path, _Type.SET_ACL, body, _Reader.stat)

    def sync(self, path: str) -> None:
        self._ask(path, _Type.SYNC, _text(self._full(path)), _nothing)

    def ephemerals(self, prefix: str) -> list[str]:
        found = self._ask(
            prefix, _Type.GET_EPHEMERALS, _text(self._full(prefix)), lambda reader: reader.many(reader.text)
        )
        return [self._inner(each) for each in found]

    def all_children_number(self, path: str) -> int:
        return self._ask(path, _Type.GET_ALL_CHILDREN_NUMBER, _text(self._full(path)), _Reader.integer)

    def add_watch(self, path: str, mode: AddWatchMode) -> None:
        self._ask(path, _Type.ADD_WATCH, _text(self._full(path)) + _number(mode), _nothing)
        recursive = mode is AddWatchMode.PERSISTENT_RECURSIVE
        self._watched[path].add(_Watched.RECURSIVE if recursive else _Watched.PERSISTENT)

    def remove_watches(self, path: str, kind: WatcherType, *, local: bool) -> None:
        standing = self._watched[path] & _REMOVED_BY[kind]
        if not standing:
            raise KeeperError(KeeperCode.NO_WATCHER, path)
        try:
            self._ask(path, _Type.REMOVE_WATCHES, _text(self._full(path)) + _number(kind), _nothing)
        except KeeperError:
            if not local:
                raise
        self._watched[path] -= standing
        for name in sorted({_REMOVAL[each] for each in standing}):
            self._on_event(Event(SessionEvent.CONNECTED, name, path))

    def add_auth(self, scheme: str, credential: str) -> None:
        with self._translated(""):
            self._client.add_auth_async(scheme, credential).get(timeout=self._timeout_s)

    def whoami(self) -> list[ClientInfo]:
        return self._ask("", _Type.WHO_AM_I, b"", lambda reader: reader.many(reader.client_info))

    def config(self, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        body = _text(_CONFIG_NODE) + bytes([watch])
        return self._ask(_CONFIG_NODE, _Type.GET_DATA, body, _data_and_stat)

    def reconfigure(
        self, joining: str | None, leaving: str | None, members: str | None, version: int
    ) -> tuple[bytes | None, Stat]:
        body = _text(joining) + _text(leaving) + _text(members) + _LONG.pack(version)
        return self._ask("", _Type.RECONFIG, body, _data_and_stat)

    def close(self) -> None:
        """End the session, and with it its ephemeral nodes. Idempotent."""
        if self._closed:
            return
        self._closed = self._ended = True
        with contextlib.suppress(Exception):  # kazoo raises bare Exception when its thread does not end
            self._client.stop()
            self._client.close()

    def _full(self, path: str, *, sequential: bool = False) -> str:
        # A number follows, so that the name may be empty up to there.
        check_path(path + "1" if sequential else path)
        return (self._chroot + path if path != "/" else self._chroot) or "/"

    def _inner(self, full: str) -> str:
        return full.removeprefix(self._chroot) or "/"

    def _watching(self, path: str, watch: bool) -> bytes:
        return _text(self._full(path)) + bytes([watch])

    def _ask(self, path: str, kind: int, body: bytes, read: Callable[[_Reader], T]) -> T:
        with self._translated(path):
            answer = self._client.handler.async_result()
            self._client._call(_Request(kind, body, read), answer)
            found: T = answer.get(timeout=self._timeout_s)
        return found

    @contextlib.contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        from kazoo.exceptions import ConnectionClosedError, KazooException

        if self._ended:
            raise KeeperError(self._ended_by, path)
        try:
            yield
        except (KazooException, self._client.handler.timeout_exception) as error:
            code = getattr(error, "code", None)
            if code is None or isinstance(error, ConnectionClosedError):
                code = KeeperCode.CONNECTION_LOSS
            raise KeeperError(code, path) from error

    # On kazoo's threads: never wait, never ask

    def _on_watch(self, number: int, full: str) -> None:
        path = self._inner(full)
        kind = _EVENTS.get(number, str(number))
        if path in self._watched:
            self._watched[path] -= _ENDED_BY.get(number, frozenset())
        self._on_event(Event(SessionEvent.CONNECTED, kind, path))

    def _on_refused(self) -> bool:
        """No server took the connection: whether that is the end, as it is for a client that was never connected."""
        if self._settled.is_set():
            return False
        self._ended = True
        self._settled.set()
        return True

    def _on_state(self, kazoo_state: str) -> None:
        if self._ended and not self._closed:
            return  # kazoo begins another session, which is none of this object's
        if kazoo_state == "CONNECTED":
            self._alive = True
            self._watch_again()
            read_only = str(self._client.client_state) == "CONNECTED_RO"
            self._on_event(Event(SessionEvent.CONNECTED_READ_ONLY if read_only else SessionEvent.CONNECTED))
            self._settled.set()  # the thread that waits for the connection has been told of it by then
            return
        was_alive, self._alive = self._alive, False
        if kazoo_state == "SUSPENDED":
            if was_alive:
                self._on_event(Event(SessionEvent.DISCONNECTED))
            return
        over, self._ended_by = _ENDS.get(str(self._client.client_state), _CLOSED)
        self._ended = True
        if was_alive or not self._closed:
            self._on_event(Event(over))
        self._settled.set()

    def _watch_again(self) -> None:
        """Tell the server of a new connection what is watched; it answers with the events that were missed."""
        if not any(self._watched.values()):
            return
        body = _LONG.pack(self._client.last_zxid)
        for kind in (
            _Watched.DATA,
            _Watched.EXISTS,
            _Watched.CHILDREN,
            _Watched.PERSISTENT,
            _Watched.RECURSIVE,
        ):
            paths = [self._full(path) for path, standing in self._watched.items() if kind in standing]
            body += _number(len(paths)) + b"".join(map(_text, paths))
        self._client._call(_Request(_Type.SET_WATCHES, body, _nothing), self._client.handler.async_result())


_CLOSED: Final = (SessionEvent.CLOSED, KeeperCode.CONNECTION_LOSS)
_ENDS: Final = {
    "EXPIRED_SESSION": (SessionEvent.EXPIRED, KeeperCode.SESSION_EXPIRED),
    "AUTH_FAILED": (SessionEvent.AUTH_FAILED, KeeperCode.AUTH_FAILED),
}
_SEQUENTIAL: Final = frozenset(
    {
        CreateMode.PERSISTENT_SEQUENTIAL,
        CreateMode.EPHEMERAL_SEQUENTIAL,
        CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
    }
)


def _nothing(_: _Reader) -> None:
    """An answer without content."""


def _data_and_stat(reader: _Reader) -> tuple[bytes | None, Stat]:
    return reader.buffer(), reader.stat()


def _client(
    hosts: str,
    timeout_s: float,
    read_only: bool,
    tls: TlsConnections | None,
    login: ZooKeeperLogin | None,
    on_watch: Callable[[int, str], None],
    on_refused: Callable[[], bool],
) -> "KazooClient":
    from kazoo.client import KazooClient
    from kazoo.protocol.connection import STOP_CONNECTING
    from kazoo.protocol.serialization import Watch
    from kazoo.retry import ForceRetryError

    class Connection(connection_class()):  # type: ignore[misc]
        """The other clients', which would try for ever to connect, and knows no watch that stays."""

        def _connect_loop(self, retry: Untyped) -> Untyped:
            try:
                return super()._connect_loop(retry)
            except ForceRetryError:
                if on_refused():
                    return STOP_CONNECTING
                raise

        def _read_watch_event(self, buffer: bytes, offset: int) -> None:
            event, _ = Watch.deserialize(buffer, offset)
            on_watch(event.type, event.path)

    logging.getLogger("kazoo").addHandler(_UNSEEN)
    client = KazooClient(
        hosts=hosts,
        timeout=timeout_s,
        read_only=read_only,
        connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
        handler=new_handler(tls),
    )
    connect_by(Connection, client, login)
    return client
