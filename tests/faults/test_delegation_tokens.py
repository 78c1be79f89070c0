"""Delegation tokens while the broker's processes, or the broker, go away: what was answered holds."""

import contextlib
import threading

import pytest

from pkafka.clients.admin.delegation_tokens import DelegationToken
from pkafka.coordination import znodes_security
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import PkafkaError
from pkafka.security.principal import Principal
from pkafka.testing import Broker
from tests.faults.conftest import MakeBroker
from tests.faults.family import family, kill, replaced
from tests.faults.wire import eventually
from tests.names import new_name
from tests.sockets import free_port
from tests.token_clients import as_user, lets_in, token_settings
from tests.zookeeper import ZooKeeper

ALICE = Principal("User", "alice")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def address(port: int) -> str:
    return f"127.0.0.1:{port}"


@pytest.fixture
def broker(make_broker: MakeBroker, port: int) -> Broker:
    broker = make_broker(**token_settings(port, delegation_token_expiry_check_interval_ms=300))
    broker.start()
    return broker


def new_token(address: str, lifetime_max_ms: int = -1) -> DelegationToken:
    with as_user(address, "alice") as alice:
        return alice.create_delegation_token(lifetime_max_ms=lifetime_max_ms, timeout_ms=10_000)


def known(address: str) -> set[str]:
    with as_user(address, "alice") as alice:
        return {one.token_id for one in alice.describe_delegation_tokens([ALICE])}


@pytest.mark.parametrize("name", ["control", "worker-0", "worker-1"])
def test_tokens_outlive_every_process(broker: Broker, address: str, name: str) -> None:
    token = new_token(address)
    victim = kill(broker, name)
    eventually(lambda: lets_in(address, token))
    replaced(broker, victim, name)
    for _ in range(8):  # the kernel spreads connections over the workers
        eventually(lambda: lets_in(address, token))
    with as_user(address, "alice") as alice:
        assert alice.describe_delegation_tokens([ALICE]) == [token]
        alice.expire_delegation_token(token.hmac)
    for _ in range(8):
        assert not lets_in(address, token)


def test_tokens_that_were_answered_are_there_when_control_dies(broker: Broker, address: str) -> None:
    made: set[str] = set()
    stop = threading.Event()

    def make() -> None:
        while not stop.is_set():
            with contextlib.suppress(PkafkaError):
                made.add(new_token(address).token_id)

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            before = len(made)
            eventually(lambda: len(made) > before + 5)  # noqa: B023 - called at once
            replaced(broker, kill(broker, "control"), "control")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert made <= known(address)


def test_tokens_outlive_a_restart_and_expire_behind_it(broker: Broker, address: str) -> None:
    lasting, short = new_token(address), new_token(address, 1_000)
    broker.kill()
    broker.start()
    eventually(lambda: known(address) == {lasting.token_id})
    assert lets_in(address, lasting)
    assert not lets_in(address, short)


def test_a_token_without_a_note_is_found_by_the_next_control_process(
    make_broker: MakeBroker, zookeeper: ZooKeeper, port: int, address: str
) -> None:
    """As a broker of Apache Kafka leaves it that dies between the two."""
    connect = f"{zookeeper.connect}/{new_name('tokens-')}"
    broker = make_broker(**token_settings(port, zookeeper_connect=connect))
    broker.start()
    token = new_token(address)
    with ZooKeeperStore(connect) as store:
        path = znodes_security.DelegationToken.path(token.token_id)
        stored = znodes_security.DelegationToken.decode(store.get(path)[0])
        assert (stored.owner, stored.expires_ms) == ("User:alice", token.expires_ms)
        # It may still have to look at the note of the creation.
        family(broker)["control"].suspend()
        store.delete(path)
    assert lets_in(address, token)  # nobody said that it is gone
    replaced(broker, kill(broker, "control"), "control")
    eventually(lambda: not lets_in(address, token))
    assert known(address) == set()
