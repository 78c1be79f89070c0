"""What a secured throw-away cluster is made of: files that only their owner reads, and the users' credentials."""

import contextlib
from pathlib import Path

import pytest

from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.coordination.entity_configs import read_config
from pkafka.coordination.znodes_security import ScramCredential
from pkafka.java.properties import load_properties
from pkafka.net.scram import ScramMechanism, keys_of, salted_password
from pkafka.security.jaas import parse_jaas
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.tools.servers.security import PROTOCOLS, Security, UsersError

ODD = 'p#a"ss=\\wörd:!'


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_broker_takes_its_file_and_nobody_else_reads_it(tmp_path: Path, protocol: str) -> None:
    security = Security(tmp_path, protocol)
    security.write_client_files("127.0.0.1:1")
    overrides = {"listeners": f"{protocol}://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
    assert BrokerConfig.load(security.broker_properties, overrides).warnings == ()
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert security.users == ("admin", "alice", "bob")
    for user in security.users:
        assert {security.client_properties(user), security.librdkafka_conf(user)} <= set(files)


def test_passwords_are_random_or_those_that_were_given(tmp_path: Path) -> None:
    one = Security(tmp_path / "1", "SASL_PLAINTEXT", {"carol": ODD})
    two = Security(tmp_path / "2", "SASL_PLAINTEXT", {"alice": ODD})
    assert one.users == ("admin", "alice", "bob", "carol")
    assert one.client_config("carol")["sasl.password"] == ODD
    assert two.client_config("alice")["sasl.password"] == ODD
    assert len({one.client_config(user)["sasl.password"] for user in one.users}) == 4
    assert one.client_config("bob")["sasl.password"] != two.client_config("bob")["sasl.password"]


def test_files_and_store_have_the_same_password_with_any_sign(tmp_path: Path) -> None:
    security = Security(tmp_path, "SASL_SSL", {"alice": ODD})
    security.write_client_files("127.0.0.1:1")
    client = load_properties(security.client_properties("alice"))
    assert parse_jaas(client["sasl.jaas.config"]).options == {"username": "alice", "password": ODD}
    assert f"sasl.password={ODD}\n" in security.librdkafka_conf("alice").read_text(encoding="utf-8")
    broker = load_properties(security.broker_properties)
    plain = parse_jaas(broker["listener.name.sasl_ssl.plain.sasl.jaas.config"])
    assert plain.options["user_alice"] == ODD
    security.add_users(tmp_path / "data", {})
    with contextlib.closing(EmbeddedStore(tmp_path / "data" / STORE_FILE)) as store:
        stored = ScramCredential.decode(read_config(store, "users", "alice")["SCRAM-SHA-512"])
    mechanism = ScramMechanism.SCRAM_SHA_512
    salted = salted_password(mechanism, ODD.encode(), stored.salt, stored.iterations)
    assert keys_of(mechanism, salted) == (stored.stored_key, stored.server_key)


@pytest.mark.parametrize(
    ("passwords", "why"),
    [
        ({"a b": "x"}, "cannot be the name"),
        ({"../x": "x"}, "cannot be the name"),
        ({"broker": "x"}, "the brokers' own"),
        ({"alice": ""}, "the password of alice"),
        ({"alice": " secret"}, "the password of alice"),
        ({"alice": "sec\nret"}, "the password of alice"),
    ],
)
def test_users_that_no_file_could_name_are_refused(
    tmp_path: Path, passwords: dict[str, str], why: str
) -> None:
    with pytest.raises(UsersError, match=why) as refused:
        Security(tmp_path, "SASL_SSL", passwords)
    assert "sec" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_certificates_know_no_passwords(tmp_path: Path) -> None:
    with pytest.raises(UsersError, match="certificates in place of passwords"):
        Security(tmp_path, "SSL", {"alice": "x"})


def test_nobody_else_has_a_configuration(tmp_path: Path) -> None:
    for protocol in PROTOCOLS:
        security = Security(tmp_path / protocol, protocol)
        with pytest.raises(UsersError, match="no user broker: admin, alice, bob"):
            security.client_config("broker")
