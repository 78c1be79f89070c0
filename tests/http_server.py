"""An HTTP server that answers as a test tells it, and remembers what it was asked."""

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple


class Request(NamedTuple):
    """What came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Reply(NamedTuple):
    """What goes back.

    Args:
        status: 0 closes the connection without an answer; -1 breaks off in the middle of one.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that hang up: tests have such."""


class HttpServer:
    """A server on a free port of this machine.

    Args:
        answer: what it says to a request.
    """

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                request = Request(
                    self.command, self.path, dict(self.headers.items()), self.rfile.read(length)
                )
                server.requests.append(request)
                reply = server.answer(request)
                if reply.status <= 0:
                    self.close_connection = True
                    if reply.status < 0:
                        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin")
                    return
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def speak_tls(self, certificate: Path) -> None:
        """Encrypt what comes from now on.

        Args:
            certificate: and its key, in one file.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")

    @property
    def bodies(self) -> list[bytes]:
        """What was sent, in order."""
        return [each.body for each in self.requests]

    @contextlib.contextmanager
    def running(self) -> Iterator["HttpServer"]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


@contextlib.contextmanager
def http_server(answer: Callable[[Request], Reply] = lambda _request: Reply()) -> Iterator[HttpServer]:
    """A server that runs until the block ends."""
    with HttpServer(answer).running() as server:
        yield server
