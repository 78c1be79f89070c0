"""What the ``ssl.*`` keys make of a listener, and what they cannot make of it."""

from pathlib import Path

import pytest

from pkafka.errors import ConfigError
from pkafka.security.tls_context import ClientAuth, Store
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.listener_tls import ListenerTls, listener_tls
from tests.unit.server.security.stores import PASSWORD, Stores


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def read(config: BrokerConfig, name: str = "SSL") -> ListenerTls | None:
    (listener,) = [one for one in config.listeners if one.name == name]
    return listener_tls(config, listener)


def test_a_plain_listener_has_none(stores: Stores) -> None:
    assert read(stores.config(), "PLAINTEXT") is None


def test_files_of_pem(stores: Stores) -> None:
    found = read(stores.config(ssl_key_password="of the key"))
    assert found is not None
    assert found.settings.keystore == Store(
        "keystore", "PEM", str(stores.directory / "own.pem"), "\n", None, "of the key"
    )
    assert found.settings.truststore == Store("truststore", "PEM", str(stores.directory / "ca.pem"))
    assert found.client_auth is ClientAuth.NONE
    assert (found.allows_other_subject, found.allows_fewer_names) == (False, False)


def test_versions_suites_and_names(stores: Stores) -> None:
    found = read(
        stores.config(
            ssl_enabled_protocols="TLSv1.3",
            ssl_cipher_suites="A, B",
            ssl_endpoint_identification_algorithm="",
            ssl_allow_dn_changes="true",
            ssl_allow_san_changes="true",
        )
    )
    assert found is not None
    assert found.settings[:3] == (("TLSv1.3",), ("A", "B"), False)
    assert (found.allows_other_subject, found.allows_fewer_names) == (True, True)


def test_a_listeners_own_keys_come_first(stores: Stores) -> None:
    own = {
        "listener_name_ssl_ssl_keystore_location": "/own.p12",
        "listener_name_ssl_ssl_keystore_type": "PKCS12",
    }
    found = read(stores.config(**own, listener_name_ssl_ssl_keystore_password=PASSWORD))
    assert found is not None
    assert found.settings.keystore is not None
    assert found.settings.keystore.location == "/own.p12"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ssl.client.auth": "required"}, {"A": "required", "B": "none"}),
        ({"listener.name.b.ssl.client.auth": "requested"}, {"A": "none", "B": "requested"}),
    ],
)
def test_of_listeners_with_logins_only_their_own_key_asks_for_certificates(
    stores: Stores, settings: dict[str, str], expected: dict[str, str]
) -> None:
    config = BrokerConfig(
        {
            **stores.config().originals,
            "listeners": "PLAINTEXT://127.0.0.1:1,A://127.0.0.1:2,B://127.0.0.1:3",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:SSL,B:SASL_SSL",
            **settings,
        },
        check=False,
    )
    for name, wanted in expected.items():
        found = read(config, name)
        assert found is not None
        assert found.client_auth.value == wanted
        assert (found.rules is None) == (name == "B")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"ssl_keystore_location": None}, "ssl.keystore.location"),
        ({"ssl_keystore_location": ""}, "ssl.keystore.location"),
        ({"ssl_keystore_location": None, "ssl_keystore_password": "x"}, "ssl.keystore.password"),
        ({"ssl_keystore_password": "x"}, "ssl.keystore.password"),
        ({"ssl_truststore_password": "x"}, "ssl.truststore.password"),
        ({"ssl_truststore_location": None, "ssl_truststore_password": "x"}, "ssl.truststore.password"),
        ({"ssl_keystore_type": "PKCS12"}, "ssl.keystore.password"),
        ({"ssl_keystore_key": "x"}, "ssl.keystore.location"),
        ({"ssl_keystore_key": "x", "ssl_keystore_location": None}, "ssl.keystore.certificate.chain"),
        ({"ssl_keystore_certificate_chain": "x", "ssl_keystore_location": None}, "ssl.keystore.key"),
        ({"ssl_truststore_certificates": "x"}, "ssl.truststore.location"),
        (
            {
                "ssl_truststore_certificates": "x",
                "ssl_truststore_location": None,
                "ssl_truststore_type": "JKS",
            },
            "ssl.truststore.type",
        ),
        ({"ssl_client_auth": "perhaps"}, "ssl.client.auth"),
        ({"listener_name_ssl_ssl_client_auth": "perhaps"}, "listener.name.ssl.ssl.client.auth"),
        ({"ssl_principal_mapping_rules": "RULE:a"}, "ssl.principal.mapping.rules"),
        ({"ssl_endpoint_identification_algorithm": "ldap"}, "ssl.endpoint.identification.algorithm"),
        ({"ssl_engine_factory_class": "a.B"}, "ssl.engine.factory.class"),
        ({"ssl_provider": "BC"}, "ssl.provider"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(
    stores: Stores, settings: dict[str, str | None], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        stores.config(**settings)
    assert caught.value.key == key
    assert "\n" not in str(caught.value)
