"""The contexts of a broker's listeners: what clients meet there, whom they are taken for, how stores are exchanged."""

import logging
import os
import ssl
from pathlib import Path

import pytest

from pkafka.errors import ConfigError
from pkafka.security.principal import ANONYMOUS, Principal
from pkafka.security.principal_rules import NoRuleError
from pkafka.server.security.encryption import Encryption
from tests.certificates import Authority, Signed
from tests.unit.server.security.stores import AUTHORITY, NAMES, PASSWORD, Stores


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


class Met(Exception):
    """The two sides did not agree."""


def meet(encryption: Encryption, client: ssl.SSLContext | None = None) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A client's and the broker's end of a connection, the handshake done."""
    if client is None:
        client = trusting_client()
    context = encryption.context("SSL")
    assert context is not None
    to_broker, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_broker, server_hostname="one.example")
    far = context.wrap_bio(to_broker, to_client, server_side=True)
    missing = {near, far}
    for _ in range(10):
        for end in list(missing):
            try:
                end.do_handshake()
                missing.discard(end)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                raise Met(error.reason) from error
    assert not missing
    return near, far


def trusting_client(stores: Stores | None = None) -> ssl.SSLContext:
    """A client, with the certificate of the stores where there are some."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=AUTHORITY.pem.decode())
    if stores is not None:
        context.load_cert_chain(stores.directory / "own.pem")
    return context


def serial(encryption: Encryption) -> int:
    certificate = meet(encryption)[0].getpeercert()
    assert certificate
    return int(str(certificate["serialNumber"]), 16)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "ssl_keystore_type": "PKCS12",
            "ssl_keystore_location": "own.p12",
            "ssl_keystore_password": PASSWORD,
        },
        {
            "ssl_truststore_type": "JKS",
            "ssl_truststore_location": "ca.jks",
            "ssl_truststore_password": PASSWORD,
        },
    ],
)
def test_stores_of_every_kind(stores: Stores, settings: dict[str, str]) -> None:
    paths = {
        key: str(stores.directory / text) if key.endswith("location") else text
        for key, text in settings.items()
    }
    encryption = Encryption(stores.config(**paths))
    assert serial(encryption) == stores.signed.certificate.serial_number
    assert encryption.context("PLAINTEXT") is None
    assert encryption.expiries()["SSL"] == stores.signed.certificate.not_valid_after_utc


def test_pem_text_in_the_settings(stores: Stores) -> None:
    encryption = Encryption(
        stores.config(
            ssl_keystore_location=None,
            ssl_keystore_key=stores.signed.key_pem("of the key").decode().replace("\n", " "),
            ssl_key_password="of the key",
            ssl_keystore_certificate_chain=stores.signed.chain_pem.decode(),
            ssl_truststore_location=None,
            ssl_truststore_certificates=AUTHORITY.pem.decode(),
        )
    )
    assert serial(encryption) == stores.signed.certificate.serial_number


def test_versions_and_suites(stores: Stores) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    encryption = Encryption(stores.config(ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites=suite))
    near, _ = meet(encryption)
    assert near.version() == "TLSv1.2"
    assert near.cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)
    newer = trusting_client()
    newer.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(Met):
        meet(encryption, newer)


def test_no_ticket_follows_the_handshake(stores: Stores) -> None:
    """A client that reads nothing would answer one with a reset when it closes."""
    context = Encryption(stores.config()).context("SSL")
    assert context is not None
    assert context.num_tickets == 0


