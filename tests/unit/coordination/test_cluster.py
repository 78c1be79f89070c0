"""What brokers do at the store when they start, several of them at once included."""

import threading

import pytest

from pkafka.coordination.cluster import (
    BrokerIdTakenError,
    create_checked_ephemeral,
    create_persistent_paths,
    ensure_cluster_id,
    next_broker_id,
)
from pkafka.coordination.store import NoNodeError, Store
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.model import parse_topic_id
from tests.unit.coordination.worlds import WAIT_S, Coordination


def test_persistent_paths_are_made_once(store: Store) -> None:
    create_persistent_paths(store)
    assert store.children("/") == [
        "admin",
        "brokers",
        "config",
        "consumers",
        "isr_change_notification",
        "latest_producer_id_block",
        "log_dir_event_notification",
    ]
    assert store.children("/brokers") == ["ids", "seqid", "topics"]
    assert store.children("/config") == ["brokers", "changes", "clients", "ips", "topics", "users"]
    assert store.children("/admin") == ["delete_topics"]
    store.set("/brokers/seqid", b"x")
    create_persistent_paths(store)
    assert store.get("/brokers/seqid")[0] == b"x"


def test_the_cluster_id_is_made_once(store: Store) -> None:
    made = ensure_cluster_id(store)
    assert len(parse_topic_id(made)) == 16
    assert store.get("/cluster/id")[0] == b'{"version":"1","id":"%s"}' % made.encode()
    assert ensure_cluster_id(store) == made


def test_a_damaged_cluster_id_is_not_replaced(store: Store) -> None:
    store.create("/cluster/id", b"{", make_parents=True)
    with pytest.raises(ZnodeFormatError):
        ensure_cluster_id(store)


def test_racing_brokers_agree_on_the_cluster_id_and_get_different_broker_ids(
    coordination: Coordination,
) -> None:
    first = coordination.open()
    clients = [first, coordination.another_client(first)]
    cluster_ids: set[str] = set()
    broker_ids: list[int] = []

    def boot(store: Store) -> None:
        create_persistent_paths(store)
        cluster_ids.add(ensure_cluster_id(store))
        broker_ids.append(next_broker_id(store, 1000))

    brokers = [threading.Thread(target=boot, args=(clients[number % 2],)) for number in range(6)]
    for broker in brokers:
        broker.start()
    for broker in brokers:
        broker.join(WAIT_S)
    assert len(cluster_ids) == 1
    assert sorted(broker_ids) == [1001, 1002, 1003, 1004, 1005, 1006]


def test_broker_ids_are_generated_without_the_persistent_paths(store: Store) -> None:
    assert [next_broker_id(store, 0), next_broker_id(store, 0)] == [1, 2]


def test_a_registration_tells_its_epoch(store: Store) -> None:
    create_persistent_paths(store)
    stat = create_checked_ephemeral(store, "/brokers/ids/1", b"data")
    data, current = store.get("/brokers/ids/1")
    assert (data, current) == (b"data", stat)
    assert stat.ephemeral_owner == store.session_id
    with pytest.raises(NoNodeError, match="/nowhere does not exist"):
        create_checked_ephemeral(store, "/nowhere/1", b"")


def test_registering_again_in_the_same_session_keeps_the_epoch(store: Store) -> None:
    first = create_checked_ephemeral(store, "/b", b"one")
    again = create_checked_ephemeral(store, "/b", b"two")
    assert again.czxid == first.czxid
    assert store.get("/b")[0] == b"two"


def test_a_node_of_the_previous_session_is_replaced(coordination: Coordination) -> None:
    if coordination.kind == "embedded":
        return  # opening without resume has removed it already: see the contract
    old = coordination.open()
    before = create_checked_ephemeral(old, "/b", b"old")
    new = coordination.open()
    with pytest.raises(BrokerIdTakenError, match=f"{old.session_id:#x}"):
        create_checked_ephemeral(new, "/b", b"new")
    with pytest.raises(BrokerIdTakenError):
        create_checked_ephemeral(new, "/b", b"new", previous_session_id=old.session_id + 1)
    assert new.get("/b")[0] == b"old"
    after = create_checked_ephemeral(new, "/b", b"new", previous_session_id=old.session_id)
    assert after.ephemeral_owner == new.session_id
    assert after.czxid > before.czxid
    old.close()
    assert new.get("/b")[0] == b"new"


def test_a_persistent_node_in_the_place_is_a_stranger(store: Store) -> None:
    store.create("/b", b"somebody's")
    with pytest.raises(BrokerIdTakenError):
        create_checked_ephemeral(store, "/b", b"")
    assert store.get("/b")[0] == b"somebody's"
