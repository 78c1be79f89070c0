"""The coordination store on a real ZooKeeper, through kazoo (``kazoo_client.py``), which is imported when first used.

One object is one session: it reconnects by itself while the session lives, and is of no more use once it
expired (kazoo would quietly begin a new session; here that is prevented, because every ephemeral node and
every watch belongs to the old one and its owner has to decide what to do).

Threads: kazoo has one for its socket and two for callbacks. Nothing here ever waits on those. Watches are
re-armed and delivered by one thread of this object, session changes are delivered on kazoo's socket thread.

What kazoo leaves to its user, and this does: one-shot watches are armed again after they fired and after a
reconnect; nothing is sent while the connection is away (kazoo would queue it, and its wake-up pipe blocks
for ever after 278 requests); no request larger than the server takes.
"""

import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from pkafka.coordination.connect_string import split_connect
from pkafka.coordination.kazoo_client import (
    TlsConnections,
    Untyped,
    committing,
    creating,
    getting,
    new_client,
    stat_of,
    stop_client,
    translated,
)
from pkafka.coordination.store import (
    ANY_VERSION,
    CheckOp,
    ConnectionLossError,
    CreateOp,
    DeleteOp,
    MultiOutcome,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    OpResult,
    SessionCallback,
    SessionExpiredError,
    SessionState,
    SetOp,
    Stat,
    StoreAccessError,
    StoreClosedError,
    StoreError,
    WatchCallback,
    WatchEvent,
    WatchKind,
    check_path,
    check_size,
    parent_of,
    request_bytes,
)
from pkafka.coordination.zookeeper_access import REFUSED_LOGIN, ZooKeeperLogin, for_kazoo, rights_at
from pkafka.coordination.zookeeper_watches import Watches, ZooKeeperWatch, deliver

if TYPE_CHECKING:
    from kazoo.client import KazooClient


PIPELINE_REQUESTS_MAX: Final = 96  # far below what kazoo's wake-up pipe holds
_PIPELINE_BYTES_MAX: Final = 4 << 20


