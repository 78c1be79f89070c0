"""What every store promises, on SQLite and on a real ZooKeeper."""

import threading
from collections.abc import Callable

import pytest

from pkafka.coordination.store import (
    REQUEST_BYTES_MAX,
    BadVersionError,
    CheckOp,
    CreateOp,
    DataTooLargeError,
    DeleteOp,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SessionState,
    SetOp,
    Stat,
    Store,
    StoreClosedError,
    StoreError,
    WatchEvent,
    WatchKind,
)
from tests.unit.coordination.worlds import WAIT_S, Coordination, Events, expect


def stat_of(store: Store, path: str) -> Stat:
    stat = store.exists(path)
    assert stat is not None
    return stat


def in_parallel(work: Callable[[int], None], count: int) -> None:
    failures: list[Exception] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except Exception as error:  # noqa: BLE001 - told by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


# Nodes


def test_a_created_node_is_read_back_with_its_stat(store: Store) -> None:
    assert store.create("/a", b"data") == "/a"
    data, stat = store.get("/a")
    assert data == b"data"
    assert (stat.version, stat.cversion, stat.num_children) == (0, 0, 0)
    assert (stat.data_length, stat.ephemeral_owner) == (4, 0)
    assert stat.czxid == stat.mzxid == stat.pzxid
    assert stat.ctime_ms == stat.mtime_ms > 1_600_000_000_000
    assert store.exists("/a") == stat
    assert store.children("/") == ["a"]


def test_set_raises_the_version_and_leaves_the_creation_alone(store: Store) -> None:
    store.create("/a", b"0")
    before = stat_of(store, "/a")
    after = store.set("/a", b"one", version=0)
    assert store.get("/a") == (b"one", after)
    assert (after.version, after.czxid, after.ctime_ms) == (1, before.czxid, before.ctime_ms)
    assert after.mzxid > before.mzxid
    assert store.set("/a", b"").version == 2
    assert store.get("/a")[0] == b""


def test_a_stale_version_changes_nothing(store: Store) -> None:
    store.create("/a", b"0")
    store.set("/a", b"1")
    with pytest.raises(BadVersionError) as caught:
        store.set("/a", b"2", version=0)
    assert caught.value.path == "/a"
    with pytest.raises(BadVersionError):
        store.delete("/a", version=0)
    assert store.get("/a")[0] == b"1"
    store.delete("/a", version=1)
    assert store.exists("/a") is None


def test_missing_and_present_nodes_are_told_apart(store: Store) -> None:
    missing: list[Callable[[], object]] = [
        lambda: store.get("/no"),
        lambda: store.children("/no"),
        lambda: store.set("/no", b""),
        lambda: store.delete("/no"),
        lambda: store.create("/no/child", b""),
    ]
    for call in missing:
        with pytest.raises(NoNodeError):
            call()
    assert store.exists("/no") is None
    store.create("/a", b"")
    with pytest.raises(NodeExistsError):
        store.create("/a", b"")


def test_a_node_with_children_cannot_be_deleted(store: Store) -> None:
    store.create("/a/b/c", b"x", make_parents=True)
    assert store.get("/a/b")[0] == b""
    with pytest.raises(NotEmptyError):
        store.delete("/a/b")
    assert store.delete_recursive("/a")
    assert store.children("/") == []
    assert not store.delete_recursive("/a")


def test_delete_recursive_spares_neighbours_with_the_same_beginning(store: Store) -> None:
    for path in ("/t/x/deep", "/t/x-1/deep", "/t/x0", "/t/x.y"):
        store.create(path, b"", make_parents=True)
    store.delete_recursive("/t/x")
    assert store.children("/t") == ["x-1", "x.y", "x0"]


def test_counters_of_a_parent_follow_its_children(store: Store) -> None:
    store.create("/a", b"")
    for name in ("x", "y", "z"):
        store.create(f"/a/{name}", b"")
    store.delete("/a/y")
    stat = stat_of(store, "/a")
    assert (stat.num_children, stat.cversion, stat.version) == (2, 4, 0)
    assert stat.pzxid > stat_of(store, "/a/z").czxid
    assert store.children("/a") == ["x", "z"]


