"""Certificates of throw-away clusters, by the package and by the command: two sides that trust them can talk."""

import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from pkafka.tools.servers import authority
from pkafka.tools.servers.authority import CertificatesError, make_certificates, own_hosts


@pytest.fixture(params=["cryptography", "openssl"])
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What makes the certificates."""
    if request.param == "openssl":
        monkeypatch.setitem(sys.modules, "cryptography", None)
    return str(request.param)


@pytest.mark.usefixtures("maker")
def test_both_sides_are_let_in_by_their_certificates(tmp_path: Path) -> None:
    make_certificates(tmp_path, {"broker": own_hosts(), "alice": ()})
    for host in own_hosts():
        client, server = shake_hands(tmp_path, host)
        assert client.getpeercert()
        assert server.getpeercert()["subject"] == ((("commonName", "alice"),),)  # type: ignore[index]
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(tmp_path, "elsewhere.example")


@pytest.mark.usefixtures("maker")
def test_only_the_owner_reads_them_and_nobody_can_sign_more(tmp_path: Path) -> None:
    make_certificates(tmp_path, {"broker": ["127.0.0.1"]})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["broker.pem", "ca.pem"]
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
    assert b"PRIVATE KEY" not in (tmp_path / "ca.pem").read_bytes()


@pytest.mark.usefixtures("maker")
def test_they_are_good_for_a_year(tmp_path: Path) -> None:
    make_certificates(tmp_path, {"broker": ["localhost"]})
    for name in ("ca.pem", "broker.pem"):
        (certificate,) = x509.load_pem_x509_certificates((tmp_path / name).read_bytes())
        left = certificate.not_valid_after_utc - datetime.now(UTC)
        assert timedelta(days=364) < left <= timedelta(days=366)


def test_where_nothing_makes_them_it_is_said_what_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CertificatesError, match=r"pip install 'pkafka\[tls\]'"):
        make_certificates(tmp_path, {"broker": ()})


def test_a_failure_of_openssl_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setattr(authority, "_OPENSSL_CONFIG", "[req]\n{name}{hosts}\n")
    with pytest.raises(CertificatesError, match=r"^openssl req failed: "):
        make_certificates(tmp_path, {"broker": ()})
    assert list(tmp_path.iterdir()) == []


def shake_hands(folder: Path, host: str) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection to a host, without a socket."""
    contexts = []
    for side, name in ((ssl.PROTOCOL_TLS_CLIENT, "alice"), (ssl.PROTOCOL_TLS_SERVER, "broker")):
        context = ssl.SSLContext(side)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")
        context.load_cert_chain(folder / f"{name}.pem")
        contexts.append(context)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = contexts[0].wrap_bio(to_client, to_server, server_hostname=host)
    server = contexts[1].wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _ in range(10):
        for each in list(waiting):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(each)
        if not waiting:
            return client, server
    raise AssertionError("the handshake does not end")
