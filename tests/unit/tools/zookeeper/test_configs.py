"""What may be changed in the nodes of a cluster without a broker, and what nobody gets to see of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.coordination.cluster import create_persistent_paths
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.entity_configs import read_config
from pkafka.coordination.store import Store
from pkafka.coordination.znodes import CONFIG_CHANGES, BrokerRegistration, ConfigChange, Endpoint
from pkafka.coordination.znodes_security import ScramCredential
from pkafka.net.scram import ScramMechanism, keys_of, salted_password
from pkafka.security.password_encoder import PasswordEncoder
from pkafka.tools.zookeeper.configs import RefusedError, ZookeeperEntity, alter, credential, described

SHA_256 = ScramMechanism.SCRAM_SHA_256
ALICE = ZookeeperEntity("users", "alice b/c")
EVERY_USER = ZookeeperEntity("users", "")
BROKER, EVERY_BROKER = ZookeeperEntity("brokers", "5"), ZookeeperEntity("brokers", "")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """Of a cluster that no broker has ever run in."""
    with EmbeddedStore(tmp_path / "store.sqlite") as store:
        yield store


def notes(store: Store) -> list[str]:
    return [
        ConfigChange.decode(store.get(f"{CONFIG_CHANGES}/{name}")[0]).entity_path
        for name in sorted(store.children(CONFIG_CHANGES))
    ]


def test_a_credential_of_a_user(store: EmbeddedStore) -> None:
    alter(store, ALICE, {"SCRAM-SHA-256": credential(SHA_256, b"hush", 8192)}, [], dry_run=False)
    stored = ScramCredential.decode(read_config(store, "users", "alice%20b%2Fc")["SCRAM-SHA-256"])
    salted = salted_password(SHA_256, b"hush", stored.salt, 8192)
    assert keys_of(SHA_256, salted) == (stored.stored_key, stored.server_key)
    assert notes(store) == ["users/alice%20b%2Fc"]
    assert described(store, "users", ALICE.name) == {ALICE: {"SCRAM-SHA-256": "iterations=8192"}}
    assert str(ALICE) == "user-principal 'alice b/c'"
    with pytest.raises(RefusedError, match=r"Invalid config\(s\): SCRAM-SHA-512"):
        alter(store, ALICE, {}, ["SCRAM-SHA-512"], dry_run=True)
    alter(store, ALICE, {}, ["SCRAM-SHA-256"], dry_run=True)
    assert len(notes(store)) == 1
    alter(store, ALICE, {}, ["SCRAM-SHA-256"], dry_run=False)
    assert described(store, "users", ALICE.name) == {ALICE: {}}
    assert described(store, "users", None) == {}


def test_other_keys_of_users_need_a_broker(store: EmbeddedStore) -> None:
    with pytest.raises(RefusedError, match="only supported for SCRAM credential updates"):
        alter(store, ALICE, {"producer_byte_rate": "1"}, [], dry_run=False)
    with pytest.raises(RefusedError, match="Unknown Dynamic Configuration: SCRAM-SHA-256"):
        alter(store, EVERY_USER, {"SCRAM-SHA-256": "x"}, [], dry_run=False)
    assert store.exists("/config/users") is None


def test_settings_of_a_broker_that_does_not_run(store: EmbeddedStore) -> None:
    added = {"log.cleaner.threads": "2", "password.encoder.secret": "hush", "my.password": "hush"}
    alter(store, BROKER, added, [], dry_run=False)
    alter(store, EVERY_BROKER, {"message.max.bytes": "2000000"}, [], dry_run=False)
    assert read_config(store, "brokers", "5") == {"log.cleaner.threads": "2", "my.password": "hush"}
    assert described(store, "brokers", "5") == {
        BROKER: {"log.cleaner.threads": "2", "my.password": "[hidden]"}
    }
    assert notes(store) == ["brokers/5", "brokers/<default>"]
    for bad, words in (
        ({"log.cleaner.threads": "x"}, "Not a number of type INT"),
        ({"log.dirs": "/x"}, "Cannot update these configs dynamically"),
        ({"listener.name.x.ssl.key.password": "hush"}, "password.encoder.secret must be specified"),
    ):
        with pytest.raises(RefusedError, match=words) as refused:
            alter(store, BROKER, bad, [], dry_run=False)
        assert "hush" not in str(refused.value)
    with pytest.raises(RefusedError, match="at default cluster level"):
        alter(store, EVERY_BROKER, {"advertised.listeners": "PLAINTEXT://h:1"}, [], dry_run=False)


def test_a_password_of_a_broker_is_stored_encrypted(store: EmbeddedStore) -> None:
    key = "listener.name.x.ssl.key.password"
    alter(store, BROKER, {key: "hush", "password.encoder.secret": "secret"}, [], dry_run=False)
    stored = read_config(store, "brokers", "5")
    assert list(stored) == [key]
    assert PasswordEncoder("secret", bytes).decode(stored[key]) == "hush"
    assert described(store, "brokers", "5") == {BROKER: {key: "[hidden]"}}
    wrong = {key: "hush", "password.encoder.secret": "secret", "password.encoder.key.length": "99"}
    with pytest.raises(RefusedError, match="must be 128, 192 or 256"):
        alter(store, BROKER, wrong, [], dry_run=False)


def test_brokers_that_run_are_to_be_asked(store: EmbeddedStore) -> None:
    create_persistent_paths(store)
    store.create("/brokers/ids/5", BrokerRegistration((Endpoint("PLAINTEXT", "host", 1),), 0).encode())
    for entity, who in ((BROKER, "broker 5 is running"), (EVERY_BROKER, "1 brokers are running")):
        with pytest.raises(RefusedError, match=f"update brokers configs - {who}"):
            alter(store, entity, {"log.cleaner.threads": "2"}, [], dry_run=True)
        with pytest.raises(RefusedError, match=f"describe brokers - {who}"):
            described(store, "brokers", entity.name)
    other = ZookeeperEntity("brokers", "6")
    alter(store, other, {"log.cleaner.threads": "2"}, [], dry_run=False)
    assert described(store, "brokers", "6") == {other: {"log.cleaner.threads": "2"}}
