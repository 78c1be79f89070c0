"""Guarded pages of metrics, read with a properties file."""

import http.server
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pkafka.errors import ConfigError
from pkafka.tools.cluster.jmx_page import MetricsPage, MetricsUnavailableError
from pkafka.tools.cluster.page_reader import PageReader
from tests.certificates import Authority

AUTHORITY = Authority()
WANTED = f"Basic {b64encode(b'ops:a:b').decode()}"


class _Page(http.server.BaseHTTPRequestHandler):
    """Answers who logs in; sends those who ask for another page to itself by its other name."""

    def do_GET(self) -> None:
        if self.path == "/moved/metrics":
            self.send_response(302)
            self.send_header("Location", f"https://localhost:{self.connection.getsockname()[1]}/metrics")
        else:
            self.send_response(200 if self.headers["Authorization"] == WANTED else 401)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class Served(NamedTuple):
    """A page, and the file of its authority."""

    url: str
    authority: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("page")
    signed = AUTHORITY.signed("page", ["127.0.0.1", "localhost"])
    (directory / "page.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    (directory / "ca.pem").write_bytes(AUTHORITY.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "page.pem")
    with http.server.HTTPServer(("127.0.0.1", 0), _Page) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Served(f"https://127.0.0.1:{server.server_address[1]}", directory / "ca.pem")
        server.shutdown()
        thread.join()


def reader(directory: Path, *lines: str) -> PageReader:
    file = directory / "page.properties"
    file.write_text("\n".join(lines))
    return PageReader.of_file(str(file))


def trusting(served: Served) -> list[str]:
    return ["ssl.truststore.type=PEM", f"ssl.truststore.location={served.authority}"]


def test_a_page_is_read_with_truststore_and_login(served: Served, tmp_path: Path) -> None:
    file = reader(tmp_path, *trusting(served), "basic.auth.user.info=ops:a:b")
    assert MetricsPage(served.url, timeout_s=60, reader=file).prometheus() == ""


def test_a_wrong_login_and_a_strange_certificate_are_told(served: Served, tmp_path: Path) -> None:
    wrong = reader(tmp_path, *trusting(served), "basic.auth.user.info=ops:a")
    with pytest.raises(MetricsUnavailableError, match="answers 401") as refused:
        MetricsPage(served.url, timeout_s=60, reader=wrong).prometheus()
    assert "metrics-config" in str(refused.value)
    stranger = reader(tmp_path, "basic.auth.user.info=ops:a:b")
    with pytest.raises(MetricsUnavailableError, match="certificate verify failed"):
        MetricsPage(served.url, timeout_s=60, reader=stranger).prometheus()


def test_a_login_is_not_taken_to_another_page(served: Served, tmp_path: Path) -> None:
    file = reader(tmp_path, *trusting(served), "basic.auth.user.info=ops:a:b")
    with pytest.raises(MetricsUnavailableError, match="answers 302"):
        MetricsPage(f"{served.url}/moved", timeout_s=60, reader=file).prometheus()


def test_the_keys_of_a_client_beside_them_say_nothing(served: Served, tmp_path: Path) -> None:
    lines = ["bootstrap.servers=x:1", "security.protocol=SASL_SSL", "basic.auth.user.info=ops:a:b"]
    assert reader(tmp_path, *lines, *trusting(served)).login == ("ops", "a:b")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("basic.auth.user.info=secret", "must be NAME:PASSWORD"),
        ("basic.auth.user.info=:secret", "must be NAME:PASSWORD"),
        ("ssl.truststore.location=/none.jks", "cannot be read"),
    ],
)
def test_files_that_cannot_be_used_are_refused_without_their_secrets(
    tmp_path: Path, line: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        reader(tmp_path, line)
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        PageReader.of_file(str(tmp_path / "none.properties"))