def test_creation_numbers_grow_also_over_deletions(store: Store) -> None:
    seen = []
    for _ in range(5):
        store.create("/broker", b"")
        seen.append(stat_of(store, "/broker").czxid)
        store.delete("/broker")
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b", "/a/./b", "/..", "/a\0"])
def test_illegal_paths_are_refused(store: Store, path: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.create(path, b""),
        lambda: store.get(path),
        lambda: store.exists(path),
        lambda: store.get_many([path]),
        lambda: store.delete_recursive(path),
        lambda: store.multi([CheckOp(path, 0)]),
        lambda: store.multi_many([[DeleteOp(path)]]),
        lambda: store.watch_data(path, print),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="path"):
            call()


def test_names_keep_their_characters(store: Store) -> None:
    names = sorted(["<default>", "us%20er", "ä-ö", "a.b_c-d", "%3Cdefault%3E"])
    for name in names:
        store.create(f"/users/{name}", name.encode(), make_parents=True)
    assert store.children("/users") == names
    assert [row and row[0].decode() for row in store.get_many([f"/users/{name}" for name in names])] == names


def test_a_value_just_below_the_limit_fits_and_one_above_is_refused(store: Store) -> None:
    store.create("/big", b"")
    largest = REQUEST_BYTES_MAX - 200
    store.set("/big", bytes(largest))
    assert len(store.get("/big")[0]) == largest
    with pytest.raises(DataTooLargeError):
        store.set("/big", bytes(REQUEST_BYTES_MAX))
    with pytest.raises(DataTooLargeError):
        store.create("/big2", bytes(REQUEST_BYTES_MAX))
    with pytest.raises(DataTooLargeError):
        store.multi([CreateOp(f"/m{number}", bytes(100_000)) for number in range(11)])
    # Nothing was cut: the store is as usable as before.
    assert stat_of(store, "/big").version == 1
    assert store.children("/") == ["big"]


def test_two_thousand_children_are_listed_and_read(store: Store) -> None:
    store.create("/topics", b"")
    names = [f"topic-{number:04d}-{'x' * 200}" for number in range(2000)]
    for start in range(0, len(names), 500):
        store.multi([CreateOp(f"/topics/{name}", name.encode()) for name in names[start : start + 500]])
    assert store.children("/topics") == names
    found = store.get_many([f"/topics/{name}" for name in [*names, "absent"]])
    assert found[-1] is None
    assert [row[0].decode() for row in found if row is not None] == names


# Sequential nodes


def test_sequence_numbers_have_ten_digits_and_never_repeat(store: Store) -> None:
    store.create("/changes", b"")
    first = store.create("/changes/config_change_", b"1", sequential=True)
    assert first == "/changes/config_change_0000000000"
    second = store.create("/changes/config_change_", b"2", sequential=True)
    store.delete(second)
    third = store.create("/changes/config_change_", b"3", sequential=True)
    assert third == "/changes/config_change_0000000002"
    result = store.multi([CreateOp("/changes/c_", b"4", sequential=True)])
    assert result == ["/changes/c_0000000003"]


def test_sequence_numbers_are_unique_among_racing_clients(coordination: Coordination) -> None:
    store = coordination.open()
    store.create("/seq", b"")
    clients = [store, coordination.another_client(store)]
    made: list[str] = []

    def work(number: int) -> None:
        for _ in range(25):
            made.append(clients[number % 2].create("/seq/n-", b"", sequential=True))

    in_parallel(work, 4)
    assert sorted(made) == [f"/seq/n-{number:010d}" for number in range(100)]


# Races


def test_of_racing_creators_exactly_one_wins(coordination: Coordination) -> None:
    store = coordination.open()
    clients = [store, coordination.another_client(store)]
    for round_number in range(10):
        winners: list[int] = []

        def work(number: int, path: str = f"/controller{round_number}", won: list[int] = winners) -> None:
            try:
                clients[number % 2].create(path, str(number).encode(), ephemeral=True)
                won.append(number)
            except NodeExistsError:
                pass

        in_parallel(work, 4)
        assert len(winners) == 1
        assert store.get(f"/controller{round_number}")[0] == str(winners[0]).encode()


