"""What only shows on a real ZooKeeper: lost connections, expired sessions, chroots."""

import contextlib
import itertools
import queue
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from pkafka.coordination.store import (
    ConnectionLossError,
    CreateOp,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreError,
    WatchKind,
)
from pkafka.coordination.zookeeper import ZooKeeperStore
from tests.talk import wait_for
from tests.unit.coordination.worlds import WAIT_S, Events, expect, expire_session
from tests.zookeeper import ZooKeeper, running_zookeeper


@pytest.fixture
def root(zookeeper: ZooKeeper) -> Iterator[ZooKeeperStore]:
    with ZooKeeperStore(zookeeper.connect, 10_000) as store:
        yield store


@pytest.fixture
def chroot(root: ZooKeeperStore, request: pytest.FixtureRequest) -> Iterator[str]:
    path = f"/{request.node.name}"
    root.create(path, b"")
    yield path
    root.delete_recursive(path)


def states_of(store: ZooKeeperStore) -> "queue.SimpleQueue[SessionState]":
    states: queue.SimpleQueue[SessionState] = queue.SimpleQueue()
    store.on_session(states.put)
    assert states.get(timeout=WAIT_S) is SessionState.CONNECTED
    return states


def cut_connection(store: ZooKeeperStore) -> None:
    wait_for(lambda: store._client.connected, what="a connection to cut")
    store._client._connection._socket.shutdown(socket.SHUT_RDWR)


def session_of(store: ZooKeeperStore) -> tuple[int, bytes]:
    return store.session_id, store.session_password


def test_importing_the_module_does_not_import_kazoo() -> None:
    code = "import sys, pkafka.coordination.zookeeper; sys.exit('kazoo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_a_chroot_is_a_tree_of_its_own(zookeeper: ZooKeeper, root: ZooKeeperStore, chroot: str) -> None:
    with ZooKeeperStore(f"{zookeeper.connect}{chroot}/k/", 10_000, create_chroot=True) as inner:
        assert inner.create("/a/s-", b"", sequential=True, make_parents=True) == "/a/s-0000000000"
        assert inner.multi([CreateOp("/b", b"1")]) == ["/b"]
        assert inner.children("/") == ["a", "b"]
        assert root.children(f"{chroot}/k") == ["a", "b"]
        with pytest.raises(NoNodeError) as caught:
            inner.get("/no")
        assert caught.value.path == "/no"
        events = Events()
        inner.watch_children("/", events)
        root.create(f"{chroot}/k/c", b"")
        expect(events, WatchKind.CHILDREN, "/")


def test_a_missing_chroot_is_an_error_for_tools(zookeeper: ZooKeeper) -> None:
    with pytest.raises(NoNodeError, match="/absent"):
        ZooKeeperStore(f"{zookeeper.connect}/absent", 10_000)


