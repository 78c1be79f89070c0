"""The two stores behind one face, so that every contract test runs on both."""

import itertools
import queue
import socket
import struct
from pathlib import Path

from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.coordination.store import Store, WatchEvent, WatchKind
from pkafka.coordination.zookeeper import ZooKeeperStore
from tests.zookeeper import ZooKeeper

WAIT_S = 20.0
_chroots = itertools.count()


class Events:
    """Collects what callbacks are told; the way in which a store's user should receive it."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[WatchEvent] = queue.SimpleQueue()

    def __call__(self, event: WatchEvent) -> None:
        self._queue.put(event)

    def wait(self) -> WatchEvent:
        """The next event; fails the test when none comes."""
        return self._queue.get(timeout=WAIT_S)

    def wait_for_path(self, path: str) -> None:
        """Wait until ``path`` was reported, whatever comes before."""
        while self.wait().path != path:
            pass

    def empty(self) -> bool:
        return self._queue.empty()


class Coordination:
    """Opens stores on one tree."""

    kind = ""

    def __init__(self) -> None:
        self.opened: list[Store] = []

    def open(self, resume: tuple[int, bytes] | None = None) -> Store:
        """A new session, or the old one resumed."""
        store = self._new(resume)
        self.opened.append(store)
        return store

    def another_client(self, store: Store) -> Store:
        """A client that works at the same time as ``store``: the embedded store has only the one."""
        return store

    def close(self) -> None:
        for store in self.opened:
            store.close()

    def _new(self, resume: tuple[int, bytes] | None) -> Store:
        raise NotImplementedError


class EmbeddedCoordination(Coordination):
    kind = "embedded"

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._path = directory / STORE_FILE

    def _new(self, resume: tuple[int, bytes] | None) -> Store:
        return EmbeddedStore(self._path, resume=resume)


class ZooKeeperCoordination(Coordination):
    kind = "zookeeper"

    def __init__(self, server: ZooKeeper) -> None:
        super().__init__()
        self._connect = f"{server.connect}/test{next(_chroots)}/chroot"

    def _new(self, resume: tuple[int, bytes] | None) -> Store:
        return ZooKeeperStore(self._connect, 10_000, resume=resume, create_chroot=True)

    def another_client(self, store: Store) -> Store:
        return self.open()


def expect(events: Events, kind: WatchKind, path: str) -> None:
    """The next event must be exactly this one."""
    assert events.wait() == WatchEvent(kind, path)


def expire_session(server_port: int, session: tuple[int, bytes]) -> None:
    """Have the server close a session that somebody else uses, as it does after a silence.

    Its owner, whose connection that takes, may resume it in between; then it is taken again.
    """
    for _attempt in range(20):
        if _is_closed(server_port, session):
            return
    raise AssertionError("the session could not be taken over")


def _is_closed(server_port: int, session: tuple[int, bytes]) -> bool:
    """Whether the server says that it closed the session, or that there is none."""
    connect = struct.pack(">iqiqi", 0, 0, 10_000, session[0], len(session[1])) + session[1] + b"\0"
    close = struct.pack(">ii", 1, -11)
    with socket.create_connection(("127.0.0.1", server_port), timeout=WAIT_S) as connection:
        for frame in (connect, close):
            connection.sendall(struct.pack(">i", len(frame)) + frame)
        with connection.makefile("rb") as answers:
            head = answers.read(4)
            if not head:
                return False
            _version, _timeout_ms, found = struct.unpack_from(
                ">iiq", answers.read(struct.unpack(">i", head)[0])
            )
            head = answers.read(4)
            code = struct.unpack_from(">i", answers.read(struct.unpack(">i", head)[0]), 12)[0] if head else -1
            return found == 0 or code == 0
