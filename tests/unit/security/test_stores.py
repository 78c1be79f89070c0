"""Stores of keys and certificates: what is read, and what is said of one that cannot be."""

import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from pkafka.security.stores import StoreError, WrongPasswordError, certificates, key_entry
from tests.certificates import Authority, Signed
from tests.unit.security.java_key_store import key_store


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def signed(authority: Authority) -> Signed:
    return authority.signed("client")


def java(authority: Authority, signed: Signed, key_password: str = "changeit") -> bytes:
    keys = {"mine": (signed.key_der, [signed.chain_der, authority.der])}
    return key_store("changeit", keys, {"ca": authority.der}, key_password)


def is_pair(pem: bytes, signed: Signed, password: bytes | None = None) -> bool:
    """Whether a PEM text is the key and begins the chain with its certificate."""
    key = load_pem_private_key(pem, password)
    chain = x509.load_pem_x509_certificates(pem)
    return key.public_key() == signed.certificate.public_key() and chain[0] == signed.certificate


@pytest.mark.parametrize("declared", ["JKS", "PKCS12"])
def test_javas_own_form(authority: Authority, signed: Signed, declared: str) -> None:
    data = java(authority, signed)
    assert certificates(data, declared, "changeit") == [authority.der, signed.chain_der]
    assert certificates(data, declared, None) == [authority.der, signed.chain_der]
    assert is_pair(key_entry(data, declared, "changeit", None).pem, signed)
    other = java(authority, signed, "another")
    assert is_pair(key_entry(other, declared, "changeit", "another").pem, signed)


def test_javas_own_form_damaged_or_with_other_passwords(authority: Authority, signed: Signed) -> None:
    data = java(authority, signed, "another")
    with pytest.raises(WrongPasswordError, match="password is incorrect"):
        certificates(data, "JKS", "wrong")
    with pytest.raises(WrongPasswordError, match=r"ssl\.key\.password"):
        key_entry(data, "JKS", "changeit", None)
    for cut in (13, 40, 200, len(data) // 2):
        with pytest.raises(StoreError):
            certificates(data[:cut], "JKS", None)
    with pytest.raises(StoreError, match="no certificate"):
        certificates(key_store("p", {}, {}, "p"), "JKS", "p")
    with pytest.raises(StoreError, match="no private key"):
        key_entry(key_store("p", {}, {"ca": authority.der}, "p"), "JKS", "p", None)


@pytest.mark.parametrize("declared", ["JKS", "PKCS12"])
def test_pkcs12(authority: Authority, signed: Signed, declared: str) -> None:
    data = signed.pkcs12("secret")
    assert sorted(certificates(data, declared, "secret")) == sorted([signed.chain_der, authority.der])
    assert is_pair(key_entry(data, declared, "secret", None).pem, signed)
    with pytest.raises(WrongPasswordError):
        certificates(data, declared, "wrong")
    with pytest.raises(StoreError):
        certificates(data[:50], declared, "secret")


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b" "])
def test_pem_with_lines_or_blanks(authority: Authority, signed: Signed, ends: bytes) -> None:
    text = (b"# a comment\n" + signed.chain_pem + signed.key_pem() + authority.pem).replace(b"\n", ends)
    assert certificates(text, "PEM", None) == [signed.chain_der, authority.der]
    assert is_pair(key_entry(text, "PEM", None, None).pem, signed)
    encrypted = (signed.key_pem("secret") + signed.chain_pem).replace(b"\n", ends)
    entry = key_entry(encrypted, "PEM", None, "secret")
    assert is_pair(entry.pem, signed, b"secret")
    assert entry.password == "secret"
    assert "secret" not in repr(entry)


@pytest.mark.parametrize(
    ("data", "declared", "problem"),
    [
        (b"", "PEM", "no certificate"),
        (b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----", "PEM", "not base64"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "JKS", "set its type to PEM"),
        (b"\xce\xce\xce\xce\0\0\0\2", "JKS", "JCEKS"),
        (b"hello", "PKCS12", "neither"),
    ],
)
def test_what_is_no_store(data: bytes, declared: str, problem: str) -> None:
    with pytest.raises(StoreError, match=problem):
        certificates(data, declared, None)


def test_a_key_without_certificate_and_the_other_way_round(signed: Signed) -> None:
    with pytest.raises(StoreError, match="no certificate for it"):
        key_entry(signed.key_pem(), "PEM", None, None)
    with pytest.raises(StoreError, match="no private key"):
        key_entry(signed.chain_pem, "PEM", None, None)


def test_without_cryptography_pkcs12_alone_is_missing(
    authority: Authority, signed: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization.pkcs12", None)
    data = signed.pkcs12("secret")
    with pytest.raises(StoreError, match=r"pip install 'pkafka\[tls\]'"):
        certificates(data, "PKCS12", "secret")
    with pytest.raises(StoreError, match=r"pip install 'pkafka\[tls\]'"):
        key_entry(data, "PKCS12", "secret", None)
    assert certificates(java(authority, signed), "JKS", "changeit")
