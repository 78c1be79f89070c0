"""Metrics over HTTP (``pkafka.metrics.port``): ``/metrics`` as Prometheus reads them, ``/jmx`` as beans in JSON.

``/jmx?qry=PATTERN`` has the beans whose names match, as ``{"beans": [{"name": ..., ATTRIBUTE: ...}]}``, the form that
JMX has over HTTP elsewhere too. Python has no JVM and so no JMX of its own; pk-metrics reads this as kafka-jmx
reads that. Without the key the broker opens no port and meters nothing. access.py says who may read.
"""

import concurrent.futures
import json
import logging
import math
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from pkafka.server.metrics.access import PageAccess
from pkafka.server.metrics.jmx_beans import Beans, beans, meter_counts
from pkafka.server.metrics.meters import TICK_S, Meters
from pkafka.server.metrics.object_names import matcher
from pkafka.server.metrics.page import BrokerFacts, Snapshot, families

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Collect: TypeAlias = Callable[[], tuple[Sequence[Snapshot], BrokerFacts]]
_JSON: Final = ("Content-Type", "application/json; charset=utf-8")
_ASK_FOR_LOGIN: Final = ("WWW-Authenticate", 'Basic realm="pkafka", charset="UTF-8"')
_SILENCE_MAX_S: Final = 10.0
"""A client that says nothing for so long, in the handshake or in its request, is closed: each has a thread."""

log = logging.getLogger(__name__)


class MetricsServer:
    """Serves both pages, and looks at the counters every few seconds to know their rates.

    Args:
        host: address to listen on.
        port: 0 lets the kernel choose.
        collect: gives the counters of all workers and the control process's own facts; called on threads of this.
        access: says who may read the pages.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(self, host: str, port: int, collect: Collect, access: PageAccess) -> None:
        # Here and not above: a broker without the page does not pay for the import.
        from prometheus_client import make_wsgi_app
        from prometheus_client.core import CollectorRegistry

        self._collect = collect
        self._access = access
        self._meters = Meters(time.monotonic())
        self._meters_lock = threading.Lock()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        self._prometheus = make_wsgi_app(registry)
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        server_class = type("Server", (_Server,), {"address_family": family, "access": access})
        self._server: WSGIServer = make_server(host, port, self._answer, server_class, _QuietHandler)
        self.port: int = self._server.server_port
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.serve_forever, name="metrics-page", daemon=True),
            threading.Thread(target=self._meter, name="metrics-rates", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def collect(self) -> "Iterable[Metric]":
        """What the registry asks for at each scrape."""
        return families(*self._collect())

    def describe(self) -> "Iterable[Metric]":
        """Nothing: names are known only when the workers are asked."""
        return ()

    def close(self) -> None:
        """Stop serving."""
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not self._access.admits(environ.get("HTTP_AUTHORIZATION")):
            if "HTTP_AUTHORIZATION" in environ:
                log.info("Failed login at the page of metrics from %s", environ.get("REMOTE_ADDR"))
            start_response("401 Unauthorized", [_ASK_FOR_LOGIN, ("Content-Type", "text/plain")])
            return [b"Log in.\n"]
        if environ.get("PATH_INFO") != "/jmx":
            page: Iterable[bytes] = self._prometheus(environ, start_response)
            return page
        try:
            patterns = parse_qs(environ.get("QUERY_STRING", "")).get("qry", [])
            found = matching(self._beans(), patterns)
        except ValueError as error:
            start_response("400 Bad Request", [_JSON])
            return [json.dumps({"error": str(error)}).encode()]
        start_response("200 OK", [_JSON])
        return [json.dumps({"beans": found}).encode()]

    def _beans(self) -> Beans:
        workers, facts = self._collect()
        with self._meters_lock:
            return beans(workers, facts, self._meters, time.monotonic())

    def _meter(self) -> None:
        while not self._closed.wait(TICK_S):
            try:
                workers, facts = self._collect()
            except (TimeoutError, RuntimeError, concurrent.futures.CancelledError) as error:
                # A worker that begins anew, or a broker that is about to end; the next look has it all.
                log.debug("no look at the counters: %r", error)
                continue
            with self._meters_lock:
                self._meters.tick(meter_counts(workers, facts), time.monotonic())


def matching(found: Beans, patterns: Sequence[str]) -> list[dict[str, Any]]:
    """The beans that one of the patterns means, all without any, by name; what JSON cannot tell is null.

    Raises:
        ValueError: one is no pattern.
    """
    wanted = [matcher(pattern) for pattern in patterns]
    return [
        {"name": name, **{key: _plain(value) for key, value in found[name].items()}}
        for name in sorted(found)
        if not wanted or any(each(name) for each in wanted)
    ]


def _plain(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Server(ThreadingMixIn, WSGIServer):
    """Serves each client in a thread, so that one that hangs does not stop the others."""

    daemon_threads = True
    access: PageAccess

    def get_request(self) -> tuple[socket.socket, Any]:
        """Take a client in; it shakes hands in its thread, when its request is read."""
        client, address = super().get_request()
        context = self.access.context()
        if context is None:
            return client, address
        return context.wrap_socket(client, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as its base says
        """Note why a connection ended, where the client is to blame; a traceback is for errors of ours."""
        error = sys.exception()
        if isinstance(error, ssl.SSLError):
            log.info("Failed handshake at the page of metrics with %s: %s", client_address[0], error.reason)
        elif isinstance(error, OSError):
            log.debug("A client of the page of metrics, %s, is gone: %s", client_address[0], error)
        else:
            log.error("The page of metrics failed for %s", client_address[0], exc_info=error)


class _QuietHandler(WSGIRequestHandler):
    """Requests of a scraper are not worth a line each."""

    timeout = _SILENCE_MAX_S

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