def test_versioned_increments_of_racing_clients_are_all_counted(coordination: Coordination) -> None:
    store = coordination.open()
    store.create("/counter", b"0")
    clients = [store, coordination.another_client(store)]

    def work(number: int) -> None:
        client = clients[number % 2]
        done = 0
        while done < 10:
            data, stat = client.get("/counter")
            try:
                client.set("/counter", str(int(data) + 1).encode(), version=stat.version)
                done += 1
            except BadVersionError:
                pass

    in_parallel(work, 4)
    data, stat = store.get("/counter")
    assert (data, stat.version) == (b"40", 40)


# Several operations at once


def test_multi_gives_one_result_per_operation(store: Store) -> None:
    store.create("/a", b"")
    store.create("/gone", b"")
    ops: list[Op] = [
        CheckOp("/a", 0),
        CreateOp("/a/b", b"1"),
        SetOp("/a/b", b"22", 0),
        CreateOp("/a/s-", b"", sequential=True),
        DeleteOp("/gone"),
    ]
    checked, created, stat, sequential, deleted = store.multi(ops)
    assert (checked, created, sequential, deleted) == (None, "/a/b", "/a/s-0000000001", None)
    assert stat == stat_of(store, "/a/b")
    # One transaction has one number: this is how a broker learns its epoch while it registers.
    assert isinstance(stat, Stat)
    assert stat.czxid == stat.mzxid == stat_of(store, "/a").pzxid


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (CheckOp("/a", 7), BadVersionError),
        (CheckOp("/no", -1), NoNodeError),
        (SetOp("/a", b"", 7), BadVersionError),
        (SetOp("/no", b""), NoNodeError),
        (CreateOp("/a", b""), NodeExistsError),
        (CreateOp("/no/child", b""), NoNodeError),
        (DeleteOp("/a", 7), BadVersionError),
        (DeleteOp("/full"), NotEmptyError),
    ],
)
def test_multi_does_nothing_when_one_operation_fails(store: Store, bad: Op, error: type[StoreError]) -> None:
    store.create("/a", b"before")
    store.create("/full/child", b"", make_parents=True)
    before = [stat_of(store, path) for path in ("/", "/a", "/full")]
    ops: list[Op] = [SetOp("/a", b"after"), CreateOp("/new", b""), bad, DeleteOp("/full/child")]
    if isinstance(bad, SetOp | DeleteOp | CheckOp) and bad.path == "/a":
        ops[0] = CheckOp("/a", 0)
    with pytest.raises(error) as caught:
        store.multi(ops)
    assert caught.value.failed_index == 2
    assert caught.value.path == bad.path
    assert [stat_of(store, path) for path in ("/", "/a", "/full")] == before
    assert store.exists("/new") is None


def test_an_empty_multi_is_no_error(store: Store) -> None:
    assert store.multi([]) == []
    assert store.multi_many([]) == []


def test_multi_of_a_thousand_creates(store: Store) -> None:
    store.create("/t", b"")
    made = store.multi([CreateOp(f"/t/{number}", b"x" * 200) for number in range(1000)])
    assert made == [f"/t/{number}" for number in range(1000)]
    assert stat_of(store, "/t").num_children == 1000


def test_multi_many_reports_each_transaction_and_goes_on(store: Store) -> None:
    store.create("/epoch", b"1")
    transactions: list[list[Op]] = []
    for number in range(400):
        store_ops: list[Op] = [CheckOp("/epoch", 9 if number % 3 == 1 else 0), CreateOp(f"/p{number}", b"x")]
        if number % 3 == 2:
            store_ops += [DeleteOp("/no")]
        transactions.append(store_ops)
    outcomes = store.multi_many(iter(transactions))
    assert len(outcomes) == 400
    for number, outcome in enumerate(outcomes):
        if number % 3 == 0:
            assert outcome == [None, f"/p{number}"]
        else:
            expected = BadVersionError if number % 3 == 1 else NoNodeError
            assert isinstance(outcome, expected)
            assert outcome.failed_index == (0 if number % 3 == 1 else 2)
    assert len(store.children("/")) == 1 + 134


# Sessions and ephemeral nodes


