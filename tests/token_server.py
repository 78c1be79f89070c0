"""A server that gives tokens to whoever has an id and a secret (RFC 6749, client credentials)."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pkafka.security.jwt import unsecured


class TokenServer:
    """What the server answers, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        """The header with the credentials of each request."""
        self.answer: tuple[int, bytes] | None = None
        """None: a token for ``user``, good for ``life_s``."""
        self.sign: Callable[[dict[str, Any]], str] = unsecured
        """Makes a token of claims."""
        self.user = "admin"
        self.life_s = 600
        self.may_answer: threading.Event | None = None

    def reply(self) -> tuple[int, bytes]:
        """Status and document for one request."""
        if self.may_answer is not None:
            self.may_answer.wait(20)
        if self.answer is not None:
            return self.answer
        now_s = int(time.time())
        token = self.sign({"sub": self.user, "iat": now_s, "exp": now_s + self.life_s})
        return 200, json.dumps({"access_token": token, "expires_in": self.life_s}).encode()


@contextlib.contextmanager
def token_server() -> Iterator[TokenServer]:
    """A running server."""
    state = TokenServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            state.asked.append(self.headers["Authorization"])
            status, document = state.reply()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        state.url = f"http://127.0.0.1:{running.server_port}/token"
        try:
            yield state
        finally:
            running.shutdown()
            thread.join(10)
