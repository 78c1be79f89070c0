"""What only the store in a SQLite file promises: one owner, crash safety, one plain file."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.clock import ManualClock
from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.coordination.store import CreateOp, Op, SetOp, StoreAccessError, StoreError, StoreFullError
from pkafka.errors import StorageError

WRITER = """
import json, sys
from pathlib import Path
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.store import CreateOp, SetOp
store = EmbeddedStore(Path(sys.argv[1]))
print(json.dumps([store.session_id, store.session_password.hex()]), flush=True)
store.create("/n", b"", make_parents=True)
store.create("/live", b"me", ephemeral=True)
store.create("/counter", b"0")
for number in range(1_000_000):
    store.multi([CreateOp(f"/n/{number}", b"x" * 300), SetOp("/counter", str(number).encode())])
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / STORE_FILE


def kill_a_writer(path: Path, *, acknowledged: int) -> tuple[int, tuple[int, bytes]]:
    """Start a process that writes, kill -9 it; returns the last write that it knew to be done and its session."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        session_id, password = json.loads(writer.stdout.readline())
        last = -1
        while last < acknowledged:
            last = int(writer.stdout.readline())
        writer.kill()
        for line in writer.stdout.read().splitlines():
            last = max(last, int(line))
    return last, (session_id, bytes.fromhex(password))


@pytest.mark.parametrize("acknowledged", [0, 7, 150])
def test_kill_9_loses_no_acknowledged_write(path: Path, acknowledged: int) -> None:
    last, _ = kill_a_writer(path, acknowledged=acknowledged)
    with EmbeddedStore(path) as store:
        written = sorted(int(name) for name in store.children("/n"))
        assert written == list(range(len(written)))
        assert last <= written[-1] <= last + 1
        # The two halves of the transaction that the kill hit are both there or both not.
        assert int(store.get("/counter")[0]) == written[-1]
        assert store.exists("/live") is None
        assert store.create("/n/x-", b"", sequential=True) == f"/n/x-{len(written):010d}"


def test_a_restarted_process_resumes_the_session_of_the_killed_one(path: Path) -> None:
    _, session = kill_a_writer(path, acknowledged=3)
    with EmbeddedStore(path, resume=session) as store:
        assert store.session_id == session[0]
        assert store.get("/live")[0] == b"me"
    with EmbeddedStore(path) as store:
        assert store.exists("/live") is None


def test_a_second_owner_is_refused_until_the_first_is_gone(path: Path) -> None:
    with EmbeddedStore(path) as first:
        with pytest.raises(StoreAccessError, match="in use by another process"):
            EmbeddedStore(path)
        first.create("/still", b"works")
    EmbeddedStore(path).close()


def test_readers_look_on_while_the_owner_writes(path: Path) -> None:
    with EmbeddedStore(path) as owner:
        owner.create("/a", b"1")
        with EmbeddedStore(path, read_only=True) as reader:
            assert reader.get("/a")[0] == b"1"
            owner.set("/a", b"2")
            assert reader.get("/a")[0] == b"2"
            refused: list[StoreError] = []
            for call in (lambda: reader.set("/a", b"3"), lambda: reader.create("/b", b"")):
                with pytest.raises(StoreAccessError) as caught:
                    call()
                refused.append(caught.value)
            assert len(refused) == 2
        owner.set("/a", b"4")
    with EmbeddedStore(path, read_only=True) as reader:
        assert reader.get("/a")[0] == b"4"


def test_a_reader_of_nothing_makes_nothing(path: Path) -> None:
    with pytest.raises(StorageError):
        EmbeddedStore(path, read_only=True)
    assert list(path.parent.iterdir()) == []


def test_a_clean_close_leaves_one_private_file(path: Path) -> None:
    with EmbeddedStore(path) as store:
        store.create("/a", b"")
        assert all(each.is_file() for each in path.parent.iterdir())
        assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o600}
    assert list(path.parent.iterdir()) == [path]


def test_what_is_no_store_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"offsets 0\n" * 1000)
    with pytest.raises(StorageError, match="not a database"):
        EmbeddedStore(path)
    assert path.read_bytes() == b"offsets 0\n" * 1000
    other = path.with_name("other.sqlite")
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    with pytest.raises(StorageError, match="another program"):
        EmbeddedStore(other)


def test_a_newer_format_is_refused(path: Path) -> None:
    EmbeddedStore(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StorageError, match="format 99 is newer"):
        EmbeddedStore(path)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreAccessError, match=r"absent.*No such file"):
        EmbeddedStore(tmp_path / "absent" / STORE_FILE)


def test_a_failed_opening_does_not_keep_the_lock(path: Path) -> None:
    path.write_bytes(b"x" * 5000)
    for _ in range(2):
        with pytest.raises(StorageError):
            EmbeddedStore(path)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = EmbeddedStore(Path(sys.argv[1]))
store.create("/before", b"1")
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
for number in range(10):
    try:
        store.create(f"/big{number}", bytes(100_000))
    except StorageError:
        break
else:
    sys.exit("nothing failed")
assert store.exists(f"/big{number}") is None
assert store.get("/before")[0] == b"1"
print(number, flush=True)
"""


def test_a_full_disk_fails_the_write_and_nothing_else(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    with EmbeddedStore(path) as store:
        expected = ["before", *(f"big{number}" for number in range(int(done.stdout)))]
        assert store.children("/") == expected


def test_a_store_without_room_works_again_when_there_is_some(path: Path) -> None:
    with EmbeddedStore(path) as store:
        store.create("/before", b"1")
        store._db.execute("PRAGMA max_page_count = 20")
        with pytest.raises(StoreFullError, match="full"):
            store.create("/big", bytes(100_000))
        assert store.get("/before")[0] == b"1"
        store._db.execute("PRAGMA max_page_count = 1000")
        store.create("/big", bytes(100_000))
        assert store.children("/") == ["before", "big"]


def test_times_come_from_the_clock(path: Path) -> None:
    clock = ManualClock(now_ms=1_000_000)
    with EmbeddedStore(path, clock=clock) as store:
        store.create("/a", b"")
        clock.advance(ms=5)
        stat = store.set("/a", b"x")
        assert (stat.ctime_ms, stat.mtime_ms) == (1_000_000, 1_000_005)


def test_everything_survives_a_reopening(path: Path) -> None:
    with EmbeddedStore(path) as store:
        ops: list[Op] = [CreateOp("/a", b"1"), CreateOp("/a/s-", b"", sequential=True), SetOp("/a", b"2")]
        store.multi(ops)
        before = store.get("/a")
        store.create("/e", b"", ephemeral=True)
    with EmbeddedStore(path) as store:
        assert store.get("/a") == before
        assert store.children("/") == ["a"]
        store.create("/b", b"")
        created = store.exists("/b")
        assert created is not None
        assert created.czxid > before[1].mzxid
        assert store.create("/a/s-", b"", sequential=True) == "/a/s-0000000001"


def test_the_lock_is_not_inherited_by_children(path: Path) -> None:
    with EmbeddedStore(path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        EmbeddedStore(path).close()
        assert child.poll() is None
        assert os.path.exists(path)
    finally:
        child.communicate(b"\n", timeout=60)
