"""A page of metrics that is guarded: by HTTPS, by a login, through changes of its files; and what is refused before."""

import contextlib
import os
import socket
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pkafka.errors import ConfigError
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.metrics_access import metrics_access
from pkafka.server.metrics.access import PageAccess
from pkafka.server.metrics.server import MetricsServer
from tests.certificates import Authority, Signed
from tests.unit.server.metrics.metrics_snapshots import FACTS, worker

AUTHORITY = Authority()
HOST = "127.0.0.1"
P = "pkafka.metrics."


def pem_file(path: Path, signed: Signed, password: str | None = None) -> Path:
    path.write_bytes(signed.key_pem(password) + signed.chain_pem)
    return path


def users_file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@contextlib.contextmanager
def serving(settings: Mapping[str, object]) -> Iterator[int]:
    """A page with these settings under ``pkafka.metrics.``; gives its port."""
    config = BrokerConfig({P + key: str(value) for key, value in {"port": 0, **settings}.items()})
    page = MetricsServer(HOST, 0, lambda: ([worker()], FACTS), PageAccess(metrics_access(config)))
    try:
        yield page.port
    finally:
        page.close()


def get(
    port: int,
    *,
    login: str | None = None,
    path: str = "/metrics",
    trusts: Authority | None = None,
    own: Path | None = None,
) -> int:
    """The status of the answer.

    Args:
        own: the key and the certificate that the reader shows, in PEM.
    """
    context = None
    if trusts is not None:
        context = ssl.create_default_context(cadata=trusts.pem.decode())
        if own is not None:
            context.load_cert_chain(own)
    scheme = "http" if trusts is None else "https"
    headers = {} if login is None else {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
    request = urllib.request.Request(f"{scheme}://{HOST}:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            assert b"kafka_" in answer.read() or path == "/jmx"
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize("path", ["/metrics", "/jmx", "/", "/favicon.ico"])
def test_a_page_is_for_users_who_log_in(tmp_path: Path, path: str) -> None:
    file = users_file(tmp_path / "users", "# who may read\n\nprometheus:a:b\nops:päss\n")
    with serving({"basic.auth.file": file}) as port:
        for login in (None, "prometheus:a", "ops:a:b", "nobody:", "nobody:a:b", "", ":", "prometheus:"):
            assert get(port, login=login, path=path) == 401
        if path in ("/metrics", "/jmx"):
            assert get(port, login="prometheus:a:b", path=path) == 200
            assert get(port, login="ops:päss", path=path) == 200


@pytest.mark.parametrize("header", ["Basic", "Basic !!", "Basic b3BzOng", "Bearer b3BzOng=", "b3BzOng="])
def test_headers_that_are_no_login_let_nobody_in(tmp_path: Path, header: str) -> None:
    access = PageAccess(metrics_access(of(tmp_path, "ops:x\n")))
    assert not access.admits(header)
    assert access.admits("basic b3BzOng=")


def of(tmp_path: Path, users: str) -> BrokerConfig:
    file = users_file(tmp_path / "users", users)
    return BrokerConfig({f"{P}port": "0", f"{P}basic.auth.file": str(file)})


def test_changed_users_count_at_once_and_a_wrong_file_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = users_file(tmp_path / "users", "ops:old\n")
    with serving({"basic.auth.file": file}) as port:
        assert get(port, login="ops:old") == 200
        file.write_text("ops:new\n")
        os.utime(file, ns=(1, 1))
        assert get(port, login="ops:old") == 401
        assert get(port, login="ops:new") == 200
        file.write_text("nonsense of ops\n")
        os.utime(file, ns=(2, 2))
        assert get(port, login="ops:new") == 200
        file.unlink()
        assert get(port, login="ops:new") == 200
        assert get(port) == 401
    assert "goes on with the users that it had" in caplog.text
    assert "nonsense" not in caplog.text


def test_a_page_with_a_certificate_is_served_by_https(tmp_path: Path) -> None:
    file = pem_file(tmp_path / "page.pem", AUTHORITY.signed("page", [HOST]))
    users = users_file(tmp_path / "users", "ops:x\n")
    settings = {"ssl.keystore.location": file, "ssl.keystore.type": "PEM", "basic.auth.file": users}
    with serving(settings) as port:
        assert get(port, login="ops:x", trusts=AUTHORITY) == 200
        assert get(port, trusts=AUTHORITY) == 401
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            get(port, login="ops:x", trusts=Authority())
        with pytest.raises(OSError, match=r"closed|reset"):
            get(port, login="ops:x")  # over plain HTTP


def test_a_client_that_does_not_shake_hands_holds_no_other_up(tmp_path: Path) -> None:
    file = pem_file(tmp_path / "page.pem", AUTHORITY.signed("page", [HOST]))
    with (
        serving({"ssl.keystore.location": file, "ssl.keystore.type": "PEM"}) as port,
        socket.create_connection((HOST, port), 10),
    ):
        assert get(port, trusts=AUTHORITY) == 200


def test_an_exchanged_certificate_counts_for_the_next_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, other = tmp_path / "page.pem", Authority()
    pem_file(file, AUTHORITY.signed("page", [HOST]))
    with serving({"ssl.keystore.location": file, "ssl.keystore.type": "PEM"}) as port:
        assert get(port, trusts=AUTHORITY) == 200
        pem_file(file, other.signed("page", [HOST]))
        os.utime(file, ns=(1, 1))
        assert get(port, trusts=other) == 200
        file.write_text("half")
        os.utime(file, ns=(2, 2))
        assert get(port, trusts=other) == 200
    assert "goes on with the certificate that it had" in caplog.text


@pytest.mark.parametrize("form", ["PEM", "PKCS12"])
def test_stores_of_each_form_are_read(tmp_path: Path, form: str) -> None:
    signed = AUTHORITY.signed("page", [HOST])
    file = tmp_path / "page"
    settings: dict[str, object] = {"ssl.keystore.location": file, "ssl.keystore.type": form}
    if form == "PEM":
        pem_file(file, signed, "secret")
        settings["ssl.key.password"] = "secret"
    else:
        file.write_bytes(signed.pkcs12("secret"))
        settings["ssl.keystore.password"] = "secret"
    with serving(settings) as port:
        assert get(port, trusts=AUTHORITY) == 200


def guarded_by_certificates(tmp_path: Path, client_auth: str = "required") -> dict[str, object]:
    """Settings of a page for readers whose certificate ``AUTHORITY`` has signed."""
    page = pem_file(tmp_path / "page.pem", AUTHORITY.signed("page", [HOST]))
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.pem)
    return {
        "ssl.keystore.location": page,
        "ssl.keystore.type": "PEM",
        "ssl.client.auth": client_auth,
        "ssl.truststore.location": tmp_path / "ca.pem",
        "ssl.truststore.type": "PEM",
    }


def refused_by(port: int, own: Path | None = None, **more: str) -> bool:
    """Whether the page ends the connection of a reader who trusts it."""
    try:
        get(port, trusts=AUTHORITY, own=own, login=more.get("login"))
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        # The alert, or the end of the connection where that comes first.
        return isinstance(reason, ssl.SSLError | ConnectionError | BrokenPipeError)
    return False


def test_readers_without_a_trusted_certificate_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    good = pem_file(tmp_path / "good.pem", AUTHORITY.signed("prometheus"))
    stranger = pem_file(tmp_path / "stranger.pem", Authority().signed("prometheus"))
    over = pem_file(tmp_path / "over.pem", AUTHORITY.signed("prometheus", days=-1))
    with serving(guarded_by_certificates(tmp_path)) as port:
        for path in ("/metrics", "/jmx"):
            assert get(port, path=path, trusts=AUTHORITY, own=good) == 200
        assert refused_by(port)
        assert refused_by(port, stranger)
        assert refused_by(port, over)
        with pytest.raises(OSError, match=r"closed|reset"):
            get(port)  # over plain HTTP
        assert get(port, trusts=AUTHORITY, own=good) == 200
    assert f"Failed handshake at the page of metrics with {HOST}" in caplog.text


def test_a_page_that_asks_for_certificates_takes_readers_without(tmp_path: Path) -> None:
    good = pem_file(tmp_path / "good.pem", AUTHORITY.signed("prometheus"))
    stranger = pem_file(tmp_path / "stranger.pem", Authority().signed("prometheus"))
    with serving(guarded_by_certificates(tmp_path, "requested")) as port:
        assert get(port, trusts=AUTHORITY) == 200
        assert get(port, trusts=AUTHORITY, own=good) == 200
        assert refused_by(port, stranger)


def test_a_certificate_does_not_stand_for_a_login(tmp_path: Path) -> None:
    good = pem_file(tmp_path / "good.pem", AUTHORITY.signed("prometheus"))
    users = users_file(tmp_path / "users", "ops:x\n")
    with serving({**guarded_by_certificates(tmp_path), "basic.auth.file": users}) as port:
        assert get(port, trusts=AUTHORITY, own=good) == 401
        assert get(port, trusts=AUTHORITY, own=good, login="ops:x") == 200
        assert refused_by(port, login="ops:x")


def test_an_exchanged_truststore_counts_for_the_next_reader(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Authority()
    before = pem_file(tmp_path / "before.pem", AUTHORITY.signed("prometheus"))
    after = pem_file(tmp_path / "after.pem", other.signed("prometheus"))
    file = tmp_path / "ca.pem"
    with serving(guarded_by_certificates(tmp_path)) as port:
        assert get(port, trusts=AUTHORITY, own=before) == 200
        file.write_bytes(other.pem)
        os.utime(file, ns=(1, 1))
        assert get(port, trusts=AUTHORITY, own=after) == 200
        assert refused_by(port, before)
        file.write_text("half")
        os.utime(file, ns=(2, 2))
        assert get(port, trusts=AUTHORITY, own=after) == 200
        assert refused_by(port, before)
    assert "goes on with the certificate that it had" in caplog.text


@pytest.mark.parametrize("form", ["PEM", "PKCS12"])
def test_truststores_of_each_form_are_read(tmp_path: Path, form: str) -> None:
    signed = AUTHORITY.signed("prometheus")
    settings = {**guarded_by_certificates(tmp_path), "ssl.truststore.type": form}
    if form == "PKCS12":
        (tmp_path / "ca.pem").write_bytes(AUTHORITY.signed("trusted").pkcs12("secret"))
        settings["ssl.truststore.password"] = "secret"
    with serving(settings) as port:
        assert get(port, trusts=AUTHORITY, own=pem_file(tmp_path / "own.pem", signed)) == 200


_KEYSTORE = {"ssl.keystore.location": "x", "ssl.keystore.type": "PEM"}


@pytest.mark.parametrize(
    ("settings", "key", "problem"),
    [
        ({"port": -1, "ssl.keystore.location": "x"}, "ssl.keystore.location", "there is no page"),
        ({"port": -1, "basic.auth.file": "x"}, "basic.auth.file", "there is no page"),
        ({"ssl.keystore.password": "s3"}, "ssl.keystore.password", "location is not"),
        ({"ssl.key.password": "s3"}, "ssl.key.password", "location is not"),
        ({"ssl.keystore.location": "x"}, "ssl.keystore.password", "is missing for the JKS file x"),
        (
            {"ssl.keystore.location": "x", "ssl.keystore.type": "PEM", "ssl.keystore.password": "s3"},
            "ssl.keystore.password",
            "cannot be given with PEM",
        ),
        ({"port": -1, "ssl.client.auth": "required"}, "ssl.client.auth", "there is no page"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth", "location is not"),
        ({"ssl.truststore.location": "x"}, "ssl.truststore.location", "keystore.location is not"),
        ({**_KEYSTORE, "ssl.client.auth": "required"}, "ssl.truststore.location", "is missing"),
        ({**_KEYSTORE, "ssl.truststore.location": "x"}, "ssl.truststore.location", "client.auth is none"),
        ({**_KEYSTORE, "ssl.truststore.password": "s3"}, "ssl.truststore.password", "client.auth is none"),
        (
            {
                **_KEYSTORE,
                "ssl.client.auth": "requested",
                "ssl.truststore.location": "x",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.password": "s3",
            },
            "ssl.truststore.password",
            "cannot be given with PEM",
        ),
    ],
)
def test_half_of_a_guard_is_refused(settings: dict[str, object], key: str, problem: str) -> None:
    given = {P + name: str(value) for name, value in {"port": 0, **settings}.items()}
    with pytest.raises(ConfigError) as refused:
        metrics_access(BrokerConfig(given))
    assert refused.value.key == P + key
    assert problem in str(refused.value)
    assert "s3" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no user"),
        ("# ops:x\n", "has no user"),
        ("ops:x\nsecret-line\n", "line 2 is not NAME:PASSWORD"),
        (":x\n", "line 1 is not"),
        ("ops:\n", "line 1 is not"),
        ("ops:x\nops:y\n", "line 2 names ops again"),
        ("ops:$apr1$x$y\n", "hash of htpasswd"),
    ],
)
def test_users_in_another_form_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        PageAccess(metrics_access(of(tmp_path, text)))
    assert "secret" not in str(refused.value)


def test_files_that_others_can_read_or_that_are_missing_are_refused(tmp_path: Path) -> None:
    config = of(tmp_path, "ops:x\n")
    (tmp_path / "users").chmod(0o604)
    with pytest.raises(ConfigError, match="chmod 600"):
        PageAccess(metrics_access(config))
    (tmp_path / "users").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        PageAccess(metrics_access(config))
    missing = {f"{P}port": "0", f"{P}ssl.keystore.location": "/none.pem", f"{P}ssl.keystore.type": "PEM"}
    with pytest.raises(ConfigError, match="cannot be read") as refused:
        PageAccess(metrics_access(BrokerConfig(missing)))
    assert refused.value.key == f"{P}ssl.keystore.location"
