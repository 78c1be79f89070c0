"""ZooKeeper as a simulated cluster sees it: one tree, sessions that end, connections that break in the middle.

The tree is that of the embedded store. A request takes its time to the server and back, other sessions' requests come
in between, and when the way is cut, nobody knows whether a write has happened.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from pkafka.coordination.embedded_tree import SCHEMA, Tree
from pkafka.coordination.store import (
    ANY_VERSION,
    ConnectionLossError,
    CreateOp,
    DeleteOp,
    MultiOutcome,
    NodeExistsError,
    NoNodeError,
    Op,
    OpResult,
    SessionCallback,
    SessionExpiredError,
    SessionState,
    SetOp,
    Stat,
    StoreClosedError,
    StoreError,
    WatchCallback,
    WatchEvent,
    WatchKind,
    check_path,
    check_size,
    parent_of,
)
from tests.sim.network import HOST_OF_STORE
from tests.sim.world import Loop, ProcessEnded, World

T = TypeVar("T")

_TICK_S: Final = 0.2
_POLL_S: Final = 0.1
"""How often a read that is cut off looks whether the way is open again."""


class _Clock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return self._world.now_ms()

    def monotonic_ms(self) -> int:
        return self._world.monotonic_ms()


class _Session:
    """A session as the server knows it."""

    def __init__(self, number: int, password: bytes, timeout_s: float, heard_s: float) -> None:
        self.number = number
        self.password = password
        self.timeout_s = timeout_s
        self.heard_s = heard_s
        self.client: SimStore | None = None


class Coordination:
    """The server.

    Args:
        world: the world.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.isolation_level = None
        for statement in SCHEMA:
            self._db.execute(statement)
        self.tree = Tree(self._db, _Clock(world))
        self.sessions: dict[int, _Session] = {}
        self.clients: list[SimStore] = []
        self.listeners: list[Callable[[WatchKind, str], None]] = []
        """Told of every change at the moment it is made."""
        world.after(_TICK_S, self._tick)

    def begin(self, client: "SimStore", timeout_s: float, resume: tuple[int, bytes] | None) -> _Session:
        """A session for a client: a new one, or one of before that is still there."""
        session = self.sessions.get(resume[0]) if resume is not None else None
        if session is None or resume is None or session.password != resume[1]:
            number = 0x1000 + self.world.next_number()
            session = _Session(number, b"%016d" % number, timeout_s, self.world.now_s)
            self.sessions[number] = session
        session.client = client
        self.clients.append(client)
        session.heard_s = self.world.now_s
        return session

    def end(self, number: int, why: str) -> None:
        """A session is over, and what was its own goes."""
        if self.sessions.pop(number, None) is None:
            return
        self.world.note(f"store: session {number:#x} ends: {why}")

        def remove() -> None:
            for (path,) in self._db.execute("SELECT path FROM node WHERE owner = ?", (number,)).fetchall():
                self.tree.apply(DeleteOp(path), 0)

        self.write(remove)

    def write(self, work: Callable[[], T]) -> T:
        """One atomic step."""
        with self.tree.transaction():
            result = work()
        for kind, path in self.tree.take_changes():
            for listener in self.listeners:
                listener(kind, path)
            for session in list(self.sessions.values()):
                if session.client is not None:
                    session.client.changed(kind, path)
        return result

    def _tick(self) -> None:
        self.world.after(_TICK_S, self._tick)
        for session in list(self.sessions.values()):
            client = session.client
            if client is not None and client.is_heard():
                session.heard_s = self.world.now_s
            elif self.world.now_s - session.heard_s > session.timeout_s:
                self.end(session.number, "nothing was heard of it")
        self.clients = [client for client in self.clients if client.is_of_use]
        for client in self.clients:
            client.look_at_connection()

    # -- for the checker --

    def peek(self, path: str) -> tuple[bytes, Stat] | None:
        """A node as it is at this moment."""
        try:
            return self.tree.get(path)
        except NoNodeError:
            return None

    def names(self, path: str) -> list[str]:
        """The children of a node at this moment."""
        try:
            return self.tree.children(path)
        except NoNodeError:
            return []