def test_ephemeral_nodes_end_with_their_session(coordination: Coordination) -> None:
    store = coordination.open()
    store.create("/ids", b"")
    store.create("/ids/1", b"me", ephemeral=True)
    store.multi([CreateOp("/ids/2", b"", ephemeral=True)])
    assert stat_of(store, "/ids/1").ephemeral_owner == store.session_id != 0
    before = stat_of(store, "/ids").czxid
    store.close()
    successor = coordination.open()
    assert successor.children("/ids") == []
    assert stat_of(successor, "/ids").czxid == before
    assert successor.session_id != store.session_id


def test_an_ephemeral_node_has_no_children(store: Store) -> None:
    store.create("/e", b"", ephemeral=True)
    with pytest.raises(NoChildrenForEphemeralsError):
        store.create("/e/child", b"")
    with pytest.raises(NoChildrenForEphemeralsError) as caught:
        store.multi([CreateOp("/e/child", b"")])
    assert caught.value.failed_index == 0


def test_a_resumed_session_keeps_its_ephemeral_nodes(coordination: Coordination) -> None:
    first = coordination.open()
    first.create("/e", b"mine", ephemeral=True)
    epoch = stat_of(first, "/e").czxid
    first.close(keep_session=True)
    second = coordination.open(resume=(first.session_id, first.session_password))
    assert second.session_id == first.session_id
    assert second.session_password == first.session_password
    stat = stat_of(second, "/e")
    assert (stat.czxid, stat.ephemeral_owner) == (epoch, first.session_id)
    second.close()
    assert coordination.open().exists("/e") is None


def test_a_session_that_is_over_is_not_resumed(coordination: Coordination) -> None:
    first = coordination.open()
    first.create("/e", b"", ephemeral=True)
    first.close()
    second = coordination.open(resume=(first.session_id, first.session_password))
    assert second.session_id != first.session_id
    assert second.exists("/e") is None
    second.create("/e", b"", ephemeral=True)
    assert stat_of(second, "/e").ephemeral_owner == second.session_id


def test_a_wrong_password_resumes_nothing(coordination: Coordination) -> None:
    first = coordination.open()
    first.close(keep_session=True)
    second = coordination.open(resume=(first.session_id, bytes(16)))
    assert second.session_id != first.session_id


def test_session_state_is_told_to_a_late_listener(store: Store) -> None:
    told = threading.Event()
    store.on_session(lambda state: told.set() if state is SessionState.CONNECTED else None)
    assert told.wait(WAIT_S)


def test_a_closed_store_refuses(coordination: Coordination) -> None:
    store = coordination.open()
    store.close()
    store.close()
    for call in (lambda: store.get("/"), lambda: store.create("/a", b""), lambda: store.multi([])):
        with pytest.raises(StoreClosedError):
            call()
    with pytest.raises(StoreClosedError):
        store.watch_data("/a", print)


def test_a_store_is_a_context(coordination: Coordination) -> None:
    with coordination.open() as store:
        store.create("/a", b"")
    with pytest.raises(StoreClosedError):
        store.get("/a")


# Watches


def test_a_data_watch_sees_creation_change_and_deletion(coordination: Coordination) -> None:
    store = coordination.open()
    writer = coordination.another_client(store)
    events = Events()
    store.watch_data("/a", events)
    writer.create("/a", b"0")
    expect(events, WatchKind.DATA, "/a")
    writer.set("/a", b"1")
    expect(events, WatchKind.DATA, "/a")
    assert store.get("/a")[0] == b"1"
    writer.delete("/a")
    expect(events, WatchKind.DATA, "/a")
    assert store.exists("/a") is None
    writer.create("/a", b"2")
    expect(events, WatchKind.DATA, "/a")


def test_a_data_watch_ignores_children(store: Store) -> None:
    store.create("/a", b"")
    events = Events()
    store.watch_data("/a", events)
    store.create("/a/child", b"")
    store.set("/a", b"x")
    expect(events, WatchKind.DATA, "/a")
    assert events.empty()


