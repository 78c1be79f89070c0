"""What Kafka's ``ssl.*`` keys make of OpenSSL."""

import ssl
from pathlib import Path

import pytest

from pkafka.errors import ConfigError
from pkafka.security.cipher_suites import TLS_1_3, suites
from pkafka.security.tls_context import Store, TlsSettings, client_context
from tests.certificates import Authority


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("TLS_DHE_RSA_WITH_AES_256_CCM_8", "DHE-RSA-AES256-CCM8"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_names_of_suites(name: str, expected: str) -> None:
    assert suites([name]) == (expected, False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(f"{expected}:@SECLEVEL=0")
    assert expected in {each["name"] for each in context.get_ciphers()}


def test_versions_follow_the_suites() -> None:
    older = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    assert client_context(TlsSettings(cipher_suites=(older,))).maximum_version is ssl.TLSVersion.TLSv1_2
    newer = client_context(TlsSettings(cipher_suites=tuple(TLS_1_3)))
    assert newer.minimum_version is ssl.TLSVersion.TLSv1_3
    both = client_context(TlsSettings(cipher_suites=(older, *TLS_1_3)))
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert "ECDHE-RSA-AES256-GCM-SHA384" in {each["name"] for each in both.get_ciphers()}
    assert client_context(TlsSettings(("TLSv1.1", "TLSv1.2"))).maximum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (TlsSettings(("TLSv1.1",)), "ssl.enabled.protocols"),
        (TlsSettings(("TLSv1.2", "TLSv9")), "ssl.enabled.protocols"),
        (TlsSettings(cipher_suites=("TLS_AES_256_GCM_SHA384",)), "ssl.cipher.suites"),
        (TlsSettings(cipher_suites=("TLS_NULL_WITH_NULL_NULL",)), "ssl.cipher.suites"),
        (TlsSettings(cipher_suites=("NOTHING",)), "ssl.cipher.suites"),
        (TlsSettings(("TLSv1.3",), ("TLS_RSA_WITH_AES_256_CBC_SHA",)), "ssl.cipher.suites"),
        (TlsSettings(truststore=Store("truststore", "BKS", "x")), "ssl.truststore.type"),
        (TlsSettings(truststore=Store("truststore", "JKS", "/no/such/file")), "ssl.truststore.location"),
        (TlsSettings(truststore=Store("truststore", "PEM", inline="nothing")), "ssl.truststore.type"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(settings: TlsSettings, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        client_context(settings)
    assert caught.value.key == key


def test_keys_reach_openssl_from_every_form(tmp_path: Path) -> None:
    signed = Authority().signed("client")
    (tmp_path / "key.p12").write_bytes(signed.pkcs12("secret"))
    (tmp_path / "key.pem").write_bytes(signed.key_pem("secret") + signed.chain_pem)
    inline = (signed.key_pem() + signed.chain_pem).decode()
    for store in (
        Store("keystore", "PKCS12", str(tmp_path / "key.p12"), password="secret"),
        Store("keystore", "PEM", str(tmp_path / "key.pem"), key_password="secret"),
        Store("keystore", "PEM", inline=inline),
    ):
        client_context(TlsSettings(keystore=store))
        assert "secret" not in repr(TlsSettings(keystore=store))
    for password in ("wrong", None):
        wrong = Store("keystore", "PEM", str(tmp_path / "key.pem"), key_password=password)
        with pytest.raises(ConfigError, match="password is incorrect") as caught:
            client_context(TlsSettings(keystore=wrong))
        assert caught.value.key == "ssl.key.password"


def test_a_key_of_another_certificate(tmp_path: Path) -> None:
    authority = Authority()
    one, other = authority.signed("one"), authority.signed("other")
    store = Store("keystore", "PEM", inline=(one.key_pem() + other.chain_pem).decode())
    with pytest.raises(ConfigError, match="does not belong to its first certificate"):
        client_context(TlsSettings(keystore=store))