class SimStore:
    """A :class:`pkafka.coordination.store.Store` of one simulated process.

    Args:
        server: the server.
        loop: of the process.
        host: the machine that it runs on.
        timeout_s: of the session.
        resume: a session to take over.

    Raises:
        ConnectionLossError: the server is out of reach.
    """

    def __init__(
        self,
        server: Coordination,
        loop: Loop,
        host: str,
        *,
        timeout_s: float,
        resume: tuple[int, bytes] | None = None,
    ) -> None:
        self._server = server
        self._world = server.world
        self._loop = loop
        self._host = host
        self._timeout_s = timeout_s
        self._closed = False
        self._callbacks: list[SessionCallback] = []
        self._watches: dict[tuple[WatchKind, str], dict[_Watch, None]] = {}
        self._missed: dict[tuple[WatchKind, str], None] = {}
        self._state = SessionState.CONNECTED
        if not self._is_connected():
            raise ConnectionLossError("", "the store is out of reach")
        self._session = server.begin(self, timeout_s, resume)

    # -- for the server --

    def is_heard(self) -> bool:
        """Whether the server hears this client: its process runs, and the way is open."""
        runs = self._loop.alive and self._loop.wakes_s <= self._world.now_s + _TICK_S
        return runs and not self._closed and self._world.network.is_open(self._host, HOST_OF_STORE)

    def changed(self, kind: WatchKind, path: str) -> None:
        """Something happened to a node."""
        if (kind, path) in self._watches:
            if self._is_connected():
                delay_s = self._world.network.delay_s()
                self._world.after(delay_s, self._tell, kind, path)
            else:
                self._missed[kind, path] = None

    def _tell(self, kind: WatchKind, path: str) -> None:
        if not self._is_connected():
            self._missed[kind, path] = None
            return
        for watch in list(self._watches.get((kind, path), ())):
            self._loop.call_soon(watch.fire)

    @property
    def is_of_use(self) -> bool:
        """Whether it may still hear something."""
        return not self._closed and self._loop.alive and self._state is not SessionState.EXPIRED

    def look_at_connection(self) -> None:
        """Tell the process when its session or the way to it has changed."""
        state = self._state
        if not self._is_connected():
            state = SessionState.SUSPENDED
        elif self._server.sessions.get(self._session.number) is not self._session:
            state = SessionState.EXPIRED
        else:
            state = SessionState.CONNECTED
            missed, self._missed = self._missed, {}
            for kind, path in missed:
                self._tell(kind, path)
        if state is not self._state:
            self._state = state
            self._world.note(f"{self._loop.name}: session {self._session.number:#x} is {state.value}")
            for callback in self._callbacks:
                self._loop.call_soon(callback, state)

    def _is_connected(self) -> bool:
        network = self._world.network
        return network.is_open(self._host, HOST_OF_STORE) and network.is_open(HOST_OF_STORE, self._host)

    # -- requests --

    def _ask(self, work: Callable[[], T], *, is_write: bool) -> T:
        if self._closed:
            raise StoreClosedError
        fiber = self._world.fiber
        if fiber is None:
            # Called on an event loop, which nothing of the real code does where it matters.
            self._check_session()
            return work()
        network = self._world.network
        fiber.sleep(network.delay_s())
        gave_up_s = self._world.now_s + self._timeout_s
        while not self._is_connected():
            if is_write or self._world.now_s > gave_up_s:
                raise ConnectionLossError("", "the store does not answer")
            fiber.sleep(_POLL_S)
        self._check_session()
        result = work()
        fiber.sleep(network.delay_s())
        if is_write and not self._is_connected():
            raise ConnectionLossError("", "the answer of the store is lost")
        if self._closed:
            raise StoreClosedError
        return result

    def _check_session(self) -> None:
        if self._server.sessions.get(self._session.number) is not self._session:
            raise SessionExpiredError

    def _read(self, work: Callable[[], T]) -> T:
        return self._ask(work, is_write=False)

    def _write(self, work: Callable[[], T]) -> T:
        return self._ask(lambda: self._server.write(work), is_write=True)

    # -- the port --

    @property
    def session_id(self) -> int:
        return self._session.number

    @property
    def session_password(self) -> bytes:
        return self._session.password

    def get(self, path: str) -> tuple[bytes, Stat]:
        check_path(path)
        return self._read(lambda: self._server.tree.get(path))

    def exists(self, path: str) -> Stat | None:
        check_path(path)
        return self._read(lambda: self._server.tree.stat(path))

    def children(self, path: str) -> list[str]:
        check_path(path)
        return self._read(lambda: self._server.tree.children(path))

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        for path in paths:
            check_path(path)
        return self._read(lambda: [self._server.peek(path) for path in paths])

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
        if make_parents and parent_of(path) != "/" and self.exists(parent_of(path)) is None:
            with contextlib.suppress(NodeExistsError):
                self.create(parent_of(path), b"", make_parents=True)
        made = self._write(lambda: self._apply(op))
        assert isinstance(made, str)
        return made

    def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> Stat:
        op = SetOp(path, data, version)
        check_path(path)
        check_size([op])
        stat = self._write(lambda: self._apply(op))
        assert isinstance(stat, Stat)
        return stat

    def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        check_path(path)
        self._write(lambda: self._apply(DeleteOp(path, version)))

    def delete_recursive(self, path: str) -> bool:
        check_path(path)
        below = self._read(lambda: self._server.tree.subtree(path))
        for each in reversed(below):
            with contextlib.suppress(NoNodeError):
                self.delete(each)
        return bool(below)

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        for op in ops:
            check_path(op.path)
        check_size(ops)
        return self._write(lambda: self._apply_all(ops))

    def multi_many(self, transactions: Iterable[Sequence[Op]]) -> list[MultiOutcome]:
        outcomes: list[MultiOutcome] = []
        for ops in list(transactions):
            try:
                outcomes.append(self.multi(ops))
            except (SessionExpiredError, StoreClosedError):
                raise
            except StoreError as error:
                outcomes.append(error)
        return outcomes

    def _apply(self, op: Op) -> OpResult:
        return self._server.tree.apply(op, self._session.number)

    def _apply_all(self, ops: Sequence[Op]) -> list[OpResult]:
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            try:
                results.append(self._apply(op))
            except StoreError as error:
                error.failed_index = index
                raise
        return results

    def watch_data(self, path: str, callback: WatchCallback) -> "_Watch":
        return self._watch(WatchKind.DATA, path, callback)

    def watch_children(self, path: str, callback: WatchCallback) -> "_Watch":
        return self._watch(WatchKind.CHILDREN, path, callback)

    def _watch(self, kind: WatchKind, path: str, callback: WatchCallback) -> "_Watch":
        check_path(path)

        def stand() -> _Watch:
            watch = _Watch(self._watches, WatchEvent(kind, path), callback)
            self._watches.setdefault((kind, path), {})[watch] = None
            return watch

        return self._read(stand)

    def on_session(self, callback: SessionCallback) -> None:
        self._callbacks.append(callback)
        if self._state is SessionState.CONNECTED:
            self._loop.call_soon(callback, SessionState.CONNECTED)

    def close(self, keep_session: bool = False) -> None:
        if self._closed:
            return
        if not keep_session:
            # Lost with the connection: the session then ends by itself.
            with contextlib.suppress(StoreError):
                self._ask(
                    lambda: self._server.end(self._session.number, "its client closes it"), is_write=True
                )
        self._closed = True
        self._watches.clear()
        if self._session.client is self:
            self._session.client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, ProcessEnded):
            self.close()


class _Watch:
    """A standing watch."""

    def __init__(
        self,
        watches: "dict[tuple[WatchKind, str], dict[_Watch, None]]",
        event: WatchEvent,
        callback: WatchCallback,
    ) -> None:
        self.event = event
        self._watches = watches
        self._callback: WatchCallback | None = callback

    def unwatch(self) -> None:
        self._callback = None
        self._watches.get((self.event.kind, self.event.path), {}).pop(self, None)

    def fire(self) -> None:
        """On the loop of the process, as an event of a thread of the store would be."""
        if self._callback is not None:
            self._callback(self.event)