def test_whom_a_client_is_taken_for(stores: Stores) -> None:
    encryption = Encryption(stores.config(ssl_client_auth="required"))
    _, far = meet(encryption, trusting_client(stores))
    certificate = far.getpeercert(binary_form=True)
    assert encryption.principal("SSL", certificate) == Principal("User", "CN=broker")
    with pytest.raises(Met, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        meet(encryption, trusting_client())
    requested = Encryption(stores.config(ssl_client_auth="requested"))
    assert requested.principal("SSL", meet(requested)[1].getpeercert(binary_form=True)) == ANONYMOUS
    ruled = Encryption(stores.config(ssl_principal_mapping_rules="RULE:CN=(.*)/$1/U"))
    assert ruled.principal("SSL", certificate) == Principal("User", "BROKER")
    with pytest.raises(NoRuleError):
        Encryption(stores.config(ssl_principal_mapping_rules="RULE:O=.*/x/")).principal("SSL", certificate)


def test_a_certificate_in_the_truststore_is_an_anchor_also_when_another_has_signed_it(stores: Stores) -> None:
    (stores.directory / "ca.pem").write_bytes(stores.signed.chain_pem)
    encryption = Encryption(stores.config(ssl_client_auth="required"))
    meet(encryption, trusting_client(stores))


def test_a_store_that_was_exchanged_counts_for_the_next_connection(stores: Stores) -> None:
    encryption = Encryption(stores.config())
    meet(encryption)
    signed = stores.write(names=(*NAMES, "two.example"))
    assert serial(encryption) == signed.certificate.serial_number


@pytest.mark.parametrize(
    ("subject", "names", "allowed"),
    [("other", NAMES, "ssl.allow.dn.changes"), ("broker", NAMES[1:], "ssl.allow.san.changes")],
)
def test_a_certificate_for_another_name_counts_only_where_that_is_allowed(
    stores: Stores, subject: str, names: tuple[str, ...], allowed: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = stores.signed.certificate.serial_number
    strict = Encryption(stores.config())
    lenient = Encryption(stores.config(**{allowed: "true"}))
    signed = stores.write(subject, names)
    with pytest.raises(ConfigError, match=allowed):
        strict.check(stores.config())
    lenient.check(stores.config(**{allowed: "true"}))
    with caplog.at_level(logging.WARNING):
        assert serial(strict) == serial(strict) == before
    assert len(caplog.records) == 1
    assert serial(lenient) == signed.certificate.serial_number


def test_half_a_store_counts_for_nothing(stores: Stores) -> None:
    encryption = Encryption(stores.config())
    path = stores.directory / "own.pem"
    whole = path.read_bytes()
    path.write_bytes(whole[:300])
    assert serial(encryption) == stores.signed.certificate.serial_number
    signed = stores.write()
    os.utime(path)
    assert serial(encryption) == signed.certificate.serial_number


def test_other_settings_count_once_they_are_taken(stores: Stores) -> None:
    encryption = Encryption(stores.config())
    first = stores.signed.certificate.serial_number
    os.rename(stores.directory / "own.pem", stores.directory / "first.pem")
    signed = stores.write()
    os.rename(stores.directory / "own.pem", stores.directory / "second.pem")
    os.rename(stores.directory / "first.pem", stores.directory / "own.pem")
    other = stores.config(ssl_keystore_location=stores.directory / "second.pem")
    encryption.check(other)
    assert serial(encryption) == first
    encryption.take(other)
    assert serial(encryption) == signed.certificate.serial_number
    gone = stores.config(ssl_keystore_location=stores.directory / "third.pem")
    with pytest.raises(ConfigError, match="No such file"):
        encryption.check(gone)
    encryption.take(gone)
    assert serial(encryption) == signed.certificate.serial_number


def test_a_truststore_neither_comes_nor_goes(stores: Stores) -> None:
    encryption = Encryption(stores.config())
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location"):
        encryption.check(stores.config(ssl_truststore_location=None))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"ssl_keystore_location": "/none"}, "ssl.keystore.location"),
        ({"listener_name_ssl_ssl_keystore_location": "/none"}, "listener.name.ssl.ssl.keystore.location"),
        ({"ssl_truststore_location": "/none"}, "ssl.truststore.location"),
        ({"ssl_cipher_suites": "NOTHING"}, "ssl.cipher.suites"),
        ({"ssl_enabled_protocols": "TLSv1.1"}, "ssl.enabled.protocols"),
        ({"ssl_truststore_type": "JKS"}, "ssl.truststore.location"),
        ({"ssl_keystore_type": "NONE", "ssl_keystore_password": "x"}, "ssl.keystore.type"),
    ],
)
def test_a_wrong_store_is_refused_by_its_key(stores: Stores, settings: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Encryption(stores.config(**settings))
    assert caught.value.key == key


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_the_listener_of_brokers_has_to_trust_itself(stores: Stores, client_auth: str) -> None:
    """As in Apache Kafka, at the start and later."""
    inter_broker = {"security_inter_broker_protocol": "SSL", "ssl_client_auth": client_auth}
    encryption = Encryption(stores.config(**inter_broker))
    (stores.directory / "other.pem").write_bytes(Authority("Other").pem)
    for wrong in (stores.directory / "other.pem", None):
        with pytest.raises(ConfigError, match="brokers could not reach each other") as caught:
            Encryption(stores.config(**inter_broker, ssl_truststore_location=wrong))
        assert caught.value.key == "ssl.truststore.location"
    with pytest.raises(ConfigError, match="brokers could not reach each other"):
        encryption.check(
            stores.config(**inter_broker, ssl_truststore_location=stores.directory / "other.pem")
        )
    Encryption(stores.config(ssl_truststore_location=stores.directory / "other.pem"))


def client_of(directory: Path, signed: Signed) -> ssl.SSLContext:
    """A client that shows a certificate."""
    (directory / "client.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    context = trusting_client()
    context.load_cert_chain(directory / "client.pem")
    return context


def test_a_certificate_that_is_revoked_is_refused_from_the_next_connection_on(
    stores: Stores, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, lost = (AUTHORITY.signed(name) for name in ("good", "lost"))
    lists = tmp_path / "revoked.pem"
    lists.write_bytes(AUTHORITY.revoking())
    encryption = Encryption(
        stores.config(
            ssl_client_auth="required", pkafka_ssl_crl_location=lists, security_inter_broker_protocol="SSL"
        )
    )
    for signed in (good, lost):
        meet(encryption, client_of(tmp_path, signed))
    lists.write_bytes(Authority("Other").revoking() + AUTHORITY.revoking(lost))
    os.utime(lists, ns=(1, 1))
    meet(encryption, client_of(tmp_path, good))
    with pytest.raises(Met, match="CERTIFICATE_VERIFY_FAILED"):
        meet(encryption, client_of(tmp_path, lost))
    lists.write_text("half a list")
    os.utime(lists, ns=(2, 2))
    with pytest.raises(Met, match="CERTIFICATE_VERIFY_FAILED"):
        meet(encryption, client_of(tmp_path, lost))
    assert "goes on with the stores that it had" in caplog.text
    lists.write_bytes(AUTHORITY.revoking())
    os.utime(lists, ns=(3, 3))
    meet(encryption, client_of(tmp_path, lost))


@pytest.mark.parametrize("kind", ["of another authority", "over"])
def test_without_a_list_of_its_authority_that_is_in_force_no_certificate_counts(
    stores: Stores, tmp_path: Path, kind: str
) -> None:
    lists = tmp_path / "revoked.pem"
    lists.write_bytes(AUTHORITY.revoking(days=-1) if kind == "over" else Authority("Other").revoking())
    encryption = Encryption(stores.config(ssl_client_auth="required", pkafka_ssl_crl_location=lists))
    with pytest.raises(Met, match="CERTIFICATE_VERIFY_FAILED"):
        meet(encryption, client_of(tmp_path, AUTHORITY.signed("good")))


def test_what_stands_beside_the_lists_is_not_trusted(stores: Stores, tmp_path: Path) -> None:
    stranger, lists = Authority("Stranger"), tmp_path / "revoked.pem"
    lists.write_bytes(stranger.pem + stranger.revoking() + AUTHORITY.revoking())
    encryption = Encryption(stores.config(ssl_client_auth="required", pkafka_ssl_crl_location=lists))
    with pytest.raises(Met, match="CERTIFICATE_VERIFY_FAILED"):
        meet(encryption, client_of(tmp_path, stranger.signed("good")))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read"),
        (b"", "has no list"),
        (AUTHORITY.pem, "has no list"),
        (b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", "OpenSSL cannot read"),
    ],
)
def test_lists_that_cannot_be_used_are_refused(
    stores: Stores, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    if content is not None:
        (tmp_path / "revoked.pem").write_bytes(content)
    own = {"listener.name.ssl.pkafka.ssl.crl.location": tmp_path / "revoked.pem"}
    with pytest.raises(ConfigError, match=problem) as refused:
        Encryption(stores.config(**own))
    assert refused.value.key == "listener.name.ssl.pkafka.ssl.crl.location"
