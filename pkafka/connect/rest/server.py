"""The HTTP server of a worker: routes to handlers, errors to JSON.

Handlers run in threads, since they wait for connectors.
"""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pkafka.connect.errors import ConnectError
from pkafka.connect.rest.calls import EMPTY, JSON, Answer, Call, Handler
from pkafka.connect.rest_errors import RestError
from pkafka.connect.traces import root_text
from pkafka.connect.worker_config import Listener
from pkafka.errors import PkafkaError

log = logging.getLogger("org.apache.kafka.connect.runtime.rest.RestServer")

_BODY_BYTES_MAX: Final = 16 * 1024 * 1024
_BACKLOG: Final = 128
_THREADS_MAX: Final = 40
"""So many requests wait for connectors at a time; others wait for their turn."""
_REASONS: Final = {
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
}
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


def _application(
    routes: Mapping[tuple[str, str], Handler], headers: Mapping[str, str], threads: ThreadPoolExecutor
) -> ASGIApp:
    by_path: dict[str, dict[str, Handler]] = {}
    for (method, path), handler in routes.items():
        by_path.setdefault(path, {})[method] = handler
    found = [
        Route(path, _endpoint(handlers, headers, threads), methods=_methods(handlers))
        for path, handlers in by_path.items()
    ]
    # A name in a path may be anything, "a%2Fb" too: routes are found in the path as it was sent.
    return _RawPaths(Starlette(routes=found, exception_handlers={HTTPException: _refused}))


def _methods(handlers: Mapping[str, Handler]) -> list[str]:
    return [*handlers, "OPTIONS"]


class _RawPaths:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or scope["path"].encode()
            path = raw.partition(b"?")[0].decode("ascii", "replace")
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)


def _endpoint(
    handlers: Mapping[str, Handler], headers: Mapping[str, str], threads: ThreadPoolExecutor
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if request.method == "OPTIONS":
            allowed = ", ".join(
                ["HEAD", *handlers, "OPTIONS"] if "GET" in handlers else [*handlers, "OPTIONS"]
            )
            return Response(allowed, 200, {**headers, "Allow": allowed.replace(" ", "")}, "text/plain")
        handler = handlers["GET" if request.method == "HEAD" else request.method]
        refused = _refuses_type(request)
        if refused is not None:
            return refused
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _BODY_BYTES_MAX:
                return _error(413, f"The body of a request may have {_BODY_BYTES_MAX} bytes")
        call = Call(
            request.path_params,
            request.url.query,
            bytes(body),
            request.scope["path"],
            dict(request.headers),
        )
        # Starlette's own way to a thread loads anyio's event loop, 3 MB.
        found = await asyncio.get_running_loop().run_in_executor(threads, _answered, handler, call)
        return _response(found, headers)

    return answer


def _refuses_type(request: Request) -> Response | None:
    given = request.headers.get("content-type")
    if given is None or request.method not in _WITH_BODY:
        return None
    kind = given.partition(";")[0].strip().lower()
    return None if kind in (JSON, "*/*") else _error(415, _default_text(415))


def _answered(handler: Handler, call: Call) -> Answer:
    try:
        return handler(call)
    except RestError as error:
        return Answer(error.status, {"error_code": error.status, "message": str(error)})
    except Exception as error:
        if not isinstance(error, PkafkaError):
            log.exception("Uncaught exception in REST call")
        return Answer(500, {"error_code": 500, "message": root_text(error)})


def _response(answer: Answer, headers: Mapping[str, str]) -> Response:
    more = {**headers, **(answer.headers or {})}
    if answer.text is not None:
        return Response(answer.text, answer.status, more, answer.media_type)
    if answer.body is EMPTY:
        return Response(None, answer.status, more)
    return Response(
        json.dumps(answer.body, separators=(",", ":"), ensure_ascii=False), answer.status, more, JSON
    )


def _default_text(status: int) -> str:
    return f"HTTP {status} {_REASONS.get(status, '')}".rstrip()


def _error(status: int, text: str) -> Response:
    body = json.dumps({"error_code": status, "message": text}, separators=(",", ":"))
    return Response(body, status, media_type=JSON)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, _default_text(error.status_code))


class RestServer:
    """Listens, and answers in threads of its own.

    Args:
        listeners: where.
    """

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._sockets = []
        try:
            for each in listeners:
                self._sockets.append(_bound(each))
        except ConnectError:
            self.close()
            raise
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._handlers = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="rest-handler")

    @property
    def port(self) -> int:
        """Of the first listener."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    def start(self, routes: Mapping[tuple[str, str], Handler], headers: Mapping[str, str]) -> None:
        """Begin to answer.

        Args:
            routes: by method and path, what answers; names in braces are taken from the path.
            headers: that every answer has.
        """
        config = uvicorn.Config(
            _application(routes, headers, self._handlers),
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
        )
        server = self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=server.run, args=(self._sockets,), name="rest-server", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer what was asked, and let go of the listeners."""
        if getattr(self, "_server", None) is not None:
            assert self._server is not None
            self._server.should_exit = True
            assert self._thread is not None
            self._thread.join()
            self._handlers.shutdown(wait=False, cancel_futures=True)
        for each in self._sockets:
            each.close()


def _bound(listener: Listener) -> socket.socket:
    """A socket that listens.

    Raises:
        ConnectError: the address is taken, or is not of this machine.
    """
    host = listener.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, listener.port))
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        raise ConnectError(
            f"The REST API cannot listen at {listener.scheme}://{host}:{listener.port}: {error.strerror}"
        ) from error
    return found