class ZooKeeperStore:
    """A :class:`~pkafka.coordination.store.Store` on a ZooKeeper ensemble; blocks until connected.

    Args:
        connect: ``host:port,host:port/chroot`` as in ``zookeeper.connect``.
        session_timeout_ms: how long the session outlives its connection; the server may bound it.
        connect_timeout_ms: how long to wait for the first connection; the session time-out when None.
        resume: id and password of a session to take over. When it is over already a new one begins: compare
            :attr:`session_id`.
        create_chroot: make the chroot's nodes when they are missing, as a broker does at its start.
        in_flight_max: how many requests of a batch may be without an answer, up to
            :data:`PIPELINE_REQUESTS_MAX`.
        tls: makes OpenSSL's context of a connection; None: it is plain.
        login: who this client is; None: nobody in particular.
        protects: give others no more than Kafka does to nodes that are made (``zookeeper.set.acl``).

    Raises:
        StoreAccessError: the servers refuse the login.
        ConnectionLossError: no server answered in time.
        NoNodeError: the chroot does not exist.
        ValueError: ``connect`` is malformed.
    """

    def __init__(
        self,
        connect: str,
        session_timeout_ms: int = 18_000,
        *,
        connect_timeout_ms: int | None = None,
        resume: tuple[int, bytes] | None = None,
        create_chroot: bool = False,
        in_flight_max: int = PIPELINE_REQUESTS_MAX,
        tls: Callable[[], ssl.SSLContext] | None = None,
        login: ZooKeeperLogin | None = None,
        protects: bool = False,
    ) -> None:
        self._protects = protects
        self._is_refused = False
        """Whether the servers do not let this client log in."""
        hosts, self._chroot = split_connect(connect)
        self._timeout_s = session_timeout_ms / 1000
        self._in_flight_max = min(in_flight_max, PIPELINE_REQUESTS_MAX)
        self._state_lock = threading.Lock()
        self._state: SessionState | None = None
        self._session_callbacks: list[SessionCallback] = []
        self._usable = threading.Event()  # connected, or never again: in both cases waiting is over
        self._submit_lock = threading.Lock()
        self._pipeline_lock = threading.Lock()
        self._expired = False
        self._closed = False
        self._watches = Watches(self._read)
        connections = None if tls is None else TlsConnections(tls)
        self._client = new_client(hosts, self._timeout_s, resume, connections, login)
        self._client.add_listener(self._on_kazoo_state)
        self._client.start_async()
        connected = False
        try:
            connected = self._usable.wait((connect_timeout_ms or session_timeout_ms) / 1000)
            if not connected:
                reason = f": {connections.problem}" if connections is not None and connections.problem else ""
                raise ConnectionLossError("", f"no ZooKeeper server of {hosts} answered in time{reason}")
            self._session: tuple[int, bytes] = self._client.client_id or (0, b"")
            if login is not None:
                self.exists("/")  # kazoo is connected before it logs in: this tells what became of that
            self._enter_chroot(create_chroot)
        except BaseException as error:
            # Without a session there is none to end, and ending one waits for an answer of the server.
            self.close(keep_session=not connected)
            if self._is_refused:
                raise StoreAccessError("", REFUSED_LOGIN) from error
            raise

    @property
    def session_id(self) -> int:
        return self._session[0]

    @property
    def session_password(self) -> bytes:
        return self._session[1]

    # Reads

    def get(self, path: str) -> tuple[bytes, Stat]:
        full = self._full(path)
        data, stat = self._read(path, lambda client: client.get_async(full))
        return data or b"", stat_of(stat)

    def exists(self, path: str) -> Stat | None:
        full = self._full(path)
        stat = self._read(path, lambda client: client.exists_async(full))
        return None if stat is None else stat_of(stat)

    def children(self, path: str) -> list[str]:
        full = self._full(path)
        return sorted(self._read(path, lambda client: client.get_children_async(full)))

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        found: list[tuple[bytes, Stat] | None] = []
        for start in range(0, len(paths), self._in_flight_max):
            found += self._get_window(paths[start : start + self._in_flight_max])
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
        full = self._full(path)
        check_size([CreateOp(full, data)])
        while True:
            try:
                created = self._write(
                    path,
                    lambda client: client.create_async(
                        full, bytes(data), self._rights(full), ephemeral=ephemeral, sequence=sequential
                    ),
                )
                return self._inner(created)
            except NoNodeError:
                if not make_parents:
                    raise
                with contextlib.suppress(NodeExistsError):
                    self.create(parent_of(path), b"", make_parents=True)

    def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> Stat:
        full = self._full(path)
        check_size([SetOp(full, data)])
        return stat_of(self._write(path, lambda client: client.set_async(full, bytes(data), version)))

    def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        full = self._full(path)
        self._write(path, lambda client: client.delete_async(full, version))

    def delete_recursive(self, path: str) -> bool:
        if path == "/":
            raise ValueError("the root cannot be deleted")
        if self.exists(path) is None:
            return False
        while True:
            below = self._subtree(path)
            for outcome in self.multi_many([[DeleteOp(each)] for each in reversed(below)]):
                # Nodes that appear meanwhile are found in the next round, those that vanish are welcome to.
                if isinstance(outcome, StoreError) and not isinstance(outcome, NoNodeError | NotEmptyError):
                    raise outcome
            if self.exists(path) is None:
                return True

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        full_ops = self._full_ops(ops)
        deadline = time.monotonic() + self._timeout_s
        request = self._submit("", deadline, committing(full_ops, self._rights))
        return self._multi_results(ops, self._wait(request, "", deadline))

    def multi_many(self, transactions: Iterable[Sequence[Op]]) -> list[MultiOutcome]:
        planned = [(ops, self._full_ops(ops)) for ops in transactions]
        outcomes: list[MultiOutcome] = []
        position = 0
        while position < len(planned):
            window = _window(planned[position : position + self._in_flight_max])
            outcomes += self._multi_window(window)
            position += len(window)
        return outcomes

    # Watches and session

    def watch_data(self, path: str, callback: WatchCallback) -> ZooKeeperWatch:
        return self._watches.add(WatchEvent(WatchKind.DATA, path), self._full(path), callback)

    def watch_children(self, path: str, callback: WatchCallback) -> ZooKeeperWatch:
        return self._watches.add(WatchEvent(WatchKind.CHILDREN, path), self._full(path), callback)

    def on_session(self, callback: SessionCallback) -> None:
        with self._state_lock:
            self._session_callbacks.append(callback)
            if self._state is not None:
                deliver(callback, self._state)

    def close(self, keep_session: bool = False) -> None:
        with self._submit_lock:
            if self._closed:
                return
            self._closed = True
        self._usable.set()
        if not self._expired:
            stop_client(self._client, keep_session=keep_session)
        self._watches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _enter_chroot(self, create: bool) -> None:
        if not self._chroot or self.exists("/") is not None:
            return
        if not create:
            raise NoNodeError(self._chroot, f"the chroot {self._chroot} does not exist in ZooKeeper")
        path = ""
        for part in self._chroot.split("/")[1:]:
            path += f"/{part}"
            with contextlib.suppress(NodeExistsError):
                self._write(path, creating(path, self._rights))

    def _rights(self, full: str) -> Untyped:
        return for_kazoo(rights_at(self._inner(full))) if self._protects else None

    def _full(self, path: str) -> str:
        check_path(path)
        return (self._chroot + path if path != "/" else self._chroot) or "/"

    def _inner(self, full: str) -> str:
        return full[len(self._chroot) :] or "/"

    def _full_ops(self, ops: Sequence[Op]) -> list[Op]:
        moved: list[Op] = []
        for op in ops:
            full = self._full(op.path)
            match op:
                case CreateOp():
                    moved.append(CreateOp(full, bytes(op.data), op.ephemeral, op.sequential))
                case SetOp():
                    moved.append(SetOp(full, bytes(op.data), op.version))
                case DeleteOp():
                    moved.append(DeleteOp(full, op.version))
                case CheckOp():
                    moved.append(CheckOp(full, op.version))
        check_size(moved)
        return moved

    def _subtree(self, path: str) -> list[str]:
        """The node and all below it, parents before children."""
        found = [path]
        for each in found:  # grows while it is walked
            with contextlib.suppress(NoNodeError):
                found += [f"{each}/{name}" for name in self.children(each)]
        return found

    # Requests

    def _submit(self, path: str, deadline: float, issue: "Callable[[KazooClient], Untyped]") -> Untyped:
        """Send a request once connected; the lock keeps it from slipping into a session after this one."""
        while True:
            self._usable.wait(max(0.0, deadline - time.monotonic()))
            with self._submit_lock:
                self._check_alive(path)
                if self._state is SessionState.CONNECTED:
                    return issue(self._client)
            if time.monotonic() >= deadline:
                raise ConnectionLossError(path, "no connection to ZooKeeper; the request was not sent")

    def _wait(self, request: Untyped, path: str, deadline: float) -> Untyped:
        from kazoo.exceptions import KazooException

        try:
            # The connection thread answers every request: by the reply or, after a silence of two thirds of
            # the session's time-out, by connection loss. The grace only guards against a thread that died.
            return request.get(timeout=max(0.0, deadline - time.monotonic()) + self._timeout_s)
        except (KazooException, self._client.handler.timeout_exception) as error:
            self._check_alive(path)
            raise translated(error, path) from error

    def _read(self, path: str, issue: "Callable[[KazooClient], Untyped]") -> Untyped:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return self._wait(self._submit(path, deadline, issue), path, deadline)
            except ConnectionLossError:
                if time.monotonic() >= deadline:
                    raise

    def _write(self, path: str, issue: "Callable[[KazooClient], Untyped]") -> Untyped:
        deadline = time.monotonic() + self._timeout_s
        return self._wait(self._submit(path, deadline, issue), path, deadline)

    def _get_window(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        found: list[tuple[bytes, Stat] | None] = []
        full_paths = [self._full(path) for path in paths]
        with self._pipeline_lock:
            deadline = time.monotonic() + self._timeout_s
            requests: list[Untyped] = []
            with contextlib.suppress(ConnectionLossError):
                for full in full_paths:
                    requests.append(self._submit(full, deadline, getting(full)))
            # What was not sent, or was lost with the connection, is read one by one, which waits for a new one.
            for path, request in zip_longest(paths, requests):
                try:
                    data, stat = self._wait(request, path, deadline) if request else self.get(path)
                    found.append((data or b"", stat if request is None else stat_of(stat)))
                except NoNodeError:
                    found.append(None)
                except ConnectionLossError:
                    if request is None:
                        raise
                    found.append(self._get_or_none(path))
        return found

    def _get_or_none(self, path: str) -> tuple[bytes, Stat] | None:
        try:
            return self.get(path)
        except NoNodeError:
            return None

    def _multi_window(self, window: Sequence[tuple[Sequence[Op], list[Op]]]) -> list[MultiOutcome]:
        outcomes: list[MultiOutcome] = []
        with self._pipeline_lock:
            deadline = time.monotonic() + self._timeout_s
            requests: list[Untyped] = []
            for _, full_ops in window:
                try:
                    requests.append(
                        self._submit(
                            "",
                            deadline,
                            committing(full_ops, self._rights),
                        )
                    )
                except StoreError as error:
                    requests.append(error)
            for (ops, _), request in zip(window, requests, strict=True):
                try:
                    if isinstance(request, StoreError):
                        raise request
                    outcomes.append(self._multi_results(ops, self._wait(request, "", deadline)))
                except StoreError as error:
                    outcomes.append(error)
        return outcomes

    def _multi_results(self, ops: Sequence[Op], answers: Sequence[Untyped]) -> list[OpResult]:
        from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency

        results: list[OpResult] = []
        for index, (op, answer) in enumerate(zip(ops, answers, strict=True)):
            if isinstance(answer, RolledBackError | RuntimeInconsistency):
                continue  # another operation is the one that failed
            if isinstance(answer, KazooException):
                error = translated(answer, op.path)
                error.failed_index = index
                raise error
            if isinstance(op, CreateOp):
                results.append(self._inner(answer))
            else:
                results.append(stat_of(answer) if isinstance(op, SetOp) else None)
        if len(results) != len(ops):
            raise StoreError("", "ZooKeeper rolled a transaction back without saying why")
        return results

    def _check_alive(self, path: str) -> None:
        if self._closed:
            raise StoreClosedError(path)
        if self._expired:
            raise SessionExpiredError(path)

    # On kazoo's socket thread: never wait, never send

    def _on_kazoo_state(self, kazoo_state: str) -> None:
        if self._closed:
            return
        if self._client.client_state == "AUTH_FAILED":
            self._is_refused = True
        state = {"CONNECTED": SessionState.CONNECTED, "SUSPENDED": SessionState.SUSPENDED}.get(
            kazoo_state, SessionState.EXPIRED
        )
        with self._submit_lock:
            if self._expired:
                return
            self._expired = state is SessionState.EXPIRED
        if self._expired:
            # kazoo would begin a new session right away, and may for a moment; stopping waits for its
            # threads.
            threading.Thread(
                target=stop_client, args=(self._client,), name="store-expired", daemon=True
            ).start()
        reconnected = state is SessionState.CONNECTED and self._state is SessionState.SUSPENDED
        with self._state_lock:
            self._state = state
            for callback in self._session_callbacks:
                deliver(callback, state)
        if state is SessionState.SUSPENDED:
            self._usable.clear()
        else:
            self._usable.set()
        if reconnected:
            self._watches.rearm_all()


def _window(
    planned: Sequence[tuple[Sequence[Op], list[Op]]],
) -> Sequence[tuple[Sequence[Op], list[Op]]]:
    size = 0
    for count, (_, full_ops) in enumerate(planned):
        size += request_bytes(full_ops)
        if count and size > _PIPELINE_BYTES_MAX:
            return planned[:count]
    return planned