@pytest.mark.parametrize("connect", ["", "/only/chroot", "host:1//double", "host:1/a/../b"])
def test_malformed_connect_strings_are_refused(connect: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - two different texts
        ZooKeeperStore(connect, 1_000)


@pytest.mark.parametrize("listens", [False, True])
def test_no_server_is_connection_loss_within_the_time_given(listens: bool) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen()
        began = time.monotonic()
        with pytest.raises(ConnectionLossError, match="no ZooKeeper server"):
            ZooKeeperStore(f"127.0.0.1:{silent.getsockname()[1]}", 100_000, connect_timeout_ms=300)
        assert time.monotonic() - began < 60, "the time-out of the session was waited for"


def test_a_program_without_logging_gets_nothing_of_kazoo_on_standard_error() -> None:
    program = (
        "from pkafka.coordination.zookeeper import ZooKeeperStore\n"
        "try: ZooKeeperStore('127.0.0.1:1', 10_000, connect_timeout_ms=300)\n"
        "except Exception as error: print(type(error).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("ConnectionLossError\n", "")


def test_a_cut_connection_is_reported_and_survived(
    zookeeper: ZooKeeper, root: ZooKeeperStore, chroot: str
) -> None:
    with ZooKeeperStore(zookeeper.connect + chroot, 10_000) as store:
        states = states_of(store)
        store.create("/e", b"", ephemeral=True)
        data_events, children_events = Events(), Events()
        store.watch_data("/a", data_events)
        store.watch_children("/", children_events)
        session = session_of(store)
        cut_connection(store)
        assert states.get(timeout=WAIT_S) is SessionState.SUSPENDED
        # Made while nobody listened, or just after: either way it must be reported.
        root.create(f"{chroot}/a", b"1")
        assert states.get(timeout=WAIT_S) is SessionState.CONNECTED
        data_events.wait_for_path("/a")
        children_events.wait_for_path("/")
        assert store.children("/") == ["a", "e"]
        assert session_of(store) == session
        # And the watches stand again.
        while not data_events.empty():
            data_events.wait()
        root.set(f"{chroot}/a", b"2")
        data_events.wait_for_path("/a")


def test_reads_outlive_repeated_cuts(zookeeper: ZooKeeper, chroot: str) -> None:
    with ZooKeeperStore(zookeeper.connect + chroot, 10_000) as store:
        store.multi([CreateOp(f"/n{number}", str(number).encode()) for number in range(500)])
        paths = [f"/n{number}" for number in range(500)]
        for _ in range(3):
            cutter = threading.Timer(0.02, cut_connection, args=(store,))
            cutter.start()
            found = store.get_many(paths)
            cutter.join()
            assert [row and int(row[0]) for row in found] == list(range(500))


def test_writes_in_flight_at_a_cut_are_reported_one_by_one(zookeeper: ZooKeeper, chroot: str) -> None:
    with ZooKeeperStore(zookeeper.connect + chroot, 10_000) as store:
        states = states_of(store)
        cutter = threading.Timer(0.02, cut_connection, args=(store,))
        cutter.start()
        outcomes = store.multi_many([[CreateOp(f"/n{number}", b"")] for number in range(600)])
        cutter.join()
        while states.get(timeout=WAIT_S) is not SessionState.CONNECTED:
            pass
        made = set(store.children("/"))
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, StoreError):
                assert isinstance(outcome, ConnectionLossError)  # made or not: unknown
            else:
                assert f"n{number}" in made
        assert store.create("/after", b"") == "/after"


def test_a_server_that_takes_a_connection_and_is_silent_does_not_cost_the_session(
    zookeeper: ZooKeeper,
) -> None:
    """ZooKeeper 3.8 does that to a client that connects while ZooKeeper starts and has not loaded its database."""
    with ZooKeeperStore(zookeeper.connect, 6_000) as store, socket.create_server(("127.0.0.1", 0)) as silent:
        states, session = states_of(store), session_of(store)
        handler = store._client.handler
        connect = handler.create_connection

        def connect_to_silence(*, address: tuple[str, int], **others: object) -> socket.socket:
            handler.create_connection = connect
            connected: socket.socket = connect(address=silent.getsockname(), **others)
            return connected

        handler.create_connection = connect_to_silence
        cut_connection(store)
        assert states.get(timeout=WAIT_S) is SessionState.SUSPENDED
        assert states.get(timeout=WAIT_S) is SessionState.CONNECTED
        assert handler.create_connection == connect, "it was asked"
        assert store.exists("/zookeeper") is not None
        assert session_of(store) == session


def test_an_expired_session_ends_the_store(zookeeper: ZooKeeper, root: ZooKeeperStore, chroot: str) -> None:
    store = ZooKeeperStore(zookeeper.connect + chroot, 10_000)
    states = states_of(store)
    store.create("/e", b"", ephemeral=True)
    events = Events()
    store.watch_data("/x", events)
    expire_session(zookeeper.port, session_of(store))
    while (state := states.get(timeout=WAIT_S)) is not SessionState.EXPIRED:
        # It may be quick enough to come back before the session is closed.
        assert state in (SessionState.SUSPENDED, SessionState.CONNECTED)
    assert root.exists(f"{chroot}/e") is None
    for call in (
        lambda: store.get("/"),
        lambda: store.create("/f", b"", ephemeral=True),
        lambda: store.multi([CreateOp("/g", b"")]),
        lambda: store.watch_data("/", events),
    ):
        with pytest.raises(SessionExpiredError):
            call()
    assert all(isinstance(each, SessionExpiredError) for each in store.multi_many([[CreateOp("/h", b"")]]))
    store.close()
    assert root.children(chroot) == []
    assert events.empty()
    assert states.empty()


def test_an_expired_session_fails_requests_that_wait(zookeeper: ZooKeeper, chroot: str) -> None:
    store = ZooKeeperStore(zookeeper.connect + chroot, 10_000)
    failures: queue.SimpleQueue[StoreError] = queue.SimpleQueue()

    def write_until_it_fails() -> None:
        try:
            for number in range(1_000_000):
                store.create(f"/n{number}", b"")
        except StoreError as error:
            failures.put(error)

    writers = [threading.Thread(target=write_until_it_fails) for _ in range(1)]
    for writer in writers:
        writer.start()
    expire_session(zookeeper.port, session_of(store))
    assert isinstance(failures.get(timeout=WAIT_S), SessionExpiredError | ConnectionLossError)
    for writer in writers:
        writer.join(WAIT_S)
    store.close()


def test_a_dead_server_costs_a_bounded_wait() -> None:
    with running_zookeeper() as server:
        store = ZooKeeperStore(server.connect, 10_000)
        states = states_of(store)
        store.create("/a", b"1")
    assert states.get(timeout=WAIT_S) is SessionState.SUSPENDED
    store._timeout_s = 0.2  # the wait is as long as the session's time-out; a test need not be
    for call in (
        lambda: store.get("/a"),
        lambda: store.set("/a", b"2"),
        lambda: store.get_many(["/a", "/b"]),
    ):
        with pytest.raises(ConnectionLossError):
            call()
    assert isinstance(store.multi_many([[CreateOp("/c", b"")]])[0], ConnectionLossError)
    store.close()


def serve_without_nodes(listening: socket.socket, expected: Sequence[int], batches: list[int]) -> None:
    """A server that answers "no such node" when as many as expected wait and nothing more comes; notes how many."""

    def read_frame() -> bytes:
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            chunk = client.recv(4 if len(data) < 4 else 4 + int.from_bytes(data[:4], "big") - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data[4:]

    def send_frame(payload: bytes) -> None:
        client.sendall(struct.pack(">i", len(payload)) + payload)

    client, _ = listening.accept()
    with client, contextlib.suppress(EOFError, OSError):
        read_frame()
        send_frame(struct.pack(">iiqi16s?", 0, 10_000, 1, 16, b"password", False))
        for wanted in itertools.chain(expected, itertools.repeat(0)):
            waiting: list[int] = []
            client.settimeout(WAIT_S)
            while not waiting or sum(xid > 0 for xid in waiting) < wanted:
                waiting.append(int.from_bytes(read_frame()[:4], "big", signed=True))
            client.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                while True:
                    waiting.append(int.from_bytes(read_frame()[:4], "big", signed=True))
            batches.append(sum(xid > 0 for xid in waiting))
            for xid in waiting:
                send_frame(struct.pack(">iqi", xid, 0, -101))


@pytest.mark.parametrize(("limit", "expected"), [(4, [4, 4, 2]), (1_000, [10])])
def test_no_more_requests_than_allowed_wait_for_an_answer(limit: int, expected: list[int]) -> None:
    batches: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(
            target=serve_without_nodes, args=(listening, expected, batches), daemon=True
        )
        server.start()
        connect = f"127.0.0.1:{listening.getsockname()[1]}"
        with ZooKeeperStore(connect, 10_000, in_flight_max=limit) as store:
            assert store.get_many([f"/n{number}" for number in range(10)]) == [None] * 10
            found = list(batches)
        server.join(WAIT_S)
    assert found == expected
