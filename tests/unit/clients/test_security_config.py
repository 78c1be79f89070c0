"""The clients' keys about TLS and SASL: what is taken, what is refused, and that no secret is shown."""

from pathlib import Path

import pytest

from pkafka.clients.config import ClientConfig, ProducerConfig
from pkafka.clients.security import Security, tls_settings
from pkafka.clock import SystemClock
from pkafka.errors import ConfigError, PkafkaError
from pkafka.security import kerberos
from pkafka.security.jaas import parse_jaas
from tests.certificates import Authority

HERE = {"bootstrap.servers": "h:1"}
PACKAGE = "org.apache.kafka.common.security"
PLAIN = f'{PACKAGE}.plain.PlainLoginModule required username="u" password="TOPSECRET";'
SCRAM = f'{PACKAGE}.scram.ScramLoginModule required username="u" password="TOPSECRET";'
SASL = {**HERE, "security.protocol": "SASL_PLAINTEXT"}
KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
KRB5 = f"{KRB5_MODULE} useTicketCache=true;"
KERBEROS = {**SASL, "sasl.kerberos.service.name": "kafka", "sasl.jaas.config": KRB5}
SSL = {**HERE, "security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("keys", "key", "problem"),
    [
        ({"security.protocol": "TLS"}, "security.protocol", "one of"),
        (SASL, "sasl.jaas.config", "missing; for GSSAPI, the default of sasl.mechanism: com.sun"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.jaas.config", "missing; for GSSAPI: com.sun"),
        ({**SASL, "sasl.jaas.config": KRB5}, "sasl.kerberos.service.name", "is missing"),
        ({**KERBEROS, "sasl.jaas.config": f"{KRB5_MODULE};"}, "sasl.jaas.config", "useTicketCache=true"),
        ({**KERBEROS, "sasl.jaas.config": f"{KRB5_MODULE} useKeyTab=true;"}, "sasl.jaas.config", "principal"),
        (
            {
                **KERBEROS,
                "sasl.kerberos.service.name": "x",
                "sasl.jaas.config": KRB5.replace(";", " serviceName=y;"),
            },
            "sasl.kerberos.service.name",
            "conflicts",
        ),
        ({**SASL, "sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism", "one of PLAIN"),
        ({**SASL, "sasl.mechanism": "PLAIN"}, "sasl.jaas.config", "missing; for PLAIN"),
        (
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM},
            "sasl.jaas.config",
            "needs PlainLoginModule",
        ),
        (
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN[:-1]},
            "sasl.jaas.config",
            "semicolon",
        ),
        (
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN.replace('"u"', '""')},
            "sasl.jaas.config",
            "has no username",
        ),
        (
            {**SSL, "ssl.endpoint.identification.algorithm": "LDAPS"},
            "ssl.endpoint.identification.algorithm",
            "https",
        ),
        ({**SSL, "ssl.truststore.certificates": "x"}, "ssl.truststore.type", "PEM"),
        (
            {**SSL, "ssl.truststore.type": "PEM", "ssl.truststore.password": "TOPSECRET"},
            "ssl.truststore.password",
            "with PEM",
        ),
        (
            {
                **SSL,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": "x",
                "ssl.truststore.location": "/x",
            },
            "ssl.truststore.location",
            "beside",
        ),
        (
            {**SSL, "ssl.keystore.type": "PEM", "ssl.keystore.key": "TOPSECRET"},
            "ssl.keystore.certificate.chain",
            "need",
        ),
        ({**SSL, "ssl.keystore.location": "/x"}, "ssl.keystore.password", "missing"),
        ({**SSL, "ssl.engine.factory.class": "x.Y"}, "ssl.engine.factory.class", "Java"),
        ({"sasl.login.refresh.window.factor": "0.4"}, "sasl.login.refresh.window.factor", "between"),
        ({"sasl.login.refresh.window.factor": "x"}, "sasl.login.refresh.window.factor", "number"),
        ({"sasl.login.connect.timeout.ms": "soon"}, "sasl.login.connect.timeout.ms", "number"),
        (
            {"enable.ssl.certificate.verification": "false"},
            "enable.ssl.certificate.verification",
            "not supported",
        ),
        (
            {"ssl.ca.location": "/a", "ssl.truststore.location": "/b"},
            "ssl.ca.location",
            "leave one of them out",
        ),
        (
            {"ssl.certificate.location": "/no/such", "ssl.key.location": "/no"},
            "ssl.certificate.location",
            "cannot be read",
        ),
    ],
)
def test_what_is_refused(keys: dict[str, str], key: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        ClientConfig.from_properties({**HERE, **keys})
    assert caught.value.key == key
    assert "TOPSECRET" not in str(caught.value)


def test_kerberos_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install 'pkafka\[kerberos\]'"):
        ClientConfig.from_properties(KERBEROS)
    monkeypatch.setattr(kerberos, "find_spec", lambda name: name)
    assert ClientConfig.from_properties(KERBEROS).sasl_kerberos_service_name == "kafka"


def test_keys_about_security_do_nothing_without_it() -> None:
    keys = {"sasl.mechanism": "GSSAPI", "ssl.truststore.location": "/no/such/file", "ssl.protocol": "TLSv1.3"}
    assert not ClientConfig.from_properties({**HERE, **keys}).is_encrypted


@pytest.mark.parametrize(
    "key",
    [
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "ssl.keystore.key",
    ],
)
def test_no_secret_is_shown(key: str) -> None:
    config = ProducerConfig.from_properties({**HERE, key: "TOPSECRET"})
    assert "TOPSECRET" not in repr(config)
    assert config.originals[key] == "TOPSECRET"


def test_librdkafkas_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority()
    signed = authority.signed("client")
    files = {"ca": authority.pem, "certificate": signed.chain_pem, "key": signed.key_pem()}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    keys = {f"ssl.{name}.location": str(tmp_path / name) for name in files}
    config = ClientConfig.from_properties(
        {
            **HERE,
            **keys,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": 'al"ice',
            "sasl.password": 'TOP"SE\\CRET',
        }
    )
    assert config.sasl_jaas_config is not None
    assert parse_jaas(config.sasl_jaas_config).options == {"username": 'al"ice', "password": 'TOP"SE\\CRET'}
    Security(config, SystemClock())
    assert all(tls_settings(config).modified_ns()[:1])
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "ssl.ca.location for ssl.truststore.location" in said
    assert "SE" not in said


def test_librdkafkas_keys_as_text() -> None:
    authority = Authority()
    signed = authority.signed("client")
    config = ClientConfig.from_properties(
        {
            **SSL,
            "ssl.ca.pem": authority.pem.decode(),
            "ssl.certificate.pem": signed.chain_pem.decode(),
            "ssl.key.pem": signed.key_pem().decode(),
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert not Security(config, SystemClock()).context().check_hostname


def test_client_credentials_by_the_keys_of_kafka_4_1() -> None:
    config = ClientConfig.from_properties(
        {
            **SASL,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "http://tokens/",
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "TOPSECRET",
            "sasl.oauthbearer.scope": "s",
        }
    )
    assert config.sasl_jaas_config is not None
    options = parse_jaas(config.sasl_jaas_config).options
    assert options == {"clientId": "me", "clientSecret": "TOPSECRET", "scope": "s"}


@pytest.mark.parametrize(
    ("more", "key"),
    [
        (
            {"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"},
            "sasl.oauthbearer.token.endpoint.url",
        ),
        ({"sasl.oauthbearer.token.endpoint.url": "https://tokens/"}, "sasl.jaas.config"),
        (
            {"sasl.login.callback.handler.class": "a.b.OAuthBearerLoginCallbackHandler"},
            "sasl.oauthbearer.token.endpoint.url",
        ),
        ({"sasl.login.callback.handler.class": "no.such.Class"}, "sasl.login.callback.handler.class"),
        ({}, "sasl.jaas.config"),
    ],
)
def test_where_no_token_can_come_from(more: dict[str, str], key: str) -> None:
    jaas = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required clientSecret=x;"
    keys = {**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas, **more}
    with pytest.raises(PkafkaError) as caught:
        Security(ClientConfig.from_properties(keys), SystemClock())
    assert isinstance(caught.value, ConfigError)
    assert caught.value.key == key


def test_changed_stores_are_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(Authority("one").pem)
    keys = {**SSL, "ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)}
    security = Security(ClientConfig.from_properties(keys), SystemClock())
    before = security.context()
    assert security.context() is before
    _write(file, b"half of")
    assert security.context() is before
    assert "a changed store is not used" in caplog.text
    _write(file, Authority("two").pem)
    after = security.context()
    assert after is not before
    assert [each["subject"] for each in after.get_ca_certs()] == [((("commonName", "two"),),)]


def _write(file: Path, data: bytes) -> None:
    import os

    at_ns = file.stat().st_mtime_ns
    file.write_bytes(data)
    os.utime(file, ns=(at_ns + 10**9, at_ns + 10**9))
