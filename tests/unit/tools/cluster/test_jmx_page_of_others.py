"""A page that is none of a broker's, behind a URL that somebody mistyped."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from pkafka.tools.cluster.jmx_page import MetricsPage, MetricsUnavailableError


class _Page(http.server.BaseHTTPRequestHandler):
    """Answers with what its server was told to."""

    def do_GET(self) -> None:
        status, body = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b"[" * 100_000),
        (200, b"\xff"),
        (400, b"<html>"),
        (400, b"[]"),
    ],
)
def test_another_page_is_told(answer: tuple[int, bytes], server: http.server.HTTPServer) -> None:
    server.answer = answer  # type: ignore[attr-defined]
    with pytest.raises(MetricsUnavailableError, match=r"answers|no page of a broker"):
        MetricsPage(f"http://127.0.0.1:{server.server_port}", timeout_s=60.0).beans([])


@pytest.mark.parametrize("url", ["http://127.0.0.1:x", "http://a\x13b:1", "http://127.0.0.1:99999", "x", ""])
def test_what_is_no_url_is_told(url: str) -> None:
    with pytest.raises(MetricsUnavailableError, match="Could not connect"):
        MetricsPage(url, timeout_s=60.0).beans([])