def test_a_children_watch_sees_the_list_change(coordination: Coordination) -> None:
    store = coordination.open()
    writer = coordination.another_client(store)
    store.create("/ids", b"")
    events = Events()
    store.watch_children("/ids", events)
    writer.create("/ids/1", b"")
    expect(events, WatchKind.CHILDREN, "/ids")
    assert store.children("/ids") == ["1"]
    writer.set("/ids/1", b"data of a child")
    writer.set("/ids", b"own data")
    writer.delete("/ids/1")
    expect(events, WatchKind.CHILDREN, "/ids")
    assert store.children("/ids") == []


def test_a_children_watch_waits_for_its_node(store: Store) -> None:
    events = Events()
    store.watch_children("/later", events)
    store.create("/later", b"")
    expect(events, WatchKind.CHILDREN, "/later")
    store.create("/later/child", b"")
    expect(events, WatchKind.CHILDREN, "/later")
    store.delete_recursive("/later")
    expect(events, WatchKind.CHILDREN, "/later")


def test_an_ephemeral_that_goes_with_its_session_is_reported(coordination: Coordination) -> None:
    if coordination.kind == "embedded":
        # The one client of the store is the one whose session ends: nobody is left to be told.
        return
    store = coordination.open()
    other = coordination.open()
    store.create("/ids", b"")
    other.create("/ids/1", b"", ephemeral=True)
    events = Events()
    store.watch_children("/ids", events)
    store.watch_data("/ids/1", events)
    other.close()
    assert {events.wait().path, events.wait().path} == {"/ids", "/ids/1"}


def test_no_change_is_missed_however_fast_they_come(coordination: Coordination) -> None:
    store = coordination.open()
    writer = coordination.another_client(store)
    store.create("/n", b"0")
    events = Events()
    store.watch_data("/n", events)
    for number in range(1, 201):
        writer.set("/n", str(number).encode())
    # Events may be fewer than changes, but after the last change one must come.
    while store.get("/n")[0] != b"200":
        events.wait()
    reported = Events()
    store.watch_data("/n", reported)
    writer.set("/n", b"201")
    assert reported.wait() == WatchEvent(WatchKind.DATA, "/n")


def test_the_last_of_many_changes_is_always_reported(coordination: Coordination) -> None:
    store = coordination.open()
    writer = coordination.another_client(store)
    store.create("/n", b"0")
    events = Events()
    store.watch_data("/n", events)

    def work(_: int) -> None:
        for number in range(1, 301):
            writer.set("/n", str(number).encode())

    writing = threading.Thread(target=work, args=(0,))
    writing.start()
    seen = 0
    while seen < 300:
        events.wait()  # would time out if the event after the last change were lost
        seen = int(store.get("/n")[0])
    writing.join(WAIT_S)


def test_changes_by_multi_are_reported(store: Store) -> None:
    store.create("/a", b"")
    events = Events()
    store.watch_data("/a", events)
    store.watch_children("/a", events)
    with pytest.raises(NoNodeError):
        store.multi([SetOp("/a", b"lost"), DeleteOp("/no")])
    assert events.empty()
    store.multi([SetOp("/a", b"1"), CreateOp("/a/b", b"")])
    assert {events.wait().kind, events.wait().kind} == {WatchKind.DATA, WatchKind.CHILDREN}
    store.multi_many([[DeleteOp("/no")], [SetOp("/a", b"2")]])
    expect(events, WatchKind.DATA, "/a")


def test_unwatch_ends_one_watch_only(store: Store) -> None:
    ended, standing = Events(), Events()
    watch = store.watch_data("/a", ended)
    store.watch_data("/a", standing)
    watch.unwatch()
    watch.unwatch()
    store.create("/a", b"")
    expect(standing, WatchKind.DATA, "/a")
    store.set("/a", b"x")
    expect(standing, WatchKind.DATA, "/a")
    assert ended.empty()


def test_a_failing_callback_harms_nobody(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def failing(event: WatchEvent) -> None:
        raise RuntimeError(f"no use for {event.path}")

    events = Events()
    store.watch_data("/a", failing)
    store.watch_data("/b", events)
    store.create("/a", b"")
    store.create("/b", b"")
    expect(events, WatchKind.DATA, "/b")
    assert "no use for /a" in caplog.text
