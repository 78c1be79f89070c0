"""Registration of a broker."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.clock import ManualClock
from pkafka.coordination.cluster import create_persistent_paths
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.znodes import BrokerRegistration, Endpoint
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control.registration import (
    DuplicateBrokerIdError,
    EndpointTakenError,
    Registration,
    canonical_host_name,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path / "store") as store:
        create_persistent_paths(store)
        yield store


def _registration(**settings: str) -> Registration:
    config = BrokerConfig({"broker.id": "3", "listeners": "PLAINTEXT://:0", **settings})
    return Registration(3, lambda: config, {"PLAINTEXT": 40001}, clock=ManualClock())


def test_the_node_names_where_the_broker_can_be_reached(store: EmbeddedStore) -> None:
    epoch = _registration(**{"broker.rack": "r1"}).register(store)
    data, stat = store.get("/brokers/ids/3")
    assert epoch == stat.czxid
    assert stat.ephemeral_owner == store.session_id
    found = BrokerRegistration.decode(data)
    assert [str(one) for one in found.endpoints] == [f"PLAINTEXT://{canonical_host_name()}:40001"]
    assert (found.rack, found.version, found.jmx_port) == ("r1", 5, -1)


def test_the_node_says_where_metrics_are(store: EmbeddedStore) -> None:
    _registration(**{"pkafka.metrics.port": "9308"}).register(store)
    assert BrokerRegistration.decode(store.get("/brokers/ids/3")[0]).jmx_port == 9308


def test_the_name_of_a_machine_is_that_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = {
        "short": ["fd00::7", "192.0.2.7"],
        "long.example": ["192.0.2.7"],
        "stale.example": ["192.0.2.9"],
    }
    reverse = {"192.0.2.7": "long.example"}

    def addresses(name: str, _port: None, **_: object) -> list[tuple[object, ...]]:
        if name not in forward:
            raise socket.gaierror
        families = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(families[":" in text], 0, 0, "", (text, 0)) for text in forward[name]]

    def name_of(address: tuple[str, int], _flags: int) -> tuple[str, str]:
        if address[0] not in reverse:
            raise socket.gaierror
        return reverse[address[0]], "0"

    monkeypatch.setattr(socket, "gethostname", lambda: "short")
    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    monkeypatch.setattr(socket, "getnameinfo", name_of)
    assert canonical_host_name() == "long.example"
    reverse["192.0.2.7"] = "stale.example"
    assert canonical_host_name() == "192.0.2.7"
    reverse.clear()
    assert canonical_host_name() == "192.0.2.7"
    forward.clear()
    assert canonical_host_name() == "localhost"


def test_registering_again_in_the_same_session_keeps_the_epoch(store: EmbeddedStore) -> None:
    registration = _registration()
    assert registration.register(store) == registration.register(store)


def test_the_node_follows_the_configuration_and_stays_the_same_node(store: EmbeddedStore) -> None:
    settings = {"broker.id": "3", "listeners": "PLAINTEXT://:0"}
    registration = Registration(3, lambda: BrokerConfig(settings), {"PLAINTEXT": 40001}, clock=ManualClock())
    epoch = registration.register(store)
    before = store.get("/brokers/ids/3")[1]
    registration.update(store)
    assert store.get("/brokers/ids/3")[1] == before
    settings["advertised.listeners"] = "PLAINTEXT://kafka.example:9092"
    registration.update(store)
    data, stat = store.get("/brokers/ids/3")
    assert [str(one) for one in BrokerRegistration.decode(data).endpoints] == [
        "PLAINTEXT://kafka.example:9092"
    ]
    assert (stat.version, stat.czxid, stat.ephemeral_owner) == (before.version + 1, epoch, store.session_id)
    del settings["advertised.listeners"]
    assert registration.register(store) == epoch
    data, _ = store.get("/brokers/ids/3")
    assert [str(one) for one in BrokerRegistration.decode(data).endpoints] == [
        f"PLAINTEXT://{canonical_host_name()}:40001"
    ]


def test_a_stranger_with_the_same_id_is_refused_in_one_line(store: EmbeddedStore) -> None:
    store.create("/brokers/ids/3", b"{}")
    with pytest.raises(DuplicateBrokerIdError) as refusal:
        _registration().register(store)
    assert "Broker id 3 is taken by another live broker" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_node_of_our_own_earlier_session_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "store"
    before = EmbeddedStore(file)
    create_persistent_paths(before)
    first = _registration().register(before)
    session = (before.session_id, before.session_password)
    before.close(keep_session=True)
    with EmbeddedStore(file, resume=session) as after:
        assert _registration().register(after, session[0]) == first


def _other(store: EmbeddedStore, broker: int, *endpoints: str) -> None:
    """Registers another broker."""
    parts = [each.replace("://", ":").split(":") for each in endpoints]
    value = BrokerRegistration(
        tuple(Endpoint(name, host, int(port)) for name, host, port in parts), timestamp_ms=1
    )
    store.create(BrokerRegistration.path(broker), value.encode())


HERE = {"advertised.listeners": "PLAINTEXT://here:9092"}


def test_no_two_brokers_are_registered_at_one_address(store: EmbeddedStore) -> None:
    store.create(BrokerRegistration.path(9), b"what nobody can read")
    _other(store, 3, "PLAINTEXT://here:9092")  # this broker, in its life before
    _registration(**HERE).check_endpoints(store)
    _other(store, 4, "INTERNAL://other:9092", "PLAINTEXT://here:9093")
    _registration(**HERE).check_endpoints(store)
    _other(store, 5, "INTERNAL://other:9094", "OUTSIDE://here:9092")
    taken = "Configured end points here:9092 in advertised listeners are already registered by broker 5"
    with pytest.raises(EndpointTakenError, match=taken):
        _registration(**HERE).check_endpoints(store)
    store.delete(BrokerRegistration.path(5))
    _registration(**HERE).check_endpoints(store)


def test_the_address_that_counts_is_the_one_that_the_kernel_chose(store: EmbeddedStore) -> None:
    _other(store, 4, "PLAINTEXT://here:40001")
    with pytest.raises(EndpointTakenError, match="here:40001"):
        _registration(**{"advertised.listeners": "PLAINTEXT://here:0"}).check_endpoints(store)


def test_a_broker_stays_where_it_is_when_the_new_address_is_anothers(store: EmbeddedStore) -> None:
    _registration().register(store)
    before = store.get("/brokers/ids/3")[0]
    _other(store, 4, "PLAINTEXT://here:9092")
    with pytest.raises(EndpointTakenError):
        _registration(**HERE).update(store)
    assert store.get("/brokers/ids/3")[0] == before
    store.delete(BrokerRegistration.path(4))
    _registration(**HERE).update(store)
    assert [str(one) for one in BrokerRegistration.decode(store.get("/brokers/ids/3")[0]).endpoints] == [
        "PLAINTEXT://here:9092"
    ]


def test_why_the_controller_may_have_said_nothing(store: EmbeddedStore) -> None:
    registration = _registration(**HERE)
    assert registration.why_unheard(store, -1) == "There is no controller."
    _other(store, 4, "PLAINTEXT://a:1")
    assert (
        registration.why_unheard(store, 4)
        == "The controller, broker 4, has to reach it at PLAINTEXT://here:9092."
    )
    _other(store, 5, "PLAINTEXT://a:2", "INTERNAL://a:3")
    said = registration.why_unheard(store, 5)
    assert (
        "broker 5, has the listeners PLAINTEXT, INTERNAL, and this broker has the listener PLAINTEXT:" in said
    )


def test_who_cannot_be_spoken_to(store: EmbeddedStore) -> None:
    _other(store, 4, "PLAINTEXT://a:1")
    _other(store, 5, "OTHER://a:2")
    [sentence] = _registration(**HERE).out_of_reach(store)
    assert sentence.startswith(
        "End point with listener name PLAINTEXT not found for broker 5, which has the listener OTHER"
    )
