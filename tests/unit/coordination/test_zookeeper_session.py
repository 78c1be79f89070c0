"""A session of an operator on a real ZooKeeper: its requests, and watches that outlive a connection."""

import contextlib
import queue
import socket
from collections.abc import Iterator

import pytest

from pkafka.coordination.administration import (
    OPEN_TO_ALL,
    Acl,
    AddWatchMode,
    CreateMode,
    Event,
    KeeperCode,
    KeeperError,
    Permission,
    SessionEvent,
    WatcherType,
    code_text,
)
from pkafka.coordination.store import ConnectionLossError
from pkafka.coordination.zookeeper_session import ZooKeeperSession
from tests.sockets import free_port
from tests.unit.coordination.worlds import WAIT_S, expire_session
from tests.zookeeper import ZooKeeper


class Session(ZooKeeperSession):
    """One that keeps its events, and whose connection can be cut."""

    def __init__(self, connect: str) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        super().__init__(connect, session_timeout_ms=10_000, on_event=self.events.put)
        self.wait_connected(10_000)
        assert self.next() == Event(SessionEvent.CONNECTED)

    def next(self) -> Event:
        return self.events.get(timeout=WAIT_S)

    def cut(self) -> None:
        with contextlib.suppress(OSError):
            self._client._connection._socket.shutdown(socket.SHUT_RDWR)

    @property
    def identity(self) -> tuple[int, bytes]:
        found: tuple[int, bytes] = self._client.client_id
        return found


@pytest.fixture
def other(zookeeper: ZooKeeper) -> Iterator[Session]:
    """Somebody else, who sees the whole tree."""
    session = Session(zookeeper.connect)
    yield session
    session.close()


@pytest.fixture
def session(zookeeper: ZooKeeper, other: Session, request: pytest.FixtureRequest) -> Iterator[Session]:
    path = f"/{request.node.name}"
    other.create(path, None)
    session = Session(zookeeper.connect + path)
    yield session
    session.close()
    other.delete_all(sorted(below(other, path), reverse=True), 100)


def below(session: Session, path: str) -> list[str]:
    names, _ = session.children(path)
    return [path, *(each for name in names for each in below(session, f"{path}/{name}"))]


def seen(event: str, path: str) -> Event:
    return Event(SessionEvent.CONNECTED, event, path)


def test_nodes_of_every_kind(session: Session) -> None:
    assert session.create("/n", None) == "/n"
    assert session.get("/n")[0] is None
    assert session.create("/n/s-", b"", mode=CreateMode.PERSISTENT_SEQUENTIAL) == "/n/s-0000000000"
    assert session.create("/n/c", b"", mode=CreateMode.CONTAINER) == "/n/c"
    assert session.create("/n/e", b"x", mode=CreateMode.EPHEMERAL) == "/n/e"
    assert session.ephemerals("/") == ["/n/e"]
    assert session.all_children_number("/n") == 3
    with pytest.raises(KeeperError, match="Unimplemented for /n/t"):  # servers allow it only when told to
        session.create("/n/t", b"", mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=1000)
    assert session.delete_all(["/n/e", "/n/c"], 1)
    assert not session.delete_all(["/n/s-0000000000", "/n/gone"], 2)  # all of a batch, or none
    assert session.children("/n")[0] == ["s-0000000000"]


def test_acls_and_identities(session: Session) -> None:
    session.add_auth("digest", "me:secret")
    assert {each.scheme for each in session.whoami()} >= {"digest", "ip"}
    session.create("/mine", b"", [Acl(Permission(31), "auth", "")])
    [acl], stat = session.get_acl("/mine")
    assert (acl.scheme, acl.id.partition(":")[0], stat.aversion) == ("digest", "me", 0)
    assert session.set_acl("/mine", [acl], 0).aversion == 1
    with pytest.raises(KeeperError) as refused:
        session.set_acl("/mine", [Acl(Permission(31), "nonsense", "x")])
    assert refused.value.code == KeeperCode.INVALID_ACL
    session.set_acl("/mine", OPEN_TO_ALL)  # for who tidies up


def test_watches_fire_once_or_until_they_are_removed(session: Session, other: Session) -> None:
    session.create("/a", b"")
    session.get("/a", watch=True)
    session.exists("/b", watch=True)
    session.set("/a", b"1")
    session.set("/a", b"2")
    session.create("/b", b"")
    assert [session.next(), session.next()] == [seen("NodeDataChanged", "/a"), seen("NodeCreated", "/b")]
    session.add_watch("/a", AddWatchMode.PERSISTENT_RECURSIVE)
    session.create("/a/c", b"")
    session.set("/a/c", b"1")
    assert [session.next(), session.next()] == [seen("NodeCreated", "/a/c"), seen("NodeDataChanged", "/a/c")]
    with pytest.raises(KeeperError, match="No such watcher for /a"):
        session.remove_watches("/a", WatcherType.DATA, local=False)
    session.remove_watches("/a", WatcherType.ANY, local=False)
    assert session.next() == seen("PersistentWatchRemoved", "/a")
    session.set("/a/c", b"2")
    session.sync("/a")
    assert session.events.empty()


def test_watches_outlive_a_connection_and_tell_what_was_missed(session: Session, other: Session) -> None:
    for path in ("/data", "/children", "/standing"):
        session.create(path, b"")
    session.get("/data", watch=True)
    session.exists("/later", watch=True)
    session.children("/children", watch=True)
    session.add_watch("/standing", AddWatchMode.PERSISTENT)
    session.cut()
    assert session.next() == Event(SessionEvent.DISCONNECTED)
    assert session.next() == Event(SessionEvent.CONNECTED)
    for path in ("/later", "/children/child"):
        session.create(path, b"")
    session.set("/data", b"x")
    for data in (b"1", b"2"):
        session.set("/standing", data)
    assert sorted(str(session.next()) for _ in range(5)) == sorted(
        str(each)
        for each in (
            seen("NodeCreated", "/later"),
            seen("NodeChildrenChanged", "/children"),
            *[seen("NodeDataChanged", path) for path in ("/data", "/standing", "/standing")],
        )
    )


def test_an_expired_session_is_over(zookeeper: ZooKeeper, session: Session) -> None:
    expire_session(zookeeper.port, session.identity)
    heard = [session.next()]
    while heard[-1] != Event(SessionEvent.EXPIRED):
        heard.append(session.next())
    # It may be quick enough to come back before the session is closed.
    comes_back = [Event(SessionEvent.CONNECTED), Event(SessionEvent.DISCONNECTED)]
    assert heard[0] == Event(SessionEvent.DISCONNECTED)
    assert heard[1:-1] == comes_back * (len(heard) // 2 - 1)
    assert not session.is_alive
    with pytest.raises(KeeperError, match="Session expired for /"):
        session.get("/")
    session.close()
    assert session.events.empty()


def test_nobody_listens() -> None:
    session = ZooKeeperSession(
        f"127.0.0.1:{free_port()}", session_timeout_ms=60_000, on_event=lambda event: None
    )
    with pytest.raises(ConnectionLossError, match="no ZooKeeper server"):
        session.wait_connected(60_000)  # refused at once, long before
    session.close()


@pytest.mark.parametrize(
    ("code", "text"),
    [(-4, "ConnectionLoss"), (-101, "NoNode"), (-111, "Directory not empty"), (-123, "Reconfig is disabled")],
)
def test_codes_are_named_as_by_zookeeper(code: int, text: str) -> None:
    assert code_text(code) == text
